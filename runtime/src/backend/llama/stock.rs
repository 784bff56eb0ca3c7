//! llama.cpp's own sequence files, for the benchmark to compare with; and its conversion of weights.
//!
//! llama.cpp verifies nothing and may end the process on a bad file: only the benchmark calls it,
//! on files that it wrote in the same run. Built only with the feature `bench`.

use std::ffi::CString;
use std::path::Path;

use hob_slots::Token;
use llama_cpp_sys_2 as sys;

use super::LlamaModel;
use super::context::Context;
use crate::backend::{Backend, ContextShape, LoadError, Sequence};

/// Writes the model at `from` to `to` with the same weights as 32-bit floats. Returns whether it could.
pub fn widen(from: &Path, to: &Path) -> bool {
    let (from, to) = (c_path(from), c_path(to));
    // SAFETY: the defaults are plain values, and the paths end with a NUL. llama.cpp reads the file
    // that the benchmark loads too.
    unsafe {
        let mut params = sys::llama_model_quantize_default_params();
        params.ftype = sys::LLAMA_FTYPE_ALL_F32;
        params.allow_requantize = true;
        sys::llama_model_quantize(from.as_ptr(), to.as_ptr(), &raw const params) == 0
    }
}

/// A context whose sequences can be saved and loaded as llama.cpp's own files.
pub struct Stock<'m>(Context<'m>);

impl<'m> Stock<'m> {
    /// Makes a context as the engine does.
    ///
    /// # Errors
    /// [`LoadError::Context`] when it cannot be made.
    pub fn new(model: &'m LlamaModel, shape: ContextShape) -> Result<Self, LoadError> {
        Context::new(model, shape).map(Self)
    }

    pub fn backend(&mut self) -> &mut dyn Backend {
        &mut self.0
    }

    /// `llama_state_seq_save_file`. Returns the length of the file; 0 is a failure.
    pub fn save(&mut self, sequence: Sequence, path: &Path, tokens: &[Token]) -> usize {
        let (path, tokens) = (c_path(path), tokens.iter().map(|token| token.0).collect::<Vec<_>>());
        self.0.check_sequence(sequence);
        // SAFETY: the sequence id is below `n_seq_max`, the path ends with a NUL, and the tokens
        // are passed with their number.
        unsafe {
            sys::llama_state_seq_save_file(
                self.0.as_ptr(),
                path.as_ptr(),
                sequence.0,
                tokens.as_ptr(),
                tokens.len(),
            )
        }
    }

    /// `llama_state_seq_load_file` of a file that [`Stock::save`] wrote, with at most `room`
    /// tokens. Returns the bytes read, 0 is a failure, and the tokens.
    pub fn load(&mut self, sequence: Sequence, path: &Path, room: usize) -> (usize, Vec<Token>) {
        let (path, mut tokens, mut count) = (c_path(path), vec![0; room], 0);
        self.0.check_sequence(sequence);
        // SAFETY: the sequence id is below `n_seq_max`, the path ends with a NUL, the buffer is
        // passed with its length, and the caller wrote the file, so llama.cpp does not abort on it.
        let read = unsafe {
            sys::llama_state_seq_load_file(
                self.0.as_ptr(),
                path.as_ptr(),
                sequence.0,
                tokens.as_mut_ptr(),
                tokens.len(),
                &raw mut count,
            )
        };
        tokens.truncate(count);
        (read, tokens.into_iter().map(Token).collect())
    }
}

fn c_path(path: &Path) -> CString {
    let path = path.to_str().expect("the benchmark's own paths are UTF-8");
    CString::new(path).expect("a path holds no NUL")
}
