//! Devices in words.

use hob_api::{Device, Offload};

use super::{plain, size};

/// `Vulkan0 (llvmpipe): 15.2 GiB of 23.4 GiB free`
pub fn device_words(device: &Device) -> String {
    let Device { name, description, free_bytes, total_bytes, shares_memory } = device;
    let shared = if *shares_memory { ", of the machine's memory" } else { "" };
    let (free, total) = (size(*free_bytes), size(*total_bytes));
    format!("{} ({}): {free} of {total} free{shared}", plain(name), plain(description))
}

/// `29 of 29 layers on CUDA0`
pub fn layer_words(offload: &Offload) -> String {
    let Offload { layers, all_layers, devices, kv } = offload;
    let names: Vec<_> = devices.iter().map(|name| plain(name)).collect();
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
        let offload = Offload { layers: 20, all_layers: 29, devices, kv: false };
        assert_eq!(layer_words(&offload), "20 of 29 layers on CUDA0 and CUDA1, without their KV");
    }
}
