//! What the engine does before the first token of an answer: of a window or a running state it exports nothing.

use std::sync::Arc;

use hob_runtime::Model;
use hob_runtime::backend::{MemoryKind, StateError};
use parking_lot::Mutex;

use crate::histories::hooked::Hooks;
use crate::histories::wrapped::Wrapped;
use crate::support::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A token is sampled.
    Logits,
    /// A rest or a whole state is exported.
    Export,
}

/// The calls of all contexts.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Call>>>);

impl Hooks for Log {
    fn before_logits(&mut self) {
        self.0.lock().push(Call::Logits);
    }

    fn before_export_of_rest(&mut self) -> Result<(), StateError> {
        self.0.lock().push(Call::Export);
        Ok(())
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
