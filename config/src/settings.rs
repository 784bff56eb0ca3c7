//! The settings as the rest of the program sees them: typed, checked, complete.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::error::ConfigError;
use crate::key::Key;
use crate::layers::Layers;
use crate::parse;
use crate::paths::{self, UserDirs};
use crate::table::settings_table;
use crate::values::{
    Adapter, CacheType, ContextChoice, DraftChoice, EvictionChoice, GpuLayers, LossyChoice,
    ModelChoice, NamedAdapter, OpenRoutes, SharedPlace, TtlClass,
};
use crate::voice;

macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        #[setting($($facts:tt)*)]
        $key:ident => $field:ident: $type:ty = $reader:ident($($bounds:tt)*);
    )+) => {
        /// Everything that can be set, resolved.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings { $( $(#[doc = $help])+ pub $field: $type, )+ }

        impl Settings {
            pub(crate) fn read(layers: &mut Layers<'_>) -> Result<Self, ConfigError> {
                $( let $field = layers.$reader(Key::$key, $($bounds)*)?; )+
                Ok(Self { $( $field, )+ })
            }
        }
    };
}

/// Some four seconds of a disk that writes 64 MiB a second.
const MIN_UNSAVED_BYTES: u64 = 256 << 20;

static ASSUMED_UNSAVED_BYTES: OnceLock<u64> = OnceLock::new();

/// From now on at most `bytes` of KV wait for the disk, whatever memory the machine has. For tests of slow disks.
pub fn assume_unsaved_budget_bytes(bytes: u64) {
    ASSUMED_UNSAVED_BYTES.set(bytes).ok(); // An error: the first one stays.
}

settings_table!(settings);

impl Settings {
    /// Size of the warm pool on a machine with `ram_bytes` of memory: the setting, or else an
    /// eighth of the memory.
    pub fn warm_budget_bytes(&self, ram_bytes: u64) -> u64 {
        match self.memory_budget_bytes {
            0 => ram_bytes / 8,
            set => set,
        }
    }

    /// Host memory for KV that waits for the disk, on a machine with `ram_bytes` of memory: a
    /// sixteenth, and [`MIN_UNSAVED_BYTES`] at least.
    pub fn unsaved_budget_bytes(&self, ram_bytes: u64) -> u64 {
        let of_memory = (ram_bytes / 16).max(MIN_UNSAVED_BYTES);
        ASSUMED_UNSAVED_BYTES.get().copied().unwrap_or(of_memory)
    }
}
