//! The context of the model's MTP heads, beside the context of the model.
//!
//! - llama.cpp makes it of the same weights. Its cache has the heads' layers alone, and as many cells and sequences.
//! - A row of it is a token with the hidden state of the token before it. A [`Trail`] keeps the rows of a sequence that
//!   it has not computed; every change of the model's cells changes trail and cells, so both agree.
//! - Of a batch either all rows have an output or none: llama.cpp's graphs differ in which rows' hidden states they hand
//!   out otherwise.
//! - After an error it forgets all sequences.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::super::LlamaModel;
use super::super::heads::{get_embeddings_nextn_ith, set_embeddings_nextn};
use super::super::params::context_params;
use super::super::pool::Pool;
use super::super::weights::Weights;
use super::batch::Batch;
use super::{NO_KV_SLOT, position};
use crate::backend::mtp::Trail;
use crate::backend::{ContextShape, DecodeError, GuessRow, Mtp, Row, Sequence};

/// Rows with an output in a batch at most, unless there are more sequences. Each takes a row of logits in the compute
/// buffer.
const MAX_OUTPUTS: usize = 32;

pub(super) struct Heads {
    pointer: NonNull<sys::llama_context>,
    /// The model's context, which computes the hidden states.
    model: NonNull<sys::llama_context>,
    _weights: Arc<Weights>,
    /// Floats of a hidden state.
    width: usize,
    /// Tokens of the vocabulary.
    vocabulary: usize,
    micro_batch: usize,
    max_outputs: usize,
    /// By sequence.
    trails: Vec<Trail>,
    /// Sequences whose rows [`Heads::keep`] adds to their trails.
    followed: Vec<Sequence>,
    /// The rows of the next batch, and their hidden states.
    rows: Vec<Row>,
    hidden: Vec<f32>,
    batch: Batch,
    /// The last guess of each sequence: its position, and its own hidden state.
    guesses: Vec<Option<(usize, Arc<[f32]>)>>,
    /// Where the rows of the last call are in the last batch.
    places: Vec<usize>,
}

impl Heads {
    /// `None` where llama.cpp makes no context. `beside`: the model's context, which outlives this one; so does `pool`.
    pub fn new(
        model: &LlamaModel,
        weights: &Arc<Weights>,
        beside: NonNull<sys::llama_context>,
        pool: Option<&Pool>,
        shape: ContextShape,
    ) -> Option<Self> {
        let kv_on_devices = weights.offload().is_some_and(|offload| offload.kv);
        let mut params = context_params(shape, model.options.cache_types(), kv_on_devices)?;
        let max_outputs = MAX_OUTPUTS.max(shape.sequences);
        params.n_outputs_max = u32::try_from(max_outputs).ok()?.min(params.n_batch);
        params.n_threads = model.options.threads(model.facts.size_bytes);
        params.n_threads_batch = params.n_threads;
        params.ctx_type = sys::LLAMA_CONTEXT_TYPE_MTP;
        // SAFETY: the parameters are plain values, and this holds the weights.
        let pointer = unsafe { sys::llama_init_from_model(weights.as_ptr(), params) };
        let pointer = NonNull::new(pointer)?;
        // SAFETY: the context was just made; the pool outlives it, and `Drop` detaches it. The last two calls set and
        // read numbers.
        let width = unsafe {
            if let Some(pool) = pool {
                sys::llama_attach_threadpool(pointer.as_ptr(), pool.as_ptr(), pool.as_ptr());
            }
            set_embeddings_nextn(pointer.as_ptr(), true, true);
            sys::llama_model_n_embd_out(weights.as_ptr())
        };
        Some(Self {
            pointer,
            model: beside,
            _weights: weights.clone(),
            width: usize::try_from(width).unwrap_or(0),
            vocabulary: model.vocabulary.len(),
            micro_batch: shape.micro_batch,
            max_outputs: max_outputs.min(shape.micro_batch),
            trails: vec![Trail::default(); shape.sequences],
            followed: Vec::new(),
            rows: Vec::new(),
            hidden: Vec::new(),
            batch: Batch::default(),
            guesses: vec![None; shape.sequences],
            places: Vec::new(),
        })
    }

    /// Before the model computes `rows`: it hands out hidden states if one of them is followed.
    pub fn prepare(&self, rows: &[Row]) {
        let keeps = rows.iter().any(|row| self.followed.contains(&row.sequence));
        // SAFETY: the model's context is alive; the call sets two numbers of it.
        unsafe { set_embeddings_nextn(self.model.as_ptr(), keeps, false) }
    }

    /// The model has computed `rows`, and waited for them.
    pub fn keep(&mut self, rows: &[Row]) {
        for (at, row) in rows.iter().enumerate() {
            let trail = &mut self.trails[index(row.sequence)];
            if !self.followed.contains(&row.sequence) {
                trail.pass();
                continue;
            }
            match hidden_of(self.model, at, self.width) {
                Some(hidden) => trail.keep(row.position, row.token, hidden),
                None => trail.pass(),
            }
        }
    }

    /// The model's cells of a sequence from `len` on were dropped, or replaced by others.
    pub fn cut(&mut self, sequence: Sequence, len: usize) {
        if let Some(start) = self.trails[index(sequence)].cut(len) {
            self.remove_cells(sequence, start);
        }
    }

    /// The model's cells in `range` were dropped, and others are behind them.
    pub fn drop_between(&mut self, sequence: Sequence, range: &Range<usize>) {
        let trail = &mut self.trails[index(sequence)];
        if trail.kept().any(|kept| range.contains(&kept.position)) {
            trail.pass();
        }
        let (start, end) = (range.start, range.end.min(trail.end));
        if start < end {
            if end == trail.end {
                trail.end = start; // Their last cell is before it: the next row is behind a gap.
            }
            // SAFETY: the id is below `n_seq_max`. Cells that are not there are not dropped.
            unsafe {
                let memory = self.memory();
                sys::llama_memory_seq_rm(memory, sequence.0, position(start), position(end));
            }
        }
    }

    /// The model's cells of `from` in `range` became cells of `to` too.
    pub fn share(&mut self, from: Sequence, to: Sequence, range: &Range<usize>) {
        if range.start > 0 {
            self.cut(to, range.start);
            self.trails[index(to)].pass();
            return;
        }
        self.cut(to, 0);
        let trail = self.trails[index(from)].of_first(range.end);
        if trail.end > 0 {
            // SAFETY: both ids are below `n_seq_max`.
            unsafe {
                let memory = self.memory();
                sys::llama_memory_seq_cp(memory, from.0, to.0, 0, position(trail.end));
            }
        }
        self.trails[index(to)] = trail;
    }

    /// Drops the heads' cells of a sequence from `start` on.
    fn remove_cells(&self, sequence: Sequence, start: usize) {
        // SAFETY: the id is below `n_seq_max`; cells that are not there are not dropped.
        unsafe { sys::llama_memory_seq_rm(self.memory(), sequence.0, position(start), -1) };
    }

    fn memory(&self) -> sys::llama_memory_t {
        // SAFETY: the context is alive; its memory lives as long as it does.
        unsafe { sys::llama_get_memory(self.pointer.as_ptr()) }
    }

    /// Makes the sequence's cells end where its next row is. llama.cpp refuses a batch behind a gap, so what is before
    /// one is dropped.
    fn align(&mut self, sequence: Sequence) {
        let trail = &mut self.trails[index(sequence)];
        let next = trail.next_position().unwrap_or(trail.end);
        if next != trail.end {
            trail.end = next;
            trail.has_guesses = false;
            return self.remove_cells(sequence, 0);
        }
        if std::mem::take(&mut trail.has_guesses) {
            self.remove_cells(sequence, next);
        }
    }

    fn clear_batch(&mut self) {
        self.rows.clear();
        self.hidden.clear();
        self.places.clear();
    }

    /// Adds the first `count` rows that a sequence lacks to the batch.
    fn add_kept(&mut self, sequence: Sequence, count: usize, wants_logits: bool) {
        for kept in self.trails[index(sequence)].kept().take(count) {
            let (token, position) = (kept.token, kept.position);
            self.rows.push(Row { token, position, sequence, wants_logits });
            self.hidden.extend_from_slice(&kept.before);
        }
    }

    /// Computes the batch.
    fn compute(&mut self) -> Result<(), DecodeError> {
        let count = self.rows.len();
        if count == 0 {
            return Ok(());
        }
        assert!(count <= self.micro_batch && self.hidden.len() == count * self.width);
        let mut batch = self.batch.fill(&self.rows);
        batch.embd = self.hidden.as_mut_ptr();
        // SAFETY: `batch` points into `self.batch` and `self.hidden`, which hold an entry and a hidden state for each
        // row and live past the call; the model has computed these tokens, or they are of its vocabulary.
        let result = unsafe { sys::llama_decode(self.pointer.as_ptr(), batch) };
        if result == 0 {
            // SAFETY: the context is alive.
            unsafe { sys::llama_synchronize(self.pointer.as_ptr()) };
            return Ok(());
        }
        self.forget();
        Err(match result {
            NO_KV_SLOT => DecodeError::NoRoom { rows: count },
            code => DecodeError::Failed(format!("llama_decode returned {code} for MTP heads")),
        })
    }

    fn forget(&mut self) {
        // SAFETY: the memory is alive. What its cells hold need not be cleared.
        unsafe { sys::llama_memory_clear(self.memory(), false) };
        self.trails.fill(Trail::default());
        self.guesses.fill(None);
    }

    fn unknown(&mut self, sequence: Sequence) -> DecodeError {
        self.forget();
        DecodeError::Failed(format!(
            "the MTP heads lack the hidden state of sequence {}",
            sequence.0
        ))
    }

    /// The rows of guesses were computed: keeps their hidden states for those that go on.
    fn keep_guesses(&mut self, rows: &[GuessRow]) {
        for (row, &place) in rows.iter().zip(&self.places) {
            let hidden = hidden_of(self.pointer, place, self.width);
            let at = self.rows[place].position;
            self.guesses[index(row.sequence)] = hidden.map(|hidden| (at, hidden));
            self.trails[index(row.sequence)].has_guesses = true;
        }
    }
}

impl Mtp for Heads {
    fn follow(&mut self, sequences: &[Sequence]) {
        self.followed.clear();
        self.followed.extend_from_slice(sequences);
    }

    fn lacks(&self, sequence: Sequence) -> Option<usize> {
        let trail = &self.trails[index(sequence)];
        trail.newest().map(|_| trail.kept().len())
    }

    fn read(&mut self, sequence: Sequence, rows: usize) -> Result<(), DecodeError> {
        let lacked = self.trails[index(sequence)].kept().len();
        let count = rows.min(lacked).min(self.micro_batch);
        self.align(sequence);
        self.clear_batch();
        self.add_kept(sequence, count, false);
        self.compute()?;
        self.trails[index(sequence)].computed(count);
        Ok(())
    }

    fn begin(&mut self, rows: &[GuessRow]) -> Result<(), DecodeError> {
        let lacked = |it: &GuessRow| self.trails[index(it.sequence)].kept().len();
        if rows.iter().map(lacked).sum::<usize>() + rows.len() > self.max_outputs {
            for row in rows {
                while self.lacks(row.sequence).is_some_and(|lacked| lacked > 0) {
                    self.read(row.sequence, self.micro_batch)?;
                }
            }
        }
        self.clear_batch();
        for &GuessRow { sequence, token } in rows {
            self.align(sequence);
            self.add_kept(sequence, usize::MAX, true);
            let Some((newest, hidden)) = self.trails[index(sequence)].newest() else {
                return Err(self.unknown(sequence));
            };
            self.places.push(self.rows.len());
            self.rows.push(Row { token, position: newest + 1, sequence, wants_logits: true });
            self.hidden.extend_from_slice(hidden);
        }
        self.compute()?;
        for row in rows {
            let trail = &mut self.trails[index(row.sequence)];
            let computed = trail.kept().len();
            trail.computed(computed);
        }
        self.keep_guesses(rows);
        Ok(())
    }

    fn go_on(&mut self, rows: &[GuessRow]) -> Result<(), DecodeError> {
        self.clear_batch();
        for &GuessRow { sequence, token } in rows {
            let Some((at, hidden)) = &self.guesses[index(sequence)] else {
                return Err(self.unknown(sequence));
            };
            self.places.push(self.rows.len());
            self.rows.push(Row { token, position: at + 1, sequence, wants_logits: true });
            self.hidden.extend_from_slice(hidden);
        }
        self.compute()?;
        self.keep_guesses(rows);
        Ok(())
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        let place = i32::try_from(self.places[row]).expect("a micro-batch is small");
        // SAFETY: llama.cpp returns null for a row without logits; otherwise the row holds one float for each
        // vocabulary entry and stays valid until the next decode, which needs `&mut self`. Nothing else has the pointer.
        unsafe {
            let logits = sys::llama_get_logits_ith(self.pointer.as_ptr(), place);
            assert!(!logits.is_null(), "row {row} of the MTP heads has logits");
            std::slice::from_raw_parts_mut(logits, self.vocabulary)
        }
    }
}

impl Drop for Heads {
    fn drop(&mut self) {
        // SAFETY: the context is alive until here; the pool is detached before it is freed, and the weights are a field.
        unsafe {
            sys::llama_detach_threadpool(self.pointer.as_ptr());
            sys::llama_free(self.pointer.as_ptr());
        }
    }
}

fn index(sequence: Sequence) -> usize {
    usize::try_from(sequence.0).expect("ids of sequences are not negative")
}

/// The hidden state of a row of the last micro-batch of `context`; `None` where llama.cpp kept none.
fn hidden_of(context: NonNull<sys::llama_context>, row: usize, width: usize) -> Option<Arc<[f32]>> {
    let row = i32::try_from(row).ok()?;
    // SAFETY: the context is alive. llama.cpp returns null, or the `width` floats of the row, which stay valid until its
    // next decode; they are copied here.
    unsafe {
        let hidden = get_embeddings_nextn_ith(context.as_ptr(), row);
        (!hidden.is_null()).then(|| Arc::from(std::slice::from_raw_parts(hidden, width)))
    }
}
