//! Exports and imports ranges of cells, through the scratch sequence.
//!
//! - The scratch sequence is empty before and after every call, also after a failed one.
//! - A range is imported at the position that it was exported from: nothing is rotated or rounded.
//! - Ranges are asserted, also in release builds: llama.cpp shares what is there of a wrong one, and says nothing.
//! - Beside a running state, an import leaves `sequence` without it until the
//!   [rest](Backend::rewind) is imported.

use std::ops::Range;

use crate::backend::{Backend, Sequence, StateError};

/// The opaque state of `range` of `sequence`, written over `buffer`.
pub fn export(
    backend: &mut dyn Backend,
    scratch: Sequence,
    sequence: Sequence,
    range: Range<usize>,
    buffer: Vec<u8>,
) -> Result<Vec<u8>, StateError> {
    backend.share(sequence, scratch, range);
    let state = backend.export_cells(scratch, buffer);
    backend.clear(scratch);
    state
}

/// The rest of `sequence` as it was after its first `end` tokens, where a window still holds what
/// they need.
pub fn export_rest(
    backend: &mut dyn Backend,
    scratch: Sequence,
    sequence: Sequence,
    end: usize,
) -> Result<Vec<u8>, StateError> {
    backend.share(sequence, scratch, 0..end);
    let rest = backend.export_rest(scratch);
    backend.clear(scratch);
    rest
}

/// Imports the cells `wanted` of a state that holds the cells `held` into `sequence`.
///
/// # Errors
/// [`StateError::Import`] when the state is refused or does not hold `held`; `sequence` is as it
/// was.
pub fn import(
    backend: &mut dyn Backend,
    scratch: Sequence,
    sequence: Sequence,
    state: &[u8],
    held: &Range<usize>,
    wanted: Range<usize>,
) -> Result<(), StateError> {
    assert!(
        held.start <= wanted.start && wanted.end <= held.end,
        "{wanted:?} is not within {held:?}"
    );
    backend.import_cells(scratch, state, held)?;
    backend.share(scratch, sequence, wanted);
    backend.clear(scratch);
    Ok(())
}
