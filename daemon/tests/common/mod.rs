//! A daemon in the test process, opened as hobd opens it, with the fake model and a free port.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod socket;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hob_config::{Flags, Key, ModelChoice, Resolved, Settings, Sources, UserDirs};
use hob_daemon::http::body::BodyLimits;
use hob_daemon::http::serve::serve;
use hob_daemon::parts::Parts;
use hob_daemon::profiles::{ProfileChange, ProfileStatus};
use hob_daemon::startup::{self, Loaded, ModelSwitch, Overrides};
use hob_daemon::watch::{self, Change, Mode};
use hob_models::{Estimate, Roots};
use hob_prewarm::Battery;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Engine, EngineOptions};
use hob_slots::{AdjustedTime, ConversationId, FileDigest, Fingerprint, ModelHash, Token};
pub use hob_testkit::{Answer, Call, Stream};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

/// The access token of the test daemon.
pub const TOKEN: &str = "the-token-of-the-tests";

/// KV size of one token for tests that use [`Plan::knows_kv_size`].
pub const KV_BYTES_PER_TOKEN: u64 = 16;

/// Settings of a test daemon.
pub struct Plan {
    model: FakeModel,
    options: EngineOptions,
    limits: BodyLimits,
    idle_after: Duration,
    origins: Vec<String>,
    directory: Option<PathBuf>,
    voice: Option<(Vec<String>, Vec<String>)>,
    cache_type_k: &'static str,
    is_model_fixed: bool,
    estimate: Option<Estimate>,
    recognizer: Vec<String>,
    stream_recognizer: Vec<String>,
    type_ahead: bool,
    learned_prefixes: usize,
    battery: Option<fn() -> Option<Battery>>,
    has_background: bool,
}

impl Plan {
    pub fn new() -> Self {
        Self {
            model: FakeModel::new(),
            options: EngineOptions { micro_batch_target: None, ..EngineOptions::default() },
            limits: BodyLimits { bytes: 64 << 10, time: Duration::from_secs(20) },
            idle_after: Duration::from_secs(3600),
            origins: Vec::new(),
            directory: None,
            voice: None,
            cache_type_k: "f16",
            is_model_fixed: false,
            estimate: None,
            recognizer: Vec::new(),
            stream_recognizer: Vec::new(),
            type_ahead: true,
            has_background: false,
            learned_prefixes: 4,
            battery: None,
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

    /// Host memory for parked KV.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.options.memory_budget_bytes = bytes;
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

    pub fn embeds(mut self) -> Self {
        self.model = self.model.with_pooling("mean");
        self
    }

    pub fn origin(mut self, origin: &str) -> Self {
        self.origins.push(origin.to_owned());
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

    fn resolved(&self, directory: &Path) -> Resolved {
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
        settings.voice_recognizer = self.recognizer.clone();
        settings.voice_recognizer_stream = self.stream_recognizer.clone();
        settings.type_ahead = self.type_ahead;
        settings.learned_prefixes = self.learned_prefixes;
        let (command, phrases) = self.voice.clone().unwrap_or_default();
        settings.voice_name = "en".to_owned();
        settings.voice_command = command;
        settings.voice_phrases = phrases;
        settings.voice_cache_bytes = 1 << 20;
        resolved
    }

    fn overrides(self, directory: &Path) -> Overrides {
        let loaded = Loaded {
            model: Arc::new(self.model),
            fingerprint: fingerprint(self.cache_type_k),
            name: "fake".to_owned(),
            shown: "fake".to_owned(),
            files: Vec::new(),
            estimate: self.estimate,
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
        drafter_sha256: None,
        cache_type_k: cache_type_k.to_owned(),
        cache_type_v: "f16".to_owned(),
        flash_attention: true,
        swa_full: false,
        state_format: "fake 1".to_owned(),
        rope: Default::default(),
        loras: Vec::new(),
    }
}

/// A running daemon.
pub struct World {
    pub address: SocketAddr,
    pub engine: Engine,
    pub parts: Parts,
    pub directory: PathBuf,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
    _temporary: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        Plan::new().start()
    }

    fn start(plan: Plan) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let directory = plan.directory.clone().unwrap_or_else(|| temporary.path().to_owned());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let resolved = plan.resolved(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(&resolved.settings.token_file, TOKEN).unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let daemon = {
            let _inside = runtime.enter();
            let mut model_switch = ModelSwitch::new(resolved);
            let overrides = plan.overrides(&directory);
            let mut report = |_| ControlFlow::Continue(());
            startup::open_with(&mut model_switch, address, overrides, &mut report).unwrap()
        };
        let parts = daemon.parts().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = runtime.spawn(serve(listener, daemon.router(), async {
            let _ = stopped.await;
        }));
        Self {
            address,
            engine: parts.models.engine.clone(),
            parts,
            directory,
            runtime,
            stop: Some(stop),
            served: Some(served),
            _temporary: temporary,
        }
    }

    /// An unsent request to `path`, with the token.
    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, path).header("authorization", &format!("Bearer {TOKEN}"))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send()
    }

    pub fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path).json(&body).send()
    }

    /// A chat that must succeed: greedy and short unless `extra` overrides it.
    pub fn chat(&self, messages: Value, extra: Value) -> Value {
        let answer = self.post("/v1/chat/completions", chat_body(messages, extra));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// [`Self::chat`] as a stream.
    pub fn stream(&self, messages: Value, extra: Value) -> Stream {
        let mut body = chat_body(messages, extra);
        body["stream"] = true.into();
        self.call("POST", "/v1/chat/completions").json(&body).stream()
    }

    /// A conversation with all its branches.
    pub fn conversation(&self, id: &str) -> Value {
        self.get(&format!("/v1/conversations/{id}?branches=true")).json()
    }

    /// The tokens that the transcript records for the conversation.
    pub fn timeline(&self, id: &str) -> Vec<Token> {
        let id = ConversationId::new(id).unwrap();
        let mut tokens = self.parts.conversations.transcript.tokens(&id, self.engine.fingerprint());
        self.runtime.block_on(tokens.done()).unwrap()
    }

    /// Writes a profile file. The daemon reads it on [`Self::reload`].
    pub fn profile(&self, name: &str, text: &str) {
        let profiles = self.directory.join("profiles");
        std::fs::create_dir_all(&profiles).unwrap();
        std::fs::write(profiles.join(format!("{name}.toml")), text).unwrap();
    }

    pub fn reload(&self) -> Vec<ProfileChange> {
        self.runtime.block_on(self.parts.profiles.reload())
    }

    /// The changes that a watcher of the profiles and these model files reports.
    pub fn watch(&self, model: &[PathBuf], mode: Mode) -> UnboundedReceiver<Change> {
        let _inside = self.runtime.enter();
        watch::watch(self.parts.profiles.clone(), model.to_vec(), mode)
    }

    /// The next change. Panics after 10 seconds without one.
    pub fn next_change(&self, changes: &mut UnboundedReceiver<Change>) -> Change {
        let wait = async { tokio::time::timeout(Duration::from_secs(10), changes.recv()).await };
        self.runtime
            .block_on(wait)
            .expect("the watcher reported no change")
            .expect("the watcher stopped")
    }

    pub fn profiles(&self) -> Vec<ProfileStatus> {
        self.runtime.block_on(self.parts.profiles.list())
    }

    /// Deletes the conversations whose time in the trash has run out at `moment`.
    pub fn empty_trash(&self, moment: &AdjustedTime) {
        self.runtime.block_on(self.parts.conversations.empty_trash(moment)).unwrap();
    }

    pub fn status(&self) -> hob_runtime::EngineStatus {
        self.runtime.block_on(self.engine.status()).unwrap()
    }

    /// Waits until no turn runs and all KV is on disk.
    pub fn settle(&self) {
        self.runtime.block_on(self.engine.settled());
    }

    /// Polls until `done` returns true. Panics with `what` after 500 attempts.
    pub fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..500 {
            if done(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("timed out waiting until {what}");
    }

    /// Stops as the daemon does: closes the connections, then saves all KV.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
            let _ = self.runtime.block_on(self.served.take().unwrap());
            self.engine.shutdown();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
    }
}

pub fn chat_body(messages: Value, extra: Value) -> Value {
    let mut body = json!({"messages": messages, "temperature": 0, "max_tokens": 8});
    for (name, value) in extra.as_object().expect("extra fields are an object") {
        body[name] = value.clone();
    }
    body
}

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// The text of a complete answer.
pub fn text(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}
