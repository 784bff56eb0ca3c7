//! What the settings say about devices besides the processor, and the memory that these have.

use hob_config::{GpuLayers, Settings};
use hob_models::Available;
use hob_runtime::Model;
use hob_runtime::backend::{Build, Device, Offload, build, devices};

/// The settings that decide whether a model's weights and KV are on devices, and on which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Whether layers and their KV go there.
    is_used: bool,
    /// By name; empty means all.
    names: Vec<String>,
}

impl DeviceSettings {
    pub fn of(settings: &Settings) -> Self {
        Self {
            is_used: settings.gpu_layers != GpuLayers::Count(0) && settings.kv_offload,
            names: settings.device.clone(),
        }
    }

    /// The memory for weights and context, of which `host_bytes` are the machine's. Asks the drivers.
    pub fn available(&self, host_bytes: u64) -> Available {
        self.available_with(host_bytes, &devices())
    }

    /// Whether a device of this name gets layers and KV into memory of its own. One that shares the machine's memory
    /// adds none.
    pub fn uses(&self, name: &str, shares_memory: bool) -> bool {
        let mut names = self.names.iter();
        let is_named = self.names.is_empty() || names.any(|it| it.eq_ignore_ascii_case(name));
        self.is_used && !shares_memory && is_named
    }

    fn available_with(&self, host_bytes: u64, devices: &[Device]) -> Available {
        let used = devices.iter().filter(|device| self.uses(&device.name, device.shares_memory));
        let device_bytes = used.map(|device| device.free_bytes).sum();
        Available { host_bytes, device_bytes }
    }
}

/// Whether all devices of these names share the machine's memory. Asks the drivers.
pub fn share_memory(names: &[String]) -> bool {
    all_share_memory(names, &devices())
}

fn all_share_memory(names: &[String], devices: &[Device]) -> bool {
    let shares = |name: &String| devices.iter().any(|it| it.name == *name && it.shares_memory);
    names.iter().all(shares)
}

/// Logs the settings that ask for devices where there is none. A `device` by name is refused elsewhere.
#[cfg(feature = "llama")]
pub fn log_unused(settings: &Settings) {
    let unused = unused_settings(
        settings.gpu_layers,
        !settings.tensor_split.is_empty(),
        settings.kv_offload,
    )
    .join(", ");
    if !unused.is_empty() && devices().is_empty() {
        tracing::warn!(
            settings = unused,
            "this hobd has no device, by its build or on this machine: the processor computes all layers; \
             `cargo xtask run --gpu cuda|vulkan|metal|rocm` builds for one"
        );
    }
}

/// The settings that are without effect on a processor.
#[cfg(any(feature = "llama", test))]
fn unused_settings(layers: GpuLayers, is_split: bool, kv_offload: bool) -> Vec<&'static str> {
    let settings = [
        ("gpu_layers", matches!(layers, GpuLayers::Count(1..))),
        ("tensor_split", is_split),
        ("kv_offload", !kv_offload),
    ];
    settings.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
}

/// What this daemon computes with, as an answer has it.
pub fn built() -> hob_api::Build {
    let Build { backends, processor, unused } = build();
    hob_api::Build {
        backends: backends.into_iter().map(Into::into).collect(),
        processor: processor.into_iter().map(Into::into).collect(),
        unused: unused.into_iter().map(Into::into).collect(),
    }
}

/// The devices of this machine, as an answer has them. Asks the drivers.
pub fn here() -> Vec<hob_api::Device> {
    let device = |device: Device| hob_api::Device {
        name: device.name.into(),
        description: device.description.into(),
        free_bytes: device.free_bytes,
        total_bytes: device.total_bytes,
        shares_memory: device.shares_memory,
    };
    devices().into_iter().map(device).collect()
}

/// What of the loaded model is on devices, as an answer has it.
pub fn offload_of(model: &dyn Model) -> Option<hob_api::Offload> {
    let Offload { layers, all_layers, devices, split, kv } = model.offload()?;
    let devices = devices.into_iter().map(Into::into).collect();
    Some(hob_api::Offload { layers, all_layers, devices, split, kv })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, free_bytes: u64, shares_memory: bool) -> Device {
        let (name, description) = (name.to_owned(), String::new());
        Device { name, description, free_bytes, total_bytes: free_bytes, shares_memory }
    }

    #[test]
    fn settings_that_ask_for_a_device_are_named() {
        assert!(unused_settings(GpuLayers::Auto, false, true).is_empty());
        assert!(unused_settings(GpuLayers::Count(0), false, true).is_empty());
        let all = ["gpu_layers", "tensor_split", "kv_offload"];
        assert_eq!(unused_settings(GpuLayers::Count(20), true, false), all);
    }

    #[test]
    fn devices_that_are_used_and_have_memory_of_their_own_add_it() {
        let here = [device("CUDA0", 20, false), device("CUDA1", 3, false), device("MTL0", 9, true)];
        let device_bytes = |is_used, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            DeviceSettings { is_used, names }.available_with(7, &here).device_bytes
        };
        assert_eq!(device_bytes(true, &[]), 23);
        assert_eq!(device_bytes(true, &["cuda1"]), 3);
        assert_eq!(device_bytes(true, &["MTL0"]), 0);
        assert_eq!(device_bytes(false, &[]), 0);
        let all_share = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            all_share_memory(&names, &here)
        };
        assert!(all_share(&["MTL0"]));
        assert!(!all_share(&["CUDA0"]) && !all_share(&["CUDA0", "MTL0"]) && !all_share(&["gone"]));
    }
}
