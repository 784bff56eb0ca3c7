//! A deterministic stand-in for llama.cpp, for tests without C++ and without a model.
//!
//! - The next token depends on every cell of the sequence, on the cell's position and on the cells
//!   before it, and on the adapters at the time, so a missing, foreign or misplaced cell changes the
//!   answer.
//! - It has llama.cpp's rules: a batch begins at the end of its sequence, cells are finite and
//!   shared by reference count, states have positions and no sequence ids, and a memory that is not
//!   plain refuses to drop a part of a sequence.
//! - Its tokenizer makes one token of each byte, and one of each ChatML mark.
//! - Its answers are noise, except to prompts that ask for an [`echo`], and except for a model that
//!   [copies](FakeModel::with_copies).

mod content;
mod context;
pub mod echo;
mod logits;
mod rounding;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use context::FakeContext;
use hob_slots::{AdapterSet, Lossy, Token};
use parking_lot::Mutex;

use super::lossy::Unrounded;
use super::rotate::Pairing;
use super::{
    AttentionTile, Backend, ContextShape, Immovable, JoinedState, LoadError, MemoryKind, Model,
    ModelFacts, Offload, Progress, Rope, Row,
};
use crate::vocabulary::{TokenKind, Vocabulary};

/// Control tokens, after the 256 bytes.
const CONTROL: [&str; 3] = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"];
const IM_START: i32 = 256;
const IM_END: i32 = 257;
const END_OF_TEXT: i32 = 258;

/// One cell in a state: token and position, and content.
pub const CELL_BYTES: usize = 16;

/// The time of each part of a load, at least.
const LOAD_STEP: Duration = Duration::from_millis(20);

const CHATML: &str = "{%- if tools %}{{ '<|im_start|>system\n' }}{{ tools | tojson }}{{ '<|im_end|>\n' }}{%- endif %}\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + (message.content or '') + '<|im_end|>\n' }}{%- endfor %}\
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}";

/// The rows of each micro-batch that was begun, in order.
pub type BatchLog = Arc<Mutex<Vec<Vec<Row>>>>;

/// The positions that a token saw when it was computed, by the content of its cell.
pub type ViewLog = Arc<Mutex<HashMap<u64, Vec<usize>>>>;

/// The names of models, as their weights are loaded again.
pub type LoadLog = Arc<Mutex<Vec<&'static str>>>;

/// The next micro-batch that begins with a token at this position fails.
pub type FailsAt = Arc<Mutex<Option<usize>>>;

/// The next rest of a sequence that ends at this position is refused.
pub type RefusesAt = Arc<Mutex<Option<usize>>>;

/// A model that needs no file.
#[derive(Debug)]
pub struct FakeModel {
    facts: ModelFacts,
    vocabulary: Vocabulary,
    pace: Duration,
    resident: AtomicBool,
    is_on_device: AtomicBool,
    has_full_device: bool,
    computes_nan: bool,
    copies: bool,
    tokenized_bytes: Arc<AtomicUsize>,
    batches: Option<BatchLog>,
    ended: Arc<AtomicUsize>,
    views: Option<ViewLog>,
    loads: Option<(&'static str, LoadLog)>,
    fails_at: Option<FailsAt>,
    refuses_at: Option<RefusesAt>,
    stalls: Arc<AtomicBool>,
    lacks_memory: Arc<AtomicBool>,
    is_damaged: Arc<AtomicBool>,
}

impl Default for FakeModel {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeModel {
    /// A plain-attention model that computes without delay.
    pub fn new() -> Self {
        let bytes = (0..=u8::MAX).map(|byte| (vec![byte], TokenKind::default()));
        let control = CONTROL.iter().enumerate().map(|(index, text)| {
            let kind = TokenKind { control: true, end_of_generation: index > 0 };
            (text.as_bytes().to_vec(), kind)
        });
        Self {
            facts: ModelFacts {
                name: "fake".to_owned(),
                architecture: "fake".to_owned(),
                trained_context: 1 << 20,
                parameters: 0,
                size_bytes: 0,
                chat_template: Some(CHATML.to_owned()),
                tool_template: None,
                pooling: None,
                rank_template: None,
                embeds_in_parts: false,
                memory: MemoryKind::Plain,
                rope: Ok(rope()),
                attention_tile: None,
            },
            vocabulary: Vocabulary::new(bytes.chain(control), None, Some(Token(IM_END)), false),
            pace: Duration::ZERO,
            resident: AtomicBool::new(true),
            is_on_device: AtomicBool::new(false),
            has_full_device: false,
            computes_nan: false,
            copies: false,
            tokenized_bytes: Arc::default(),
            batches: None,
            ended: Arc::default(),
            views: None,
            loads: None,
            fails_at: None,
            refuses_at: None,
            stalls: Arc::default(),
            lacks_memory: Arc::default(),
            is_damaged: Arc::default(),
        }
    }

    /// The same with another kind of memory.
    #[must_use]
    pub fn with_memory(mut self, memory: MemoryKind) -> Self {
        self.facts.memory = memory;
        self.facts.rope =
            if memory.is_plain() { Ok(rope()) } else { Err(Immovable::Memory(memory)) };
        self
    }

    /// The same with attention that is computed in tiles.
    #[must_use]
    pub fn with_attention_tile(mut self, tile: AttentionTile) -> Self {
        self.facts.attention_tile = Some(tile);
        self
    }

    /// The same with another chat template.
    #[must_use]
    pub fn with_chat_template(mut self, source: String) -> Self {
        self.facts.chat_template = Some(source);
        self
    }

    /// The same with a chat template for prompts with tools alone.
    #[must_use]
    pub fn with_tool_template(mut self, source: String) -> Self {
        self.facts.tool_template = Some(source);
        self
    }

    /// The same, taking `pace` for every token that it computes.
    #[must_use]
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// The same with all layers and KV on a device, which reports no nodes of a graph and cannot be
    /// interrupted.
    #[must_use]
    pub fn with_device(mut self) -> Self {
        self.is_on_device = AtomicBool::new(true);
        self
    }

    /// The same, and each load of the weights chooses the device, which has no memory for a context.
    #[must_use]
    pub fn with_full_device(mut self) -> Self {
        self.has_full_device = true;
        self.with_device()
    }

    fn is_on_device(&self) -> bool {
        self.is_on_device.load(Ordering::SeqCst)
    }

    /// The same with logits that are not numbers, as damaged weights make them.
    #[must_use]
    pub fn with_nan_logits(mut self) -> Self {
        self.computes_nan = true;
        self
    }

    /// The same, repeating what its timeline holds for a while, as an agent that edits a file does.
    #[must_use]
    pub fn with_copies(mut self) -> Self {
        self.copies = true;
        self
    }

    /// The same, adding the bytes of each text that it tokenizes to `counter`.
    #[must_use]
    pub fn with_tokenized_bytes(mut self, counter: Arc<AtomicUsize>) -> Self {
        self.tokenized_bytes = counter;
        self
    }

    /// The same, writing each micro-batch to `log` when it begins.
    #[must_use]
    pub fn with_batch_log(mut self, log: BatchLog) -> Self {
        self.batches = Some(log);
        self
    }

    /// The same, adding each micro-batch to `counter` when it ends, computed or not.
    #[must_use]
    pub fn with_ended_batches(mut self, counter: Arc<AtomicUsize>) -> Self {
        self.ended = counter;
        self
    }

    /// The same, writing to `log` what each token saw.
    #[must_use]
    pub fn with_view_log(mut self, log: ViewLog) -> Self {
        self.views = Some(log);
        self
    }

    /// The same, writing `name` to `log` when its weights, which had left memory, are loaded.
    #[must_use]
    pub fn with_load_log(mut self, name: &'static str, log: LoadLog) -> Self {
        self.loads = Some((name, log));
        self
    }

    /// The same with a device that fails where `at` says, once each time.
    #[must_use]
    pub fn with_failure(mut self, at: FailsAt) -> Self {
        self.fails_at = Some(at);
        self
    }

    /// The same, refusing the rest that `at` says, once each time.
    #[must_use]
    pub fn with_refusal(mut self, at: RefusesAt) -> Self {
        self.refuses_at = Some(at);
        self
    }

    /// The same, whose micro-batches end only when they are interrupted while this is set.
    #[must_use]
    pub fn with_stall(mut self, stalls: Arc<AtomicBool>) -> Self {
        self.stalls = stalls;
        self
    }

    /// The same, without memory for a context while this is set.
    #[must_use]
    pub fn with_lack_of_memory(mut self, lacks_memory: Arc<AtomicBool>) -> Self {
        self.lacks_memory = lacks_memory;
        self
    }

    /// The same, whose weights cannot be loaded again while this is set.
    #[must_use]
    pub fn with_damage(mut self, is_damaged: Arc<AtomicBool>) -> Self {
        self.is_damaged = is_damaged;
        self
    }

    /// The content of the cell of a token that saw these positions and contents, in order, where memory is
    /// plain.
    pub fn content(seen: &[(usize, u64)], token: Token, adapters: &AdapterSet) -> u64 {
        content::kv_of(seen, token, content::digest_of(adapters))
    }

    /// A cell as states have it.
    pub fn cell(position: usize, token: Token, content: u64) -> [u8; CELL_BYTES] {
        content::encoded_cell(position, token, content)
    }

    /// The same as an embedding model.
    #[must_use]
    pub fn with_pooling(mut self, pooling: &str) -> Self {
        self.facts.pooling = Some(pooling.to_owned());
        self.facts.embeds_in_parts = pooling == "last";
        self
    }
}

/// Of a model whose cells can be moved; it is not applied.
fn rope() -> Rope {
    Rope {
        pairing: Pairing::Halves,
        head: 1,
        rotated: 0,
        base: 10_000.0,
        scale: 1.0,
        factors: Vec::new(),
        yarn: None,
    }
}

impl Model for FakeModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn tokenize(&self, text: &str, _add_special: bool, parse_special: bool) -> Vec<Token> {
        self.tokenized_bytes.fetch_add(text.len(), Ordering::Relaxed);
        let mut tokens = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            let mark = CONTROL.iter().position(|mark| rest.starts_with(mark.as_bytes()));
            if let Some(mark) = mark.filter(|_| parse_special) {
                tokens.push(Token(256 + i32::try_from(mark).expect("three marks")));
                rest = &rest[CONTROL[mark].len()..];
            } else {
                tokens.push(Token(i32::from(byte)));
                rest = after;
            }
        }
        tokens
    }

    fn offload(&self) -> Option<Offload> {
        let devices = vec!["Fake0".to_owned()];
        let split = vec![1];
        let offload = Offload { layers: 1, all_layers: 1, devices, split, kv: true };
        self.is_on_device().then_some(offload)
    }

    fn leave_devices(&self, progress: &mut Progress<'_>) -> Result<bool, LoadError> {
        if !self.has_full_device || !self.is_on_device() {
            return Ok(false);
        }
        self.drop_weights()?;
        self.load_weights(progress)?;
        self.is_on_device.store(false, Ordering::SeqCst);
        Ok(true)
    }

    fn append_state(&self, joined: &mut JoinedState, state: &[u8]) -> bool {
        if joined.cells == 0 {
            joined.bytes.clear();
        }
        let cells = state.len() / CELL_BYTES;
        let fits = joined.cells + cells <= joined.room && state.len().is_multiple_of(CELL_BYTES);
        if fits {
            joined.bytes.extend_from_slice(state);
            joined.cells += cells;
        }
        fits
    }

    fn seal_state(&self, joined: &mut JoinedState) {
        joined.room = joined.cells;
        joined.bytes.truncate(joined.cells * CELL_BYTES);
    }

    fn move_state(&self, state: &[u8], wanted: &Range<usize>, delta: i64) -> Option<Vec<u8>> {
        self.facts.rope.as_ref().ok()?;
        let (cells, rest) = state.as_chunks::<CELL_BYTES>();
        let position = |cell: &[u8; CELL_BYTES]| {
            u32::from_le_bytes(*cell.first_chunk().expect("a cell is longer")) as usize
        };
        let held = cells.iter().filter(|cell| wanted.contains(&position(cell)));
        let mut moved = Vec::with_capacity(state.len());
        for cell in held {
            let at = u32::try_from(i64::try_from(position(cell)).ok()? + delta).ok()?;
            moved.extend(at.to_le_bytes());
            moved.extend_from_slice(&cell[4..]); // Its content depends on where it was computed.
        }
        (rest.is_empty() && moved.len() == wanted.len() * CELL_BYTES).then_some(moved)
    }

    fn round_state(&self, state: &[u8], lossy: Lossy) -> Result<Vec<u8>, Unrounded> {
        rounding::rounded(state, lossy)
    }

    fn state_of_rounded(&self, rounded: &[u8], buffer: Vec<u8>) -> Option<Vec<u8>> {
        rounding::state_of(rounded, buffer)
    }

    fn with_context(
        &self,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError> {
        assert!(shape.sequences <= 64, "the fake keeps its sequences in 64 bits");
        if !self.resident.load(Ordering::SeqCst) {
            return Err(LoadError::NotResident);
        }
        if self.lacks_memory.load(Ordering::SeqCst) {
            let context_tokens = shape.context_tokens;
            return Err(LoadError::Context { context_tokens, beside: None });
        }
        if let Some(offload) = self.offload().filter(|_| self.has_full_device) {
            let (context_tokens, beside) = (shape.context_tokens, Some(offload.to_string()));
            return Err(LoadError::Context { context_tokens, beside });
        }
        run(&mut FakeContext::new(self, shape));
        Ok(())
    }

    fn load_weights(&self, progress: &mut Progress<'_>) -> Result<(), LoadError> {
        if !self.resident.load(Ordering::SeqCst) {
            if let Some((name, log)) = &self.loads {
                log.lock().push(*name);
            }
            for part in [0.0, 0.5, 1.0] {
                if progress(part).is_break() {
                    return Err(LoadError::Interrupted { path: "fake".to_owned() });
                }
                std::thread::sleep(self.pace.max(LOAD_STEP));
            }
            if self.is_damaged.load(Ordering::SeqCst) {
                let reason = "the file is damaged".to_owned();
                return Err(LoadError::Model { path: "fake".to_owned(), reason });
            }
            self.is_on_device.fetch_or(self.has_full_device, Ordering::SeqCst);
        }
        self.resident.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn drop_weights(&self) -> Result<(), LoadError> {
        self.resident.store(false, Ordering::SeqCst);
        Ok(())
    }
}
