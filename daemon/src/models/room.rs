//! The memory for the next model: what is free, and what the current one frees.
//!
//! - Of its weights in the machine's memory it frees none: they are pages of the file, which count as available.
//! - What it has on a device that shares the machine's memory is memory of the machine.

use hob_models::Estimate;
use hob_runtime::backend::Offload;

/// What the current model has in memory, by its estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Not on devices.
    pub weights_bytes: u64,
    /// KV that is not on devices.
    pub kv_bytes: u64,
    /// Weights and KV there.
    pub device_bytes: u64,
}

/// Memory for another model than the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// `None` where the system does not report its free memory.
    pub free_bytes: Option<u64>,
    /// Free memory of devices with memory of their own; 0 without one.
    pub device_free_bytes: u64,
}

impl MemoryUse {
    /// `offload`: `None` where the processor computes all layers.
    pub fn of(estimate: &Estimate, offload: Option<&Offload>) -> Self {
        let on_host = |bytes: u64, is_offloaded: bool| match offload {
            Some(Offload { layers, all_layers, .. }) if is_offloaded => {
                let (all, layers) = (*all_layers as u64, *layers as u64);
                bytes / all.max(1) * all.saturating_sub(layers)
            }
            _ => bytes,
        };
        let Estimate { weights_bytes: weights, kv_bytes: kv, .. } = *estimate;
        let weights_bytes = on_host(weights, true);
        let kv_bytes = on_host(kv, offload.is_some_and(|offload| offload.kv));
        let device_bytes = (weights - weights_bytes).saturating_add(kv - kv_bytes);
        Self { weights_bytes, kv_bytes, device_bytes }
    }
}

impl Room {
    /// Free now are `available_bytes` of the machine, and `device_bytes` of devices with memory of their own.
    /// `shares_memory`: whether those that hold the current model share the machine's.
    pub fn beside(
        held: MemoryUse,
        available_bytes: Option<u64>,
        device_bytes: u64,
        shares_memory: bool,
    ) -> Self {
        let (freed_bytes, freed_device_bytes) = match (shares_memory, device_bytes) {
            (true, _) => (held.kv_bytes.saturating_add(held.device_bytes), 0),
            (false, 0) => (held.kv_bytes, 0),
            (false, _) => (held.kv_bytes, held.device_bytes),
        };
        Self {
            free_bytes: available_bytes.map(|free| free.saturating_add(freed_bytes)),
            device_free_bytes: device_bytes.saturating_add(freed_device_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATE: Estimate = Estimate { weights_bytes: 800, kv_bytes: 80, kv_bytes_per_token: 1 };

    fn offload(layers: usize, kv: bool) -> Offload {
        let devices = vec!["Vulkan0".to_owned()];
        Offload { layers, all_layers: 8, devices, split: vec![layers], kv }
    }

    #[test]
    fn layers_on_a_device_are_not_in_the_machine_s_memory() {
        let held = |offload: Option<&Offload>| {
            let MemoryUse { weights_bytes, kv_bytes, device_bytes } =
                MemoryUse::of(&ESTIMATE, offload);
            [weights_bytes, kv_bytes, device_bytes]
        };
        assert_eq!(held(None), [800, 80, 0]);
        assert_eq!(held(Some(&offload(8, true))), [0, 0, 880]);
        assert_eq!(held(Some(&offload(8, false))), [0, 80, 800]);
        assert_eq!(held(Some(&offload(2, true))), [600, 60, 220]);
    }

    #[test]
    fn what_a_device_that_shares_memory_frees_is_memory_of_the_machine() {
        let room = |held: Option<&Offload>, device_bytes, shares_memory| {
            let held = MemoryUse::of(&ESTIMATE, held);
            let Room { free_bytes, device_free_bytes } =
                Room::beside(held, Some(1_000), device_bytes, shares_memory);
            (free_bytes.unwrap(), device_free_bytes)
        };
        let whole = offload(8, true);
        assert_eq!(room(None, 0, false), (1_080, 0), "the processor");
        assert_eq!(room(Some(&whole), 500, false), (1_000, 1_380), "a card");
        assert_eq!(room(Some(&whole), 0, true), (1_880, 0), "a graphics unit");
        assert_eq!(room(Some(&whole), 500, true), (1_880, 500), "beside an unused card");
        assert_eq!(Room::beside(MemoryUse::default(), None, 0, true).free_bytes, None);
    }
}
