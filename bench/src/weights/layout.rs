//! The tensors and the metadata of a shape.
//!
//! - Matrices are Q8_0, norms and biases f32, as in a published Q8_0 file.
//! - The embedding is tied: there is no output matrix, but where a token decides alone what follows.
//! - Scales keep activations sane through any number of layers: a matrix by its input width.

use std::io;

use super::gguf::{Header, HeaderBuilder, Metadata};
use super::qwen35;
use super::shape::{Architecture, Guesses, Shape};
use super::tensor::{Content, Tensor};

/// Increased when the same shape gives other bytes.
const REVISION: u32 = 1;
/// llama.cpp's number for "mostly Q8_0".
const FILE_TYPE_Q8_0: u32 = 7;
/// llama.cpp's number for an unused token.
const TOKEN_UNUSED: i32 = 5;

pub const EMBEDDINGS: &str = "token_embd.weight";

/// Tokens that a short convolution of LFM2 sees.
const CONVOLVED: usize = 3;

/// What is added to the residual stream.
#[derive(Clone, Copy)]
pub struct Scales {
    /// Standard deviation of the embeddings.
    pub embedding: f32,
    /// Factor of what a layer adds.
    pub layer: f32,
}

pub const SCALES: Scales = Scales { embedding: 0.5, layer: 1.0 };

/// What layers add is small beside a token's own embedding, which decides alone what follows. Half precision has no
/// scale for much smaller factors.
pub const SCALES_OF_TOKENS: Scales = Scales { embedding: 4.0, layer: 0.2 };

const TEMPLATE: &str = "tokenizer.chat_template";

/// Copied from the lender where it has them; tokens and their types are padded.
const TOKENIZER_KEYS: [&str; 8] = [
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.add_bos_token",
];

/// Every tensor of the shape, in the order of the file.
pub fn tensors(shape: &Shape, scales: Scales) -> Vec<Tensor> {
    let added = |matrix: Tensor| matrix.scaled(scales.layer);
    let width = shape.embedding;
    let (q, kv) = (shape.heads * shape.head_size(), shape.kv_heads * shape.head_size());
    let mut tensors = vec![
        Tensor {
            content: Content::Random { deviation: scales.embedding },
            ..Tensor::matrix(EMBEDDINGS.to_owned(), shape.vocabulary, width)
        },
        Tensor::ones(output_norm(shape.architecture).to_owned(), width),
    ];
    if shape.architecture == Architecture::Qwen35(Guesses::Always) {
        tensors.push(qwen35::output(shape.vocabulary, width));
    }
    for layer in 0..shape.layers + shape.mtp_heads() {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let (second_norm, q_rows) = match shape.architecture {
            Architecture::Qwen35(_) => ("post_attention_norm.weight", 2 * q), // And gates.
            Architecture::Qwen2 | Architecture::Llama | Architecture::Lfm2 => {
                ("ffn_norm.weight", q)
            }
        };
        tensors.extend([
            Tensor::ones(name("attn_norm.weight"), width),
            Tensor::ones(name(second_norm), width),
        ]);
        if shape.attends(layer) {
            tensors.extend([
                Tensor::matrix(name("attn_q.weight"), q_rows, width),
                Tensor::matrix(name("attn_k.weight"), kv, width),
                Tensor::matrix(name("attn_v.weight"), kv, width),
                added(Tensor::matrix(name("attn_output.weight"), width, q)),
            ]);
        } else if let Architecture::Qwen35(_) = shape.architecture {
            tensors.extend(qwen35::running(name, width, scales.layer));
        } else {
            tensors.extend([
                Tensor::kernel(name("shortconv.conv.weight"), width, CONVOLVED),
                Tensor::matrix(name("shortconv.in_proj.weight"), 3 * width, width),
                added(Tensor::matrix(name("shortconv.out_proj.weight"), width, width)),
            ]);
        }
        match shape.architecture {
            Architecture::Qwen2 => tensors.extend([
                Tensor::bias(name("attn_q.bias"), q),
                Tensor::bias(name("attn_k.bias"), kv),
                Tensor::bias(name("attn_v.bias"), kv),
            ]),
            Architecture::Lfm2 | Architecture::Qwen35(_) if shape.attends(layer) => {
                tensors.extend([
                    Tensor::ones(name("attn_q_norm.weight"), shape.head_size()),
                    Tensor::ones(name("attn_k_norm.weight"), shape.head_size()),
                ])
            }
            Architecture::Llama | Architecture::Lfm2 | Architecture::Qwen35(_) => {}
        }
        tensors.extend([
            Tensor::matrix(name("ffn_gate.weight"), shape.feed_forward, width),
            Tensor::matrix(name("ffn_up.weight"), shape.feed_forward, width),
            added(Tensor::matrix(name("ffn_down.weight"), width, shape.feed_forward)),
        ]);
        if let Architecture::Qwen35(guesses) = shape.architecture
            && layer >= shape.layers
        {
            tensors.extend(qwen35::join(name, width, guesses));
        }
    }
    tensors
}

fn output_norm(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Qwen2 | Architecture::Llama | Architecture::Qwen35(_) => "output_norm.weight",
        Architecture::Lfm2 => "token_embd_norm.weight",
    }
}

/// All bytes before the tensors. `lender`: has the tokenizer. `template`: in place of its own.
pub fn header(
    shape: &Shape,
    tensors: &[Tensor],
    lender: &Metadata<'_>,
    template: Option<&str>,
) -> io::Result<Header> {
    let architecture = match shape.architecture {
        Architecture::Qwen2 => "qwen2",
        Architecture::Llama => "llama",
        Architecture::Lfm2 => "lfm2",
        Architecture::Qwen35(_) => qwen35::NAME,
    };
    let rotated = match shape.architecture {
        Architecture::Qwen35(_) => qwen35::ROTATED,
        Architecture::Qwen2 | Architecture::Llama | Architecture::Lfm2 => shape.head_size(),
    };
    let mut header = HeaderBuilder::default();
    header.text("general.architecture", architecture);
    header.text("general.name", &format!("{}-random", shape.name));
    header.text("general.description", &format!("random weights, revision {REVISION}"));
    header.number("general.file_type", FILE_TYPE_Q8_0);
    let numbers = [
        ("context_length", shape.context),
        ("embedding_length", shape.embedding),
        ("block_count", shape.layers + shape.mtp_heads()),
        ("feed_forward_length", shape.feed_forward),
        ("attention.head_count", shape.heads),
        ("attention.key_length", shape.head_size()),
        ("attention.value_length", shape.head_size()),
        ("rope.dimension_count", rotated),
        ("vocab_size", shape.vocabulary),
    ];
    for (key, value) in numbers {
        header.number(
            &format!("{architecture}.{key}"),
            u32::try_from(value).map_err(io::Error::other)?,
        );
    }
    let kv_heads = u32::try_from(shape.kv_heads).map_err(io::Error::other)?;
    let kv_heads_of = |layer| if shape.attends(layer) { kv_heads } else { 0 };
    let key = format!("{architecture}.attention.head_count_kv");
    if shape.architecture == Architecture::Lfm2 {
        header.numbers(&key, &(0..shape.layers).map(kv_heads_of).collect::<Vec<_>>());
        header.number("lfm2.shortconv.l_cache", CONVOLVED as u32);
    } else {
        header.number(&key, kv_heads);
    }
    if let Architecture::Qwen35(_) = shape.architecture {
        qwen35::describe(&mut header);
    }
    header.float(&format!("{architecture}.rope.freq_base"), shape.rope_base);
    header.float(&format!("{architecture}.attention.layer_norm_rms_epsilon"), 1e-5);

    for key in TOKENIZER_KEYS {
        if let Ok(value) = lender.value(key) {
            header.raw(key, value);
        }
    }
    match template {
        Some(template) => header.text(TEMPLATE, template),
        None => header.raw(TEMPLATE, lender.value(TEMPLATE)?),
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
