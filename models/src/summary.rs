//! Interprets a header for the user who chooses a model.
//!
//! - A missing entry is `None`, or has llama.cpp's default.

use serde::Serialize;

use crate::gguf::{Header, Value};
use crate::sampling::SamplingEntry;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The name in the file.
    pub title: Option<String>,
    /// llama.cpp's name, such as `qwen3`.
    pub architecture: String,
    /// Tokens.
    pub trained_context: Option<u64>,
    pub n_layer: u64,
    /// The last ones of `n_layer`, which predict further tokens.
    #[serde(skip)]
    pub n_layer_mtp: u64,
    pub n_embd: u64,
    /// The maximum of query heads over all layers.
    pub n_head: u64,
    /// KV heads of each layer.
    pub n_head_kv: Vec<u64>,
    /// Elements of a key of one head.
    pub key_length: u64,
    /// Elements of a value of one head.
    pub value_length: u64,
    pub vocabulary_size: u64,
    /// Such as `Q4_K_M`.
    pub quantisation: String,
    pub chat_template: bool,
    /// Pooling of an embedding model; `None` for models that generate text.
    pub pooling: Option<String>,
    pub memory: MemoryKind,
    /// Bytes of weights in this file.
    pub tensor_bytes: u64,
    /// Elements of the recurrent state of each layer, for one sequence.
    #[serde(skip)]
    pub recurrent: Vec<u64>,
    /// Tokens of the sliding window, and for each layer whether it has one.
    #[serde(skip)]
    pub window: Option<(u64, Vec<bool>)>,
    /// Elements of a key and of a value of one head, in layers with a window.
    #[serde(skip)]
    pub windowed_lengths: (u64, u64),
    /// V is a part of K, and is not cached: the latent attention of DeepSeek.
    #[serde(skip)]
    pub is_latent: bool,
    /// How many layers, from the first one on, have KV or a state of their own.
    #[serde(skip)]
    pub n_caching: u64,
    /// The sampling parameters that the file recommends.
    #[serde(skip)]
    pub sampling: Vec<SamplingEntry>,
    /// Tokens of context up to which llama.cpp rotates K by the short factors of the file, and from which on by the long ones
    /// (LongRoPE): all KV differs. `None`: it rotates alike in every context.
    #[serde(skip)]
    pub short_context: Option<u64>,
}

/// The memory family of a model, which decides how its KV can be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Every layer attends to every token.
    Plain,
    /// Some layers attend to a window of tokens only.
    SlidingWindow,
    /// Attention in some layers, a recurrent state in others.
    Hybrid,
    /// A recurrent state in every layer.
    Recurrent,
}

impl MemoryKind {
    /// Sequences that an engine has besides its slots, at most: one for splices; with plain attention, four for heads of
    /// moved text; with running states, one that marks such a state; and the empty one of a hybrid.
    pub fn other_sequences(self) -> u64 {
        match self {
            Self::Plain => 5,
            Self::SlidingWindow => 1,
            Self::Hybrid => 3,
            Self::Recurrent => 2,
        }
    }
}

impl Summary {
    pub fn of(header: &Header) -> Self {
        let facts = Facts { header, architecture: architecture(header) };
        let n_layer = facts.number("block_count").unwrap_or(0).min(10_000);
        let n_layer_mtp = facts.number("nextn_predict_layers").unwrap_or(0).min(n_layer);
        let n_embd = facts.number("embedding_length").unwrap_or(0);
        let n_head = facts.per_layer("attention.head_count", n_layer).unwrap_or_default();
        let n_head_kv = facts.per_layer("attention.head_count_kv", n_layer);
        let n_head_kv = n_head_kv.unwrap_or_else(|| n_head.clone());
        let n_head = n_head.into_iter().max().unwrap_or(0);
        let head = n_embd.checked_div(n_head).unwrap_or(0);
        let key_length = facts.number("attention.key_length").unwrap_or(head);
        let value_length = facts.number("attention.value_length").unwrap_or(head);
        let windowed = |key: &str, other| facts.number(key).unwrap_or(other);
        let is_given = |key: &str| facts.number(key).is_some_and(|length| length > 0);
        let of_model = n_head_kv.len().saturating_sub(n_layer_mtp as usize);
        let mut recurrent = recurrent(&facts, &n_head_kv, [n_embd, n_head]);
        recurrent[of_model..].fill(0);
        let window = window(&facts, n_layer);
        Self {
            title: header.text("general.name").map(str::to_owned),
            architecture: facts.architecture.to_owned(),
            trained_context: facts.number("context_length"),
            n_layer,
            n_layer_mtp,
            n_embd,
            n_head,
            key_length,
            value_length,
            vocabulary_size: vocabulary(&facts),
            quantisation: quantisation(header),
            chat_template: header.text("tokenizer.chat_template").is_some(),
            pooling: facts.number("pooling_type").and_then(pooling),
            memory: memory(&recurrent[..of_model], window.is_some()),
            tensor_bytes: header.tensor_bytes(),
            sampling: SamplingEntry::all(header),
            windowed_lengths: (
                windowed("attention.key_length_swa", key_length),
                windowed("attention.value_length_swa", value_length),
            ),
            is_latent: is_given("attention.key_length_mla")
                && is_given("attention.value_length_mla"),
            short_context: original_context(header).filter(|_| has_long_factors(header)),
            n_caching: caching(&facts, n_layer),
            n_head_kv,
            recurrent,
            window,
        }
    }
}

/// Whether the file, which may be one of several, has the factors of LongRoPE for long contexts.
pub(crate) fn has_long_factors(header: &Header) -> bool {
    header.tensors.iter().any(|tensor| tensor.name == "rope_factors_long.weight")
}

/// Tokens of context before it was extended.
pub(crate) fn original_context(header: &Header) -> Option<u64> {
    let facts = Facts { header, architecture: architecture(header) };
    let original = facts.number("rope.scaling.original_context_length");
    original.filter(|tokens| *tokens > 0).or_else(|| facts.number("context_length"))
}

fn architecture(header: &Header) -> &str {
    header.text("general.architecture").unwrap_or("unknown")
}

/// Reads entries with the architecture's prefix.
struct Facts<'a> {
    header: &'a Header,
    architecture: &'a str,
}

impl Facts<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        self.header.metadata.get(&format!("{}.{key}", self.architecture))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.value(key).and_then(Value::as_number)
    }

    /// Reads one number for all layers, or an array with a number for each.
    fn per_layer(&self, key: &str, n_layer: u64) -> Option<Vec<u64>> {
        let value = self.value(key)?;
        if let Some(number) = value.as_number() {
            return Some(vec![number; n_layer as usize]);
        }
        let items = value.as_array()?.items.iter().map(Value::as_number);
        let mut numbers = items.collect::<Option<Vec<_>>>()?;
        numbers.resize(n_layer as usize, 0);
        Some(numbers)
    }
}

/// llama.cpp caches nothing for the last layers of some models, which use the KV of earlier ones.
fn caching(facts: &Facts<'_>, n_layer: u64) -> u64 {
    match facts.architecture {
        "gemma3n" => n_layer.min(20), // llama.cpp's number: the file has none.
        "gemma4" => {
            let sharing = facts.number("attention.shared_kv_layers").unwrap_or(0);
            n_layer.saturating_sub(sharing)
        }
        _ => n_layer,
    }
}

/// Elements of recurrent state of each layer, as llama.cpp counts them: `n_embd_r` + `n_embd_s`.
fn recurrent(facts: &Facts<'_>, n_head_kv: &[u64], [n_embd, n_head]: [u64; 2]) -> Vec<u64> {
    let state = if let Some(cache) = facts.number("shortconv.l_cache") {
        n_embd.saturating_mul(cache.saturating_sub(1))
    } else if let Some(head) = facts.number("kda.head_dim").filter(|head| *head > 0) {
        let kernel = facts.number("ssm.conv_kernel").filter(|kernel| *kernel > 0).unwrap_or(4);
        let inner = n_head.saturating_mul(head);
        let convolution = inner.saturating_mul(3).saturating_mul(kernel - 1);
        convolution.saturating_add(inner.saturating_mul(head))
    } else if let Some(inner) = facts.number("ssm.inner_size") {
        let of = |key| facts.number(key).unwrap_or(0);
        let (size, groups) = (of("ssm.state_size"), of("ssm.group_count"));
        let row = inner.saturating_add(groups.saturating_mul(size).saturating_mul(2));
        let convolution = of("ssm.conv_kernel").saturating_sub(1).saturating_mul(row);
        convolution.saturating_add(size.saturating_mul(inner))
    } else if let Some(head) = facts.number("wkv.head_size") {
        n_embd.saturating_mul(head.saturating_add(2))
    } else {
        0
    };
    let n_layer = n_head_kv.len() as u64;
    let listed = facts.per_layer("attention.recurrent_layers", n_layer);
    let default = match facts.architecture {
        "qwen3next" | "qwen35" | "qwen35moe" => Some(4),
        _ => None,
    };
    let interval = facts.number("full_attention_interval").or(default).filter(|every| *every > 0);
    // A layer of Nemotron is attention, a state, or feed-forward.
    let is_divided = facts.architecture.starts_with("nemotron_h");
    let forward = facts.per_layer("feed_forward_length", n_layer).filter(|_| is_divided);
    let is_forward = |layer: usize| forward.as_ref().is_some_and(|all| all[layer] > 0);
    let has_state = |(layer, heads): (usize, &u64)| match (&listed, interval) {
        (Some(listed), _) => listed[layer] > 0,
        (None, Some(interval)) => !(layer as u64 + 1).is_multiple_of(interval),
        (None, None) => *heads == 0 && !is_forward(layer),
    };
    n_head_kv.iter().enumerate().map(|at| if has_state(at) { state } else { 0 }).collect()
}

/// Every n-th layer has full attention, the others a window. The periods are llama.cpp's.
fn window(facts: &Facts<'_>, n_layer: u64) -> Option<(u64, Vec<bool>)> {
    let window = facts.number("attention.sliding_window").filter(|window| *window > 0)?;
    if let Some(Value::Array(flags)) = facts.value("attention.sliding_window_pattern") {
        let mut layers: Vec<_> = flags.items.iter().map(|f| f.as_number() == Some(1)).collect();
        layers.resize(n_layer as usize, false);
        return Some((window, layers));
    }
    let period = match facts.architecture {
        "gemma2" | "gpt-oss" => 2,
        "gemma3" | "gemma-embedding" => 6,
        "gemma3n" => 5,
        "cohere2" | "exaone4" | "exaone-moe" | "olmo2" | "afmoe" => 4,
        "plamo3" => 8,
        _ => return None, // llama.cpp ignores the window of other architectures.
    };
    let period = facts.number("attention.sliding_window_pattern").unwrap_or(period);
    let windowed = |layer| period == 0 || layer % period < period - 1;
    Some((window, (0..n_layer).map(windowed).collect()))
}

fn memory(recurrent: &[u64], windowed: bool) -> MemoryKind {
    let stateful = recurrent.iter().filter(|state| **state > 0).count();
    match stateful {
        0 if windowed => MemoryKind::SlidingWindow,
        0 => MemoryKind::Plain,
        all if all == recurrent.len() => MemoryKind::Recurrent,
        _ => MemoryKind::Hybrid,
    }
}

fn vocabulary(facts: &Facts<'_>) -> u64 {
    let tokens = facts.header.metadata.get("tokenizer.ggml.tokens").and_then(Value::as_array);
    tokens.map(|tokens| tokens.len).or_else(|| facts.number("vocab_size")).unwrap_or(0)
}

fn pooling(kind: u64) -> Option<String> {
    let name = match kind {
        1 => "mean",
        2 => "cls",
        3 => "last",
        4 => "rank",
        _ => return None,
    };
    Some(name.to_owned())
}

/// The name in the file, or else the type of most of its bytes.
fn quantisation(header: &Header) -> String {
    let named = header.number("general.file_type").and_then(file_type).map(str::to_owned);
    named.or_else(|| most_common_type(header)).unwrap_or_else(|| "unknown".to_owned())
}

fn most_common_type(header: &Header) -> Option<String> {
    let mut bytes = std::collections::BTreeMap::<&str, u64>::new();
    for tensor in &header.tensors {
        let all = bytes.entry(tensor.kind.name()).or_default();
        *all = all.saturating_add(tensor.bytes);
    }
    bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(name, _)| name.to_ascii_uppercase())
}

/// Names of `llama_ftype`.
#[rustfmt::skip]
fn file_type(number: u64) -> Option<&'static str> {
    Some(match number {
        0 => "F32", 1 => "F16", 2 => "Q4_0", 3 => "Q4_1", 7 => "Q8_0", 8 => "Q5_0", 9 => "Q5_1",
        10 => "Q2_K", 11 => "Q3_K_S", 12 => "Q3_K_M", 13 => "Q3_K_L", 14 => "Q4_K_S",
        15 => "Q4_K_M", 16 => "Q5_K_S", 17 => "Q5_K_M", 18 => "Q6_K", 19 => "IQ2_XXS",
        20 => "IQ2_XS", 21 => "Q2_K_S", 22 => "IQ3_XS", 23 => "IQ3_XXS", 24 => "IQ1_S",
        25 => "IQ4_NL", 26 => "IQ3_S", 27 => "IQ3_M", 28 => "IQ2_S", 29 => "IQ2_M",
        30 => "IQ4_XS", 31 => "IQ1_M", 32 => "BF16", 36 => "TQ1_0", 37 => "TQ2_0",
        38 => "MXFP4", 39 => "NVFP4", 40 => "Q1_0", 41 => "Q2_0",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Gguf, asset};

    fn summary(name: &str) -> Summary {
        Summary::of(&Header::open(&asset(name)).unwrap())
    }

    #[test]
    fn the_bundled_model_is_summarised() {
        let summary = summary("hob-tiny-f16.gguf");
        assert_eq!(summary.title.as_deref(), Some("tiny"));
        assert_eq!(summary.trained_context, Some(4096));
        assert_eq!((summary.n_layer, summary.n_head), (4, 6));
        assert_eq!(summary.n_head_kv, [2; 4]);
        assert_eq!((summary.key_length, summary.value_length), (32, 32));
        assert_eq!(summary.vocabulary_size, 1536);
        assert_eq!(summary.quantisation, "F16");
        assert!(summary.chat_template);
        assert_eq!(summary.pooling, None);
    }

    #[test]
    fn each_memory_family_is_recognised() {
        let families = [
            ("qwen2", MemoryKind::Plain),
            ("qwen3", MemoryKind::Plain),
            ("gemma3", MemoryKind::SlidingWindow),
            ("lfm2", MemoryKind::Hybrid),
            ("mamba", MemoryKind::Recurrent),
        ];
        for (name, memory) in families {
            assert_eq!(summary(&format!("fixtures/{name}.gguf")).memory, memory, "{name}");
        }
    }

    #[test]
    fn an_mtp_head_has_attention_and_does_not_decide_the_memory() {
        let hybrid = summary("fixtures/mtp-hybrid.gguf");
        assert_eq!((hybrid.n_layer, hybrid.n_layer_mtp), (3, 1));
        assert_eq!(hybrid.recurrent, [3 * 64 + 16 * 32, 0, 0]);
        assert_eq!(hybrid.memory, MemoryKind::Hybrid);
        let plain = summary("fixtures/mtp-plain.gguf");
        assert_eq!((plain.n_layer_mtp, plain.memory), (1, MemoryKind::Plain));
        assert_eq!(summary("fixtures/qwen3.gguf").n_layer_mtp, 0);
    }

    #[test]
    fn layers_without_attention_have_a_recurrent_state() {
        let lfm2 = summary("fixtures/lfm2.gguf");
        assert_eq!(lfm2.n_head_kv, [0, 0, 2, 0, 0, 2]);
        assert_eq!(lfm2.recurrent, [128, 128, 0, 128, 128, 0]);
        let mamba = summary("fixtures/mamba.gguf");
        assert_eq!(mamba.recurrent, [3 * 128 + 16 * 128; 3]);
    }

    /// The state of each layer of four.
    fn states(file: Gguf, architecture: &str, heads: &[u32; 4]) -> Vec<u64> {
        let file = file
            .number(&format!("{architecture}.block_count"), 4)
            .numbers(&format!("{architecture}.attention.head_count_kv"), heads);
        Summary::of(&file.header()).recurrent
    }

    #[test]
    fn feed_forward_layers_of_nemotron_have_no_state() {
        let file = Gguf::new("nemotron_h_moe")
            .numbers("nemotron_h_moe.feed_forward_length", &[0, 64, 0, 0])
            .number("nemotron_h_moe.ssm.conv_kernel", 4)
            .number("nemotron_h_moe.ssm.inner_size", 32)
            .number("nemotron_h_moe.ssm.state_size", 8)
            .number("nemotron_h_moe.ssm.group_count", 2);
        let state = 3 * (32 + 2 * 2 * 8) + 8 * 32;
        assert_eq!(states(file, "nemotron_h_moe", &[0, 0, 2, 0]), [state, 0, 0, state]);
    }

    #[test]
    fn kimis_delta_attention_has_a_state_for_each_head() {
        let file = Gguf::new("kimi-linear")
            .number("kimi-linear.attention.head_count", 3)
            .number("kimi-linear.ssm.conv_kernel", 4)
            .number("kimi-linear.kda.head_dim", 16);
        let state = 3 * 3 * 3 * 16 + 3 * 16 * 16;
        assert_eq!(states(file, "kimi-linear", &[0, 0, 0, 1]), [state, state, state, 0]);
    }

    #[test]
    fn the_layers_with_a_state_are_listed_or_all_but_every_fourth() {
        let file = || {
            Gguf::new("qwen35")
                .number("qwen35.ssm.inner_size", 2)
                .number("qwen35.ssm.state_size", 8)
        };
        assert_eq!(states(file(), "qwen35", &[2; 4]), [16, 16, 16, 0]);
        let listed = file().numbers("qwen35.attention.recurrent_layers", &[1, 0, 1, 0]);
        assert_eq!(states(listed, "qwen35", &[2; 4]), [16, 0, 16, 0]);
    }
}
