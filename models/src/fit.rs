//! Estimates the memory that a model needs.
//!
//! - Counts the weights as in the file, and KV and state as llama.cpp allocates them for one
//!   context that all sequences share: a running state for each sequence, and windows as long as those of
//!   all. MTP heads count like other layers: they have KV, also where they are not loaded. It does not count compute
//!   buffers, so a close fit is called tight.

use serde::Serialize;

use crate::gguf::GgmlType;
use crate::summary::Summary;

/// What the estimate depends on, beside the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Tokens of context.
    pub ctx: u64,
    /// Conversations that share the context.
    pub slots: u64,
    /// Prefixes that share it, too.
    pub prefixes: u64,
    pub cache_type_k: GgmlType,
    pub cache_type_v: GgmlType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    pub weights_bytes: u64,
    /// KV and recurrent state for the whole context.
    pub kv_bytes: u64,
    /// KV of one more token in the layers with full attention.
    pub kv_bytes_per_token: u64,
}

/// An estimate compared with the available memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Fits,
    /// More than nine tenths of the available memory.
    Tight,
    TooLarge,
}

/// Rows of a micro-batch in the engine, and llama.cpp's default; sizes its windowed cache.
pub(crate) const MICRO_BATCH: u64 = 512;

impl Estimate {
    /// Estimates a model whose files hold `weights_bytes` of tensors.
    pub fn new(summary: &Summary, weights_bytes: u64, demand: &Demand) -> Self {
        let per_token = |layer: usize, heads: u64| bytes_per_token(summary, demand, layer, heads);
        let sequences = sequences(summary, demand);
        let windowed = windowed_cells(summary, sequences, demand.ctx);
        let mut kv_bytes = 0u64;
        let mut kv_bytes_per_token = 0u64;
        let caching = summary.n_head_kv.iter().take(summary.n_caching as usize);
        for (layer, &heads) in caching.enumerate() {
            let state = summary.recurrent.get(layer).copied().unwrap_or(0);
            let layer_bytes = if state > 0 {
                state.saturating_mul(4).saturating_mul(sequences)
            } else if let Some(cells) = windowed.filter(|_| is_windowed(summary, layer)) {
                per_token(layer, heads).saturating_mul(cells)
            } else {
                kv_bytes_per_token = kv_bytes_per_token.saturating_add(per_token(layer, heads));
                per_token(layer, heads).saturating_mul(demand.ctx)
            };
            kv_bytes = kv_bytes.saturating_add(layer_bytes);
        }
        Self { weights_bytes, kv_bytes, kv_bytes_per_token }
    }

    pub fn total_bytes(&self) -> u64 {
        self.weights_bytes.saturating_add(self.kv_bytes)
    }

    pub fn verdict(&self, available_bytes: u64) -> Verdict {
        match self.total_bytes() {
            total if total > available_bytes => Verdict::TooLarge,
            total if total > available_bytes / 10 * 9 => Verdict::Tight,
            _ => Verdict::Fits,
        }
    }
}

/// Sequences of the context.
pub(crate) fn sequences(summary: &Summary, demand: &Demand) -> u64 {
    let slots = demand.slots.saturating_add(demand.prefixes);
    slots.saturating_add(summary.memory.other_sequences())
}

/// Bytes of a token's KV in a layer with this number of heads.
fn bytes_per_token(summary: &Summary, demand: &Demand, layer: usize, heads: u64) -> u64 {
    let [k, v] = cached_bytes(summary, demand, layer, heads);
    k.saturating_add(v)
}

/// Those of K and of V.
pub(crate) fn cached_bytes(
    summary: &Summary,
    demand: &Demand,
    layer: usize,
    heads: u64,
) -> [u64; 2] {
    let (key, value) = cached_lengths(summary, layer);
    let k = demand.cache_type_k.cache_bytes(heads.saturating_mul(key));
    let v = demand.cache_type_v.cache_bytes(heads.saturating_mul(value));
    [k, v]
}

/// The part of [`Estimate::kv_bytes`] that MTP heads have, in a context of their own.
pub(crate) fn mtp_kv_bytes(summary: &Summary, demand: &Demand) -> u64 {
    let of_model = summary.n_layer.saturating_sub(summary.n_layer_mtp);
    let heads = summary.n_head_kv.iter().enumerate().skip(of_model as usize);
    let bytes = heads.map(|(layer, &heads)| bytes_per_token(summary, demand, layer, heads));
    bytes.fold(0, u64::saturating_add).saturating_mul(demand.ctx)
}

/// Cells of a sliding-window layer, as llama.cpp sizes them for a cache that sequences share.
pub(crate) fn windowed_cells(summary: &Summary, sequences: u64, ctx: u64) -> Option<u64> {
    let (window, _) = summary.window.as_ref()?;
    let cells = window.saturating_mul(sequences).saturating_add(MICRO_BATCH).min(ctx);
    Some(cells.div_ceil(256) * 256)
}

pub(crate) fn is_windowed(summary: &Summary, layer: usize) -> bool {
    let windowed = summary.window.as_ref().and_then(|(_, layers)| layers.get(layer));
    windowed.copied().unwrap_or(false)
}

/// Elements of a key and of a value that a layer caches for each head.
fn cached_lengths(summary: &Summary, layer: usize) -> (u64, u64) {
    let (key, value) = if is_windowed(summary, layer) {
        summary.windowed_lengths
    } else {
        (summary.key_length, summary.value_length)
    };
    (key, if summary.is_latent { 0 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Header;
    use crate::testing::{Gguf, asset};

    fn kv(name: &str, ctx: u64, kind: &str) -> Estimate {
        let summary = Summary::of(&Header::open(&asset(name)).unwrap());
        let kind = kind.parse().unwrap();
        let demand = Demand { ctx, slots: 4, prefixes: 4, cache_type_k: kind, cache_type_v: kind };
        Estimate::new(&summary, summary.tensor_bytes, &demand)
    }

    #[test]
    fn full_attention_needs_the_same_for_every_token() {
        // 4 layers, 2 heads of 32 for K and for V, 2 bytes each.
        assert_eq!(kv("hob-tiny-f16.gguf", 1, "f16").kv_bytes, 4 * 2 * 64 * 2);
        assert_eq!(kv("hob-tiny-f16.gguf", 4096, "f16").kv_bytes, 4096 * 1024);
        assert_eq!(kv("hob-tiny-f16.gguf", 4096, "q8_0").kv_bytes, 4096 * 4 * 2 * 68);
    }

    #[test]
    fn a_sliding_window_does_not_grow_with_the_context() {
        let (short, long) =
            (kv("fixtures/gemma3.gguf", 8192, "f16"), kv("fixtures/gemma3.gguf", 16384, "f16"));
        let one_full_layer = 2 * 16 * 2 * 2 * 8192;
        assert_eq!(long.kv_bytes - short.kv_bytes, one_full_layer);
    }

    #[test]
    fn a_recurrent_state_is_that_of_all_sequences_and_does_not_depend_on_the_context() {
        let state = 3 * (3 * 128 + 16 * 128) * 4 * (4 + 4 + 2);
        assert_eq!(kv("fixtures/mamba.gguf", 1024, "f16").kv_bytes, state);
        assert_eq!(kv("fixtures/mamba.gguf", 65536, "f16").kv_bytes, state);
    }

    #[test]
    fn a_hybrid_has_one_more_running_state() {
        let bytes = |ctx| kv("fixtures/lfm2.gguf", ctx, "f16").kv_bytes;
        assert_eq!(2 * bytes(1024) - bytes(2048), 4 * 128 * 4 * (4 + 4 + 3));
    }

    /// Of a header, with four slots and four prefixes.
    fn estimate(file: &Gguf, ctx: u64) -> Estimate {
        let kind = "f16".parse().unwrap();
        let demand = Demand { ctx, slots: 4, prefixes: 4, cache_type_k: kind, cache_type_v: kind };
        Estimate::new(&Summary::of(&file.header()), 0, &demand)
    }

    #[test]
    fn latent_attention_caches_keys_alone() {
        let file = Gguf::new("deepseek2")
            .number("deepseek2.block_count", 2)
            .number("deepseek2.attention.head_count", 16)
            .number("deepseek2.attention.head_count_kv", 1)
            .number("deepseek2.attention.key_length", 576)
            .number("deepseek2.attention.value_length", 512);
        assert_eq!(estimate(&file, 4096).kv_bytes_per_token, 2 * (576 + 512) * 2);
        let latent = file
            .number("deepseek2.attention.key_length_mla", 192)
            .number("deepseek2.attention.value_length_mla", 128);
        assert_eq!(estimate(&latent, 4096).kv_bytes, 2 * 576 * 2 * 4096);
    }

    #[test]
    fn layers_with_a_window_have_heads_of_their_own_length_and_the_last_ones_share() {
        let file = Gguf::new("gemma4")
            .number("gemma4.block_count", 5)
            .number("gemma4.attention.head_count", 8)
            .numbers("gemma4.attention.head_count_kv", &[4, 4, 2, 4, 2])
            .number("gemma4.attention.key_length", 512)
            .number("gemma4.attention.value_length", 512)
            .number("gemma4.attention.key_length_swa", 256)
            .number("gemma4.attention.value_length_swa", 256)
            .number("gemma4.attention.sliding_window", 64)
            .numbers("gemma4.attention.sliding_window_pattern", &[1, 1, 0, 1, 0])
            .number("gemma4.attention.shared_kv_layers", 2);
        // 64 cells for each of 9 sequences, and a micro-batch, in whole 256.
        let windows = 2 * 4 * (256 + 256) * 2 * 1280;
        assert_eq!(estimate(&file, 8192).kv_bytes, windows + 2 * (512 + 512) * 2 * 8192);
    }

    #[test]
    fn the_kv_of_an_mtp_head_is_that_of_a_layer() {
        let summary = Summary::of(&Header::open(&asset("fixtures/mtp-plain.gguf")).unwrap());
        let kind = "f16".parse().unwrap();
        let demand =
            Demand { ctx: 1024, slots: 4, prefixes: 4, cache_type_k: kind, cache_type_v: kind };
        let head = mtp_kv_bytes(&summary, &demand);
        assert_eq!(head, 1024 * 2 * 16 * 2);
        assert_eq!(Estimate::new(&summary, 0, &demand).kv_bytes, 3 * head);
    }

    #[test]
    fn a_close_fit_is_called_tight() {
        let estimate = Estimate { weights_bytes: 90, kv_bytes: 5, kv_bytes_per_token: 1 };
        assert_eq!(estimate.verdict(200), Verdict::Fits);
        assert_eq!(estimate.verdict(100), Verdict::Tight);
        assert_eq!(estimate.verdict(94), Verdict::TooLarge);
    }
}
