"""Writes small GGUFs with random weights: stand-ins for the models that llama-server's tests download.

- The vocabulary is in the form of theirs: SentencePiece with `<s>` as token 1, which begins every prompt.
- They generate whole characters and never end an answer: the rows of all other tokens in the output layer are
  pushed down along a dimension of the residual stream that is constant.
"""

import random
import struct
from array import array
from pathlib import Path

VOCABULARY = 512
WIDTH, HEADS, HEAD_WIDTH, HIDDEN, LAYERS = 32, 2, 16, 64, 2
CONSTANT = 4.0  # The first number of each token's embedding.
NEVER = -60.0  # The weight of that number in the output row of a token that is not generated.

UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

FIM = {"fim_pre": "<fim_prefix>", "fim_suf": "<fim_suffix>", "fim_mid": "<fim_middle>"}

CHATML = (
    "{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n\\nYou may call one or more functions.\\n<tools>' }}"
    "{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}"
    "{{- '\\n</tools>\\n<tool_call>\\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}"
    "{%- endif %}{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}"
    "{%- for call in message.tool_calls or [] %}{{- '\\n<tool_call>\\n' }}{{- call.function | tojson }}{{- '\\n</tool_call>' }}{%- endfor %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def write(
    path: Path,
    context: int,
    *,
    pooling: int | None = None,
    fills_in: bool = False,
    temperature: float | None = None,
    template: str = CHATML,
    seed: int = 1,
) -> None:
    """`pooling`: as GGUF numbers it (1 mean, 2 cls, 3 last, 4 rank)."""
    tokens, types = _vocabulary(fills_in)
    arch = "llama" if pooling is None else "qwen3"
    fields = [
        ("general.architecture", STRING, arch),
        ("general.name", STRING, path.stem),
        (f"{arch}.context_length", UINT32, context),
        (f"{arch}.embedding_length", UINT32, WIDTH),
        (f"{arch}.block_count", UINT32, LAYERS),
        (f"{arch}.feed_forward_length", UINT32, HIDDEN),
        (f"{arch}.attention.head_count", UINT32, HEADS),
        (f"{arch}.attention.head_count_kv", UINT32, HEADS),
        (f"{arch}.attention.key_length", UINT32, HEAD_WIDTH),
        (f"{arch}.attention.value_length", UINT32, HEAD_WIDTH),
        (f"{arch}.rope.dimension_count", UINT32, HEAD_WIDTH),
        (f"{arch}.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        (f"{arch}.rope.freq_base", FLOAT32, 10000.0),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", (ARRAY, STRING), tokens),
        ("tokenizer.ggml.scores", (ARRAY, FLOAT32), [-float(at) for at in range(len(tokens))]),
        ("tokenizer.ggml.token_type", (ARRAY, INT32), types),
        ("tokenizer.ggml.unknown_token_id", UINT32, 0),
        ("tokenizer.ggml.bos_token_id", UINT32, 1),
        ("tokenizer.ggml.eos_token_id", UINT32, 2),
        ("tokenizer.ggml.add_bos_token", BOOL, True),
        ("tokenizer.chat_template", STRING, template),
    ]
    if pooling is not None:
        fields.append((f"{arch}.pooling_type", UINT32, pooling))
        fields.append(("tokenizer.ggml.add_eos_token", BOOL, True))
    if pooling == 4:
        fields.append((f"{arch}.classifier.output_labels", (ARRAY, STRING), ["yes", "no"]))
    if temperature is not None:
        fields.append(("general.sampling.temp", FLOAT32, temperature))
    if fills_in:
        for name, mark in FIM.items():
            fields.append((f"tokenizer.ggml.{name}_token_id", UINT32, tokens.index(mark)))
    _save(path, fields, _tensors(tokens, types, pooling, random.Random(seed)))


def write_adapter(path: Path, seed: int = 2) -> None:
    """A LoRA adapter for a model of :func:`write`."""
    source = random.Random(seed)
    rank, inner = 4, HEADS * HEAD_WIDTH
    fields = [
        ("general.architecture", STRING, "llama"),
        ("general.type", STRING, "adapter"),
        ("adapter.type", STRING, "lora"),
        ("adapter.lora.alpha", FLOAT32, float(rank)),
    ]

    def rows(count: int, width: int) -> list[list[float]]:
        return [[source.gauss(0, 0.3) for _ in range(width)] for _ in range(count)]

    _save(path, fields, [
        ("blk.0.attn_q.weight.lora_a", rows(rank, WIDTH)),
        ("blk.0.attn_q.weight.lora_b", rows(inner, rank)),
    ])


def _vocabulary(fills_in: bool) -> tuple[list[str], list[int]]:
    tokens, types = ["<unk>", "<s>", "</s>"], [UNKNOWN, CONTROL, CONTROL]
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    types += [BYTE] * 256
    marks = list(FIM.values()) if fills_in else []
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [chr(code) for code in range(ord("!"), ord("~") + 1)] + ["\u2581"]
    pieces += [f"\u2581{letter}" for letter in letters]
    pieces += ["th", "he", "in", "er", "an", "re", "on", "at", "en", "nd", "\u2581the", "\u2581and", "\u2581is"]
    pieces += [first + second for first in letters for second in "aeiou"]
    tokens += marks + list(dict.fromkeys(pieces))
    types += [CONTROL] * len(marks)
    tokens = tokens[:VOCABULARY]
    return tokens, types + [NORMAL] * (len(tokens) - len(types))


def _tensors(tokens, types, pooling, source: random.Random):
    def normal(rows: int, columns: int, size: float) -> list[list[float]]:
        return [[source.gauss(0, size) for _ in range(columns)] for _ in range(rows)]

    def without_first(rows: list[list[float]]) -> list[list[float]]:
        return [[0.0] * len(rows[0]), *rows[1:]]  # Leaves the constant as it is.

    embedding = normal(len(tokens), WIDTH, 1.0)
    for row in embedding:
        row[0] = CONSTANT
    output = normal(len(tokens), WIDTH, 0.4)
    for row, kind in zip(output, types):
        row[0] = 0.0 if kind == NORMAL else NEVER
    ones = [[1.0] * WIDTH]
    inner = HEADS * HEAD_WIDTH
    yield "token_embd.weight", embedding
    yield "output.weight", output
    yield "output_norm.weight", ones
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", ones
        yield block + "ffn_norm.weight", ones
        for name in "qkv":
            yield f"{block}attn_{name}.weight", normal(inner, WIDTH, WIDTH**-0.5)
        yield block + "attn_output.weight", without_first(normal(WIDTH, inner, inner**-0.5))
        yield block + "ffn_gate.weight", normal(HIDDEN, WIDTH, WIDTH**-0.5)
        yield block + "ffn_up.weight", normal(HIDDEN, WIDTH, WIDTH**-0.5)
        yield block + "ffn_down.weight", without_first(normal(WIDTH, HIDDEN, HIDDEN**-0.5))
        if pooling is not None:
            yield block + "attn_q_norm.weight", [[1.0] * HEAD_WIDTH]
            yield block + "attn_k_norm.weight", [[1.0] * HEAD_WIDTH]
    if pooling == 4:
        yield "cls.output.weight", normal(2, WIDTH, WIDTH**-0.5)


def _save(path: Path, fields, tensors) -> None:
    tensors = list(tensors)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(_text(name) + _value(kind, value) for name, kind, value in fields)
    data, offset = [], 0
    for name, rows in tensors:
        sizes = [len(rows[0]), len(rows)] if len(rows) > 1 else [len(rows[0])]
        head += _text(name) + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
        head += struct.pack("<IQ", 0, offset)  # 0: 32-bit floats.
        values = array("f", (value for row in rows for value in row)).tobytes()
        values += b"\0" * (-len(values) % 32)
        data.append(values)
        offset += len(values)
    head += b"\0" * (-len(head) % 32)
    path.write_bytes(head + b"".join(data))


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _value(kind, value) -> bytes:
    if isinstance(kind, tuple):
        items = b"".join(_bare(kind[1], item) for item in value)
        return struct.pack("<IIQ", ARRAY, kind[1], len(value)) + items
    return struct.pack("<I", kind) + _bare(kind, value)


def _bare(kind: int, value) -> bytes:
    if kind == STRING:
        return _text(value)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)
