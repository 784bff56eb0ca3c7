//! Helpers for engine tests: engines over one directory, turns, and their answers.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod files;
pub mod held;
#[cfg(feature = "llama")]
pub mod llama_cpp;
pub mod replay;
pub mod wait;

use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hob_runtime::adapters::{AdapterFile, FileIdentity};
use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::sample::Sampling;
use hob_runtime::{
    CellCounts, DraftCounts, DraftModel, Engine, EngineOptions, EngineStatus, FinishReason, Model,
    Moved, Turn, TurnError, TurnEvent, TurnReport, TurnRequest,
};
use hob_slots::format::SlotRecord;
use hob_slots::store::{Store, StoreReader};
use hob_slots::{BlockId, ConversationId, FileDigest, Lora, ModelHash, Quota, Rules, Token};
use proptest::prelude::{Strategy, any, prop};
use tempfile::TempDir;

#[cfg(feature = "llama")]
pub use llama_cpp::*;

pub const FINGERPRINT: ModelHash = ModelHash(*b"a model!");

pub const DRAFT_FINGERPRINT: ModelHash = ModelHash(*b"a draft!");

pub const MEMORIES: [MemoryKind; 4] =
    [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Hybrid, MemoryKind::Recurrent];

/// A fake that drafts for another model. `copies`: it repeats its text as a copying one does.
pub fn draft_model(target: &Arc<dyn Model>, copies: bool) -> DraftModel {
    let fake = if copies { FakeModel::new().with_copies() } else { FakeModel::new() };
    DraftModel::new(Arc::new(fake), DRAFT_FINGERPRINT, target.as_ref()).expect("it fits")
}

/// Micro-batches that do not depend on the clock, so that equal turns make equal batches. The work behind an answer
/// begins with its last event, so that it does not depend on when a test drops the turn.
pub fn options() -> EngineOptions {
    EngineOptions {
        context_tokens: 2048,
        slots: 2,
        micro_batch: 128,
        micro_batch_target: None,
        delivery_patience: Duration::ZERO,
        ..EngineOptions::default()
    }
}

pub fn fake() -> Arc<dyn Model> {
    Arc::new(FakeModel::new())
}

pub fn of_memory(memory: MemoryKind) -> Arc<dyn Model> {
    Arc::new(FakeModel::new().with_memory(memory))
}

/// The answer of an engine that has served nothing else.
pub fn alone(model: &Arc<dyn Model>, prompt: &[Token], max_tokens: usize) -> Vec<Token> {
    answered_alone(model, request("alone", prompt, max_tokens))
}

/// [`alone`], to any turn.
pub fn answered_alone(model: &Arc<dyn Model>, turn: TurnRequest) -> Vec<Token> {
    let engine = engine(model, None, options());
    let answer = ask(&engine, turn);
    engine.shutdown();
    answer.tokens
}

/// An engine that shuts down when it is dropped: a driver of a device ends a process by a signal that exits while
/// a thread computes.
pub struct Started(Engine);

impl Deref for Started {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

pub fn engine(model: &Arc<dyn Model>, slots: Option<&Path>, options: EngineOptions) -> Started {
    let store = slots.map(|path| Arc::new(Store::open(path).expect("a free directory")));
    Started(Engine::start(model.clone(), FINGERPRINT, store, options).expect("the context fits"))
}

/// An empty directory, in memory where the system has such: there, nothing waits for a disk.
pub fn empty_directory() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a directory can be made")
}

/// An engine over a directory of its own, which survives a restart.
pub struct OnDisk {
    pub engine: Started,
    model: Arc<dyn Model>,
    directory: TempDir,
}

impl OnDisk {
    pub fn new(model: &Arc<dyn Model>) -> Self {
        Self::with(model, options())
    }

    pub fn with(model: &Arc<dyn Model>, options: EngineOptions) -> Self {
        let directory = empty_directory();
        let engine = engine(model, Some(directory.path()), options);
        Self { engine, model: model.clone(), directory }
    }

    pub fn restart(&mut self) {
        self.restart_with(options());
    }

    pub fn restart_with(&mut self, options: EngineOptions) {
        self.engine.shutdown();
        self.engine = engine(&self.model, Some(self.path()), options);
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The names of the blocks of a conversation, in its slot or, where others have taken that, saved.
    pub fn block_names(&self, conversation: &str) -> Vec<(BlockId, Range<usize>)> {
        let map = block_on(self.engine.map()).expect("the engine runs");
        let mut slots = map.slots.into_iter();
        if let Some(slot) = slots.find(|slot| slot.conversation == Some(name(conversation))) {
            return slot.blocks.into_iter().map(|block| (block.id, block.range)).collect();
        }
        let record = self.record(conversation);
        let mut start = 0;
        let mut range = |end: u32| std::mem::replace(&mut start, end as usize)..end as usize;
        record.blocks.iter().map(|block| (block.id, range(block.end))).collect()
    }

    /// Asserts that another conversation with `prompt` gets the answer `expected`, of exact KV alone, and shares with
    /// the blocks `impure` what is before their first moved token at most.
    pub fn assert_exact(
        &self,
        conversation: &str,
        prompt: &[Token],
        expected: &[Token],
        impure: &[(BlockId, Range<usize>)],
    ) {
        let exact = ask(&self.engine, request(conversation, prompt, 8));
        assert_eq!(exact.tokens, expected, "{conversation}");
        settle(&self.engine);
        let pure = self.block_names(conversation);
        let common = pure.iter().filter(|block| impure.contains(block)).count();
        assert!(common <= 1, "{conversation} has {common} blocks of it: {pure:?}");
    }

    /// What is saved of a conversation.
    pub fn record(&self, conversation: &str) -> SlotRecord {
        settle(&self.engine);
        let store = StoreReader::open(self.path()).expect("it exists");
        store.get_slot(FINGERPRINT, &name(conversation)).expect("it is saved")
    }
}

/// An adapter of the fake model, which needs no file.
pub fn adapter(content: u8, scale: f32) -> AdapterFile {
    let path = format!("/nowhere/{content}.gguf").into();
    let lora = Lora { sha256: FileDigest([content; 32]), scale };
    AdapterFile { name: content.to_string(), path, identity: FileIdentity::default(), lora }
}

pub fn name(text: &str) -> ConversationId {
    ConversationId::new(text).expect("a valid name")
}

pub fn request(conversation: &str, prompt: &[Token], max_tokens: usize) -> TurnRequest {
    TurnRequest::answer(Some(name(conversation)), prompt.to_vec(), max_tokens)
}

/// [`request`], past end tokens: random weights and the fake model write them at any time.
pub fn endless(conversation: &str, prompt: &[Token], max_tokens: usize) -> TurnRequest {
    TurnRequest { ignore_eog: true, ..request(conversation, prompt, max_tokens) }
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub report: TurnReport,
    pub tokens: Vec<Token>,
    pub text: String,
    pub reason: FinishReason,
    pub timeline: Vec<Token>,
    pub moved: Vec<Moved>,
    pub cells: CellCounts,
}

pub fn finish(mut turn: Turn) -> Result<Answer, TurnError> {
    answer(std::iter::from_fn(|| turn.next_blocking()))
}

/// Collects a turn's events, and checks their order.
pub fn answer(events: impl IntoIterator<Item = TurnEvent>) -> Result<Answer, TurnError> {
    let (mut report, mut tokens, mut text) = (None, Vec::new(), String::new());
    let mut moved = Vec::new();
    for event in events {
        match event {
            TurnEvent::Progress(_) => {
                assert!(report.is_none(), "progress comes before the start");
            }
            TurnEvent::Started(started) => {
                assert!(report.is_none() && tokens.is_empty(), "a turn starts once, and first");
                report = Some(started);
            }
            TurnEvent::Token { token, text: more, .. } => {
                assert!(report.is_some(), "a turn starts before its first token");
                tokens.push(token);
                text.push_str(&more);
            }
            TurnEvent::Moved(one) => moved.push(one),
            TurnEvent::Finished {
                reason, text: more, completion_tokens, timeline, cells, ..
            } => {
                text.push_str(&more);
                assert_eq!(completion_tokens, tokens.len(), "one event for each token");
                let report = report.expect("a turn starts before it finishes");
                return Ok(Answer { report, tokens, text, reason, timeline, moved, cells });
            }
            TurnEvent::Failed(error) => return Err(error),
        }
    }
    panic!("the events ended without a last one")
}

pub fn ask(engine: &Engine, request: TurnRequest) -> Answer {
    finish(engine.submit(request).expect("a valid turn")).expect("the turn succeeds")
}

/// All events of a turn but its times, and how many tokens were drafted and accepted.
pub fn events(engine: &Engine, request: TurnRequest) -> (Vec<String>, DraftCounts) {
    let mut turn = engine.submit(request).expect("a valid turn");
    let (mut seen, mut counts) = (Vec::new(), DraftCounts::default());
    while let Some(event) = turn.next_blocking() {
        seen.push(match event {
            TurnEvent::Started(report) => format!("{:?}", report.tokens),
            TurnEvent::Finished { reason, text, completion_tokens, drafts, timeline, .. } => {
                counts = drafts;
                format!("{reason:?} {text:?} {completion_tokens} {timeline:?}")
            }
            other => format!("{other:?}"),
        });
    }
    (seen, counts)
}

/// Every token of the prompt is counted in one place.
pub fn check_sum(answer: &Answer, prompt: &[Token]) {
    assert_eq!(answer.report.tokens.prompt(), prompt.len(), "{:?}", answer.report.tokens);
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without I/O").block_on(future)
}

pub fn status(engine: &Engine) -> EngineStatus {
    block_on(engine.status()).expect("the engine runs")
}

/// The limits of a sweep. The default quota depends on the disk of the machine.
pub fn without_quota() -> Rules {
    Rules { quota: Quota::Bytes(u64::MAX), ..Rules::default() }
}

/// Waits until the engine has nothing left to do.
pub fn settle(engine: &Engine) {
    block_on(engine.settled());
}

/// ChatML of the bundled template.
pub fn user(text: &str) -> String {
    format!("<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
}

pub fn tokens(model: &Arc<dyn Model>, text: &str) -> Vec<Token> {
    model.tokenize(text, false, true)
}

/// The first `count` tokens of the word again and again, as the fake model reads them.
pub fn words(word: &str, count: usize) -> Vec<Token> {
    tokens(&fake(), &word.repeat(count))[..count].to_vec()
}

/// A timeline, and the user's next message.
pub fn then(model: &Arc<dyn Model>, timeline: &[Token], text: &str) -> Vec<Token> {
    let more = tokens(model, &format!("\n{}", user(text)));
    [timeline, &more].concat()
}

/// How turns with drafts and without are sampled.
pub fn samplings() -> impl Strategy<Value = Sampling> {
    let of = |temperature, repeat_penalty, seed| Sampling {
        temperature,
        repeat_penalty,
        seed: Some(seed),
        ..Sampling::default()
    };
    let temperature = prop::sample::select(vec![0.0, 0.3, 1.0]);
    (temperature, prop::sample::select(vec![1.0, 1.05]), any::<u64>())
        .prop_map(move |(temperature, penalty, seed)| of(temperature, penalty, seed))
}
