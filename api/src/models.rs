//! The memory for models.

use serde::{Deserialize, Serialize};

/// The memory that a switch to another model would find, in `GET /v1/models/local`. The switch frees the running
/// model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelMemory {
    /// Free memory of the machine. `None` where the system does not report it.
    pub free_bytes: Option<u64>,
    /// The running model's weights, as far as they are in the machine's memory.
    pub current_weights_bytes: u64,
    /// Free memory of the devices that have their own.
    pub device_free_bytes: u64,
}
