#!/usr/bin/env python3
"""Prints slot files and objects; written from FORMAT.md alone.

    python3 docs/read_slots.py FILE...

Checks names and lengths, not checksums: Python has no xxh3. Compressed payloads need Python 3.14 or
the package `zstandard`.
"""

import hashlib
import struct
import sys

LAYERS = "axioms identity rules capabilities context memories affect user assistant tool document"
CLASSES = "short long extended permanent"

try:
    from compression.zstd import ZstdDecompressor

    def frames(data):
        while data:
            frame = ZstdDecompressor()
            yield frame.decompress(data)
            data = frame.unused_data
except ImportError:
    try:
        import zstandard

        def frames(data):
            while data:
                frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(data)
                data = frame.unused_data
    except ImportError:
        frames = None


def joined(piece):
    """Interleaves a piece whose high bytes come first."""
    half = len(piece) // 2
    words = bytearray(2 * half)
    words[1::2], words[0::2] = piece[:half], piece[half : 2 * half]
    return bytes(words) + piece[2 * half :]


def show_object(data):
    version, kind, encoding, start = struct.unpack_from("<HBBI", data, 8)
    model, parent, count, _, raw = struct.unpack_from("<8s32sIIQ", data, 16)
    at, stored = (96, raw) if version == 1 else (104, struct.unpack_from("<Q", data, 72)[0])
    assert len(data) == at + 4 * count + stored, "the file has another length"
    tokens, payload = data[at : at + 4 * count], data[at + 4 * count :]
    what = {1: "block", 2: "snapshot", 3: "partial snapshot", 4: "rounded block"}[kind]
    seed = parent + tokens if kind in (1, 4) else f"hob {what}".encode() + parent
    print(f"  {what} {hashlib.sha256(seed).hexdigest()}")
    print(f"  version {version}, model {model.hex()}, position {start}, {count} tokens")
    print(f"  payload of {raw} bytes, {stored} in the file")
    if encoding == 1 and frames:
        payload = b"".join(joined(piece) for piece in frames(payload))
        assert len(payload) == raw, "the payload has another length"
    if kind == 4:
        magic, bits, heads = struct.unpack_from("<8sB3xI", payload)
        assert magic == b"HOBLSY\0\x01", "the payload is not a rounded one"
        bits, groups = {1: 8, 2: 4}[bits], len(payload) - 16 - heads
        print(f"  rounded to {bits} bits a number, {heads} bytes of heads, {groups} of groups")
    if encoding == 0 or frames:
        print(f"  payload's sha256 {hashlib.sha256(payload).hexdigest()}")


def entries(data, at, count, what):
    for _ in range(count):
        end, name, size = struct.unpack_from("<I32sQ", data, at)
        print(f"  {what} up to {end}: {name.hex()}, {size} bytes")
        at += 44
    return at


def show_slot(data):
    version, ttl, name_bytes, count = struct.unpack_from("<HBBI", data, 8)
    model, created, used, blocks, snapshots, _ = struct.unpack_from("<8sQQIIQ", data, 16)
    at = {1: 88, 2: 120, 3: 128, 4: 128, 5: 136}[version] + name_bytes
    print(f"  conversation {data[at - name_bytes : at].decode()!r}, {CLASSES.split()[ttl]}")
    print(f"  version {version}, model {model.hex()}, saved {created}, used {used}")
    if version == 1:
        tokens = data[at + 8 : at + 8 + 4 * count]
        at = entries(data, at + 8 + 4 * count + 8, blocks, "block")
        at = entries(data, at + 8, snapshots, "snapshot")
    else:
        segments, turns, table = struct.unpack_from("<IIQ", data, 56)
        print(f"  {turns} turns")
        end = at + table
        at = entries(data, entries(data, at, blocks, "block"), snapshots, "snapshot")
        for _ in range(segments):
            until, layer, size = struct.unpack_from("<IBQ", data, at)
            key = data[at + 13 : at + 13 + size].decode()
            at += 13 + size
            stays = ""
            if version >= 5:
                weight, pinned = struct.unpack_from("<BB", data, at)
                stays = f", weight {weight}" + ", pinned" * pinned
                at += 2
            print(f"  segment up to {until}: {LAYERS.split()[layer]} {key!r}{stays}")
        branches = struct.unpack_from("<I", data, 112)[0] if version >= 3 else 0
        for _ in range(branches):
            kind, start, until, name, size = struct.unpack_from("<BII32sQ", data, at)
            what = {1: "block", 2: "snapshot"}[kind]
            print(f"  branch: {what} from {start} up to {until}: {name.hex()}, {size} bytes")
            at += 49
        adapters = struct.unpack_from("<I", data, 116)[0] if version >= 4 else 0
        for _ in range(adapters):
            content, scale = struct.unpack_from("<32sf", data, at)
            print(f"  adapter {content.hex()}, factor {scale:g}")
            at += 36
        views, away = struct.unpack_from("<II", data, 120) if version >= 5 else (0, 0)
        for _ in range(views):
            until, view = struct.unpack_from("<I16s", data, at)
            print(f"  view up to {until}: {view.hex() if any(view) else 'whole'}")
            at += 20
        for _ in range(away):
            print("  away: from {} up to {}".format(*struct.unpack_from("<II", data, at)))
            at += 8
        assert at == end, "the table has another length"
        tokens, at = data[at:], at + struct.unpack_from("<Q", data, 88)[0]
        tokens = b"".join(frames(tokens)) if frames else None
    assert at == len(data), "the file has another length"
    if tokens is not None:
        assert len(tokens) == 4 * count, "there are more or fewer tokens"
        print(f"  tokens {list(struct.unpack(f'<{count}i', tokens))}")


for path in sys.argv[1:]:
    with open(path, "rb") as file:
        content = file.read()
    print(path)
    show = {b"HOBOBJ\0\1": show_object, b"HOBSLT\0\1": show_slot}.get(content[:8])
    show(content) if show else print("  sealed" if content[:6] == b"HOBSEA" else "  something else")
