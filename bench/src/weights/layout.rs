//! The tensors and the metadata of a shape: the `qwen2` architecture.
//!
//! - Matrices are Q8_0, norms and biases f32, as in a published Q8_0 file.
//! - The embedding is tied: there is no output matrix.
//! - Scales keep activations sane through any number of layers: a matrix by its input width.

use std::io;

use super::Shape;
use super::gguf::{Header, HeaderBuilder, Metadata};
use super::tensor::{Content, Tensor};

/// Increased when the same shape gives other bytes.
const REVISION: u32 = 1;
/// llama.cpp's number for "mostly Q8_0".
const FILE_TYPE_Q8_0: u32 = 7;
/// llama.cpp's number for an unused token.
const TOKEN_UNUSED: i32 = 5;

/// Copied from the bundled model; tokens and their types are padded.
const TOKENIZER_KEYS: [&str; 9] = [
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.chat_template",
];

/// Every tensor of the shape, in the order of the file.
pub fn tensors(shape: &Shape) -> Vec<Tensor> {
    let width = shape.embedding;
    let (q, kv) = (shape.heads * shape.head_size(), shape.kv_heads * shape.head_size());
    let mut tensors = vec![
        Tensor {
            content: Content::Random { deviation: 0.5 },
            ..Tensor::matrix("token_embd.weight".to_owned(), shape.vocabulary, width)
        },
        Tensor::ones("output_norm.weight".to_owned(), width),
    ];
    for layer in 0..shape.layers {
        let name = |part: &str| format!("blk.{layer}.{part}");
        tensors.extend([
            Tensor::ones(name("attn_norm.weight"), width),
            Tensor::ones(name("ffn_norm.weight"), width),
            Tensor::matrix(name("attn_q.weight"), q, width),
            Tensor::matrix(name("attn_k.weight"), kv, width),
            Tensor::matrix(name("attn_v.weight"), kv, width),
            Tensor::matrix(name("attn_output.weight"), width, q),
            Tensor::bias(name("attn_q.bias"), q),
            Tensor::bias(name("attn_k.bias"), kv),
            Tensor::bias(name("attn_v.bias"), kv),
            Tensor::matrix(name("ffn_gate.weight"), shape.feed_forward, width),
            Tensor::matrix(name("ffn_up.weight"), shape.feed_forward, width),
            Tensor::matrix(name("ffn_down.weight"), width, shape.feed_forward),
        ]);
    }
    tensors
}

/// All bytes before the tensors. `tokenizer`: the GGUF whose tokenizer is copied.
pub fn header(shape: &Shape, tensors: &[Tensor], tokenizer: &[u8]) -> io::Result<Header> {
    let lender = Metadata::read(tokenizer)?;
    let mut header = HeaderBuilder::default();
    header.text("general.architecture", "qwen2");
    header.text("general.name", &format!("{}-random", shape.name));
    header.text("general.description", &format!("random weights, revision {REVISION}"));
    header.number("general.file_type", FILE_TYPE_Q8_0);
    let numbers = [
        ("context_length", shape.context),
        ("embedding_length", shape.embedding),
        ("block_count", shape.layers),
        ("feed_forward_length", shape.feed_forward),
        ("attention.head_count", shape.heads),
        ("attention.head_count_kv", shape.kv_heads),
        ("attention.key_length", shape.head_size()),
        ("attention.value_length", shape.head_size()),
        ("rope.dimension_count", shape.head_size()),
        ("vocab_size", shape.vocabulary),
    ];
    for (key, value) in numbers {
        header.number(&format!("qwen2.{key}"), u32::try_from(value).map_err(io::Error::other)?);
    }
    header.float("qwen2.rope.freq_base", shape.rope_base);
    header.float("qwen2.attention.layer_norm_rms_epsilon", 1e-5);

    for key in TOKENIZER_KEYS {
        header.raw(key, lender.value(key)?);
    }
    let known = lender.array_length("tokenizer.ggml.tokens")?;
    let unused = shape.vocabulary.checked_sub(known).ok_or_else(|| {
        io::Error::other(format!("a vocabulary of {} cannot hold {known} tokens", shape.vocabulary))
    })?;
    let names = (0..unused).map(|number| format!("<unused{number}>"));
    header.longer_texts("tokenizer.ggml.tokens", lender.value("tokenizer.ggml.tokens")?, names);
    header.longer_numbers(
        "tokenizer.ggml.token_type",
        lender.value("tokenizer.ggml.token_type")?,
        std::iter::repeat_n(TOKEN_UNUSED, unused),
    );
    Ok(header.finish(tensors))
}
