//! The settings that clients may change while the daemon runs.
//!
//! - A flag or a variable is stronger than the configuration file, so a client cannot change what it
//!   sets.
//! - What is in force at once is written into the file at once. What the model is loaded with is
//!   written once the model is loaded with it: if that fails, the settings before are in force again.
//!   A request for both changes all of them then.
//!
//! Reading order: this file (what may be changed, and how), [`live`] (the values).

pub mod live;

use hob_config::{ConfigError, ContextChoice, EditError, Key};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::blocking::compute;
use crate::error::{ApiError, ErrorKind};
use crate::models::Models;
use crate::wire::fields::whole;
pub use live::{Changes, LiveSettings};

/// When a change is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Applies {
    Now,
    /// The daemon restarts within its process and loads the model again.
    Reload,
}

/// The settings that a request may change. The disk quota has a route of its own.
const EDITABLE: [(Key, Applies); 6] = [
    (Key::Ctx, Applies::Reload),
    (Key::Slots, Applies::Reload),
    (Key::Threads, Applies::Reload),
    (Key::MemoryBudgetBytes, Applies::Reload),
    (Key::UnloadAfter, Applies::Reload),
    (Key::DefaultTtl, Applies::Now),
];

/// Reads and changes settings. Clones share everything.
#[derive(Clone)]
pub struct SettingsEditor {
    pub live: LiveSettings,
    pub models: Models,
}

/// One setting, as it is in force.
#[derive(Debug, Serialize)]
pub struct Setting {
    key: &'static str,
    /// As `hob config show --json` has it.
    value: Value,
    /// As one writes it into the file.
    written: String,
    default: &'static str,
    /// What sets it: `default`, the file, a variable, or a flag.
    origin: String,
    /// The variable or the flag that a request cannot override.
    fixed: Option<String>,
    applies: Applies,
}

#[derive(Debug, thiserror::Error)]
enum SettingError {
    #[error("`{name}` is not among the settings that a request may change: GET lists them")]
    Unknown { name: String },
    #[error("`{name}` takes a number or a text")]
    Type { name: &'static str },
    #[error(
        "the {origin} sets `{name}` of this daemon: start hobd without it, or with the value that \
         you want"
    )]
    Fixed { name: &'static str, origin: String },
    #[error(transparent)]
    Invalid(#[from] ConfigError),
    #[error(transparent)]
    Unwritable(#[from] EditError),
}

impl SettingsEditor {
    /// The settings that a request may change.
    pub fn list(&self) -> Vec<Setting> {
        let resolved = self.live.get();
        let file = resolved.config_file().display().to_string();
        let setting = |(key, applies): (Key, Applies)| {
            let entry = &resolved.entries[key as usize];
            let fixed = resolved.fixed(key).map(ToString::to_string);
            let is_saved = entry.origin == hob_config::Origin::Client && fixed.is_none();
            Setting {
                key: key.name(),
                value: entry.value.clone(),
                written: entry.written(),
                default: key.row().default,
                origin: if is_saved { file.clone() } else { entry.origin.to_string() },
                fixed,
                applies,
            }
        };
        EDITABLE.map(setting).into()
    }

    /// Changes these settings. Returns whether the daemon restarts for it. `force`: even if memory is
    /// short for the new context.
    ///
    /// # Errors
    /// When one of them is unknown, invalid or fixed: then none is changed.
    pub async fn change(&self, wanted: Map<String, Value>, force: bool) -> Result<bool, ApiError> {
        let editor = self.clone();
        let now = (self.models.clock)();
        let reads_models = [Key::Ctx, Key::Slots].iter().any(|key| wanted.contains_key(key.name()));
        let job = move || -> Result<bool, ApiError> {
            let (at_once, mut reloading) = editor.checked(wanted)?;
            if reloading.is_empty() {
                editor.live.save(&at_once).map_err(SettingError::from)?;
                editor.live.choose(&at_once).map_err(SettingError::from)?;
                return Ok(false);
            }
            let is_new = |key: &Key| reloading.iter().any(|(other, _)| other == key);
            if is_new(&Key::Ctx) || is_new(&Key::Slots) {
                let wanted = editor.live.get().with(&reloading).map_err(SettingError::from)?;
                let (ctx, slots) = (wanted.settings.ctx.tokens(), wanted.settings.slots.into());
                if !force {
                    editor.models.catalogue.check_context(ctx, slots, now)?;
                }
            }
            // Together: another restart may be under way, and then none is changed.
            reloading.extend(at_once);
            editor.models.catalogue.switch_request().submit(reloading)?;
            Ok(true)
        };
        if reads_models {
            self.models.catalogue.in_turn(move |_| job()).await
        } else {
            compute(job).await
        }
    }

    /// A context, as the file would have it.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn context(&self, value: Value) -> Result<ContextChoice, ApiError> {
        let change = (Key::Ctx, text(Key::Ctx, value)?);
        let changed = self.live.get().with(&[change]).map_err(SettingError::from)?;
        Ok(changed.settings.ctx)
    }

    /// The changes in force at once, and those that need the model to be loaded again. What is in
    /// force already is left out.
    fn checked(&self, wanted: Map<String, Value>) -> Result<(Changes, Changes), SettingError> {
        let resolved = self.live.get();
        let (mut at_once, mut reloading) = (Changes::new(), Changes::new());
        for (name, value) in wanted {
            let known = EDITABLE.iter().find(|(key, _)| key.name() == name);
            let Some(&(key, applies)) = known else { return Err(SettingError::Unknown { name }) };
            if let Some(origin) = resolved.fixed(key) {
                let origin = origin.to_string();
                return Err(SettingError::Fixed { name: key.name(), origin });
            }
            let change = (key, text(key, value)?);
            let changed = resolved.with(std::slice::from_ref(&change))?;
            if changed.entries[key as usize].value == resolved.entries[key as usize].value {
                continue;
            }
            match applies {
                Applies::Now => at_once.push(change),
                Applies::Reload => reloading.push(change),
            }
        }
        Ok((at_once, reloading))
    }
}

fn text(key: Key, value: Value) -> Result<String, SettingError> {
    let whole = whole(&value);
    match value {
        Value::Number(number) => Ok(whole.map_or_else(|| number.to_string(), |it| it.to_string())),
        Value::String(text) => Ok(text),
        _ => Err(SettingError::Type { name: key.name() }),
    }
}

impl From<SettingError> for ApiError {
    fn from(error: SettingError) -> Self {
        let message = error.to_string();
        match error {
            SettingError::Unknown { name } => Self::field(&name, message).code("unknown_setting"),
            SettingError::Type { name } => Self::field(name, message).code("invalid_type"),
            SettingError::Fixed { name, .. } => {
                Self::new(ErrorKind::Conflict, message).param(name).code("setting_fixed")
            }
            SettingError::Invalid(ConfigError::Invalid { key, .. }) => Self::field(key, message),
            SettingError::Invalid(_) => Self::new(ErrorKind::Invalid, message),
            SettingError::Unwritable(error) => {
                Self::internal(message).code("settings_file").unless_disk_full(&error)
            }
        }
    }
}
