//! A daemon in the test process, and requests to it.

use std::future::poll_fn;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use hob_daemon::chat::identity::Session;
use hob_daemon::chat::shorten::{Shortened, ShorteningEvent};
use hob_daemon::clock::ProcessTime;
use hob_daemon::http::serve::serve;
use hob_daemon::parts::Parts;
use hob_daemon::profiles::{ProfileChange, ProfileStatus};
use hob_daemon::startup::{self, ModelSwitch, StartedBy};
use hob_daemon::watch::{self, Change, Mode};
use hob_daemon::wire::document::DocumentId;
use hob_runtime::Engine;
use hob_runtime::backend::Row;
use hob_runtime::backend::fake::{BatchLog, FailsAt};
use hob_slots::{AdjustedTime, ConversationId, Token};
use hob_testkit::{Answer, Call, Stream, wait};
use parking_lot::MutexGuard;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::plan::Plan;
use super::{chat_body, user};

/// The access token of the test daemon.
pub const TOKEN: &str = "the-token-of-the-tests";

/// A running daemon.
pub struct World {
    pub address: SocketAddr,
    pub engine: Engine,
    pub parts: Parts,
    pub directory: PathBuf,
    batches: BatchLog,
    /// A micro-batch locks it behind its computation.
    fails_at: FailsAt,
    /// The micro-batches that have ended.
    ended: Arc<AtomicUsize>,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
    _temporary: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        Plan::new().start()
    }

    pub(super) fn start(plan: Plan) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let directory = plan.directory.clone().unwrap_or_else(|| temporary.path().to_owned());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (resolved, has_clock) = (plan.resolved(&directory), plan.has_clock);
        let (batches, fails_at) = (plan.batches.clone(), plan.fails_at.clone());
        let ended = plan.ended.clone();
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(&resolved.settings.token_file, TOKEN).unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let daemon = {
            let _inside = runtime.enter();
            let mut model_switch = ModelSwitch::new(resolved, StartedBy::User);
            if has_clock {
                let clock = ProcessTime::moved_by(directory.join("clock"));
                model_switch = model_switch.with_time(clock);
            }
            let overrides = plan.overrides(&directory);
            let mut report = |_| ControlFlow::Continue(());
            startup::open_with(&mut model_switch, address, overrides, &mut report).unwrap()
        };
        let parts = daemon.parts().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = Box::pin(async {
            let _ = stopped.await;
        });
        let served = runtime.spawn(serve(listener, daemon.router(), stopped));
        Self {
            address,
            engine: parts.models.engine.clone(),
            parts,
            directory,
            batches,
            fails_at,
            ended,
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

    /// Begins an answer that takes the only slot, and queues a request behind it. Each ends when it is dropped.
    pub fn fill_queue(&self) -> (Stream, TcpStream) {
        let endless = json!({"max_tokens": 5000, "ignore_eos": true});
        let mut first = self.stream(json!([user("Hello")]), endless.clone());
        first.next().unwrap();
        let body = chat_body(json!([user("Hello")]), endless);
        let waiting = self.call("POST", "/v1/chat/completions").json(&body).open();
        self.until("one request waits", |world| world.status().waiting == 1);
        (first, waiting)
    }

    /// Hands out all of an answer, calls `behind`, and then drops the answer, as a stream does behind its end.
    pub fn hand_out(&self, body: &Value, behind: impl FnOnce()) {
        let handed_out = async {
            let (_, mut answer) = self.parts.chat.answer(body, &Session::default()).await.unwrap();
            while let Some(piece) = answer.next().await {
                piece.unwrap();
            }
            answer
        };
        let ended = async { tokio::time::timeout(wait::PATIENCE, handed_out).await };
        let answer = self.runtime.block_on(ended).expect("it ends");
        behind();
        let _inside = self.runtime.enter();
        drop(answer);
    }

    /// A conversation with all its branches.
    pub fn conversation(&self, id: &str) -> Value {
        self.get(&format!("/v1/conversations/{id}?branches=true")).json()
    }

    pub fn import(&self, kind: &str, body: impl Into<Vec<u8>>) -> Answer {
        let call = self.call("POST", "/v1/conversations/import");
        call.header("content-type", kind).body(body).send()
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

    /// The next change. Panics when there is none for [`wait::PATIENCE`].
    pub fn next_change(&self, changes: &mut UnboundedReceiver<Change>) -> Change {
        let wait = async { tokio::time::timeout(wait::PATIENCE, changes.recv()).await };
        self.runtime
            .block_on(wait)
            .expect("the watcher reported no change")
            .expect("the watcher stopped")
    }

    pub fn profiles(&self) -> Vec<ProfileStatus> {
        self.runtime.block_on(self.parts.profiles.list())
    }

    /// Begins to delete a conversation, for a client that disconnects at once.
    pub fn begin_to_delete(&self, id: &str) {
        let id = ConversationId::new(id).unwrap();
        self.begin(self.parts.conversations.delete(&id));
    }

    /// Begins to remove a document, for a client that disconnects at once.
    pub fn begin_to_remove(&self, id: &DocumentId) {
        self.begin(self.parts.documents.remove(id));
    }

    /// Begins to remove a document that no message names, for a client that disconnects at once.
    pub fn begin_to_remove_unused(&self, id: &DocumentId) {
        self.begin(self.parts.documents.remove_unused(id));
    }

    fn begin(&self, change: impl Future) {
        self.runtime.block_on(async {
            let mut change = pin!(change);
            poll_fn(|context| {
                let _ = change.as_mut().poll(context); // `Pending`: it waits for the disk.
                Poll::Ready(())
            })
            .await;
        });
    }

    /// Shortens a conversation. Each wait for an event is cancelled at once.
    pub fn shorten(&self, id: &str) -> Shortened {
        let id = ConversationId::new(id).unwrap();
        let shortened = async {
            let mut shortening = self.parts.chat.shorten(id, json!({})).await.unwrap();
            loop {
                let polled = {
                    let mut next = pin!(shortening.next());
                    poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await
                };
                match polled {
                    Poll::Ready(Some(Ok(ShorteningEvent::Done(done)))) => break done,
                    Poll::Ready(event) => drop(event.unwrap().unwrap()),
                    Poll::Pending => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
        };
        let ended = async { tokio::time::timeout(wait::PATIENCE, shortened).await };
        self.runtime.block_on(ended).expect("it goes on")
    }

    /// Deletes the conversations whose time in the trash has run out at `moment`.
    pub fn empty_trash(&self, moment: &AdjustedTime) {
        self.runtime.block_on(self.parts.conversations.empty_trash(moment)).unwrap();
    }

    /// Lets time pass for a daemon [`Plan::with_clock`].
    pub fn pass(&self, time: Duration) {
        let file = self.directory.join("clock");
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        let ahead_ms = before.parse::<u128>().unwrap_or(0) + time.as_millis();
        std::fs::write(file.with_extension("next"), ahead_ms.to_string()).unwrap();
        std::fs::rename(file.with_extension("next"), file).unwrap();
    }

    /// The rows of each micro-batch so far. The next one begins when this is dropped; the engine answers nothing while
    /// it waits for that.
    pub fn pause(&self) -> MutexGuard<'_, Vec<Vec<Row>>> {
        self.batches.lock()
    }

    /// Lets one micro-batch of a [`Self::pause`] be computed, once there is one. The engine had nothing to do when the
    /// pause began: a micro-batch that is under way would never end here.
    pub fn step<'w>(
        &'w self,
        paused: MutexGuard<'w, Vec<Vec<Row>>>,
    ) -> MutexGuard<'w, Vec<Vec<Row>>> {
        let before = paused.len();
        let held = self.fails_at.lock();
        drop(paused);
        self.until("a micro-batch begins", |world| world.batches.lock().len() > before);
        let paused = self.batches.lock();
        drop(held);
        // A further step would lock `fails_at` first, and this micro-batch could not end.
        self.until("it ends", |world| world.ended.load(Ordering::SeqCst) == paused.len());
        paused
    }

    pub fn status(&self) -> hob_runtime::EngineStatus {
        self.runtime.block_on(self.engine.status()).unwrap()
    }

    /// Tokens of the slot that holds the most.
    pub fn hot_tokens(&self) -> usize {
        self.status().slots.iter().map(|slot| slot.tokens).max().unwrap_or(0)
    }

    /// Speculative prefills that ended with `outcome`.
    pub fn ahead(&self, outcome: &str) -> u64 {
        let page = self.get("/metrics").text();
        let name = format!("hob_ahead_total{{outcome=\"{outcome}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
    }

    /// Waits until no turn runs and all KV is on disk.
    pub fn settle(&self) {
        self.runtime.block_on(self.engine.settled());
    }

    /// Polls until `done` returns true. Panics with `what` after [`wait::PATIENCE`].
    pub fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        wait::until(what, || done(self).then_some(()));
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
