//! The layers, keyed alike, and the typed values that are picked from them.
//!
//! - An unknown name in file or environment is an error, with the closest known name.
//! - Paths in the file start from the file's directory; `~` is the home directory everywhere.
//! - An empty variable counts as unset.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::error::ConfigError;
use crate::file;
use crate::key::{Key, nearest};
use crate::parse::{self, Complaint, Raw};
use crate::paths::Places;
use crate::resolve::{Entry, Origin};
use crate::settings::{CacheType, ModelChoice};
use crate::sources::Sources;

/// What agents of the eliza family call some of the intervals, in milliseconds. Our own variables
/// win over theirs.
const IN_MILLISECONDS: [(&str, Key); 2] = [
    ("ELIZA_LOCAL_EVICTION_INTERVAL_MS", Key::SweepInterval),
    ("ELIZA_LOCAL_KEEPALIVE_INTERVAL_MS", Key::KeepaliveInterval),
];

/// What somebody set, by the strongest layer that sets it.
pub(crate) type Given = BTreeMap<Key, (Raw, Origin)>;

/// The layers, and what was picked from them so far.
pub(crate) struct Layers<'a> {
    places: &'a Places,
    set: Given,
    picked: BTreeMap<Key, Value>,
    warnings: Vec<String>,
}

impl<'a> Layers<'a> {
    pub(crate) fn of(sources: &'a Sources) -> Result<Self, ConfigError> {
        let mut set = sources.file.as_ref().map(file::read).transpose()?.unwrap_or_default();
        read_environment(&sources.env, &mut set)?;
        for key in Key::all() {
            if let Some(raw) = sources.flags.get(key) {
                set.insert(key, (raw.clone(), Origin::Flag { name: key.flag() }));
            }
        }
        Ok(Self { places: &sources.places, set, picked: BTreeMap::new(), warnings: Vec::new() })
    }

    /// The value that somebody set, or `None`.
    fn given<T>(
        &self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<T, Complaint>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((raw, origin)) = self.set.get(&key) else { return Ok(None) };
        parse(raw).map(Some).map_err(|Complaint { problem, remedy }| ConfigError::Invalid {
            key: key.name(),
            value: raw.to_string(),
            origin: origin.clone(),
            problem,
            remedy,
        })
    }

    /// The value that somebody set, or the table's default.
    fn pick<T>(
        &mut self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<T, Complaint>,
        show: impl Fn(&T) -> Value,
    ) -> Result<T, ConfigError> {
        let value = match self.given(key, &parse)? {
            Some(value) => value,
            None => parse(&Raw::Text(key.row().default.to_owned()))
                .expect("the defaults of the table are valid, which a test checks"),
        };
        self.picked.insert(key, show(&value));
        Ok(value)
    }

    pub(crate) fn value<T: fmt::Display>(
        &mut self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<T, Complaint>,
    ) -> Result<T, ConfigError> {
        self.pick(key, parse, |value| Value::from(value.to_string()))
    }

    pub(crate) fn optional<T: fmt::Display>(
        &mut self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<T, Complaint>,
    ) -> Result<Option<T>, ConfigError> {
        let value = self.given(key, parse)?;
        self.picked.insert(key, value.as_ref().map(T::to_string).into());
        Ok(value)
    }

    pub(crate) fn number(&mut self, key: Key, least: u64, most: u64) -> Result<u64, ConfigError> {
        self.pick(key, |raw| parse::number(raw, least..=most), |value| Value::from(*value))
    }

    pub(crate) fn bytes(&mut self, key: Key, least: u64) -> Result<u64, ConfigError> {
        self.pick(key, |raw| parse::bytes(raw, least..=u64::MAX), |value| Value::from(*value))
    }

    pub(crate) fn seconds(&mut self, key: Key) -> Result<Duration, ConfigError> {
        let most = 10 * 365 * 24 * 3600; // Ten years: far from where adding to a clock overflows.
        Ok(Duration::from_secs(self.number(key, 1, most)?))
    }

    pub(crate) fn duration(&mut self, key: Key) -> Result<Duration, ConfigError> {
        self.pick(key, parse::duration, |value| Value::from(value.as_secs_f64()))
    }

    /// A duration that is raised to `least` when it is shorter, with a warning.
    pub(crate) fn duration_of_at_least(
        &mut self,
        key: Key,
        least: Duration,
    ) -> Result<Duration, ConfigError> {
        let given = self.duration(key)?;
        if given >= least {
            return Ok(given);
        }
        if let Some((raw, origin)) = self.set.get(&key) {
            let (name, secs) = (key.name(), least.as_secs());
            self.warnings.push(format!(
                "{name} = {raw} ({origin}) is shorter than {secs} seconds: {secs} seconds are taken"
            ));
        }
        self.picked.insert(key, Value::from(least.as_secs_f64()));
        Ok(least)
    }

    pub(crate) fn switch(&mut self, key: Key) -> Result<bool, ConfigError> {
        self.pick(key, parse::switch, |value| Value::from(*value))
    }

    pub(crate) fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    pub(crate) fn list(&mut self, key: Key) -> Result<Vec<String>, ConfigError> {
        self.words(key, parse::list)
    }

    /// Several texts, told apart by `parse`.
    pub(crate) fn words(
        &mut self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<Vec<String>, Complaint>,
    ) -> Result<Vec<String>, ConfigError> {
        self.pick(key, parse, |value| Value::from(value.clone()))
    }

    pub(crate) fn cache_type(&mut self, key: Key) -> Result<CacheType, ConfigError> {
        self.value(key, |raw| parse::choice(raw, &CacheType::NAMES))
    }

    pub(crate) fn path(
        &mut self,
        key: Key,
        default: impl FnOnce() -> PathBuf,
    ) -> Result<PathBuf, ConfigError> {
        let path = self.given_path(key)?.unwrap_or_else(default);
        self.picked.insert(key, shown(&path));
        Ok(path)
    }

    pub(crate) fn optional_path(
        &mut self,
        key: Key,
        default: Option<PathBuf>,
    ) -> Result<Option<PathBuf>, ConfigError> {
        let path = self.given_path(key)?.or(default);
        self.picked.insert(key, path.as_deref().map_or(Value::Null, shown));
        Ok(path)
    }

    fn given_path(&self, key: Key) -> Result<Option<PathBuf>, ConfigError> {
        let text = self.given(key, parse::text)?;
        Ok(text.map(|text| self.base_of(key).join(self.places.expand(&text))))
    }

    /// A name is kept as it is; what can only be a path is treated as the other paths are.
    pub(crate) fn model(&mut self) -> Result<ModelChoice, ConfigError> {
        let choice = match self.given(Key::Model, parse::text)? {
            None => ModelChoice::Bundled,
            Some(name) if name == "bundled" => ModelChoice::Bundled,
            Some(name) if ["~/", "./", "../"].iter().any(|start| name.starts_with(start)) => {
                let path = self.base_of(Key::Model).join(self.places.expand(&name));
                ModelChoice::Named(path.to_string_lossy().into_owned())
            }
            Some(name) => ModelChoice::Named(name),
        };
        self.picked.insert(Key::Model, Value::from(choice.to_string()));
        Ok(choice)
    }

    /// The directory that a relative path of this key starts from; empty for the current one.
    fn base_of(&self, key: Key) -> PathBuf {
        match self.set.get(&key) {
            Some((_, Origin::File { path, .. })) => path.parent().unwrap_or(path).to_owned(),
            _ => PathBuf::new(),
        }
    }

    pub(crate) fn entry(&self, key: Key) -> Entry {
        let origin = self.set.get(&key).map_or(Origin::Default, |(_, origin)| origin.clone());
        Entry { key, value: self.picked.get(&key).cloned().unwrap_or_default(), origin }
    }
}

fn shown(path: &Path) -> Value {
    Value::from(path.to_string_lossy())
}

/// The key that a variable of others sets.
pub(crate) fn borrowed(variable: &str) -> Option<Key> {
    IN_MILLISECONDS.iter().find(|(name, _)| *name == variable).map(|(_, key)| *key)
}

fn read_environment(env: &[(String, String)], set: &mut Given) -> Result<(), ConfigError> {
    let given = || env.iter().filter(|(_, value)| !value.trim().is_empty());
    for (name, value) in given() {
        let Some(key) = borrowed(name) else { continue };
        let origin = Origin::Environment { name: name.clone() };
        set.insert(key, (Raw::Text(format!("{}ms", value.trim())), origin));
    }
    for (name, value) in given().filter(|(name, _)| borrowed(name).is_none()) {
        let Some(key) = Key::all().find(|key| key.variable() == *name) else {
            let suggestion = nearest(name.trim_start_matches("HOB_")).and_then(Key::named);
            return Err(ConfigError::Unknown {
                name: name.clone(),
                place: "the environment".to_owned(),
                suggestion: suggestion.map(Key::variable),
            });
        };
        let origin = Origin::Environment { name: name.clone() };
        set.insert(key, (Raw::Text(value.clone()), origin));
    }
    Ok(())
}
