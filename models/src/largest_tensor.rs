//! The largest tensor of the KV. llama.cpp has one for the K and one for the V of each layer.

use crate::fit::{Demand, cached_bytes, is_windowed, sequences, windowed_cells};
use crate::summary::Summary;

/// llama.cpp's context has a multiple of these cells.
const CELLS: u64 = 256;

/// llama.cpp would end the process when it makes such a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot make a context of {tokens} tokens: K or V of a layer takes {tensor_bytes} bytes, and a device computes with \
     tensors of {largest_bytes} bytes at most; start with a smaller --ctx, or with --gpu-layers 0"
)]
pub struct LargeTensor {
    pub tokens: u64,
    pub tensor_bytes: u64,
    /// With which the device computes.
    pub largest_bytes: u64,
}

/// Size of the largest tensor; 0 without KV.
pub(crate) fn largest_tensor_bytes(summary: &Summary, demand: &Demand) -> u64 {
    let all = demand.ctx.div_ceil(CELLS).saturating_mul(CELLS);
    let windowed = windowed_cells(summary, sequences(summary, demand), demand.ctx);
    let caching = summary.n_head_kv.iter().take(summary.n_caching as usize).enumerate();
    let with_kv =
        caching.filter(|(layer, _)| summary.recurrent.get(*layer).is_none_or(|it| *it == 0));
    let bytes = with_kv.map(|(layer, &heads)| {
        let cells = windowed.filter(|_| is_windowed(summary, layer)).unwrap_or(all);
        let [k, v] = cached_bytes(summary, demand, layer, heads);
        k.max(v).saturating_mul(cells)
    });
    bytes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Header;
    use crate::testing::{Gguf, asset};

    fn demand(ctx: u64, kind: &str) -> Demand {
        let kind = kind.parse().unwrap();
        Demand { ctx, slots: 4, prefixes: 4, cache_type_k: kind, cache_type_v: kind }
    }

    #[test]
    fn a_tensor_has_the_k_or_the_v_of_a_layer_in_whole_256_cells() {
        let summary = Summary::of(&Header::open(&asset("hob-tiny-f16.gguf")).unwrap());
        let bytes = |ctx, kind| largest_tensor_bytes(&summary, &demand(ctx, kind));
        // 2 heads of 32.
        assert_eq!(bytes(4096, "f16"), 4096 * 64 * 2);
        assert_eq!(bytes(3841, "f16"), 4096 * 64 * 2);
        assert_eq!(bytes(4096, "q8_0"), 4096 * 68);
    }

    #[test]
    fn windows_are_short_and_running_states_are_no_kv() {
        let file = Gguf::new("gemma4")
            .number("gemma4.block_count", 2)
            .number("gemma4.attention.head_count", 8)
            .numbers("gemma4.attention.head_count_kv", &[8, 2])
            .number("gemma4.attention.key_length", 512)
            .number("gemma4.attention.value_length", 512)
            .number("gemma4.attention.key_length_swa", 256)
            .number("gemma4.attention.value_length_swa", 256)
            .number("gemma4.attention.sliding_window", 64)
            .numbers("gemma4.attention.sliding_window_pattern", &[1, 0]);
        let windowed = Summary::of(&file.header());
        let bytes = |ctx| largest_tensor_bytes(&windowed, &demand(ctx, "f16"));
        assert_eq!(bytes(8192), 2 * 512 * 2 * 8192, "of full attention");
        assert_eq!(
            bytes(1280),
            8 * 256 * 2 * 1280,
            "of the window, for 9 sequences and a micro-batch"
        );
        let recurrent = Summary::of(&Header::open(&asset("fixtures/mamba.gguf")).unwrap());
        assert_eq!(largest_tensor_bytes(&recurrent, &demand(8192, "f16")), 0);
    }
}
