//! A daemon in this process, on the fake model and a free port, and a client that can misbehave.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hob_config::ModelChoice;
use hob_daemon::auth::AccessToken;
use hob_daemon::clock::wall_clock;
use hob_daemon::conversations::transcript::Transcript;
use hob_daemon::http::body::BodyLimits;
use hob_daemon::http::guard::Guard;
use hob_daemon::http::{self, Shared, serve};
use hob_daemon::models::{self, Catalogue, Current};
use hob_daemon::parts::{self, Parts};
use hob_daemon::profiles::{ProfileChange, ProfileStatus};
use hob_daemon::speech::command::VoiceCommand;
use hob_daemon::speech::filler::{self, Filler};
use hob_daemon::speech::recognizer::Recognizer;
use hob_daemon::warm::events::WarmEvents;
use hob_daemon::warm::{self, warm_status::warm_status};
use hob_daemon::watch::{self, Change, Mode};
use hob_models::{Demand, GgmlType, Roots};
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Engine, EngineOptions};
use hob_slots::store::Store;
use hob_slots::{
    AdjustedTime, ConversationId, FileDigest, Fingerprint, Lifetimes, ModelHash, Quota, Token,
};
pub use hob_testkit::{Answer, Call, Stream};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

/// The secret that lets a test in.
pub const TOKEN: &str = "the-token-of-the-tests";

/// What is asked of the models that a test finds.
pub const DEMAND: Demand =
    Demand { ctx: 4096, slots: 4, cache_type_k: GgmlType::F16, cache_type_v: GgmlType::F16 };

/// What is told of a token of the fake model.
pub const KV_BYTES_PER_TOKEN: u64 = 16;

/// How the daemon of a test is made.
pub struct Plan {
    model: FakeModel,
    options: EngineOptions,
    limits: BodyLimits,
    idle_after: Duration,
    origins: Vec<String>,
    directory: Option<PathBuf>,
    voice: Option<(Vec<String>, Vec<String>)>,
    fingerprint: Option<Fingerprint>,
    fixed_model: Option<String>,
    recognizer: Vec<String>,
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
            fingerprint: None,
            fixed_model: None,
            recognizer: Vec::new(),
        }
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

    /// Host memory for what is kept.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.options.memory_budget_bytes = bytes;
        self
    }

    /// Rows of one micro-batch at most.
    pub fn micro_batch(mut self, rows: usize) -> Self {
        self.options.micro_batch = rows;
        self
    }

    /// Time that each token takes.
    pub fn pace(mut self, pace: Duration) -> Self {
        self.model = self.model.with_pace(pace);
        self
    }

    /// A body must be there within this time.
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

    /// The type of K in the cache, which is a part of the fingerprint.
    pub fn cache_type_k(mut self, cache_type: &str) -> Self {
        self.fingerprint = Some(Fingerprint {
            model_sha256: FileDigest([3; 32]),
            drafter_sha256: None,
            cache_type_k: cache_type.to_owned(),
            cache_type_v: "f16".to_owned(),
            flash_attention: true,
            swa_full: false,
            state_format: "fake 1".to_owned(),
            rope: Default::default(),
            loras: Vec::new(),
        });
        self
    }

    /// Keeps everything there, for a daemon that comes after.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Writes down what is said with this command.
    pub fn recognizes(mut self, command: &[&str]) -> Self {
        self.recognizer = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// The bodies that are read at most.
    pub fn body_bytes(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// The model is chosen by something stronger than the file.
    pub fn fixed_model(mut self, origin: &str) -> Self {
        self.fixed_model = Some(origin.to_owned());
        self
    }

    /// Says these phrases with this command.
    pub fn says(mut self, command: &[&str], phrases: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        self.voice = Some((owned(command), owned(phrases)));
        self
    }

    pub fn start(self) -> World {
        World::start(self)
    }
}

/// A running daemon.
pub struct World {
    pub address: SocketAddr,
    pub engine: Engine,
    pub parts: Parts,
    transcript: Transcript,
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
        let directory = plan.directory.unwrap_or_else(|| temporary.path().to_owned());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let store = Arc::new(Store::open(directory.join("slots")).unwrap());
        let kept = store.reader().clone();
        let fingerprint = plan.fingerprint.map_or(ModelHash([7; 8]), |fingerprint| {
            store.write_model_toml(&fingerprint).unwrap();
            fingerprint.hash()
        });
        let engine =
            Engine::start(Arc::new(plan.model), fingerprint, Some(store), plan.options.clone())
                .unwrap();
        let clock = wall_clock();
        let transcript = Transcript::open(&directory.join("text.sqlite"), clock()).unwrap();
        let (events, inbox) = WarmEvents::channel();
        let planning = hob_prewarm::Settings { idle_after: plan.idle_after, ..Default::default() };
        let (writer, warm_status) = warm_status();
        let filler = plan.voice.map(|(command, phrases)| {
            Arc::new(Filler::new(filler::Options {
                command: VoiceCommand::of(&command).unwrap(),
                voice: "en".parse().unwrap(),
                phrases,
                budget_bytes: 1 << 20,
                data_dir: directory.clone(),
                clock: clock.clone(),
            }))
        });
        if let Some(filler) = filler.clone() {
            runtime.spawn(filler::run(filler, engine.clone()));
        }
        let models_dir = directory.join("models");
        let catalogue = Arc::new(Catalogue::new(models::Options {
            roots: Roots { own: vec![models_dir.clone()], ..Roots::default() },
            models_dir,
            hashes: directory.join("model-hashes.json"),
            demand: DEMAND,
            kept: Some(kept.clone()),
            naming: Box::new(|_| ModelHash([8; 8])),
            current: Current {
                choice: ModelChoice::Named("fake".to_owned()),
                name: "fake".to_owned(),
                path: None,
                fingerprint,
                kv_bytes_per_token: Some(KV_BYTES_PER_TOKEN),
            },
            fixed: plan.fixed_model,
            failure: None,
        }));
        let parts = Parts::join(parts::Options {
            engine: engine.clone(),
            transcript: transcript.clone(),
            clock: clock.clone(),
            reader: Some(kept),
            lifetimes: Lifetimes::default(),
            quota: Quota::default(),
            estimate: None,
            events,
            warm_status,
            max_waiting: plan.options.queue,
            profiles_dir: Some(directory.join("profiles")),
            filler,
            recognizer: Recognizer::of(&plan.recognizer).map(Arc::new),
            catalogue,
        });
        let (running, profiles) = (engine.clone(), parts.profiles.clone());
        runtime.spawn(warm::run(running, profiles, planning, clock, inbox, writer));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let guard = Guard::new(address, &[], &plan.origins, AccessToken::new(TOKEN));
        let router = http::router(Shared { parts: parts.clone(), limits: plan.limits }, guard);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = runtime.spawn(serve::serve(listener, router, async {
            let _ = stopped.await;
        }));
        let (stop, served) = (Some(stop), Some(served));
        Self {
            address,
            engine,
            parts,
            transcript,
            directory,
            runtime,
            stop,
            served,
            _temporary: temporary,
        }
    }

    /// A request to `path`, with the token, not sent yet.
    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, path).header("authorization", &format!("Bearer {TOKEN}"))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send()
    }

    pub fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path).json(&body).send()
    }

    /// A chat that must succeed: greedy and short unless `extra` says otherwise.
    pub fn chat(&self, messages: Value, extra: Value) -> Value {
        let answer = self.post("/v1/chat/completions", chat_body(messages, extra));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The same as a stream.
    pub fn stream(&self, messages: Value, extra: Value) -> Stream {
        let mut body = chat_body(messages, extra);
        body["stream"] = true.into();
        self.call("POST", "/v1/chat/completions").json(&body).stream()
    }

    /// A conversation, all branches.
    pub fn conversation(&self, id: &str) -> Value {
        self.get(&format!("/v1/conversations/{id}?branches=true")).json()
    }

    /// The tokens that the conversation is known to have.
    pub fn timeline(&self, id: &str) -> Vec<Token> {
        let id = ConversationId::new(id).unwrap();
        let mut tokens = self.transcript.tokens(&id, self.engine.fingerprint());
        self.runtime.block_on(tokens.done()).unwrap()
    }

    /// Writes a profile; nobody reads it yet.
    pub fn profile(&self, name: &str, text: &str) {
        let profiles = self.directory.join("profiles");
        std::fs::create_dir_all(&profiles).unwrap();
        std::fs::write(profiles.join(format!("{name}.toml")), text).unwrap();
    }

    /// Reads the profiles anew.
    pub fn reload(&self) -> Vec<ProfileChange> {
        self.runtime.block_on(self.parts.profiles.reload())
    }

    /// What is told when profiles or these files of a model change.
    pub fn watch(&self, model: &[PathBuf], mode: Mode) -> UnboundedReceiver<Change> {
        let _inside = self.runtime.enter();
        watch::watch(self.parts.profiles.clone(), model.to_vec(), mode)
    }

    /// What the daemon does about changed profiles.
    pub fn keep_profiles_warm(&self) {
        let changes = self.watch(&[], Mode::Events);
        self.runtime.spawn(watch::apply(self.parts.profiles.clone(), changes, Arc::default()));
    }

    /// The next change, within some seconds.
    pub fn next_change(&self, changes: &mut UnboundedReceiver<Change>) -> Change {
        let wait = async { tokio::time::timeout(Duration::from_secs(10), changes.recv()).await };
        self.runtime.block_on(wait).expect("nothing was told").expect("the watch ended")
    }

    /// What is told of the profiles.
    pub fn profiles(&self) -> Vec<ProfileStatus> {
        self.runtime.block_on(self.parts.profiles.list())
    }

    /// Deletes what lies in the trash for too long at that moment.
    pub fn empty_trash(&self, moment: &AdjustedTime) {
        self.runtime.block_on(self.parts.conversations.empty_trash(moment)).unwrap();
    }

    /// What the engine says of itself.
    pub fn status(&self) -> hob_runtime::EngineStatus {
        self.runtime.block_on(self.engine.status()).unwrap()
    }

    /// Waits until `done`, for a while.
    pub fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..500 {
            if done(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("still not: {what}");
    }

    /// Stops as the daemon does: connections end, then everything is saved.
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

/// The text of a whole answer.
pub fn text(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}
