#!/usr/bin/env python3
"""Joins the frames of the film check into animated pictures: film-light.png and film-dark.png.

The frames come from a real session with the fetched model:

    HOB_FILM=1 cargo test --release -p hob-checks --test page film
    python3 docs/images/make-film.py

A frame's file is NUMBER-MILLISECONDS.png. The pictures are APNG, which browsers and GitHub play: each frame
stores the rectangle that differs from the one before, with colours reduced to 64 steps a channel.
"""

import struct
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FRAMES = ROOT / "target" / "checks" / "film"
MAX_BYTES = 1_000_000
# Of the frames while the text is read, which are alike, so many are shown.
READING_MS, MAX_READING = 250, 20
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(png):
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def rows_of(path):
    """Width, height and the rows of a PNG, three bytes a pixel."""
    parts = list(chunks(path.read_bytes()))
    width, height, depth, colour = struct.unpack(">IIBB", parts[0][1][:10])
    if depth != 8 or colour not in (2, 6):
        raise SystemExit(f"{path}: only 8-bit RGB and RGBA are read")
    size = 3 if colour == 2 else 4
    data = zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT"))
    rows, before, stride = [], bytes(width * size), width * size + 1
    for y in range(height):
        kind, row = data[y * stride], bytearray(data[y * stride + 1 : (y + 1) * stride])
        unfilter(kind, row, before, size)
        before = bytes(row)
        rows.append(reduced(before, size))
    return width, height, rows


def unfilter(kind, row, up, size):
    if kind == 1:
        for x in range(size, len(row)):
            row[x] = (row[x] + row[x - size]) & 255
    elif kind == 2:
        for x, above in enumerate(up):
            row[x] = (row[x] + above) & 255
    elif kind == 3:
        for x, above in enumerate(up):
            left = row[x - size] if x >= size else 0
            row[x] = (row[x] + (left + above) // 2) & 255
    elif kind == 4:
        for x, above in enumerate(up):
            left = row[x - size] if x >= size else 0
            corner = up[x - size] if x >= size else 0
            guess = left + above - corner
            by = (abs(guess - left), abs(guess - above), abs(guess - corner))
            row[x] = (row[x] + (left, above, corner)[by.index(min(by))]) & 255


REDUCED = bytes(min(255, (value + 2) // 4 * 4) for value in range(256))


def reduced(row, size):
    pixels = row if size == 3 else bytes(b for x in range(0, len(row), 4) for b in row[x : x + 3])
    return pixels.translate(REDUCED)


def changed(rows, before, width):
    """The rectangle of the pixels that differ: x, y, width, height."""
    different = [y for y, row in enumerate(rows) if row != before[y]]
    if not different:
        return 0, 0, 1, 1
    top, bottom = different[0], different[-1]
    differs = [[x for x in range(width) if rows[y][3 * x : 3 * x + 3] != before[y][3 * x : 3 * x + 3]]
               for y in different]
    left, right = min(xs[0] for xs in differs), max(xs[-1] for xs in differs)
    return left, top, right - left + 1, bottom - top + 1


def packed(rows, x, y, width, height):
    plain = b"".join(b"\0" + rows[line][3 * x : 3 * (x + width)] for line in range(y, y + height))
    return zlib.compress(plain, 9)


def parts_of(path):
    number, shown_ms = path.stem.split("-")
    return int(number), int(shown_ms)


def chosen(directory):
    paths = sorted(directory.glob("*.png"), key=parts_of)
    reading = [path for path in paths if parts_of(path)[1] == READING_MS]
    every = max(1, -(-len(reading) // MAX_READING))
    left_out = {path for index, path in enumerate(reading) if index % every}
    return [path for path in paths if path not in left_out]


def film(directory, to):
    paths = chosen(directory)
    out, before, number = [SIGNATURE], None, 0
    for index, path in enumerate(paths):
        width, height, rows = rows_of(path)
        _, shown_ms = parts_of(path)
        x, y, w, h = (0, 0, width, height) if before is None else changed(rows, before, width)
        if index == 0:
            head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
            out += [chunk(b"IHDR", head), chunk(b"acTL", struct.pack(">II", len(paths), 0))]
        control = struct.pack(">IIIIIHHBB", number, w, h, x, y, shown_ms, 1000, 0, 0)
        out.append(chunk(b"fcTL", control))
        number += 1
        data = packed(rows, x, y, w, h)
        if index == 0:
            out.append(chunk(b"IDAT", data))
        else:
            out.append(chunk(b"fdAT", struct.pack(">I", number) + data))
            number += 1
        before = rows
    picture = b"".join([*out, chunk(b"IEND", b"")])
    if len(picture) > MAX_BYTES:
        raise SystemExit(f"{to.name} would have {len(picture)} bytes, {MAX_BYTES} at most")
    to.write_bytes(picture)
    print(f"{to.name}: {len(paths)} frames, {len(picture)} bytes")


for theme in ("light", "dark"):
    film(FRAMES / theme, Path(__file__).with_name(f"film-{theme}.png"))
