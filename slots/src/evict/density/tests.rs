//! The choice, compared with a look at every leaf.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::{AnswerEnd, Run};
use super::*;

/// A run that uses some blocks, after a pause.
#[derive(Clone, Debug)]
struct Step {
    pause_millis: u64,
    run: Run,
    ids: Vec<u64>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ended =
        prop_oneof![Just(AnswerEnd::Unknown), Just(AnswerEnd::ToolCall), Just(AnswerEnd::Turn)];
    let run = (1_u64..9, 1_u32..8, 1_u32..400, ended);
    let run = run.prop_map(|(conversation, turn, blocks, ended)| Run {
        conversation,
        turn,
        tokens: blocks * 512,
        number: 0,
        blocks,
        ended,
    });
    let pauses = prop_oneof![0_u64..2_000, 0_u64..4_000_000];
    let step = (pauses, run, prop::collection::vec(0_u64..120, 1..6));
    let step = step.prop_map(|(pause_millis, run, ids)| Step { pause_millis, run, ids });
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn the_leaf_of_the_lowest_density_is_chosen(steps in steps()) {
        let mut policy = Density::new(60);
        let mut kept = BTreeSet::new();
        let mut now = Timestamp(0);
        for Step { pause_millis, run, ids } in steps {
            now.0 += pause_millis;
            for id in ids {
                let meta = BlockMeta { run, ..BlockMeta::new(None, 1) };
                if kept.insert(id) {
policy.inserted(id, &meta, now)
} else {
policy.hit(id, &meta, now)
}
            }
            let may_leave = |id: &u64| !id.is_multiple_of(7);
            let Density { learned, queue } = &mut policy;
            let densities = queue.tails.leaves().filter(|(_, id)| may_leave(id)).map(|(rank, id)| {
                (learned.density(rank.class, rank.used_at.age(now)).here, rank.use_number, id)
            });
            let lowest = densities.min_by(|a, b| a.partial_cmp(b).expect("densities are numbers"));
            let chosen = policy.victim(now, &may_leave);
            prop_assert_eq!(chosen, lowest.map(|(.., id)| id));
            if let Some(id) = chosen.filter(|_| kept.len() > 60) {
                kept.remove(&id);
                policy.removed(id);
            }
        }
    }
}
