//! Chooses how many tokens of context a model gets on this machine.
//!
//! - The context is the cells of one cache, which all slots share. A conversation holds as many
//!   tokens at most, and never more than the model was trained with.
//! - llama.cpp allocates and clears the KV of the whole context at its start, so that memory is in use
//!   from then on. The choice follows the memory that is available before.
//! - A device with memory of its own that holds the weights holds the KV too: then its memory decides.
//!   Nothing else needs it, so the KV gets a larger part of it.
//! - Where the settings put a number of layers there, weights and KV are divided between it and the machine, and each
//!   part must fit.
//! - The K and the V of a layer are tensors with which a device must compute.
//! - Pure: it reads neither the machine's memory nor files.

use crate::fit::{Demand, Estimate, MICRO_BATCH};
use crate::gguf::GgmlType;
use crate::largest_tensor::{LargeTensor, largest_tensor_bytes};
use crate::model::ModelFile;
use crate::summary::Summary;

/// The least that is chosen. Whether it fits is judged elsewhere.
const MIN_TOKENS: u64 = 4_096;

/// Chosen of a model that was trained with less, or whose file does not say: conversations beside a
/// full one then stay hot, for little memory.
const MIN_WANTED_TOKENS: u64 = 8_192;

/// The maximum of the setting.
const MAX_TOKENS: u64 = 1 << 24;

/// An embedding model computes a text in one micro-batch, whose buffers grow with its square.
const MAX_POOLED_TOKENS: u64 = 8_192;

/// The context takes at most this part of the memory that is available beside the weights. The warm
/// pool takes up to an eighth of RAM, KV that waits for the disk a sixteenth; compute buffers and
/// other programs need the rest.
const MEMORY_SHARE: u64 = 4;

/// The context takes at most this part of the memory that a device has beside the weights; compute buffers and
/// other programs need the rest.
const DEVICE_SHARE: u64 = 2;

/// What stays free on a device, as llama.cpp's fit has it.
const DEVICE_MARGIN_BYTES: u64 = 1 << 30;

/// Size per token of the attention mask, which llama.cpp allocates for a micro-batch over all cells, as f16.
const MASK_BYTES_PER_TOKEN: u64 = 2 * MICRO_BATCH;

/// The settings that decide about the context of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSettings {
    /// Tokens; `None`: chosen for each model.
    pub ctx: Option<u64>,
    /// Conversations that share the context.
    pub slots: u64,
    /// Prefixes that share it, too.
    pub prefixes: u64,
    pub cache_type_k: GgmlType,
    pub cache_type_v: GgmlType,
    /// Layers on devices, of which the output is one; `None`: as many as fit.
    pub gpu_layers: Option<u64>,
    /// Bytes of the largest tensor with which the devices compute; `None`: of any.
    pub largest_tensor_bytes: Option<u64>,
}

/// Memory for weights and context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    pub host_bytes: u64,
    /// Memory of the devices that get layers and KV, where it is not the machine's; 0 without one.
    pub device_bytes: u64,
}

impl Available {
    /// Without a device.
    pub fn on_host(host_bytes: u64) -> Self {
        Self { host_bytes, device_bytes: 0 }
    }

    /// What is left beside another model of `bytes`: it is on the devices where it fits there.
    #[must_use]
    pub fn beside(self, bytes: u64) -> Self {
        let Self { host_bytes, device_bytes } = self;
        match device_bytes.checked_sub(bytes) {
            Some(left) if left > 0 => Self { host_bytes, device_bytes: left },
            _ => Self { host_bytes: host_bytes.saturating_sub(bytes), device_bytes },
        }
    }

    /// For the layers wherever they are.
    pub fn total_bytes(self) -> u64 {
        self.host_bytes.saturating_add(self.device_bytes)
    }

    /// What the context may take beside weights of `weights_bytes`, and the memory that it is a part
    /// of.
    fn budget(self, weights_bytes: u64) -> (u64, u64) {
        let Self { host_bytes, device_bytes } = self;
        let beside = device_bytes.saturating_sub(weights_bytes.saturating_add(DEVICE_MARGIN_BYTES));
        if beside > 0 {
            return (beside / DEVICE_SHARE, device_bytes);
        }
        let of_host = host_bytes.saturating_sub(weights_bytes) / MEMORY_SHARE;
        // The KV takes the room of layers that the device would compute.
        let of_device = device_bytes / MEMORY_SHARE;
        if (1..of_host).contains(&of_device) {
            return (of_device, device_bytes);
        }
        (of_host, host_bytes)
    }

    /// The same where the settings put `part` of the layers on devices.
    fn budget_of(self, weights_bytes: u64, part: DevicePart) -> (u64, u64) {
        let Self { host_bytes, device_bytes } = self;
        let DevicePart { layers, all } = part;
        let there = weights_bytes / all * layers;
        let left = device_bytes.saturating_sub(there.saturating_add(DEVICE_MARGIN_BYTES));
        let left_here = host_bytes.saturating_sub(weights_bytes - there);
        // The KV of all layers, of which a part of this size is there, or here.
        let of_device = (left / DEVICE_SHARE / layers).saturating_mul(all);
        let of_host = (left_here / MEMORY_SHARE / (all - layers)).saturating_mul(all);
        if of_device < of_host { (of_device, device_bytes) } else { (of_host, host_bytes) }
    }
}

/// Some layers of a model on devices: neither none nor all.
#[derive(Clone, Copy)]
struct DevicePart {
    layers: u64,
    /// The output counts as one.
    all: u64,
}

/// Why a context is not larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The setting is a number.
    Set,
    /// The model was trained with no more.
    Trained,
    /// The next larger one would take more than its share of this memory.
    Memory { available_bytes: u64 },
    /// A device would not compute with the K or V of a layer of the next larger one.
    Tensor,
    /// A text is embedded in one micro-batch.
    MicroBatch,
    /// The model does not say what it was trained with.
    Unknown,
}

impl Limit {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Trained => "trained",
            Self::Memory { .. } | Self::Tensor => "memory",
            Self::MicroBatch => "micro_batch",
            Self::Unknown => "unknown",
        }
    }
}

/// A context, and why it is not larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenContext {
    /// Cells of the cache.
    pub tokens: u64,
    pub limit: Limit,
}

impl ContextSettings {
    /// `cache_types`: ggml's names of the element types of K and V.
    ///
    /// # Panics
    /// When ggml has no such element type; settings are checked before.
    pub fn new(ctx: Option<u64>, slots: u64, prefixes: u64, cache_types: [&str; 2]) -> Self {
        let kind = |name: &str| name.parse().expect("every cache type is an element type of ggml");
        let [cache_type_k, cache_type_v] = cache_types.map(kind);
        Self {
            ctx,
            slots,
            prefixes,
            cache_type_k,
            cache_type_v,
            gpu_layers: None,
            largest_tensor_bytes: None,
        }
    }

    /// `None`: devices compute with tensors of any size, or none has KV.
    #[must_use]
    pub fn with_largest_tensor(self, largest_tensor_bytes: Option<u64>) -> Self {
        Self { largest_tensor_bytes, ..self }
    }

    #[must_use]
    pub fn with_gpu_layers(self, gpu_layers: Option<u64>) -> Self {
        Self { gpu_layers, ..self }
    }

    /// With a context of `ctx` tokens.
    pub fn demand(&self, ctx: u64) -> Demand {
        let Self { slots, prefixes, cache_type_k, cache_type_v, .. } = *self;
        Demand { ctx, slots, prefixes, cache_type_k, cache_type_v }
    }

    /// `available`: for weights and context.
    pub fn context_of(&self, model: &ModelFile, available: Available) -> ChosenContext {
        let summary = &model.summary;
        let trained = summary.trained_context.filter(|tokens| *tokens > 0);
        if let Some(tokens) = self.ctx {
            return ChosenContext::set(tokens, trained);
        }
        let weights_bytes = model.weights_bytes;
        let (budget, available_bytes) = match self.device_part(summary) {
            Some(part) if available.device_bytes > 0 => available.budget_of(weights_bytes, part),
            _ => available.budget(weights_bytes),
        };
        let fits = |tokens| self.bytes(summary, tokens) <= budget;
        let is_pooled = summary.pooling.is_some();
        let by_memory = ChosenContext::chosen(trained, is_pooled, available_bytes, fits);
        let is_computed = |tokens| self.check_tensors(summary, tokens).is_ok();
        if is_computed(by_memory.tokens) {
            return by_memory;
        }
        let tokens = largest_fitting(by_memory.tokens, is_computed);
        let is_whole = trained.is_some_and(|trained| tokens >= trained);
        ChosenContext { tokens, limit: if is_whole { Limit::Trained } else { Limit::Tensor } }
    }

    /// # Errors
    /// Where a device would not compute with the KV of a context of `tokens`.
    pub fn check_tensors(&self, summary: &Summary, tokens: u64) -> Result<(), LargeTensor> {
        let tensor_bytes = largest_tensor_bytes(summary, &self.demand(tokens));
        match self.largest_tensor_bytes {
            Some(largest_bytes) if tensor_bytes > largest_bytes => {
                Err(LargeTensor { tokens, tensor_bytes, largest_bytes })
            }
            _ => Ok(()),
        }
    }

    fn device_part(&self, summary: &Summary) -> Option<DevicePart> {
        let all = summary.n_layer.saturating_add(1);
        let layers = self.gpu_layers.filter(|layers| (1..all).contains(layers))?;
        Some(DevicePart { layers, all })
    }

    /// These settings with an automatic context.
    #[must_use]
    pub fn automatic(&self) -> Self {
        Self { ctx: None, ..*self }
    }

    /// Size of KV, state and attention mask.
    fn bytes(&self, summary: &Summary, tokens: u64) -> u64 {
        let estimate = Estimate::new(summary, 0, &self.demand(tokens));
        let mask = if estimate.kv_bytes_per_token > 0 { MASK_BYTES_PER_TOKEN } else { 0 };
        estimate.kv_bytes.saturating_add(mask.saturating_mul(tokens))
    }
}

impl ChosenContext {
    /// A context that a setting gives as a number. `trained`: tokens with which the model was trained, if it says
    /// so.
    pub fn set(tokens: u64, trained: Option<u64>) -> Self {
        let is_whole = trained.is_some_and(|trained| tokens >= trained);
        Self { tokens, limit: if is_whole { Limit::Trained } else { Limit::Set } }
    }

    /// For a model of plain attention, by the weights and the KV a token of `estimate`.
    pub(crate) fn of_plain(estimate: &Estimate, trained: u64, available_bytes: u64) -> Self {
        let (budget, _) = Available::on_host(available_bytes).budget(estimate.weights_bytes);
        let token_bytes = estimate.kv_bytes_per_token + MASK_BYTES_PER_TOKEN;
        Self::chosen(Some(trained), false, available_bytes, |tokens| tokens * token_bytes <= budget)
    }

    /// The context of a model without a file, which is only for tests.
    pub fn of_fake(ctx: Option<u64>) -> Self {
        match ctx {
            Some(tokens) => Self::set(tokens, None),
            None => Self { tokens: MIN_WANTED_TOKENS, limit: Limit::Unknown },
        }
    }

    /// What is wanted of the model, or the greatest power of two that `fits`.
    fn chosen(
        trained: Option<u64>,
        is_pooled: bool,
        available_bytes: u64,
        fits: impl Fn(u64) -> bool,
    ) -> Self {
        let trained = trained.map(|tokens| tokens.min(MAX_TOKENS));
        let max = if is_pooled { MAX_POOLED_TOKENS } else { MAX_TOKENS };
        let wanted = trained.unwrap_or(0).clamp(MIN_WANTED_TOKENS, max);
        let tokens = if fits(wanted) { wanted } else { largest_fitting(wanted, fits) };
        let limit = match trained {
            Some(trained) if tokens >= trained => Limit::Trained,
            _ if tokens < wanted => Limit::Memory { available_bytes },
            Some(_) => Limit::MicroBatch,
            None => Limit::Unknown,
        };
        Self { tokens, limit }
    }
}

/// A power of two below `wanted`, [`MIN_TOKENS`] at least.
fn largest_fitting(wanted: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let mut tokens = MIN_TOKENS;
    while tokens * 2 < wanted && fits(tokens * 2) {
        tokens *= 2;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::asset;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn tiny(ctx: Option<u64>, available_bytes: u64) -> ChosenContext {
        let model = ModelFile::open(&asset("hob-tiny-f16.gguf")).unwrap();
        ContextSettings::new(ctx, 4, 4, ["f16", "f16"])
            .context_of(&model, Available::on_host(available_bytes))
    }

    /// The context of a model with 127 KiB of KV a token, with a budget that is a quarter of these bytes.
    fn chosen(trained: u64, available_bytes: u64) -> ChosenContext {
        let fits = |tokens: u64| {
            tokens * 127 * KIB + tokens * MASK_BYTES_PER_TOKEN <= available_bytes / MEMORY_SHARE
        };
        ChosenContext::chosen(Some(trained), false, available_bytes, fits)
    }

    #[test]
    fn a_model_beside_takes_memory_of_the_devices_where_it_fits_and_of_the_machine_otherwise() {
        let available = Available { host_bytes: 16 * GIB, device_bytes: 8 * GIB };
        assert_eq!(available.beside(3 * GIB), Available { device_bytes: 5 * GIB, ..available });
        assert_eq!(available.beside(9 * GIB), Available { host_bytes: 7 * GIB, ..available });
        assert_eq!(Available::on_host(GIB).beside(2 * GIB), Available::on_host(0));
    }

    #[test]
    fn the_trained_context_is_chosen_where_it_fits() {
        let whole = ChosenContext { tokens: 40_960, limit: Limit::Trained };
        assert_eq!(chosen(40_960, 20 * GIB), whole); // A quarter of them is just as much.
    }

    #[test]
    fn memory_limits_the_context_to_a_power_of_two() {
        let limited = |tokens, available_bytes| {
            let limit = Limit::Memory { available_bytes };
            assert_eq!(chosen(131_072, available_bytes), ChosenContext { tokens, limit });
            assert_eq!(chosen(40_960, available_bytes).tokens, tokens);
        };
        limited(32_768, 20 * GIB - 1);
        limited(8_192, 4 * GIB);
        limited(4_096, 2 * GIB);
        limited(4_096, MIB); // Fewer would not be of use.
    }

    #[test]
    fn weights_and_cache_types_decide_what_fits() {
        // 1 KiB of KV and as much of the mask for each of 8,192 tokens, and the weights.
        let model = ModelFile::open(&asset("hob-tiny-f16.gguf")).unwrap();
        let needed = model.weights_bytes + 8_192 * 2 * KIB * MEMORY_SHARE;
        assert_eq!(tiny(None, needed).tokens, 8_192);
        assert_eq!(tiny(None, needed - 1).tokens, 4_096);
        let small = ContextSettings::new(None, 4, 4, ["q8_0", "q8_0"]);
        assert_eq!(small.context_of(&model, Available::on_host(needed - 1)).tokens, 8_192);
    }

    #[test]
    fn the_memory_of_a_device_that_holds_the_weights_decides() {
        let budget = |host_gib, device_gib, weights_gib| {
            let available =
                Available { host_bytes: host_gib * GIB, device_bytes: device_gib * GIB };
            let (budget, of) = available.budget(weights_gib * GIB);
            (budget / GIB, of / GIB)
        };
        assert_eq!(budget(16, 0, 4), (3, 16), "no device");
        assert_eq!(budget(16, 24, 5), (9, 24), "a half of what weights and margin leave");
        assert_eq!(budget(8, 24, 5), (9, 24), "however little the host has");
        assert_eq!(budget(64, 8, 20), (2, 8), "some layers: a quarter of the device");
        assert_eq!(budget(24, 8, 20), (1, 24), "the host has even less");
    }

    #[test]
    fn of_a_number_of_layers_both_memories_must_hold_their_part() {
        let budget = |host_gib, device_gib, layers| {
            let available =
                Available { host_bytes: host_gib * GIB, device_bytes: device_gib * GIB };
            let (budget, of) = available.budget_of(8 * GIB, DevicePart { layers, all: 4 });
            (budget / GIB, of / GIB)
        };
        assert_eq!(budget(20, 24, 1), (4, 20), "three quarters of the KV are here");
        assert_eq!(budget(20, 24, 3), (11, 24), "three quarters of the KV are there");
        assert_eq!(budget(20, 6, 3), (0, 6), "the layers themselves do not fit there");

        let model = ModelFile::open(&asset("hob-tiny-f16.gguf")).unwrap();
        let on_device = Available { host_bytes: 0, device_bytes: 8 * GIB };
        let tokens = |gpu_layers| {
            let settings = ContextSettings::new(None, 4, 4, ["f16", "f16"]);
            settings.with_gpu_layers(gpu_layers).context_of(&model, on_device).tokens
        };
        assert_eq!([None, Some(5), Some(99)].map(tokens), [8_192; 3], "all layers are there");
        assert_eq!([1, 4].map(|some| tokens(Some(some))), [4_096; 2]);
    }

    #[test]
    fn a_model_with_a_short_context_has_room_for_several_conversations() {
        assert_eq!(tiny(None, GIB), ChosenContext { tokens: 8_192, limit: Limit::Trained });
        assert_eq!(tiny(None, 0), ChosenContext { tokens: 4_096, limit: Limit::Trained });
    }

    #[test]
    fn a_device_limits_the_k_and_the_v_of_a_layer() {
        let mut model = ModelFile::open(&asset("hob-tiny-f16.gguf")).unwrap();
        model.summary.trained_context = Some(131_072);
        // 128 bytes a token.
        let limited =
            |ctx, bytes| ContextSettings::new(ctx, 4, 4, ["f16", "f16"]).with_largest_tensor(bytes);
        let chosen = |bytes| limited(None, bytes).context_of(&model, Available::on_host(20 * GIB));
        assert_eq!(chosen(None).tokens, 131_072);
        assert_eq!(chosen(Some(16 * MIB)).limit, Limit::Trained);
        let less = |tokens| ChosenContext { tokens, limit: Limit::Tensor };
        assert_eq!(chosen(Some(16 * MIB - 1)), less(65_536));
        assert_eq!(chosen(Some(MIB)), less(8_192));
        assert_eq!(chosen(Some(1)), less(4_096), "which a check refuses");

        let check = |tokens| limited(Some(tokens), Some(MIB)).check_tensors(&model.summary, tokens);
        assert_eq!(check(8_192), Ok(()));
        let refused = check(8_193).unwrap_err().to_string();
        assert!(refused.contains("8193 tokens") && refused.contains("--ctx"), "{refused}");
        assert_eq!(limited(Some(8_193), None).check_tensors(&model.summary, 8_193), Ok(()));
    }

    #[test]
    fn a_number_is_taken_as_it_is() {
        assert_eq!(tiny(Some(2_048), 0), ChosenContext { tokens: 2_048, limit: Limit::Set });
        assert_eq!(tiny(Some(65_536), 0), ChosenContext { tokens: 65_536, limit: Limit::Trained });
    }

    #[test]
    fn a_recurrent_state_takes_the_same_for_every_context() {
        let model = ModelFile::open(&asset("fixtures/mamba.gguf")).unwrap();
        let settings = ContextSettings::new(None, 4, 4, ["f16", "f16"]);
        let bytes = |tokens| settings.bytes(&model.summary, tokens);
        assert_eq!(bytes(1 << 20), bytes(64));
    }

    #[test]
    fn the_limits_of_unusual_models_are_named() {
        let all = |trained, is_pooled| ChosenContext::chosen(trained, is_pooled, GIB, |_| true);
        assert_eq!(
            all(Some(32_768), true),
            ChosenContext { tokens: 8_192, limit: Limit::MicroBatch }
        );
        assert_eq!(all(Some(512), true), ChosenContext { tokens: 8_192, limit: Limit::Trained });
        assert_eq!(all(None, false), ChosenContext { tokens: 8_192, limit: Limit::Unknown });
        assert_eq!(all(Some(u64::MAX), false).tokens, MAX_TOKENS);
    }
}
