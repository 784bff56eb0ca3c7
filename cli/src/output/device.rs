//! Devices in words.

use hob_api::{Device, Offload, Text};

use super::{plain, size};

/// `Vulkan0 (llvmpipe): 15.2 GiB of 23.4 GiB free`
pub fn device_words(device: &Device) -> String {
    let Device { name, description, free_bytes, total_bytes, shares_memory } = device;
    let shared = if *shares_memory { ", of the machine's memory" } else { "" };
    let (free, total) = (size(*free_bytes), size(*total_bytes));
    format!("{} ({}): {free} of {total} free{shared}", plain(name), plain(description))
}

/// `29 of 29 layers on CUDA0`, or `29 of 29 layers on CUDA0 (22) and CUDA1 (7)`
pub fn layer_words(offload: &Offload) -> String {
    let Offload { layers, all_layers, devices, split, kv } = offload;
    let is_divided = devices.len() > 1 && split.len() == devices.len();
    let words = |(at, name): (usize, &Text)| match split.get(at).filter(|_| is_divided) {
        Some(of_it) => format!("{} ({of_it})", plain(name)),
        None => plain(name),
    };
    let names: Vec<_> = devices.iter().enumerate().map(words).collect();
    let kv = if *kv { "" } else { ", without their KV" };
    format!("{layers} of {all_layers} layers on {}{kv}", names.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_described_with_its_memory_and_the_layers_that_it_has() {
        let device = Device {
            name: "CUDA0".into(),
            description: "a card".into(),
            free_bytes: 1 << 30,
            total_bytes: 8 << 30,
            shares_memory: false,
        };
        assert_eq!(device_words(&device), "CUDA0 (a card): 1.0 GiB of 8.0 GiB free");
        let devices = vec!["CUDA0".into(), "CUDA1".into()];
        let offload =
            Offload { layers: 20, all_layers: 29, devices, kv: false, ..Offload::default() };
        assert_eq!(layer_words(&offload), "20 of 29 layers on CUDA0 and CUDA1, without their KV");
        let divided = Offload { split: vec![15, 5], kv: true, ..offload };
        assert_eq!(layer_words(&divided), "20 of 29 layers on CUDA0 (15) and CUDA1 (5)");
    }
}
