//! The memory for models.

use serde::{Deserialize, Serialize};

/// Of `GET /v1/models/local`: memory for another model than the running one, which a switch frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelMemory {
    /// Of the machine. `None` where the system does not report what is free.
    pub free_bytes: Option<u64>,
    /// Of the running model's weights, what is in the machine's memory.
    pub current_weights_bytes: u64,
    /// Of devices with memory of their own.
    pub device_free_bytes: u64,
}
