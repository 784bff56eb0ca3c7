//! llama.cpp alone: rows, a prefill, and [`Raw`], whose cache already holds as many tokens as the conversation
//! has: attention takes most of the time, which grows with them.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::Result;
use hob_runtime::Model;
use hob_runtime::backend::{Backend, ContextShape, Row, Sequence};
use hob_slots::Token;

use crate::measure::time;

/// Before each measurement.
const PAUSE: Duration = Duration::from_millis(20);
const MICRO_BATCH: usize = 512;

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
            let shape =
                ContextShape { context_tokens: 4096, sequences: 3, micro_batch: MICRO_BATCH };
            let made = model.with_context(shape, &mut |backend| {
                for (context, new) in &inbox {
                    // The cells' values do not change the time of attention.
                    for start in (backend.end(Sequence(0))..context).step_by(128) {
                        let tokens = std::iter::repeat_n(Token(300), 128.min(context - start));
                        backend.decode(&rows(start, tokens)).expect("there is room");
                    }
                    // As long as the engine waits between two turns: an idle device slows its clock, and an idle
                    // processor loses its caches.
                    std::thread::sleep(PAUSE);
                    let (took, ()) = time(|| prefill(backend, context, &new, MICRO_BATCH));
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

/// Rows of these tokens from position `start` of the first sequence on, without logits.
pub fn rows(start: usize, tokens: impl IntoIterator<Item = Token>) -> Vec<Row> {
    let row = |(position, token): (usize, Token)| Row {
        token,
        position,
        sequence: Sequence(0),
        wants_logits: false,
    };
    (start..).zip(tokens).map(row).collect()
}

/// Computes these tokens in micro-batches of up to `micro_batch` rows, and reads the last one's logits as greedy
/// sampling does.
pub fn prefill(backend: &mut dyn Backend, start: usize, tokens: &[Token], micro_batch: usize) {
    let mut rows = rows(start, tokens.iter().copied());
    let last = rows.len() - 1;
    rows[last].wants_logits = true;
    for batch in rows.chunks(micro_batch) {
        backend.decode(batch).expect("there is room");
    }
    let logits = backend.logits(last % micro_batch).iter().copied();
    std::hint::black_box(logits.fold(f32::NEG_INFINITY, f32::max));
}
