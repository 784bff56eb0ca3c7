//! A llama.cpp context: the cache and the computation, owned by the engine's thread.
//!
//! Preconditions of each call, because llama.cpp checks few and aborts on the rest:
//! sequence ids are below `n_seq_max`; a batch begins at the end of its sequence; ranges satisfy
//! `0 <= start < end <= end of sequence`; imported bytes were verified by the caller.
//!
//! Below it: `batch` (the rows of a micro-batch), `state` (exports and imports), `split` (states of memories
//! with more than attention), `embedding`, `mtp` (the context of MTP heads), `quiet` (the log of an interrupted
//! micro-batch).

mod batch;
mod embedding;
mod mtp;
mod quiet;
mod split;
mod state;

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use hob_slots::Token;
use llama_cpp_sys_2 as sys;

use self::batch::Batch;
use self::mtp::Heads;
use self::split::Split;
use super::LlamaModel;
use super::adapters::TurnAdapters;
use super::params::context_params;
use super::pool::Pool;
use super::staging::Staging;
use super::weights::Weights;
use crate::adapters::Adapters;
use crate::backend::state::PlainState;
use crate::backend::{
    Backend, ContextShape, DecodeError, LoadError, Mtp, MtpHeads, Offload, Row, Sequence,
    StateError,
};
use crate::heartbeat::Heartbeat;

/// `llama_decode`'s code for "could not find a KV slot for the batch".
const NO_KV_SLOT: i32 = 1;

/// `llama_decode`'s code for a batch that the abort callback ended; the cells of the batch were removed.
const ABORTED: i32 = 2;

/// A layer has more nodes. Beside another device, the processor computes a few of a graph.
const MIN_NODES: u64 = 16;

const WHOLE: sys::llama_state_seq_flags = 0;

pub(super) struct Context<'m> {
    pointer: NonNull<sys::llama_context>,
    pool: Option<Pool>,
    weights: Arc<Weights>,
    adapters: TurnAdapters,
    model: &'m LlamaModel,
    shape: ContextShape,
    batch: Batch,
    /// For a memory with full attention and something beside it: how its states are split; `None` where they cannot
    /// be.
    split: Option<Split>,
    /// Where KV is on a device that can have it.
    staging: Option<Staging>,
    /// Its own context is freed before this one. `None`: no heads are loaded, or there is no memory for them.
    heads: Option<Heads>,
    /// llama.cpp has its address.
    heartbeat: Option<Arc<Heartbeat>>,
    /// The processor computed the nodes of the last graph: devices of other kinds take no abort
    /// callback.
    reports_nodes: bool,
}

impl<'m> Context<'m> {
    pub(super) fn new(model: &'m LlamaModel, shape: ContextShape) -> Result<Self, LoadError> {
        let weights = model.weights()?;
        let offload = weights.offload();
        let failed = LoadError::Context {
            context_tokens: shape.context_tokens,
            beside: offload.as_ref().map(Offload::to_string),
        };
        let threads = model.options.threads(model.facts.size_bytes);
        let kv_on = offload.filter(|offload| offload.kv);
        let kv_on_devices = kv_on.is_some();
        let inner = split::with_void(shape, model.facts.memory);
        let params = context_params(inner, model.options.cache_types(), kv_on_devices);
        let mut params = params.ok_or_else(|| failed.clone())?;
        params.n_threads = threads;
        params.n_threads_batch = params.n_threads;
        params.embeddings = model.facts.pooling.is_some();
        // SAFETY: the parameters are plain values, and the context holds the weights.
        let pointer = unsafe { sys::llama_init_from_model(weights.as_ptr(), params) };
        let pointer = NonNull::new(pointer).ok_or_else(|| failed.clone())?;
        let pool = model.options.poll.and_then(|poll| Pool::new(threads, poll));
        if let Some(pool) = &pool {
            // SAFETY: both are alive; `Drop` detaches the pool before it is freed.
            unsafe {
                sys::llama_attach_threadpool(pointer.as_ptr(), pool.as_ptr(), pool.as_ptr());
            }
        }
        let mut context = Self {
            pointer,
            pool,
            weights,
            adapters: TurnAdapters::default(),
            model,
            shape,
            batch: Batch::default(),
            split: None,
            staging: kv_on.and_then(|offload| Staging::new(&offload.devices)),
            heads: None,
            heartbeat: None,
            reports_nodes: false,
        };
        context.split = context.find_split();
        context.set_adapters(&Adapters::default())?; // Those of the model.
        if model.heads == MtpHeads::Loaded {
            let (weights, pool) = (&context.weights, context.pool.as_ref());
            context.heads = Heads::new(model, weights, pointer, pool, shape);
        }
        Ok(context)
    }

    pub(super) fn memory(&self) -> sys::llama_memory_t {
        // SAFETY: the context is alive; its memory lives as long as it does.
        unsafe { sys::llama_get_memory(self.pointer.as_ptr()) }
    }

    #[cfg(feature = "bench")]
    pub(super) fn as_ptr(&self) -> *mut sys::llama_context {
        self.pointer.as_ptr()
    }

    pub(super) fn check_sequence(&self, sequence: Sequence) {
        let known = usize::try_from(sequence.0).is_ok_and(|id| id < self.shape.sequences);
        assert!(known, "sequence {} of {}", sequence.0, self.shape.sequences);
    }

    /// The sequence has `len` tokens at most that the heads know.
    fn cut_heads(&mut self, sequence: Sequence, len: usize) {
        if let Some(heads) = &mut self.heads {
            heads.cut(sequence, len);
        }
    }

    fn check_range(&self, sequence: Sequence, range: &Range<usize>) -> (i32, i32) {
        self.check_sequence(sequence);
        let end = self.end(sequence);
        assert!(
            range.start < range.end && range.end <= end,
            "range {range:?} of a sequence that ends at {end}"
        );
        (position(range.start), position(range.end))
    }
}

impl Backend for Context<'_> {
    fn context_tokens(&self) -> usize {
        self.shape.context_tokens
    }

    fn report_to(&mut self, heartbeat: Arc<Heartbeat>) {
        let data = Arc::as_ptr(&heartbeat).cast_mut().cast::<c_void>();
        // SAFETY: the callback has the expected signature; `data` lives as long as the context,
        // which holds it from here on and is freed before its fields.
        unsafe {
            sys::llama_set_abort_callback(self.pointer.as_ptr(), Some(report_node), data);
        }
        self.heartbeat = Some(heartbeat);
    }

    fn can_interrupt(&self) -> bool {
        self.reports_nodes
    }

    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        assert!(rows.len() <= self.shape.micro_batch, "a batch is one micro-batch");
        for row in rows {
            self.check_sequence(row.sequence);
        }
        let beats = || self.heartbeat.as_ref().map_or(0, |heartbeat| heartbeat.beats());
        let before = beats();
        if let Some(heads) = &self.heads {
            heads.prepare(rows);
        }
        let batch = self.batch.fill(rows);
        // SAFETY: `batch` points into `self.batch`, whose arrays hold `n_tokens` entries and live
        // past the call; tokens were checked against the vocabulary when the turn was submitted.
        let result = unsafe { sys::llama_decode(self.pointer.as_ptr(), batch) };
        quiet::end();
        if result == 0 {
            // A device has only queued the graph: what times this call would measure nothing.
            // SAFETY: the context is alive.
            unsafe { sys::llama_synchronize(self.pointer.as_ptr()) };
            if let Some(heads) = &mut self.heads {
                heads.keep(rows);
            }
        }
        self.reports_nodes = beats() - before >= MIN_NODES;
        match result {
            0 => Ok(()),
            NO_KV_SLOT => Err(DecodeError::NoRoom { rows: rows.len() }),
            ABORTED => Err(DecodeError::Interrupted),
            code => Err(DecodeError::Failed(format!("llama_decode returned {code}"))),
        }
    }

    fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), LoadError> {
        self.adapters.apply(self.pointer, self.weights.with_adapters(), adapters)
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        let row = i32::try_from(row).expect("a micro-batch is small");
        // SAFETY: llama.cpp returns null for a row without logits; otherwise the row holds one
        // float for each vocabulary entry and stays valid until the next decode, which needs `&mut
        // self`. llama.cpp itself reads it no more, and nothing else has the pointer.
        unsafe {
            let logits = sys::llama_get_logits_ith(self.pointer.as_ptr(), row);
            assert!(!logits.is_null(), "row {row} has logits");
            std::slice::from_raw_parts_mut(logits, self.model.vocabulary.len())
        }
    }

    fn end(&self, sequence: Sequence) -> usize {
        self.check_sequence(sequence);
        // SAFETY: memory and sequence id are valid; -1 stands for an empty sequence.
        let last = unsafe { sys::llama_memory_seq_pos_max(self.memory(), sequence.0) };
        usize::try_from(last + 1).unwrap_or(0)
    }

    fn share(&mut self, from: Sequence, to: Sequence, range: Range<usize>) {
        let (start, end) = if self.split.is_some() {
            // Without its rest, a sequence with cells has no end; absent cells are not shared.
            assert!(range.start < range.end, "an empty range {range:?}");
            (position(range.start), position(range.end))
        } else {
            self.check_range(from, &range)
        };
        self.check_sequence(from);
        self.check_sequence(to);
        // SAFETY: both ids are below `n_seq_max` and the range lies within `from`.
        unsafe { sys::llama_memory_seq_cp(self.memory(), from.0, to.0, start, end) }
        if let Some(heads) = &mut self.heads {
            heads.share(from, to, &range);
        }
    }

    fn remove(&mut self, sequence: Sequence, range: Range<usize>) -> Result<(), StateError> {
        let (start, end) = self.check_range(sequence, &range);
        let is_tail = range.end == self.end(sequence);
        // SAFETY: the id is below `n_seq_max` and the range lies within the sequence.
        if !unsafe { sys::llama_memory_seq_rm(self.memory(), sequence.0, start, end) } {
            return Err(StateError::Partial(self.model.facts.memory));
        }
        match &mut self.heads {
            Some(heads) if is_tail => heads.cut(sequence, range.start),
            Some(heads) => heads.drop_between(sequence, &range),
            None => {}
        }
        Ok(())
    }

    fn clear(&mut self, sequence: Sequence) {
        self.check_sequence(sequence);
        // SAFETY: the id is below `n_seq_max`; removing a whole sequence never fails.
        unsafe { sys::llama_memory_seq_rm(self.memory(), sequence.0, -1, -1) };
        self.cut_heads(sequence, 0);
    }

    fn export(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError> {
        self.check_sequence(sequence);
        self.export_with(sequence, buffer, WHOLE)
    }

    fn import(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError> {
        self.check_sequence(sequence);
        self.cut_heads(sequence, 0);
        self.import_with(sequence, state, WHOLE)
    }

    fn has_ranges(&self) -> bool {
        self.split.is_some() || self.model.facts.memory.is_plain()
    }

    fn export_cells(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError> {
        self.check_sequence(sequence);
        if self.split.is_some() {
            self.export_attention(sequence, buffer)
        } else {
            self.export_with(sequence, buffer, WHOLE)
        }
    }

    fn import_cells(
        &mut self,
        sequence: Sequence,
        state: &[u8],
        held: &Range<usize>,
    ) -> Result<(), StateError> {
        self.check_sequence(sequence);
        self.cut_heads(sequence, 0);
        if self.split.is_some() {
            return self.import_attention(sequence, state, held);
        }
        // Layouts that are not known here were verified as objects that begin and end there.
        if !PlainState::parse(state).is_none_or(|state| state.holds(held)) {
            return Err(StateError::Import { bytes: state.len() });
        }
        self.import_with(sequence, state, WHOLE)?;
        if self.end(sequence) == held.end { Ok(()) } else { self.refuse(sequence, state) }
    }

    fn export_rest(&mut self, sequence: Sequence) -> Result<Vec<u8>, StateError> {
        self.check_sequence(sequence);
        let flags = if self.split.is_some() { split::REST } else { WHOLE };
        self.export_with(sequence, Vec::new(), flags)
    }

    fn rewind(&mut self, sequence: Sequence, rest: &[u8], end: usize) -> Result<(), StateError> {
        self.check_sequence(sequence);
        if self.split.is_some() {
            self.import_with(sequence, rest, split::REST)?;
            // SAFETY: the id is below `n_seq_max`. The running state is at `end` already.
            unsafe { sys::llama_memory_seq_rm(self.memory(), sequence.0, position(end), -1) };
        } else {
            self.import_with(sequence, rest, WHOLE)?;
        }
        self.cut_heads(sequence, end);
        if self.end(sequence) == end { Ok(()) } else { self.refuse(sequence, rest) }
    }

    fn mtp(&mut self) -> Option<&mut dyn Mtp> {
        self.heads.as_mut().map(|heads| heads as &mut dyn Mtp)
    }

    fn embed(&mut self, tokens: &[Token]) -> Result<Vec<f32>, DecodeError> {
        self.embedding(tokens)
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        self.heads = None;
        // SAFETY: the context is alive until here; the pool is detached before it is freed. The adapters are
        // freed after it, and before the weights, which are a field.
        unsafe {
            if self.pool.is_some() {
                sys::llama_detach_threadpool(self.pointer.as_ptr());
            }
            sys::llama_free(self.pointer.as_ptr());
            self.adapters.free();
        }
    }
}

/// Called after each node of a graph that the processor computes; returns whether to abort it.
///
/// # Safety
/// `heartbeat` must point to a [`Heartbeat`].
unsafe extern "C" fn report_node(heartbeat: *mut c_void) -> bool {
    // SAFETY: the caller's promise. It is only read: its fields are atomic.
    let heartbeat = unsafe { &*heartbeat.cast::<Heartbeat>() };
    heartbeat.beat();
    let interrupts = heartbeat.interrupts();
    if interrupts {
        quiet::begin();
    }
    interrupts
}

fn position(position: usize) -> i32 {
    // `i32::MAX` itself would leak its cell for good.
    i32::try_from(position).ok().filter(|&p| p < i32::MAX).expect("positions fit a context")
}

#[cfg(test)]
mod tests;
