//! Random sessions on the fake backend: each answer is that of the naive model that replays which cells each token
//! saw. What was computed unseen, for a turn that was cancelled or ahead of one, the names of the blocks tell.

use std::sync::Arc;

use hob_runtime::Model;
use hob_runtime::backend::fake::{FakeModel, ViewLog};

use crate::histories::sessions::{FinishedTurn, STEPS, Session};
use crate::support::*;

#[test]
fn every_answer_saw_what_was_resident() {
    for seed in crate::histories::seeds(6) {
        run(seed);
    }
}

fn run(seed: u64) {
    let log = ViewLog::default();
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_view_log(log.clone()));
    let alone = fake();
    let ends = alone.vocabulary().eog_tokens();
    let mut session = Session::new(&model, seed, 1);
    for step in 0..STEPS {
        let FinishedTurn { chat, prompt, answer, is_unsure } = session.step(step);
        let chat = &mut session.chats[chat];
        // What it shares with another, its first letter, the replay has not seen either.
        if is_unsure || !chat.replay.knows(&prompt, &answer) {
            let blocks = session.disk.block_names(&chat.name);
            // The record that covers an answer goes on behind it, perhaps within a block.
            let end = blocks.last().map_or(0, |(_, range)| range.end);
            let timeline = if end <= answer.timeline.len() {
                answer.timeline.clone()
            } else {
                session.disk.record(&chat.name).tokens
            };
            chat.replay.follow(&blocks, &timeline, &prompt, &answer, &log.lock());
        }
        let expected = chat.replay.answer(&*alone, &prompt, &answer, ends);
        assert_eq!(answer.tokens, expected, "seed {seed}, step {step}: {:?}", answer.moved);
    }
}
