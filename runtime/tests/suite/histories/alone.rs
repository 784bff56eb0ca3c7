//! The naive model: one empty context, one prompt, one answer, a token after the other.

use hob_runtime::backend::{Backend, ContextShape, Model, Row, Sequence};
use hob_runtime::sample::{Output, Sampler};
use hob_runtime::{FinishReason, TurnRequest};
use hob_slots::Token;

#[derive(Debug, PartialEq)]
pub struct Expected {
    pub tokens: Vec<Token>,
    pub text: String,
    pub reason: FinishReason,
}

/// `most`: tokens that a conversation may have.
pub fn alone(model: &dyn Model, request: &TurnRequest, most: usize) -> Expected {
    let micro_batch = request.prompt.len();
    let context_tokens = most.min(micro_batch + request.max_tokens) + 1;
    let shape = ContextShape { context_tokens, sequences: 1, micro_batch };
    let mut expected = None;
    model
        .with_context(shape, &mut |backend| {
            expected = Some(answer(model, backend, request, most));
        })
        .expect("the fake always has a context");
    expected.expect("the context was lent")
}

fn answer(
    model: &dyn Model,
    backend: &mut dyn Backend,
    request: &TurnRequest,
    most: usize,
) -> Expected {
    backend.set_adapters(&request.adapters).expect("the fake needs no file");
    let vocabulary = model.vocabulary();
    let mut sampler = Sampler::new(&request.sampling);
    sampler.prime(&request.prompt);
    let mut output = Output::new(request.stop.clone());
    let mut timeline = request.prompt.clone();
    let (mut text, mut done) = (String::new(), 0);
    let reason = loop {
        let last = timeline.len() - 1;
        let rows: Vec<Row> = (done..timeline.len())
            .map(|position| Row {
                token: timeline[position],
                position,
                sequence: Sequence(0),
                wants_logits: position == last,
            })
            .collect();
        backend.decode(&rows).expect("the context is large enough");
        done = timeline.len();
        if request.max_tokens == 0 {
            break FinishReason::Length;
        }
        let mut logits = backend.logits(rows.len() - 1).to_vec();
        if request.ignore_eog {
            for &Token(eog) in vocabulary.eog_tokens() {
                logits[eog.unsigned_abs() as usize] = f32::NEG_INFINITY;
            }
        }
        let token = sampler.choose(&mut logits).expect("there is always a token");
        sampler.accept(token);
        timeline.push(token);
        if vocabulary.is_eog(token) {
            break FinishReason::Stop;
        }
        let pushed = output.push(vocabulary.piece(token));
        text.push_str(&pushed.text);
        if pushed.stopped {
            break FinishReason::Stop;
        }
        let generated = timeline.len() - request.prompt.len();
        if generated == request.max_tokens || timeline.len() >= most {
            break FinishReason::Length;
        }
    };
    text.push_str(&output.finish());
    Expected { tokens: timeline.split_off(request.prompt.len()), text, reason }
}
