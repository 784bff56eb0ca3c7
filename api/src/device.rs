//! What the daemon computes with, devices besides the processor, and what of the model they hold.

use serde::{Deserialize, Serialize};

use crate::Text;

/// What this daemon was built to compute with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    /// For devices: `cuda`, `metal`, `rocm`, `vulkan`. Empty: the processor alone.
    pub backends: Vec<Text>,
    /// What llama.cpp uses of the processor, in its words. Empty without llama.cpp.
    pub processor: Vec<Text>,
    /// Instructions that the processor has and this build does not use.
    pub unused: Vec<Text>,
}

/// A device that this daemon can use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// As the setting `device` has it.
    pub name: Text,
    /// What its maker calls it.
    pub description: Text,
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// Its memory is the machine's.
    pub shares_memory: bool,
}

/// The layers of the running model on devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offload {
    /// The output counts as one.
    pub layers: usize,
    pub all_layers: usize,
    /// By name.
    pub devices: Vec<Text>,
    /// The layers on each of `devices`. Empty where llama.cpp divided them by free memory.
    pub split: Vec<usize>,
    /// Whether the KV of these layers is there too.
    pub kv: bool,
}
