//! States of sequences, out of llama.cpp and into it.

use llama_cpp_sys_2 as sys;

use super::Context;
use crate::backend::{Backend, Sequence, StateError};

impl Context<'_> {
    /// The state of a sequence, written over `buffer`.
    pub(super) fn export_with(
        &mut self,
        sequence: Sequence,
        buffer: Vec<u8>,
        flags: sys::llama_state_seq_flags,
    ) -> Result<Vec<u8>, StateError> {
        let context = self.pointer.as_ptr();
        // SAFETY: the context is alive, and checks the id.
        let announced = unsafe { sys::llama_state_seq_get_size_ext(context, sequence.0, flags) };
        let mut state = fitting(buffer, announced);
        if let Some(staged) = self.staging.as_mut().and_then(|staging| staging.bytes(announced)) {
            // SAFETY: the slice has the announced size, which is passed along.
            let written = unsafe {
                sys::llama_state_seq_get_data_ext(
                    context,
                    staged.as_mut_ptr(),
                    announced,
                    sequence.0,
                    flags,
                )
            };
            check_export(announced, written)?;
            state.extend_from_slice(&staged[..written]);
            return Ok(state);
        }
        // SAFETY: the vector has room for the announced size, which is passed along; its length is
        // set to what was written, and only after that many bytes were.
        unsafe {
            let written = sys::llama_state_seq_get_data_ext(
                context,
                state.as_mut_ptr(),
                announced,
                sequence.0,
                flags,
            );
            check_export(announced, written)?;
            state.set_len(written);
            Ok(state)
        }
    }

    /// Imports the parts of a sequence's state that `flags` name.
    pub(super) fn import_with(
        &mut self,
        sequence: Sequence,
        state: &[u8],
        flags: sys::llama_state_seq_flags,
    ) -> Result<(), StateError> {
        let staged = self.staging.as_mut().and_then(|staging| staging.bytes(state.len()));
        let source = match staged {
            Some(staged) => {
                staged.copy_from_slice(state);
                &*staged
            }
            None => state,
        };
        // SAFETY: pointer and length are those of one slice; the caller verified every byte of it
        // as an export of this very model and layout.
        let consumed = unsafe {
            sys::llama_state_seq_set_data_ext(
                self.pointer.as_ptr(),
                source.as_ptr(),
                source.len(),
                sequence.0,
                flags,
            )
        };
        if consumed == state.len() { Ok(()) } else { self.refuse(sequence, state) }
    }

    /// Clears the sequence, which has taken a part of a state at most.
    pub(super) fn refuse(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError> {
        self.clear(sequence);
        assert_eq!(self.end(sequence), 0, "a sequence is empty after it was cleared");
        Err(StateError::Import { bytes: state.len() })
    }
}

/// llama.cpp announces 0 bytes where it cannot write the state.
fn check_export(announced: usize, written: usize) -> Result<(), StateError> {
    if written == announced && announced > 0 {
        Ok(())
    } else {
        Err(StateError::Export { announced, written })
    }
}

/// An empty vector with room for `bytes`: `buffer`, unless it is too small or far too large.
fn fitting(mut buffer: Vec<u8>, bytes: usize) -> Vec<u8> {
    if (bytes..=bytes.saturating_mul(2)).contains(&buffer.capacity()) {
        buffer.clear();
        return buffer;
    }
    Vec::with_capacity(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_of_nothing_is_refused() {
        assert_eq!(check_export(7, 7), Ok(()));
        for (announced, written) in [(0, 0), (7, 6), (7, 0)] {
            let refused = StateError::Export { announced, written };
            assert_eq!(check_export(announced, written), Err(refused));
        }
    }
}
