//! What a build computes with, the devices besides the processor, and how much of a model they hold.

use std::fmt;

/// A device that can hold layers and KV: a graphics card, or a processor's graphics unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As the setting `device` has it: `CUDA0`, `Vulkan0`, …
    pub name: String,
    /// The maker's name of it.
    pub description: String,
    /// Memory that a model may take now. Devices report it as exactly as their drivers do.
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// Its memory is the machine's: what a model takes there is missing here.
    pub shares_memory: bool,
}

/// Where a loaded model is computed, when not on the processor alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Layers on devices. The output counts as one, as llama.cpp counts.
    pub layers: usize,
    pub all_layers: usize,
    /// The names of the devices.
    pub devices: Vec<String>,
    /// The layers on each of them, in their order. Empty where llama.cpp divided them by free memory.
    pub split: Vec<usize>,
    /// Whether the KV of these layers is there too.
    pub kv: bool,
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers, all_layers, devices, .. } = self;
        write!(f, "{layers} of {all_layers} layers on {}", devices.join(" and "))
    }
}

/// What this build computes with. Empty without `llama`, and where llama.cpp cannot start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// llama.cpp's backends for devices: `cuda`, `metal`, `rocm`, `vulkan`.
    pub backends: Vec<&'static str>,
    /// What llama.cpp uses of this processor, in its words: `AVX2`, `AVX512_VNNI`, …
    pub processor: Vec<String>,
    /// Instructions that this processor has and llama.cpp was not compiled with.
    pub unused: Vec<&'static str>,
}

/// See [`Build`].
pub fn build() -> Build {
    #[cfg(feature = "llama")]
    return super::llama::build();
    #[cfg(not(feature = "llama"))]
    return Build::default();
}

/// The devices that this build can use and this machine has, in llama.cpp's order. Empty without
/// `llama`. Asks the drivers for the free memory: some milliseconds, more on the first call.
pub fn devices() -> Vec<Device> {
    #[cfg(feature = "llama")]
    return super::llama::devices();
    #[cfg(not(feature = "llama"))]
    return Vec::new();
}
