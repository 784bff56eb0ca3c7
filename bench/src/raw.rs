//! llama.cpp alone, in a context whose cache already holds as many tokens as the conversation has:
//! attention takes most of the time, which grows with them.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::Result;
use hob_runtime::Model;
use hob_runtime::backend::{Backend, ContextShape, Row, Sequence};
use hob_slots::Token;

use crate::measure::time;

/// Before each measurement.
const PAUSE: Duration = Duration::from_millis(20);

/// A thread with a context; takes one measurement at a time.
pub struct Raw {
    asks: mpsc::Sender<(usize, Vec<Token>)>,
    answers: mpsc::Receiver<Duration>,
}

impl Raw {
    /// An empty cache of 4,096 cells.
    pub fn start(model: Arc<dyn Model>) -> Self {
        let (asks, inbox) = mpsc::channel::<(usize, Vec<Token>)>();
        let (outbox, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let shape = ContextShape { context_tokens: 4096, sequences: 3, micro_batch: 512 };
            let made = model.with_context(shape, &mut |backend| {
                for (context, new) in &inbox {
                    // The cells' values do not change the time of attention.
                    for start in (backend.end(Sequence(0))..context).step_by(128) {
                        decode(backend, start, &vec![Token(300); 128.min(context - start)], false);
                    }
                    // As long as the engine waits between two turns: an idle device slows its clock, and an idle
                    // processor loses its caches.
                    std::thread::sleep(PAUSE);
                    let (took, ()) = time(|| decode(backend, context, &new, true));
                    backend.remove(Sequence(0), context..context + new.len()).expect("plain");
                    outbox.send(took).expect("the benchmark waits");
                }
            });
            made.expect("the engine's context fits, so this one does");
        });
        Self { asks, answers }
    }

    /// The time of `new` tokens behind `context` tokens, logits included.
    pub fn measure(&self, context: usize, new: Vec<Token>) -> Result<Duration> {
        self.asks.send((context, new))?;
        Ok(self.answers.recv()?)
    }
}

fn decode(backend: &mut dyn Backend, start: usize, tokens: &[Token], answer: bool) {
    let last = tokens.len() - 1;
    let rows: Vec<Row> = tokens
        .iter()
        .enumerate()
        .map(|(offset, &token)| Row {
            token,
            position: start + offset,
            sequence: Sequence(0),
            wants_logits: answer && offset == last,
        })
        .collect();
    backend.decode(&rows).expect("there is room");
    if answer {
        let logits = backend.logits(last).iter().copied();
        std::hint::black_box(logits.fold(f32::NEG_INFINITY, f32::max));
    }
}
