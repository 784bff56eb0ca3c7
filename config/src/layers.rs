//! The layers merged by key, and a reader for each kind of setting.
//!
//! - An unknown name in file or environment is an error, with the closest known name.
//! - Paths in the file start from the file's directory; `~` is the home directory everywhere.
//! - An empty variable counts as unset.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::error::ConfigError;
use crate::file;
use crate::flags::Flags;
use crate::key::{Key, nearest};
use crate::origin::{Entry, GivenValues, Origin};
use crate::parse::{self, InvalidValue, Raw};
use crate::paths::UserDirs;
use crate::sources::Sources;
use crate::values::{
    Adapter, CacheType, ContextChoice, DraftChoice, EvictionChoice, GpuLayers, LossyChoice,
    ModelChoice, NamedAdapter, OpenRoutes, TtlClass,
};

/// Ten years: far from where adding to a clock overflows.
const MAX_SECS: u64 = 10 * 365 * 24 * 3600;

/// The given values, and those read so far.
pub(crate) struct Layers<'a> {
    sources: &'a Sources,
    given: GivenValues,
    read: BTreeMap<Key, Value>,
    warnings: Vec<String>,
}

impl<'a> Layers<'a> {
    pub(crate) fn of(sources: &'a Sources) -> Result<Self, ConfigError> {
        let mut given = sources.file.as_ref().map(file::read).transpose()?.unwrap_or_default();
        read_environment(&sources.env, &mut given)?;
        for key in Key::all() {
            if let Some(raw) = sources.flags.get(key) {
                given.insert(key, (raw.clone(), Origin::Flag { name: key.flag() }));
            }
        }
        Ok(Self { sources, given, read: BTreeMap::new(), warnings: Vec::new() })
    }

    /// Puts these values over every layer. Returns the layers that they override.
    pub(crate) fn choose(&mut self, chosen: &Flags) -> BTreeMap<Key, Origin> {
        let mut beneath = BTreeMap::new();
        for key in Key::all() {
            let Some(raw) = chosen.get(key) else { continue };
            let before = self.given.insert(key, (raw.clone(), Origin::Client));
            beneath.insert(key, before.map_or(Origin::Default, |(_, origin)| origin));
        }
        beneath
    }

    /// The given value, or `None`.
    fn given<T>(
        &self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<T, InvalidValue>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((raw, origin)) = self.given.get(&key) else { return Ok(None) };
        parse(raw).map(Some).map_err(|InvalidValue { problem, remedy }| ConfigError::Invalid {
            key: key.name(),
            value: raw.to_string(),
            origin: origin.clone(),
            problem,
            remedy,
        })
    }

    /// The given value, or the table's default.
    fn read<T>(
        &mut self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<T, InvalidValue>,
        show: impl Fn(&T) -> Value,
    ) -> Result<T, ConfigError> {
        let value = match self.given(key, &parse)? {
            Some(value) => value,
            None => parse(&Raw::Text(key.row().default.to_owned()))
                .expect("the defaults of the table are valid, which a test checks"),
        };
        self.read.insert(key, show(&value));
        Ok(value)
    }

    pub(crate) fn value<T: fmt::Display>(
        &mut self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<T, InvalidValue>,
    ) -> Result<T, ConfigError> {
        self.read(key, parse, |value| Value::from(value.to_string()))
    }

    pub(crate) fn optional<T: fmt::Display>(
        &mut self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<T, InvalidValue>,
    ) -> Result<Option<T>, ConfigError> {
        let value = self.given(key, parse)?;
        self.read.insert(key, value.as_ref().map(T::to_string).into());
        Ok(value)
    }

    pub(crate) fn number<T>(&mut self, key: Key, range: RangeInclusive<T>) -> Result<T, ConfigError>
    where
        T: Copy + TryInto<u64> + TryFrom<u64>,
    {
        let bound = |end: &T| (*end).try_into().ok().expect("bounds are not negative");
        let range = bound(range.start())..=bound(range.end());
        let number =
            self.read(key, |raw| parse::number(raw, range.clone()), |number| (*number).into())?;
        Ok(T::try_from(number).ok().expect("the bounds have the number's type"))
    }

    pub(crate) fn bytes<T: TryFrom<u64>>(
        &mut self,
        key: Key,
        min_bytes: u64,
    ) -> Result<T, ConfigError> {
        let bytes =
            self.read(key, |raw| parse::bytes(raw, min_bytes..=u64::MAX), |bytes| (*bytes).into())?;
        Ok(T::try_from(bytes).ok().expect("an address has 64 bits"))
    }

    pub(crate) fn seconds(&mut self, key: Key) -> Result<Duration, ConfigError> {
        Ok(Duration::from_secs(self.number(key, 1..=MAX_SECS)?))
    }

    pub(crate) fn duration(&mut self, key: Key) -> Result<Duration, ConfigError> {
        self.read(key, parse::duration, |span| Value::from(span.as_secs_f64()))
    }

    pub(crate) fn duration_unless_zero(
        &mut self,
        key: Key,
    ) -> Result<Option<Duration>, ConfigError> {
        Ok(Some(self.duration(key)?).filter(|span| !span.is_zero()))
    }

    /// A duration that is raised to `min` when it is shorter, with a warning.
    pub(crate) fn duration_of_at_least(
        &mut self,
        key: Key,
        min: Duration,
    ) -> Result<Duration, ConfigError> {
        let span = self.duration(key)?;
        if span >= min {
            return Ok(span);
        }
        if let Some((raw, origin)) = self.given.get(&key) {
            let (name, secs) = (key.name(), min.as_secs());
            self.warnings.push(format!(
                "{name} = {raw} ({origin}) is shorter than {secs} seconds; hobd uses {secs} seconds"
            ));
        }
        self.read.insert(key, Value::from(min.as_secs_f64()));
        Ok(min)
    }

    pub(crate) fn switch(&mut self, key: Key) -> Result<bool, ConfigError> {
        self.read(key, parse::switch, |value| Value::from(*value))
    }

    /// Open routes are refused at an address that other machines can reach, and warned of elsewhere.
    pub(crate) fn open_routes(
        &mut self,
        key: Key,
        listen: SocketAddr,
    ) -> Result<OpenRoutes, ConfigError> {
        let parse = |raw: &Raw| {
            let open = parse::choice(raw, &OpenRoutes::NAMES)?;
            if open != OpenRoutes::None && !listen.ip().is_loopback() {
                let remedy = "set listen to a loopback address, such as 127.0.0.1:8642";
                return Err(parse::invalid("needs a loopback address for listen", remedy));
            }
            Ok(open)
        };
        let open = self.value(key, parse)?;
        if open != OpenRoutes::None {
            let name = key.name();
            self.warnings.push(format!(
                "{name} = {open}: every program on this machine, of any user, may use the routes of \
                 {open} without the token"
            ));
        }
        Ok(open)
    }

    /// Several texts, which `parse` separates.
    pub(crate) fn texts(
        &mut self,
        key: Key,
        parse: impl Fn(&Raw) -> Result<Vec<String>, InvalidValue>,
    ) -> Result<Vec<String>, ConfigError> {
        self.read(key, parse, |texts| Value::from(texts.clone()))
    }

    pub(crate) fn context(&mut self, key: Key) -> Result<ContextChoice, ConfigError> {
        self.read(key, parse::context, |choice| match choice.tokens() {
            Some(tokens) => tokens.into(),
            None => choice.to_string().into(),
        })
    }

    pub(crate) fn gpu_layers(&mut self, key: Key) -> Result<GpuLayers, ConfigError> {
        self.read(key, parse::gpu_layers, |layers| match layers {
            GpuLayers::Count(count) => (*count).into(),
            GpuLayers::Auto => layers.to_string().into(),
        })
    }

    /// `auto` divides the layers itself, by what fits on each device.
    pub(crate) fn tensor_split(
        &mut self,
        key: Key,
        layers: GpuLayers,
    ) -> Result<Vec<u32>, ConfigError> {
        let parse = |raw: &Raw| {
            let parts = parse::parts(raw)?;
            if layers == GpuLayers::Auto && !parts.is_empty() {
                let remedy = "set gpu_layers to a number, 99 for all, or leave tensor_split out";
                return Err(parse::invalid("does not go with gpu_layers = \"auto\"", remedy));
            }
            Ok(parts)
        };
        self.read(key, parse, |parts| Value::from(parts.clone()))
    }

    pub(crate) fn adapters(&mut self, key: Key) -> Result<Vec<Adapter>, ConfigError> {
        let given = self.given(key, parse::adapters)?.unwrap_or_default();
        let adapters: Vec<Adapter> = given
            .into_iter()
            .map(|(path, scale)| Adapter { path: self.resolved_path(key, &path), scale })
            .collect();
        let shown: Vec<String> = adapters.iter().map(Adapter::to_string).collect();
        self.read.insert(key, shown.into());
        Ok(adapters)
    }

    pub(crate) fn named_adapters(&mut self, key: Key) -> Result<Vec<NamedAdapter>, ConfigError> {
        let given = self.given(key, parse::named_adapters)?.unwrap_or_default();
        let adapters: Vec<NamedAdapter> = given
            .into_iter()
            .map(|(name, path)| NamedAdapter { name, path: self.resolved_path(key, &path) })
            .collect();
        let shown: Vec<String> = adapters.iter().map(NamedAdapter::to_string).collect();
        self.read.insert(key, shown.into());
        Ok(adapters)
    }

    pub(crate) fn cache_type(&mut self, key: Key) -> Result<CacheType, ConfigError> {
        self.value(key, |raw| parse::choice(raw, &CacheType::NAMES))
    }

    pub(crate) fn draft(&mut self, key: Key) -> Result<DraftChoice, ConfigError> {
        self.value(key, |raw| parse::choice(raw, &DraftChoice::NAMES))
    }

    pub(crate) fn eviction(&mut self, key: Key) -> Result<EvictionChoice, ConfigError> {
        self.value(key, |raw| parse::choice(raw, &EvictionChoice::NAMES))
    }

    pub(crate) fn lossy(&mut self, key: Key) -> Result<LossyChoice, ConfigError> {
        self.value(key, |raw| parse::choice(raw, &LossyChoice::NAMES))
    }

    pub(crate) fn ttl_class(&mut self, key: Key) -> Result<TtlClass, ConfigError> {
        self.value(key, |raw| parse::choice(raw, &TtlClass::NAMES))
    }

    pub(crate) fn path(
        &mut self,
        key: Key,
        default: impl FnOnce(&UserDirs) -> PathBuf,
    ) -> Result<PathBuf, ConfigError> {
        let path = self.given_path(key)?.unwrap_or_else(|| default(&self.sources.user_dirs));
        self.read.insert(key, shown(&path));
        Ok(path)
    }

    pub(crate) fn optional_path(&mut self, key: Key) -> Result<Option<PathBuf>, ConfigError> {
        self.path_or(key, None)
    }

    /// The file that was read, unless flag or variable name another.
    pub(crate) fn config_file(&mut self, key: Key) -> Result<Option<PathBuf>, ConfigError> {
        self.path_or(key, self.sources.file.as_ref().map(|file| file.path.clone()))
    }

    fn path_or(
        &mut self,
        key: Key,
        default: Option<PathBuf>,
    ) -> Result<Option<PathBuf>, ConfigError> {
        let path = self.given_path(key)?.or(default);
        self.read.insert(key, path.as_deref().map_or(Value::Null, shown));
        Ok(path)
    }

    fn given_path(&self, key: Key) -> Result<Option<PathBuf>, ConfigError> {
        let text = self.given(key, parse::text)?;
        Ok(text.map(|text| self.resolved_path(key, &text)))
    }

    /// A name stays as it is; what can only be a path is resolved as the other paths are.
    pub(crate) fn model(&mut self, key: Key) -> Result<ModelChoice, ConfigError> {
        let choice = self.given_model(key)?.unwrap_or(ModelChoice::Bundled);
        self.read.insert(key, Value::from(choice.to_string()));
        Ok(choice)
    }

    pub(crate) fn optional_model(&mut self, key: Key) -> Result<Option<ModelChoice>, ConfigError> {
        let choice = self.given_model(key)?;
        self.read.insert(key, choice.as_ref().map(ModelChoice::to_string).into());
        Ok(choice)
    }

    fn given_model(&self, key: Key) -> Result<Option<ModelChoice>, ConfigError> {
        Ok(self.given(key, parse::text)?.map(|name| match name.as_str() {
            "bundled" => ModelChoice::Bundled,
            name if is_path(name) => {
                let path = self.resolved_path(key, name);
                ModelChoice::Named(path.to_string_lossy().into_owned())
            }
            _ => ModelChoice::Named(name),
        }))
    }

    fn resolved_path(&self, key: Key, text: &str) -> PathBuf {
        self.base_of(key).join(self.sources.user_dirs.expand(text))
    }

    /// The directory that a relative path of this key starts from; empty for the current one.
    fn base_of(&self, key: Key) -> PathBuf {
        match self.given.get(&key) {
            Some((_, Origin::File { path, .. })) => path.parent().unwrap_or(path).to_owned(),
            _ => PathBuf::new(),
        }
    }

    /// One entry a key, in the order of the table, and the warnings.
    pub(crate) fn finish(mut self) -> (Vec<Entry>, Vec<String>) {
        let entry = |key| {
            let (_, origin) = self.given.remove(&key).unzip();
            let value = self.read.remove(&key).unwrap_or_default();
            Entry { key, value, origin: origin.unwrap_or(Origin::Default) }
        };
        (Key::all().map(entry).collect(), self.warnings)
    }
}

/// Whether the text can only be a path: no model's name begins so, and none has both a directory and the ending.
fn is_path(text: &str) -> bool {
    let path = Path::new(text);
    let is_gguf = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"));
    let is_below = is_gguf && path.components().count() > 1;
    is_below || ["~/", "./", "../"].iter().any(|start| text.starts_with(start))
}

fn shown(path: &Path) -> Value {
    Value::from(path.to_string_lossy())
}

fn read_environment(env: &[(String, String)], given: &mut GivenValues) -> Result<(), ConfigError> {
    let variables = || env.iter().filter(|(_, value)| !value.trim().is_empty());
    for (name, value) in variables() {
        let Some(key) = Key::of_eliza_variable(name) else { continue };
        let origin = Origin::Environment { name: name.clone() };
        given.insert(key, (Raw::Text(format!("{}ms", value.trim())), origin));
    }
    for (name, value) in variables().filter(|(name, _)| Key::of_eliza_variable(name).is_none()) {
        let Some(key) = Key::all().find(|key| key.variable() == *name) else {
            let suggestion = nearest(name.trim_start_matches("HOB_")).and_then(Key::named);
            return Err(ConfigError::Unknown {
                name: name.clone(),
                place: "the environment".to_owned(),
                suggestion: suggestion.map(Key::variable),
            });
        };
        let origin = Origin::Environment { name: name.clone() };
        given.insert(key, (Raw::Text(value.clone()), origin));
    }
    Ok(())
}
