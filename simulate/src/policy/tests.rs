//! Properties of every policy on random histories.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use hob_slots::Timestamp;
use hob_slots::evict::density::{self, Density};
use hob_slots::evict::{Answer, AnswerEnd, BlockMeta, Cache, Run};
use proptest::prelude::*;

use super::*;

/// Blocks in a tree: the parent of a block is half of it.
fn parent(id: u64) -> Option<u64> {
    (id > 1).then_some(id / 2)
}

fn meta(id: u64, run: Run) -> BlockMeta<u64> {
    let bytes = 1 + id % 3;
    BlockMeta { run, ..BlockMeta::new(parent(id), bytes) }
}

/// A run that uses a chain of blocks down to `last`.
#[derive(Clone, Debug)]
struct Step {
    last: u64,
    pause_millis: u64,
    ended: AnswerEnd,
    conversation: u64,
    turn: u32,
}

impl Step {
    fn chain(&self) -> Vec<u64> {
        let mut chain: Vec<u64> =
            std::iter::successors(Some(self.last), |&id| parent(id)).collect();
        chain.reverse();
        chain
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ended =
        prop_oneof![Just(AnswerEnd::Unknown), Just(AnswerEnd::ToolCall), Just(AnswerEnd::Turn)];
    let step = (1_u64..200, 0_u64..40_000, ended, 0_u64..5, 1_u32..4).prop_map(
        |(last, pause_millis, ended, conversation, turn)| Step {
            last,
            pause_millis,
            ended,
            conversation,
            turn,
        },
    );
    prop::collection::vec(step, 0..120)
}

/// Plays a history and checks each choice; returns the choices.
fn play(kind: PolicyKind, budget: u64, steps: &[Step]) -> Vec<u64> {
    let mut policy = kind.build::<u64>(budget);
    let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
    let mut choices = Vec::new();
    let mut now = Timestamp(0);
    for step in steps {
        now.0 += step.pause_millis;
        let chain = step.chain();
        let blocks = chain.len() as u32;
        let (conversation, turn) = (step.conversation, step.turn);
        let (tokens, ended) = (blocks * 512, step.ended);
        let run = Run { number: 0, conversation, turn, tokens, blocks, ended };
        for &id in &chain {
            let meta = meta(id, run);
            if kept.contains_key(&id) {
                policy.hit(id, &meta, now);
                continue;
            }
            if meta.parent.is_some_and(|parent| !kept.contains_key(&parent)) {
                policy.passed(id, &meta, now);
                continue;
            }
            policy.inserted(id, &meta, now);
            kept.insert(id, meta.bytes);
            // Unsaved blocks must not be evicted.
            let may_leave = |id: &u64| !id.is_multiple_of(7);
            while kept.values().sum::<u64>() > budget {
                let parents: BTreeSet<u64> = kept.keys().filter_map(|&id| parent(id)).collect();
                let leaves = kept.keys().filter(|id| !parents.contains(id));
                let possible: BTreeSet<u64> = leaves.copied().filter(may_leave).collect();
                let Some(victim) = policy.victim(now, &may_leave) else {
                    assert!(possible.is_empty(), "{kind} overlooks {possible:?}");
                    break;
                };
                assert!(possible.contains(&victim), "{kind}: {victim} is no leaf that may leave");
                choices.push(victim);
                kept.remove(&victim);
                policy.removed(victim);
            }
        }
    }
    choices
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_a_leaf_that_may_be_evicted_is_chosen_and_always_one_if_there_is_one(
        steps in steps(), budget in 1_u64..80,
    ) {
        for kind in PolicyKind::ALL {
            play(kind, budget, &steps);
        }
    }

    #[test]
    fn the_same_history_gives_the_same_choices(steps in steps(), budget in 1_u64..80) {
        for kind in PolicyKind::ALL {
            prop_assert_eq!(play(kind, budget, &steps), play(kind, budget, &steps));
        }
    }

    #[test]
    fn the_budget_is_never_exceeded_and_cached_blocks_are_always_a_prefix(
        steps in steps(), budget in 0_u64..80,
    ) {
        for kind in PolicyKind::ALL {
            let mut kept = Cache::new(kind.build::<u64>(budget), budget);
            let mut now = Timestamp(0);
            for step in &steps {
                now.0 += step.pause_millis;
                for id in step.chain() {
                    let before = kept.contains(&id);
                    let answer = kept.ask(id, &meta(id, Run::default()), now, &|_| true);
                    prop_assert_eq!(before, answer == Answer::Hit);
                    prop_assert_eq!(kept.contains(&id), answer != Answer::Passed);
                    prop_assert!(kept.bytes() <= budget);
                }
                let orphan = (1..200).find(|&id| {
                    kept.contains(&id) && parent(id).is_some_and(|parent| !kept.contains(&parent))
                });
                prop_assert_eq!(orphan, None, "{} kept without its parent", kind);
            }
        }
    }
}

#[test]
fn every_policy_has_a_name_that_finds_it() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "best".parse::<PolicyKind>().unwrap_err().to_string();
    assert!(error.starts_with("no policy is called \"best\": it is one of fifo, lru, lfu"));
}

#[test]
fn a_clock_that_steps_back_stops_no_policy() {
    for kind in PolicyKind::ALL {
        let mut kept = Cache::new(kind.build::<u64>(10), 10);
        for (id, now) in (0..100).zip([1_000_000, 5, 2_000_000, 0].into_iter().cycle()) {
            kept.ask(id, &BlockMeta::new(None, 1), Timestamp(now), &|_| true);
        }
        assert_eq!(kept.bytes(), 10, "{kind}");
    }
}

/// Every block is a leaf, of every class and age: the worst case.
#[test]
fn a_decision_looks_at_few_of_ten_thousand_blocks() {
    let named = PolicyKind::ALL.map(|kind| (kind.name(), kind.build::<u64>(10_000)));
    let unguarded: Box<dyn Policy<u64>> = Box::new(Density::new(10_000));
    for (name, mut policy) in named.into_iter().chain([("density", unguarded)]) {
        let mut most = 0;
        for id in 0..14_000_u64 {
            let (meta, now) = (varied_meta(id), Timestamp(id * 997));
            policy.inserted(id, &meta, now);
            if id >= 10_000 {
                let looked_at = Cell::new(0);
                let victim = policy.victim(now, &|_| {
                    looked_at.set(looked_at.get() + 1);
                    true
                });
                policy.removed(victim.expect("all may leave"));
                most = most.max(looked_at.get());
            }
        }
        assert!(most <= density::CLASSES, "{name} looks at {most} blocks");
    }
}

fn varied_meta(id: u64) -> BlockMeta<u64> {
    let ends = [AnswerEnd::Unknown, AnswerEnd::ToolCall, AnswerEnd::Turn];
    let run = Run {
        conversation: id % 701,
        turn: (id % 11) as u32,
        tokens: (id * 7 % 601) as u32 * 512,
        blocks: (id * 7 % 601) as u32,
        ended: ends[(id % 3) as usize],
        ..Run::default()
    };
    BlockMeta { run, ..BlockMeta::new(None, 1) }
}
