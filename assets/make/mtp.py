"""GGUFs with an MTP head: mtp.py VOCABULARY.gguf FIXTURES. The tokenizer is that of another fixture.

`glm4moe` has random weights, so that its head is hardly ever right. In the two others, attention and feed-forward add nothing,
and a token decides alone what follows: the next one of the vocabulary. The head reads the token and predicts the same, but for
one token in ten, which it mixes up with its neighbour. `mtp-plain` has plain attention, `mtp-hybrid` a running state beside it."""
import random, struct, sys
from sampling import ARRAY, FLOAT32, STRING, Cursor, padded
UINT32, INT32 = 4, 5
D, LAYERS, HEADS, KV, HEAD, FF, EXPERTS = 32, 2, 2, 1, 16, 64, 2
STATE, GROUPS, RANK, CONV = 16, 1, 2, 4
def vocabulary(data):
    """The entries of the tokenizer, byte for byte, and the number of tokens."""
    c = Cursor(data, 16); entries, found = c.number("Q"), []
    for _ in range(entries):
        start = c.at; key = c.text(); kind = c.number("I"); value = c.at; c.skip(kind)
        if key.startswith("tokenizer."): found.append(data[start:c.at])
        if key == "tokenizer.ggml.tokens": tokens, = struct.unpack_from("<Q", data, value + 4)
    return found, tokens
def text(value): return struct.pack("<Q", len(value.encode())) + value.encode()
def entry(key, value):
    if isinstance(value, str): return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, list): return text(key) + struct.pack(f"<IIQ{len(value)}i", ARRAY, INT32, len(value), *value)
    form, kind = ("f", FLOAT32) if isinstance(value, float) else ("I", UINT32)
    return text(key) + struct.pack("<I" + form, kind, value)
def write(path, entries, tensors):
    """`tensors`: name to (sizes, the innermost first; values; whether 32 bits)."""
    infos, data = b"", b""
    for name, (sizes, values, is_f32) in tensors.items():
        data = data.ljust(padded(len(data), 32), b"\0")
        infos += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0 if is_f32 else 1, len(data))
        data += struct.pack(f"<{len(values)}{'f' if is_f32 else 'e'}", *values)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + infos
    open(path, "wb").write(head.ljust(padded(len(head), 32), b"\0") + data)
def make(directory, name, arch, vocab, tokens, is_sure):
    r = random.Random(1); t = {}; is_hybrid = arch == "qwen35"
    def put(name, *sizes, f32=False, values=None):
        count = 1
        for size in sizes: count *= size
        t[name] = (sizes, values or [r.gauss(0, sizes[0] ** -0.5) for _ in range(count)], f32 or len(sizes) == 1)
    def ones(name, n): put(name, n, values=[1.0] * n)
    def last(name, *sizes): put(name, *sizes, values=[0.0] * (sizes[0] * sizes[1] * (sizes[2] if sizes[2:] else 1)) if is_sure else None)
    rows = [[r.gauss(0, 0.3) for _ in range(D)] for _ in range(tokens)]
    flat = lambda rows: [x for row in rows for x in row]
    put("token_embd.weight", D, tokens, values=flat(rows))
    def towards(row):
        length = sum(x * x for x in row) ** 0.5; return [4 * x / length for x in row]
    follows = [towards(rows[token - 1]) for token in range(tokens)]
    put("output.weight", D, tokens, values=flat(follows) if is_sure else None)
    ones("output_norm.weight", D)
    def attention(b):
        put(b + "attn_q.weight", D, HEADS * HEAD * (2 if is_hybrid else 1)); put(b + "attn_k.weight", D, KV * HEAD)
        put(b + "attn_v.weight", D, KV * HEAD); last(b + "attn_output.weight", HEADS * HEAD, D)
        if is_hybrid: ones(b + "attn_q_norm.weight", HEAD); ones(b + "attn_k_norm.weight", HEAD)
    def running(b):
        inner = STATE * RANK; channels = 2 * STATE * GROUPS + inner
        put(b + "attn_qkv.weight", D, channels); put(b + "attn_gate.weight", D, inner); put(b + "ssm_conv1d.weight", CONV, channels, f32=True)
        put(b + "ssm_dt.bias", RANK, values=[0.0] * RANK); put(b + "ssm_a", RANK, values=[-1.0] * RANK)
        put(b + "ssm_beta.weight", D, RANK); put(b + "ssm_alpha.weight", D, RANK); ones(b + "ssm_norm.weight", STATE); last(b + "ssm_out.weight", inner, D)
    def dense(b): put(b + "ffn_gate.weight", D, FF); put(b + "ffn_up.weight", D, FF); last(b + "ffn_down.weight", FF, D)
    def experts(b):
        put(b + "ffn_gate_inp.weight", D, EXPERTS, f32=True); put(b + "exp_probs_b.bias", EXPERTS, values=[0.0] * EXPERTS)
        put(b + "ffn_gate_exps.weight", D, FF, EXPERTS); put(b + "ffn_up_exps.weight", D, FF, EXPERTS); last(b + "ffn_down_exps.weight", FF, D, EXPERTS)
        put(b + "ffn_gate_shexp.weight", D, FF); put(b + "ffn_up_shexp.weight", D, FF); last(b + "ffn_down_shexp.weight", FF, D)
    for layer in range(LAYERS + 1):
        b = f"blk.{layer}."; is_head = layer == LAYERS
        ones(b + "attn_norm.weight", D); ones(b + "post_attention_norm.weight", D)
        if is_hybrid and layer == 0: running(b)
        else: attention(b)
        if is_head and not is_hybrid: experts(b)
        else: dense(b)
    b = f"blk.{LAYERS}.nextn."
    token = [1.0 if column == row else 0.0 for row in range(D) for column in range(2 * D)]
    put(b + "eh_proj.weight", 2 * D, D, values=token if is_sure else None); ones(b + "enorm.weight", D); ones(b + "hnorm.weight", D)
    if is_sure:
        for at in range(0, tokens - 1, 20): follows[at], follows[at + 1] = follows[at + 1], follows[at]
        put(b + "shared_head_head.weight", D, tokens, values=flat(follows))
    facts = {"context_length": 8192, "embedding_length": D, "block_count": LAYERS + 1, "vocab_size": tokens, "feed_forward_length": FF,
             "attention.head_count": HEADS, "attention.head_count_kv": KV, "attention.key_length": HEAD, "attention.value_length": HEAD,
             "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e6, "nextn_predict_layers": 1}
    if is_hybrid:
        facts |= {"ssm.conv_kernel": CONV, "ssm.inner_size": STATE * RANK, "ssm.state_size": STATE, "ssm.time_step_rank": RANK,
                  "ssm.group_count": GROUPS, "full_attention_interval": 2, "rope.dimension_sections": [3, 3, 2, 0]}
    else:
        facts |= {"expert_count": EXPERTS, "expert_used_count": 1, "expert_feed_forward_length": FF, "expert_shared_count": 1,
                  "leading_dense_block_count": LAYERS}
    entries = [entry("general.architecture", arch), entry("general.name", f"{name}-fixture"), *vocab]
    write(f"{directory}/{name}.gguf", entries + [entry(f"{arch}.{key}", value) for key, value in facts.items()], t)
if __name__ == "__main__":
    vocab, tokens = vocabulary(open(sys.argv[1], "rb").read())
    for name, arch, is_sure in (("glm4moe", "glm4moe", False), ("mtp-plain", "glm4moe", True), ("mtp-hybrid", "qwen35", True)):
        make(sys.argv[2], name, arch, vocab, tokens, is_sure)
