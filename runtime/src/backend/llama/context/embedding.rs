//! Embeddings of texts, and the scores of rerankers.

use hob_slots::Token;
use llama_cpp_sys_2 as sys;

use super::Context;
use crate::backend::{Backend, DecodeError, RANK, Row, Sequence};

impl Context<'_> {
    /// The result of [`Backend::embed`].
    pub(super) fn embedding(&mut self, tokens: &[Token]) -> Result<Vec<f32>, DecodeError> {
        if self.model.facts.pooling.is_none() {
            return Err(DecodeError::Failed("this model does not make embeddings".to_owned()));
        }
        let ranks = self.ranks();
        let sequence = Sequence(0);
        let pooled = self.pooled(sequence, tokens);
        // Also after an error: the next text begins at position 0.
        if !self.memory().is_null() {
            self.clear(sequence);
        }
        if ranks { pooled } else { pooled.map(normalised) }
    }

    fn ranks(&self) -> bool {
        self.model.facts.pooling.as_deref() == Some(RANK)
    }

    /// The pooled embedding of `tokens`, computed in micro-batches.
    fn pooled(&mut self, sequence: Sequence, tokens: &[Token]) -> Result<Vec<f32>, DecodeError> {
        let size = self.shape.micro_batch;
        for (part, start) in tokens.chunks(size).zip((0..).step_by(size)) {
            let row = |(offset, &token): (usize, &Token)| Row {
                token,
                position: start + offset,
                sequence,
                wants_logits: true,
            };
            let rows: Vec<Row> = part.iter().enumerate().map(row).collect();
            self.decode(&rows)?;
        }
        // SAFETY: llama.cpp returns null, or for the sequence one vector of `n_embd_out` floats, and with the
        // pooling "rank" one of `n_cls_out`, valid until the next decode.
        unsafe {
            let values = sys::llama_get_embeddings_seq(self.pointer.as_ptr(), sequence.0);
            if values.is_null() {
                return Err(DecodeError::Failed("no embedding was pooled".to_owned()));
            }
            let model = self.weights.as_ptr();
            let width = if self.ranks() {
                usize::try_from(sys::llama_model_n_cls_out(model))
            } else {
                usize::try_from(sys::llama_model_n_embd_out(model))
            };
            Ok(std::slice::from_raw_parts(values, width.unwrap_or(0)).to_vec())
        }
    }
}

fn normalised(mut values: Vec<f32>) -> Vec<f32> {
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > 0.0 {
        values.iter_mut().for_each(|value| *value /= length);
    }
    values
}
