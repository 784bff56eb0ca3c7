//! Contexts that call hooks before some of their calls; the other calls are those of the context inside.

use std::ops::Range;
use std::sync::Arc;

use hob_runtime::adapters::Adapters;
use hob_runtime::backend::{
    Backend, ContextShape, DecodeError, LoadError, Model, Row, Sequence, StateError,
};
use hob_runtime::heartbeat::Heartbeat;
use hob_slots::Token;

use crate::histories::wrapped::Contexts;

/// What is called before a call of the context. On `Err`, the context inside is not called.
///
/// Each context has its own clone.
pub trait Hooks: Clone + Send + Sync {
    fn before_decode(&mut self) -> Result<(), DecodeError> {
        Ok(())
    }

    fn before_set_adapters(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    fn before_logits(&mut self) {}

    /// Before [`Backend::export_cells`].
    fn before_export_of_cells(&mut self) -> Result<(), StateError> {
        Ok(())
    }

    /// Before [`Backend::export_rest`] and, of a whole state, [`Backend::export`].
    fn before_export_of_rest(&mut self) -> Result<(), StateError> {
        Ok(())
    }
}

impl<H: Hooks> Contexts for H {
    fn with_context(
        &self,
        model: &dyn Model,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError> {
        model.with_context(shape, &mut |inner| run(&mut Hooked { inner, hooks: self.clone() }))
    }
}

struct Hooked<'b, H> {
    inner: &'b mut dyn Backend,
    hooks: H,
}

impl<H: Hooks> Backend for Hooked<'_, H> {
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
        self.hooks.before_decode()?;
        self.inner.decode(rows)
    }

    fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), LoadError> {
        self.hooks.before_set_adapters()?;
        self.inner.set_adapters(adapters)
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        self.hooks.before_logits();
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
        self.hooks.before_export_of_rest()?;
        self.inner.export(sequence, buffer)
    }

    fn import(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError> {
        self.inner.import(sequence, state)
    }

    fn has_ranges(&self) -> bool {
        self.inner.has_ranges()
    }

    fn export_cells(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError> {
        self.hooks.before_export_of_cells()?;
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
        self.hooks.before_export_of_rest()?;
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
