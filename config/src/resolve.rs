//! Merges the layers: flags over environment over file over defaults.
//!
//! - Each value keeps its origin, so that `hob config show` can name it.
//! - Values that a client of the running daemon chose are stronger than every layer.
//! - Pure: everything that it reads is in [`Sources`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::ConfigError;
use crate::flags::Flags;
use crate::key::Key;
use crate::layers::Layers;
use crate::origin::{Entry, Origin};
use crate::paths::{self, UserDirs};
use crate::settings::Settings;
use crate::sources::Sources;

/// The settings, and where each came from.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub settings: Settings,
    /// One entry a key, in the order of the table.
    pub entries: Vec<Entry>,
    /// The user's directories, from which the defaults follow.
    pub user_dirs: UserDirs,
    /// Values that differ from what was given, as sentences for the log.
    pub warnings: Vec<String>,
    sources: Sources,
    chosen: Flags,
    /// The layers that the chosen values override.
    beneath: BTreeMap<Key, Origin>,
}

impl Settings {
    /// Merges the layers.
    pub fn resolve(sources: &Sources) -> Result<Resolved, ConfigError> {
        resolve(sources.clone(), Flags::default())
    }
}

fn resolve(sources: Sources, chosen: Flags) -> Result<Resolved, ConfigError> {
    let mut layers = Layers::of(&sources)?;
    let beneath = layers.choose(&chosen);
    let settings = Settings::read(&mut layers)?;
    let (entries, warnings) = layers.finish();
    let user_dirs = sources.user_dirs.clone();
    Ok(Resolved { settings, entries, user_dirs, warnings, sources, chosen, beneath })
}

impl Resolved {
    /// Where the key's value came from.
    pub fn origin(&self, key: Key) -> &Origin {
        &self.entries[key as usize].origin
    }

    /// The configuration file, which need not exist.
    pub fn config_file(&self) -> PathBuf {
        self.settings.config.clone().unwrap_or_else(|| self.user_dirs.config_file())
    }

    /// Where Hob's own models are: below the data directory, and below the user's, where `cargo xtask model`
    /// puts one for every data directory.
    pub fn models_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = vec![paths::models_dir(&self.settings.data_dir)];
        let users = paths::models_dir(&self.user_dirs.data_dir);
        if !dirs.contains(&users) {
            dirs.push(users);
        }
        dirs
    }

    /// The settings with these values, which a client chose while the daemon runs.
    ///
    /// # Errors
    /// When a value is invalid; the message has the remedy.
    pub fn with(&self, changes: &[(Key, String)]) -> Result<Self, ConfigError> {
        let mut chosen = self.chosen.clone();
        for (key, value) in changes {
            chosen.set(*key, value.as_str());
        }
        resolve(self.sources.clone(), chosen)
    }

    /// The layer that sets the key, where it is stronger than the file: writing the file would not
    /// change the setting of the next process.
    pub fn fixed(&self, key: Key) -> Option<&Origin> {
        let origin = self.beneath.get(&key).unwrap_or_else(|| self.origin(key));
        matches!(origin, Origin::Environment { .. } | Origin::Flag { .. }).then_some(origin)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::flags::Flags;
    use crate::sources::ConfigFile;
    use crate::values::{CacheType, ContextChoice, GpuLayers, ModelChoice, OpenRoutes, TtlClass};

    #[test]
    fn defaults_come_from_the_table() {
        let resolved = World::new().resolve();
        let settings = &resolved.settings;
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8642");
        assert_eq!(settings.model, ModelChoice::Bundled);
        assert_eq!(settings.slots_dir, Path::new("/u/data/slots"));
        assert_eq!(settings.token_file, Path::new("/u/data/token"));
        assert_eq!((settings.ctx, settings.slots, settings.queue), (ContextChoice::Auto, 4, 32));
        assert_eq!(settings.idle_park, Duration::from_secs(3_600));
        assert_eq!(settings.cache_type_k, CacheType::F16);
        assert_eq!(settings.max_body_bytes, 8 << 20);
        assert_eq!(settings.default_ttl, TtlClass::Permanent);
        assert!(resolved.entries.iter().all(|entry| entry.origin == Origin::Default));
    }

    #[test]
    fn routes_are_opened_at_a_loopback_address_alone_and_with_a_warning() {
        let world = |listen: &str| {
            World::new().flag(Key::AllowWithoutToken, "ollama").flag(Key::Listen, listen)
        };
        let resolved = world("[::1]:0").resolve();
        assert_eq!(resolved.settings.allow_without_token, OpenRoutes::Ollama);
        assert!(resolved.warnings[0].contains("without the token"), "{:?}", resolved.warnings);
        let error = world("0.0.0.0:0").error();
        assert!(error.contains("allow_without_token") && error.contains("loopback"), "{error}");
        assert_eq!(World::new().resolve().settings.allow_without_token, OpenRoutes::None);
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let world = World::new().file("ctx = 1000\nslots = 2\nqueue = 7");
        let resolved = world.env("HOB_CTX", "2000").env("HOB_SLOTS", "3").flag(Key::Ctx, "3000");
        let resolved = resolved.resolve();
        let settings = &resolved.settings;
        assert_eq!(
            (settings.ctx, settings.slots, settings.queue),
            (ContextChoice::Tokens(3000), 3, 7)
        );
        assert_eq!(resolved.origin(Key::Ctx), &Origin::Flag { name: "ctx".into() });
        assert_eq!(resolved.origin(Key::Slots).to_string(), "environment HOB_SLOTS");
        assert_eq!(resolved.origin(Key::Queue).to_string(), "/u/config/hob.toml:3");
        assert_eq!(resolved.origin(Key::Listen), &Origin::Default);
    }

    #[test]
    fn default_paths_follow_the_data_directory() {
        let resolved = World::new().flag(Key::DataDir, "/elsewhere").resolve();
        assert_eq!(resolved.settings.slots_dir, Path::new("/elsewhere/slots"));
        let models = [Path::new("/elsewhere/models"), Path::new("/u/data/models")];
        assert_eq!(resolved.models_dirs(), models);
        assert_eq!(World::new().resolve().models_dirs(), models[1..]);
        assert_eq!(resolved.settings.token_file, Path::new("/elsewhere/token"));
    }

    #[test]
    fn profiles_are_beside_the_configuration_by_default() {
        let dir = |world: World| world.resolve().settings.profiles_dir;
        assert_eq!(dir(World::new()), Path::new("/u/config/profiles"));
        assert_eq!(dir(World::new().file("profiles_dir = 'p'")), Path::new("/u/config/p"));
        assert_eq!(dir(World::new().env("HOB_PROFILES_DIR", "/p")), Path::new("/p"));
    }

    #[test]
    fn paths_in_the_file_start_from_the_file() {
        let world = World::new().file("slots_dir = 'kv'\ntoken_file = '~/t'\nmodel = './a.gguf'");
        let settings = world.resolve().settings;
        assert_eq!(settings.slots_dir, Path::new("/u/config/kv"));
        assert_eq!(settings.token_file, Path::new("/u/t"));
        assert_eq!(settings.model, ModelChoice::Named("/u/config/./a.gguf".into()));

        let model = |world: World| world.resolve().settings.model.to_string();
        let of_file = |text: &str| model(World::new().file(&format!("model = '{text}'")));
        assert_eq!(of_file("models/a.gguf"), "/u/config/models/a.gguf");
        assert_eq!(of_file("/m/a.GGUF"), "/m/a.GGUF");
        for name in ["a.gguf", "someone/qwen3", "hf.co/someone/qwen3:4b"] {
            assert_eq!(of_file(name), name, "a name");
        }
        assert_eq!(model(World::new().flag(Key::Model, "models/a.gguf")), "models/a.gguf");

        let settings = World::new().flag(Key::Model, "qwen3:4b").resolve().settings;
        assert_eq!(settings.model, ModelChoice::Named("qwen3:4b".into()));
    }

    #[test]
    fn an_unknown_key_is_an_error_with_a_suggestion() {
        let error = World::new().file("# mine\nslot_dir = '/x'").error();
        assert!(error.contains("`slot_dir` in /u/config/hob.toml:2"), "{error}");
        assert!(error.contains("did you mean `slots_dir`"), "{error}");

        let error = World::new().env("HOB_TREADS", "2").error();
        assert!(error.contains("did you mean `HOB_THREADS`"), "{error}");

        let error = World::new().file("[server]\nzzz = 1").error();
        assert!(error.contains("hob config show"), "{error}");
    }

    #[test]
    fn a_wrong_value_names_key_place_value_and_remedy() {
        let error = World::new().file("ctx = 'lots'").error();
        assert_eq!(
            error,
            "ctx = \"lots\" (/u/config/hob.toml:1) is not a whole number; \
             write \"auto\", or a whole number from 64 to 16777216"
        );
        let error = World::new().env("HOB_SLOTS", "0").error();
        assert!(error.contains("HOB_SLOTS") && error.contains("from 1 to 247"), "{error}");

        let error = World::new().flag(Key::CacheTypeK, "q3").error();
        assert!(error.contains("--cache-type-k") && error.contains("q8_0"), "{error}");

        let error = World::new().file("allow_host = 3").error();
        assert!(error.contains("array"), "{error}");

        let error = World::new().flag(Key::AllowHost, "*").error();
        assert!(error.contains("name each host"), "{error}");
    }

    #[test]
    fn layers_go_to_devices_as_they_fit_unless_a_number_says_how_many() {
        let settings = World::new().resolve().settings;
        assert_eq!((settings.gpu_layers, settings.kv_offload), (GpuLayers::Auto, true));
        assert!(settings.device.is_empty() && settings.tensor_split.is_empty());

        let world = World::new().file("gpu_layers = 20\ndevice = ['CUDA0', 'CUDA1']");
        let settings = world.env("HOB_TENSOR_SPLIT", "3,1").resolve().settings;
        assert_eq!(settings.gpu_layers, GpuLayers::Count(20));
        assert_eq!(settings.device, ["CUDA0", "CUDA1"]);
        assert_eq!(settings.tensor_split, [3, 1]);

        let error = World::new().flag(Key::TensorSplit, "3,1").error();
        assert!(error.contains("tensor_split = \"3,1\" (flag --tensor-split)"), "{error}");
        assert!(error.contains("set gpu_layers to a number"), "{error}");
    }

    #[test]
    fn broken_toml_names_the_file_and_the_line() {
        let error = World::new().file("ctx = 1\nslots =").error();
        assert!(error.contains("/u/config/hob.toml") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        assert_eq!(World::new().env("HOB_CTX", "").resolve().settings.ctx, ContextChoice::Auto);
    }

    #[test]
    fn lists_and_sizes_are_read_from_every_layer() {
        let world = World::new().file("allow_host = ['a', 'b']\nmax_body_bytes = '1MiB'");
        let settings = world.env("HOB_ALLOW_ORIGIN", "http://x, http://y").resolve().settings;
        assert_eq!(settings.allow_host, ["a", "b"]);
        assert_eq!(settings.allow_origin, ["http://x", "http://y"]);
        assert_eq!(settings.max_body_bytes, 1 << 20);
    }

    #[test]
    fn the_sweep_interval_has_two_names_and_warns_below_its_minimum() {
        let interval = |name: &str, value: &str| {
            let resolved = World::new().env(name, value).resolve();
            (resolved.settings.sweep_interval.as_secs(), resolved.warnings)
        };
        assert_eq!(interval("HOB_SWEEP_INTERVAL", "10m"), (600, vec![]));
        assert_eq!(interval("ELIZA_LOCAL_EVICTION_INTERVAL_MS", "90000"), (90, vec![]));
        let (secs, warnings) = interval("ELIZA_LOCAL_EVICTION_INTERVAL_MS", "1000");
        assert_eq!(secs, 60);
        assert_eq!(
            warnings,
            ["sweep_interval = \"1000ms\" (environment ELIZA_LOCAL_EVICTION_INTERVAL_MS) \
              is shorter than 60 seconds; hobd uses 60 seconds"]
        );
        let both = World::new().env("ELIZA_LOCAL_EVICTION_INTERVAL_MS", "90000");
        let both = both.env("HOB_SWEEP_INTERVAL", "120").resolve();
        assert_eq!(both.settings.sweep_interval.as_secs(), 120, "our own name wins");
    }

    #[test]
    fn the_keepalive_interval_has_two_names_and_warns_below_its_minimum() {
        let interval = |name: &str, value: &str| {
            let resolved = World::new().env(name, value).resolve();
            (resolved.settings.keepalive_interval.as_secs(), resolved.warnings)
        };
        assert_eq!(interval("HOB_KEEPALIVE_INTERVAL", "2m"), (120, vec![]));
        assert_eq!(interval("ELIZA_LOCAL_KEEPALIVE_INTERVAL_MS", "90000"), (90, vec![]));
        let (secs, warnings) = interval("ELIZA_LOCAL_KEEPALIVE_INTERVAL_MS", "1000");
        assert_eq!(secs, 30);
        assert_eq!(
            warnings,
            ["keepalive_interval = \"1000ms\" (environment ELIZA_LOCAL_KEEPALIVE_INTERVAL_MS) \
              is shorter than 30 seconds; hobd uses 30 seconds"]
        );
        assert_eq!(interval("HOB_CTX", "1000").0, 240, "the default");
    }

    #[test]
    fn the_battery_charge_is_a_percentage() {
        let percent = |text: &str| World::new().file(text).resolve().settings;
        assert_eq!(percent("").keepalive_battery_percent, 20);
        assert_eq!(percent("keepalive_battery_percent = 0").keepalive_battery_percent, 0);
        assert!(World::new().file("keepalive.battery_percent = 101").error().contains("0 to 100"));
    }

    #[test]
    fn a_chosen_value_is_stronger_than_a_flag_and_the_flag_stays_known() {
        let resolved = World::new().flag(Key::Model, "a").file("ctx = 1024").resolve();
        let chosen = [(Key::Model, "b".to_owned()), (Key::Threads, "2".to_owned())];
        let changed = resolved.with(&chosen).unwrap().with(&[(Key::Slots, "3".into())]).unwrap();
        let settings = &changed.settings;
        assert_eq!(settings.model, ModelChoice::Named("b".to_owned()));
        assert_eq!(
            (settings.ctx, settings.threads, settings.slots),
            (ContextChoice::Tokens(1024), 2, 3)
        );
        assert_eq!(changed.origin(Key::Threads), &Origin::Client);
        assert_eq!(changed.fixed(Key::Model).unwrap().to_string(), "flag --model");
        assert_eq!(changed.fixed(Key::Threads), None);
        let error = resolved.with(&[(Key::Ctx, "1".to_owned())]).unwrap_err().to_string();
        assert!(error.contains("from 64 to 16777216"), "{error}");
    }

    #[test]
    fn a_model_of_flag_or_environment_is_fixed() {
        let fixed = |world: World| world.resolve().fixed(Key::Model).map(ToString::to_string);
        assert_eq!(fixed(World::new()), None);
        assert_eq!(fixed(World::new().file("model = 'a'")), None);
        let world = World::new().file("model = 'a'").env("HOB_MODEL", "b");
        assert_eq!(fixed(world).unwrap(), "environment HOB_MODEL");
        assert_eq!(fixed(World::new().flag(Key::Model, "c")).unwrap(), "flag --model");
        assert_eq!(World::new().resolve().config_file(), Path::new("/u/config/hob.toml"));
    }

    #[test]
    fn the_class_of_conversations_is_set_by_its_name() {
        let class = |text: &str| World::new().file(text).resolve().settings.default_ttl;
        assert_eq!(class("default_ttl = 'extended'"), TtlClass::Extended);
        assert_eq!(class("default_ttl = 'kept'"), TtlClass::Permanent);
        let error = World::new().env("HOB_DEFAULT_TTL", "forever").error();
        assert!(error.contains("short, long, extended, permanent"), "{error}");
    }

    #[test]
    fn speech_recognition_is_off_until_a_command_is_set() {
        let words = |world: World| world.resolve().settings.voice_recognizer;
        assert_eq!(words(World::new()), [] as [&str; 0]);
        let file = World::new().file("voice_recognizer = 'whisper-cli -m \"/a b\" -f -'");
        assert_eq!(words(file), ["whisper-cli", "-m", "/a b", "-f", "-"]);
    }

    #[test]
    fn encryption_is_off_until_any_spelling_turns_it_on() {
        let resolved = World::new().resolve();
        assert!(!resolved.settings.slots_encrypt);
        assert_eq!(resolved.settings.slots_key_file, Path::new("/u/data/slots.key"));
        assert!(World::new().file("slots.encrypt = true").resolve().settings.slots_encrypt);
        assert!(World::new().file("slots_encrypt = true").resolve().settings.slots_encrypt);
        assert!(World::new().env("HOB_SLOTS_ENCRYPT", "on").resolve().settings.slots_encrypt);
        assert!(World::new().env("HOB_SLOTS_ENCRYPT", "perhaps").error().contains("true or false"));
    }

    struct World(Sources);

    impl World {
        fn new() -> Self {
            let user_dirs = UserDirs::under(Path::new("/u"));
            Self(Sources { user_dirs, file: None, env: Vec::new(), flags: Flags::default() })
        }

        fn file(mut self, text: &str) -> Self {
            let path = self.0.user_dirs.config_file();
            self.0.file = Some(ConfigFile { path, text: text.to_owned() });
            self
        }

        fn env(mut self, name: &str, value: &str) -> Self {
            self.0.env.push((name.to_owned(), value.to_owned()));
            self
        }

        fn flag(mut self, key: Key, value: &str) -> Self {
            self.0.flags.set(key, value);
            self
        }

        fn resolve(&self) -> Resolved {
            Settings::resolve(&self.0).unwrap()
        }

        fn error(&self) -> String {
            Settings::resolve(&self.0).unwrap_err().to_string()
        }
    }
}
