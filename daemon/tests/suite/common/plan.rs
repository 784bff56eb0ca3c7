//! How a daemon of the tests is set up.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use hob_config::{Flags, Key, ModelChoice, OpenRoutes, Resolved, Settings, Sources, UserDirs};
use hob_daemon::http::body::BodyLimits;
use hob_daemon::models::ModelSampling;
use hob_daemon::prompt::RendersIn;
use hob_daemon::startup::{Loaded, Overrides};
use hob_models::{ChosenContext, Estimate, Roots, SamplingEntry};
use hob_prewarm::Battery;
use hob_runtime::EngineOptions;
use hob_runtime::backend::fake::{BatchLog, FailsAt, FakeModel};
use hob_slots::{FileDigest, Fingerprint, ModelHash};

use super::world::World;

/// KV size of one token for tests that use [`Plan::knows_kv_size`].
pub const KV_BYTES_PER_TOKEN: u64 = 16;

/// Settings of a test daemon.
pub struct Plan {
    model: FakeModel,
    options: EngineOptions,
    limits: BodyLimits,
    idle_after: Duration,
    origins: Vec<String>,
    open_routes: OpenRoutes,
    pub(super) directory: Option<PathBuf>,
    voice: Option<(Vec<String>, Vec<String>)>,
    cache_type_k: &'static str,
    is_model_fixed: bool,
    estimate: Option<Estimate>,
    sampling: Vec<SamplingEntry>,
    recognizer: Vec<String>,
    stream_recognizer: Vec<String>,
    type_ahead: bool,
    learned_prefixes: usize,
    battery: Option<fn() -> Option<Battery>>,
    has_background: bool,
    pub(super) has_clock: bool,
    pub(super) batches: BatchLog,
    pub(super) fails_at: FailsAt,
    pub(super) ended: Arc<AtomicUsize>,
}

impl Plan {
    pub fn new() -> Self {
        Self {
            model: FakeModel::new(),
            options: EngineOptions {
                micro_batch_target: None,
                drafts: false, // As hobd does with this model.
                // A follow-up finds the whole answer in the cells, however soon it comes.
                delivery_patience: Duration::ZERO,
                ..EngineOptions::default()
            },
            limits: BodyLimits { bytes: 64 << 10, time: Duration::from_secs(20) },
            idle_after: Duration::from_secs(3600),
            origins: Vec::new(),
            open_routes: OpenRoutes::None,
            directory: None,
            voice: None,
            cache_type_k: "f16",
            is_model_fixed: false,
            estimate: None,
            sampling: Vec::new(),
            recognizer: Vec::new(),
            stream_recognizer: Vec::new(),
            type_ahead: true,
            has_background: false,
            learned_prefixes: 4,
            battery: None,
            has_clock: false,
            batches: BatchLog::default(),
            fails_at: FailsAt::default(),
            ended: Arc::default(),
        }
    }

    /// Sweeps and watches files as hobd does; otherwise the test reads profiles again with
    /// [`World::reload`].
    pub fn with_background(mut self) -> Self {
        self.has_background = true;
        self
    }

    pub fn slots(mut self, slots: usize) -> Self {
        self.options.slots = slots;
        self
    }

    pub fn queue(mut self, queue: usize) -> Self {
        self.options.queue = queue;
        self
    }

    pub fn context_tokens(mut self, tokens: usize) -> Self {
        self.options.context_tokens = tokens;
        self
    }

    /// How long the engine's work behind an answer waits for hobd.
    pub fn delivery_patience(mut self, patience: Duration) -> Self {
        self.options.delivery_patience = patience;
        self
    }

    /// A conversation stays whole in the cells.
    pub fn without_eviction(mut self) -> Self {
        self.options.away = None;
        self
    }

    /// Host memory for parked KV.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.options.memory_budget_bytes = bytes;
        self
    }

    /// The disk takes nothing of what must leave cells; a turn waits so long for it.
    pub fn disk_takes_nothing(mut self, patience: Duration) -> Self {
        self.options.unsaved_budget_bytes = 0;
        self.options.disk_patience = patience;
        self
    }

    /// Maximum rows of one micro-batch.
    pub fn micro_batch(mut self, rows: usize) -> Self {
        self.options.micro_batch = rows;
        self
    }

    /// Time that the fake model spends on each token.
    pub fn pace(mut self, pace: Duration) -> Self {
        self.model = self.model.with_pace(pace);
        self
    }

    /// Time limit for reading a request body.
    pub fn body_time(mut self, time: Duration) -> Self {
        self.limits.time = time;
        self
    }

    /// Adds the bytes of each text that the model tokenizes to `counter`.
    pub fn tokenized_bytes(mut self, counter: Arc<AtomicUsize>) -> Self {
        self.model = self.model.with_tokenized_bytes(counter);
        self
    }

    pub fn embeds(mut self) -> Self {
        self.model = self.model.with_pooling("mean");
        self
    }

    pub fn ranks(mut self) -> Self {
        self.model = self.model.with_pooling("rank");
        self
    }

    pub fn origin(mut self, origin: &str) -> Self {
        self.origins.push(origin.to_owned());
        self
    }

    /// Ollama's routes need no token.
    pub fn opens_ollama(mut self) -> Self {
        self.open_routes = OpenRoutes::Ollama;
        self
    }

    /// The model's template.
    pub fn chat_template(mut self, source: &str) -> Self {
        self.model = self.model.with_chat_template(source.to_owned());
        self
    }

    pub fn parks_after(mut self, idle: Duration) -> Self {
        self.idle_after = idle;
        self
    }

    /// Type of the K cache, a part of the fingerprint.
    pub fn cache_type_k(mut self, cache_type: &'static str) -> Self {
        self.cache_type_k = cache_type;
        self
    }

    /// Gives the fake model a known KV size, as a model file would.
    pub fn knows_kv_size(mut self) -> Self {
        let kv_bytes_per_token = KV_BYTES_PER_TOKEN;
        self.estimate = Some(Estimate { weights_bytes: 0, kv_bytes: 0, kv_bytes_per_token });
        self
    }

    /// The model's file recommends these sampling parameters: names of a request, and values.
    pub fn recommends(mut self, parameters: &[(&'static str, f64)]) -> Self {
        let entry =
            |&(name, value)| SamplingEntry { key: name, parameter: Some(name), value: Some(value) };
        self.sampling = parameters.iter().map(entry).collect();
        self
    }

    /// Stores all data in `directory`, so that a later daemon can open it.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Transcribes speech while it arrives with this command.
    pub fn dictates(mut self, command: &[&str]) -> Self {
        self.stream_recognizer = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Transcribes speech with this command.
    pub fn transcribes(mut self, command: &[&str]) -> Self {
        self.recognizer = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Does not prefill typed words.
    pub fn without_type_ahead(mut self) -> Self {
        self.type_ahead = false;
        self
    }

    /// Maximum number of learned prefixes.
    pub fn learned_prefixes(mut self, count: usize) -> Self {
        self.learned_prefixes = count;
        self
    }

    /// Lets [`World::pass`] move the clock.
    pub fn with_clock(mut self) -> Self {
        self.has_clock = true;
        self
    }

    /// Runs on this battery.
    pub fn battery(mut self, read: fn() -> Option<Battery>) -> Self {
        self.battery = Some(read);
        self
    }

    /// Maximum size of a request body.
    pub fn body_bytes(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// Fixes the model, as the flag `--model` does.
    pub fn fixed_model(mut self) -> Self {
        self.is_model_fixed = true;
        self
    }

    /// Synthesizes these phrases with this command.
    pub fn synthesizes(mut self, command: &[&str], phrases: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        self.voice = Some((owned(command), owned(phrases)));
        self
    }

    pub fn start(self) -> World {
        World::start(self)
    }

    pub fn resolved(&self, directory: &Path) -> Resolved {
        let mut flags = Flags::default();
        flags.set(Key::DataDir, directory.to_str().unwrap());
        if self.is_model_fixed {
            flags.set(Key::Model, "fake");
        }
        let sources = Sources::gather(UserDirs::under(directory), [], flags).unwrap();
        let mut resolved = Settings::resolve(&sources).unwrap();
        let settings = &mut resolved.settings;
        settings.model = ModelChoice::Named("fake".to_owned());
        settings.profiles_dir = directory.join("profiles");
        settings.queue = self.options.queue;
        settings.idle_park = self.idle_after;
        settings.max_body_bytes = self.limits.bytes;
        settings.request_timeout = self.limits.time;
        settings.allow_origin = self.origins.clone();
        settings.allow_without_token = self.open_routes;
        settings.voice_recognizer = self.recognizer.clone();
        settings.voice_recognizer_stream = self.stream_recognizer.clone();
        settings.type_ahead = self.type_ahead;
        settings.learned_prefixes = self.learned_prefixes;
        let (command, phrases) = self.voice.clone().unwrap_or_default();
        settings.voice_name = "en".to_owned();
        settings.voice_command = command;
        settings.voice_phrases = phrases;
        settings.voice_cache_bytes = 1 << 20;
        settings.slots_quota_bytes = 1 << 30; // The default depends on the disk of the machine.
        resolved
    }

    pub(super) fn overrides(self, directory: &Path) -> Overrides {
        let model = self.model.with_batch_log(self.batches).with_failure(self.fails_at);
        let loaded = Loaded {
            model: Arc::new(model.with_ended_batches(self.ended)),
            fingerprint: fingerprint(self.cache_type_k),
            name: "fake".to_owned(),
            shown: "fake".to_owned(),
            files: Vec::new(),
            context: ChosenContext::set(self.options.context_tokens as u64, None),
            estimate: self.estimate,
            sampling: ModelSampling::of(&self.sampling),
            renders_in: RendersIn::ThisProcess,
            drafter: None,
            recall_model: None,
        };
        let own = vec![directory.join("models")];
        let roots = Roots { own, ..Roots::default() };
        Overrides {
            model: Some(loaded),
            engine: Some(self.options),
            roots: Some(roots),
            battery: self.battery,
            without_background: !self.has_background,
        }
    }
}

/// The fingerprint of the fake model with f16 keys.
pub fn model() -> ModelHash {
    fingerprint("f16").hash()
}

fn fingerprint(cache_type_k: &str) -> Fingerprint {
    Fingerprint {
        model_sha256: FileDigest([3; 32]),
        drafts: false,
        cache_type_k: cache_type_k.to_owned(),
        cache_type_v: "f16".to_owned(),
        flash_attention: true,
        swa_full: false,
        state_format: "fake 1".to_owned(),
        rope: Default::default(),
        loras: Vec::new(),
    }
}
