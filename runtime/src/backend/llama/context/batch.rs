//! The rows of a micro-batch as llama.cpp reads them.

use llama_cpp_sys_2 as sys;

use super::position;
use crate::backend::Row;

/// The arrays of a `llama_batch`, reused by every decode.
#[derive(Default)]
pub(super) struct Batch {
    tokens: Vec<i32>,
    positions: Vec<i32>,
    counts: Vec<i32>,
    sequences: Vec<i32>,
    pointers: Vec<*mut i32>,
    wants: Vec<i8>,
}

impl Batch {
    /// A batch that points into `self`, valid until the next call.
    pub fn fill(&mut self, rows: &[Row]) -> sys::llama_batch {
        self.tokens.clear();
        self.positions.clear();
        self.sequences.clear();
        self.wants.clear();
        for row in rows {
            self.tokens.push(row.token.0);
            self.positions.push(position(row.position));
            self.sequences.push(row.sequence.0);
            self.wants.push(i8::from(row.wants_logits));
        }
        self.counts.clear();
        self.counts.resize(rows.len(), 1); // Each row belongs to one sequence.
        self.pointers.clear();
        self.pointers.extend(self.sequences.iter_mut().map(std::ptr::from_mut));
        sys::llama_batch {
            n_tokens: i32::try_from(rows.len()).expect("a micro-batch is small"),
            token: self.tokens.as_mut_ptr(),
            embd: std::ptr::null_mut(),
            pos: self.positions.as_mut_ptr(),
            n_seq_id: self.counts.as_mut_ptr(),
            seq_id: self.pointers.as_mut_ptr(),
            logits: self.wants.as_mut_ptr(),
        }
    }
}
