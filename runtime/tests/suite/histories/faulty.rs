//! Contexts whose micro-batches and exports fail now and then.

use std::ops::Range;
use std::sync::Arc;

use hob_runtime::adapters::Adapters;
use hob_runtime::backend::{
    Backend, ContextShape, DecodeError, LoadError, Model, Row, Sequence, StateError,
};
use hob_runtime::heartbeat::Heartbeat;
use hob_slots::Token;

use crate::histories::wrapped::Contexts;

/// Contexts of which one in so many calls fails.
pub struct Faults {
    pub one_in: u64,
}

impl Contexts for Faults {
    fn with_context(
        &self,
        model: &dyn Model,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError> {
        model.with_context(shape, &mut |inner| {
            run(&mut FaultyContext { inner, one_in: self.one_in, calls: 0 });
        })
    }
}

struct FaultyContext<'b> {
    inner: &'b mut dyn Backend,
    one_in: u64,
    calls: u64,
}

impl FaultyContext<'_> {
    fn fails(&mut self) -> bool {
        self.calls += 1;
        self.calls.is_multiple_of(self.one_in)
    }
}

impl Backend for FaultyContext<'_> {
    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn report_to(&mut self, heartbeat: Arc<Heartbeat>) {
        self.inner.report_to(heartbeat);
    }

    fn can_interrupt(&self) -> bool {
        self.inner.can_interrupt()
    }

    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        if self.fails() {
            return Err(DecodeError::Failed("injected".to_owned()));
        }
        self.inner.decode(rows)
    }

    fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), LoadError> {
        if self.fails() {
            let (path, reason) = ("injected".to_owned(), "injected".to_owned());
            return Err(LoadError::Adapter { path, reason, setting: "adapters" });
        }
        self.inner.set_adapters(adapters)
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        self.inner.logits(row)
    }

    fn end(&self, sequence: Sequence) -> usize {
        self.inner.end(sequence)
    }

    fn share(&mut self, from: Sequence, to: Sequence, range: Range<usize>) {
        self.inner.share(from, to, range);
    }

    fn remove(&mut self, sequence: Sequence, range: Range<usize>) -> Result<(), StateError> {
        self.inner.remove(sequence, range)
    }

    fn clear(&mut self, sequence: Sequence) {
        self.inner.clear(sequence);
    }

    fn export(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError> {
        if self.fails() {
            return Err(StateError::Export { announced: 1, written: 0 });
        }
        self.inner.export(sequence, buffer)
    }

    fn import(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError> {
        self.inner.import(sequence, state)
    }

    fn has_ranges(&self) -> bool {
        self.inner.has_ranges()
    }

    fn export_cells(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError> {
        if self.fails() {
            return Err(StateError::Export { announced: 1, written: 0 });
        }
        self.inner.export_cells(sequence, buffer)
    }

    fn import_cells(
        &mut self,
        sequence: Sequence,
        state: &[u8],
        held: &Range<usize>,
    ) -> Result<(), StateError> {
        self.inner.import_cells(sequence, state, held)
    }

    fn export_rest(&mut self, sequence: Sequence) -> Result<Vec<u8>, StateError> {
        if self.fails() {
            return Err(StateError::Export { announced: 1, written: 0 });
        }
        self.inner.export_rest(sequence)
    }

    fn rewind(&mut self, sequence: Sequence, rest: &[u8], end: usize) -> Result<(), StateError> {
        self.inner.rewind(sequence, rest, end)
    }

    fn positions(&self, sequence: Sequence) -> Option<Vec<usize>> {
        self.inner.positions(sequence)
    }

    fn embed(&mut self, tokens: &[Token]) -> Result<Vec<f32>, DecodeError> {
        self.inner.embed(tokens)
    }
}
