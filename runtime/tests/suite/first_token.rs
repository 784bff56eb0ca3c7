//! What the engine does before the first token of an answer: of a window or a running state it exports nothing.

use std::ops::Range;
use std::sync::Arc;

use hob_runtime::Model;
use hob_runtime::adapters::Adapters;
use hob_runtime::backend::{
    Backend, ContextShape, DecodeError, LoadError, MemoryKind, Row, Sequence, StateError,
};
use hob_runtime::heartbeat::Heartbeat;
use hob_slots::Token;
use parking_lot::Mutex;

use crate::histories::wrapped::{Contexts, Wrapped};
use crate::support::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A token is sampled.
    Logits,
    /// A rest or a whole state is exported.
    Export,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Call>>>);

impl Contexts for Log {
    fn with_context(
        &self,
        model: &dyn Model,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError> {
        model.with_context(shape, &mut |inner| run(&mut Context { inner, log: self }))
    }
}

/// Another context, whose calls are logged.
struct Context<'b> {
    inner: &'b mut dyn Backend,
    log: &'b Log,
}

impl Backend for Context<'_> {
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
        self.inner.decode(rows)
    }

    fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), LoadError> {
        self.inner.set_adapters(adapters)
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        self.log.0.lock().push(Call::Logits);
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
        self.log.0.lock().push(Call::Export);
        self.inner.export(sequence, buffer)
    }

    fn import(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError> {
        self.inner.import(sequence, state)
    }

    fn has_ranges(&self) -> bool {
        self.inner.has_ranges()
    }

    fn export_cells(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError> {
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
        self.log.0.lock().push(Call::Export);
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

#[test]
fn a_rest_is_exported_behind_the_first_token() {
    for memory in [MemoryKind::Windowed, MemoryKind::Hybrid, MemoryKind::Recurrent] {
        let log = Log::default();
        let wrapped = Wrapped { model: of_memory(memory), contexts: log.clone() };
        let model: Arc<dyn Model> = Arc::new(wrapped);
        let directory = empty_directory();
        let engine = engine(&model, Some(directory.path()), options());
        // More than a micro-batch, then two turns in the slot.
        let mut prompt = tokens(&model, &user(&"hello ".repeat(30)));
        for turn in 0..3 {
            settle(&engine); // What the turn before has left is exported.
            log.0.lock().clear();
            let answer = ask(&engine, request("chat", &prompt, 20));
            settle(&engine);
            let calls = log.0.lock().clone();
            let first = |wanted| calls.iter().position(|call| *call == wanted);
            let sampled = first(Call::Logits).expect("there is an answer");
            let exported = first(Call::Export).expect("its end is saved");
            assert!(sampled < exported, "{memory}, turn {turn}: {calls:?}");
            prompt = then(&model, &answer.timeline, "and now?");
        }
        engine.shutdown();
    }
}
