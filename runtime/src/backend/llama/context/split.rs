//! The states of memories with full attention and a *rest* beside it: windows and running states.
//!
//! - llama.cpp writes the full attention first, and then what it writes for `PARTIAL_ONLY`, the rest.
//!   Memories that it writes otherwise have no split: their states are exported whole.
//! - Cells of a range are exported through a sequence that shares them, without its rest: a window is
//!   cut off behind the attention, and a running state is dropped before. For that a hybrid context
//!   has one more sequence, the *void*, which is always empty: sharing from it drops the running
//!   state and no cell.
//! - Cells are imported with the rest of an empty sequence behind them.

use std::ops::Range;

use llama_cpp_sys_2 as sys;

use super::{Context, WHOLE};
use crate::backend::state::PlainState;
use crate::backend::{ContextShape, MemoryKind, Sequence, StateError};

pub(super) const REST: sys::llama_state_seq_flags = 1; // LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY, a macro that bindgen leaves out.

/// The magic number and the id of the sequence.
const HEAD: usize = 8;

/// Attention without cells: one stream, no cells.
const NO_CELLS: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];

pub(super) struct Split {
    /// What llama.cpp writes behind the attention of an empty sequence.
    empty_rest: Vec<u8>,
    void: Option<Sequence>,
    /// The state that was imported last, for its memory.
    buffer: Vec<u8>,
}

/// The shape with the void of a hybrid memory.
pub(super) fn with_void(shape: ContextShape, memory: MemoryKind) -> ContextShape {
    let void = usize::from(memory == MemoryKind::Hybrid);
    ContextShape { sequences: shape.sequences + void, ..shape }
}

impl Context<'_> {
    /// How the states of the memory are split, if they are: seen in the state of an empty sequence.
    pub(super) fn find_split(&mut self) -> Option<Split> {
        let memory = self.model.facts.memory;
        if !matches!(memory, MemoryKind::Windowed | MemoryKind::Hybrid) {
            return None;
        }
        let whole = self.export_with(Sequence(0), Vec::new(), WHOLE).ok()?;
        let rest = self.export_with(Sequence(0), Vec::new(), REST).ok()?;
        let empty_rest = rest.get(HEAD..)?.to_vec();
        if whole.get(HEAD..)? != [&NO_CELLS[..], &empty_rest].concat() {
            return None;
        }
        let void = i32::try_from(self.shape.sequences).ok().map(Sequence);
        let void = void.filter(|_| memory == MemoryKind::Hybrid);
        Some(Split { empty_rest, void, buffer: Vec::new() })
    }

    /// The attention of a sequence whose rest is not needed any more.
    pub(super) fn export_attention(
        &mut self,
        sequence: Sequence,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, StateError> {
        if let Some(void) = self.split.as_ref().and_then(|split| split.void) {
            // SAFETY: both ids are below `n_seq_max`, which counts the void.
            unsafe { sys::llama_memory_seq_cp(self.memory(), void.0, sequence.0, -1, -1) }
        }
        // SAFETY: the context is alive and the id below `n_seq_max`.
        let rest =
            unsafe { sys::llama_state_seq_get_size_ext(self.pointer.as_ptr(), sequence.0, REST) };
        let mut state = self.export_with(sequence, buffer, WHOLE)?;
        let attention = state.len().checked_sub(rest.saturating_sub(HEAD));
        let Some(attention) = attention.filter(|&bytes| bytes > HEAD + NO_CELLS.len()) else {
            return Err(StateError::Export { announced: rest, written: state.len() });
        };
        state.truncate(attention);
        Ok(state)
    }

    /// Gives the sequence cells at the positions `held`, and no rest.
    pub(super) fn import_attention(
        &mut self,
        sequence: Sequence,
        attention: &[u8],
        held: &Range<usize>,
    ) -> Result<(), StateError> {
        // Layouts that are not known here were verified as objects that begin and end there.
        if !PlainState::parse(attention).is_none_or(|state| state.holds(held)) {
            return Err(StateError::Import { bytes: attention.len() });
        }
        let split = self.split.as_mut().expect("only split memories are asked");
        let mut state = std::mem::take(&mut split.buffer);
        state.clear();
        state.extend_from_slice(attention);
        state.extend_from_slice(&split.empty_rest);
        let imported = self.import_with(sequence, &state, WHOLE);
        if let Some(split) = &mut self.split {
            split.buffer = state;
        }
        imported
    }
}
