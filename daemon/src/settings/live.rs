//! The settings of this process, as its layers and its clients set them. They outlive a restart within
//! the process.

use std::sync::Arc;

use hob_config::{ConfigError, EditError, Key, Resolved, edit};
use hob_slots::TtlClass;
use parking_lot::Mutex;

use crate::storage::sweep;

/// Values that a client chose, as the configuration file would have them.
pub type Changes = Vec<(Key, String)>;

/// Clones share the settings.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    resolved: Arc<Mutex<Resolved>>,
}

impl LiveSettings {
    pub fn new(resolved: Resolved) -> Self {
        Self { resolved: Arc::new(Mutex::new(resolved)) }
    }

    pub fn get(&self) -> Resolved {
        self.resolved.lock().clone()
    }

    /// The class of conversations with stored text for which none was asked.
    pub fn default_class(&self) -> TtlClass {
        sweep::default_class(&self.resolved.lock().settings)
    }

    /// Replaces the settings that later reads return. Returns the settings before.
    ///
    /// # Errors
    /// When a value is invalid: then nothing changes.
    pub fn choose(&self, changes: &Changes) -> Result<Resolved, ConfigError> {
        let mut resolved = self.resolved.lock();
        let changed = resolved.with(changes)?;
        Ok(std::mem::replace(&mut resolved, changed))
    }

    pub fn replace(&self, resolved: Resolved) {
        *self.resolved.lock() = resolved;
    }

    /// Writes these values into the configuration file, except those that a flag or a variable sets
    /// for every start. Blocks.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, changes: &Changes) -> Result<(), EditError> {
        let resolved = self.get();
        let file = resolved.config_file();
        for (key, value) in changes.iter().filter(|(key, _)| resolved.fixed(*key).is_none()) {
            match value.parse::<i64>() {
                Ok(number) => edit::set(&file, *key, number)?,
                Err(_) => edit::set(&file, *key, value.as_str())?,
            }
        }
        Ok(())
    }
}
