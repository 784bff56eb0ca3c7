//! What a Qwen3.5 has beside attention and its feed-forward part, in the sizes of Qwen3.5-0.8B: a gated delta rule,
//! whose state is a running one, in three of four layers, and an MTP head behind the last.

use super::gguf::HeaderBuilder;
use super::shape::{Guesses, QWEN35_INTERVAL};
use super::tensor::{Content, Tensor};

pub const NAME: &str = "qwen35";

/// Numbers of an attention head that are rotated.
pub const ROTATED: usize = 64;
/// Half as many pairs for each axis of a position.
const SECTIONS: [u32; 4] = [11, 11, 10, 0];

/// Heads of the delta rule: of its queries, keys and values.
const HEADS: usize = 16;
const STATE: usize = 128;
/// Tokens that the convolution in front of the delta rule sees.
const CONVOLVED: usize = 4;

/// The logit of the token that follows. The others are as random as the embeddings, and at this width below 5.
const FOLLOWING: f32 = 30.0;

/// The delta rule of a layer. `name`: of a tensor of the layer. `scale`: of what it adds.
pub fn running(name: impl Fn(&str) -> String, width: usize, scale: f32) -> [Tensor; 9] {
    let inner = HEADS * STATE;
    [
        Tensor::matrix(name("attn_qkv.weight"), 3 * inner, width),
        Tensor::matrix(name("attn_gate.weight"), inner, width),
        Tensor::kernel(name("ssm_conv1d.weight"), 3 * inner, CONVOLVED),
        Tensor::same(name("ssm_dt.bias"), HEADS, 0.0),
        Tensor::same(name("ssm_a"), HEADS, -1.0),
        Tensor::matrix(name("ssm_beta.weight"), HEADS, width),
        Tensor::matrix(name("ssm_alpha.weight"), HEADS, width),
        Tensor::ones(name("ssm_norm.weight"), STATE),
        Tensor::matrix(name("ssm_out.weight"), width, inner).scaled(scale),
    ]
}

/// What joins a token and the hidden state before it, in front of the head's layer. A head that is always right reads
/// the token alone, as its model does.
pub fn join(name: impl Fn(&str) -> String, width: usize, guesses: Guesses) -> [Tensor; 4] {
    let join = Tensor::matrix(name("nextn.eh_proj.weight"), width, 2 * width);
    let join = match guesses {
        Guesses::Seldom => join,
        Guesses::Always => Tensor { content: Content::FirstHalf, ..join },
    };
    let norms = ["enorm", "hnorm", "shared_head_norm"];
    let [before_token, before_hidden, behind] =
        norms.map(|norm| Tensor::ones(name(&format!("nextn.{norm}.weight")), width));
    [join, before_token, before_hidden, behind]
}

/// Behind a token, the next one of the vocabulary is likeliest.
pub fn output(vocabulary: usize, width: usize) -> Tensor {
    let content = Content::Shifted { deviation: FOLLOWING / width as f32 };
    Tensor { content, ..Tensor::matrix("output.weight".to_owned(), vocabulary, width) }
}

pub fn describe(header: &mut HeaderBuilder) {
    let numbers = [
        ("ssm.conv_kernel", CONVOLVED),
        ("ssm.inner_size", HEADS * STATE),
        ("ssm.state_size", STATE),
        ("ssm.time_step_rank", HEADS),
        ("ssm.group_count", HEADS),
        ("full_attention_interval", QWEN35_INTERVAL),
        ("nextn_predict_layers", 1),
    ];
    for (key, value) in numbers {
        header.number(&format!("{NAME}.{key}"), value as u32);
    }
    header.numbers(&format!("{NAME}.rope.dimension_sections"), &SECTIONS);
}
