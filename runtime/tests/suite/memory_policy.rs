//! The eviction policy of memory hears every use of KV, learns, and is guarded, all through the
//! engine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Engine, EngineOptions, Model, TurnRequest};
use hob_slots::evict::Guard;
use hob_slots::{Timestamp, Token};

use crate::support::held::MicroBatches;
use crate::support::*;

/// Four blocks that no other prompt has.
fn story(model: &Arc<dyn Model>, of: &str) -> Vec<Token> {
    tokens(model, &user(&format!("{of:>32} ").repeat(7)))
}

fn guard(engine: &Engine) -> Guard {
    status(engine).memory.guard.expect("the default policy has a guard")
}

#[test]
fn hot_memory_and_disk_uses_are_heard_and_those_of_background_turns_are_not() {
    let model = fake();
    let mut world = OnDisk::new(&model);
    let first = ask(&world.engine, request("chat", &story(&model, "chat"), 20)).timeline;
    settle(&world.engine);
    let one = guard(&world.engine).used_bytes;
    assert!(one > 0 && guard(&world.engine).lru_hit_bytes == 0, "all of it was new");
    let heard = |engine: &Engine, before: Guard, how: &str| {
        let now = guard(engine);
        let used = now.used_bytes - before.used_bytes;
        assert!(used >= one, "{how}: {used} of {one} bytes were heard");
        // Nothing was evicted: both shadows have what an earlier turn of this process used, but
        // for its last block, which goes on.
        let hits = now.lru_hit_bytes - before.lru_hit_bytes;
        (hits, now.density_hit_bytes - before.density_hit_bytes)
    };

    let before = guard(&world.engine);
    let prompt = then(&model, &first, "and hot?");
    let second = ask(&world.engine, request("chat", &prompt, 20));
    assert!(second.report.tokens.shared > 200);
    settle(&world.engine);
    let (lru, density) = heard(&world.engine, before, "hot");
    assert!(lru > one / 2 && density == lru, "{lru} {density}");

    block_on(world.engine.park(name("chat")));
    let before = guard(&world.engine);
    let prompt = then(&model, &second.timeline, "and from memory?");
    let third = ask(&world.engine, request("chat", &prompt, 20));
    assert!(third.report.tokens.memory > 200);
    settle(&world.engine);
    let (lru, density) = heard(&world.engine, before, "memory");
    assert!(lru > one / 2 && density == lru, "{lru} {density}");

    world.restart();
    let before = guard(&world.engine);
    let prompt = then(&model, &third.timeline, "and from disk?");
    let fourth = ask(&world.engine, request("chat", &prompt, 20));
    assert!(fourth.report.tokens.disk > 200);
    settle(&world.engine);
    heard(&world.engine, before, "disk");

    let before = guard(&world.engine);
    let ahead = TurnRequest {
        purpose: hob_runtime::Purpose::Speculate,
        ..request("chat", &then(&model, &fourth.timeline, "and ahead"), 0)
    };
    ask(&world.engine, ahead);
    settle(&world.engine);
    assert_eq!(guard(&world.engine).used_bytes, before.used_bytes, "nobody has asked yet");
}

#[test]
fn a_turn_that_is_cancelled_has_used_what_it_restored() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let world = OnDisk::with(&model, EngineOptions { micro_batch: 4, ..options() });
    let first = ask(&world.engine, request("chat", &story(&model, "chat"), 20)).timeline;
    settle(&world.engine);
    block_on(world.engine.park(name("chat")));
    let one = guard(&world.engine).used_bytes;
    let prompt = then(&model, &first, &"and now? ".repeat(60));
    // What is restored is in cells before a token of the rest is computed.
    batches.cancel_after_first(&world.engine, request("chat", &prompt, 20));
    let hits = guard(&world.engine).lru_hit_bytes;
    assert!(hits > one / 2, "{hits} of {one} bytes were heard");
}

#[test]
fn a_use_is_counted_once_however_often_a_turn_reports_it() {
    let model = fake();
    let world = OnDisk::new(&model);
    let first = ask(&world.engine, request("chat", &story(&model, "chat"), 20)).timeline;
    settle(&world.engine);
    let before = guard(&world.engine).used_bytes;
    ask(&world.engine, request("chat", &then(&model, &first, "go on"), 20));
    world.engine.called_tools(name("chat"));
    settle(&world.engine);
    let used = guard(&world.engine).used_bytes - before;
    let saved = status(&world.engine).memory_bytes;
    assert!(used <= saved, "{used} bytes were used, and {saved} exist");
}

/// What one process has learned, beginning with nothing: weight of uses by class.
fn learned(directory: &Path) -> BTreeMap<usize, f64> {
    let text = fs::read_to_string(directory.join("eviction.toml")).unwrap();
    let (mut learned, mut class) = (BTreeMap::new(), 0);
    for line in text.lines() {
        match line.split_once(" = ") {
            Some(("id", id)) => class = id.parse().unwrap(),
            Some(("used", list)) => {
                let weights = list.trim_matches(['[', ']']).split(',');
                let sum: f64 = weights.filter_map(|one| one.trim().parse::<f64>().ok()).sum();
                learned.insert(class, sum);
            }
            _ => {}
        }
    }
    learned.retain(|_, used| *used > 0.0);
    learned
}

/// The turn and the end of a class: see `density/classes.rs`.
fn turn_and_end(class: usize) -> (usize, usize) {
    let coarse = class / (4 * 2) / 4;
    (coarse / 3, coarse % 3)
}

#[test]
fn what_was_learned_is_saved_and_turns_and_tool_calls_are_labelled_across_restarts() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("eviction.toml"), "version = 1\n").unwrap();
    let mut timeline: Vec<Token> = Vec::new();
    let mut of_processes: Vec<BTreeMap<usize, f64>> = Vec::new();
    for calls_tools in [true, false] {
        let engine = engine(&model, Some(directory.path()), options());
        for turn in 0..4 {
            let prompt = match timeline.as_slice() {
                [] => story(&model, "chat"),
                timeline => then(&model, timeline, &format!("turn {turn}")),
            };
            let answer = ask(&engine, request("chat", &prompt, 40));
            timeline = answer.timeline;
            if calls_tools {
                engine.called_tools(name("chat"));
            }
            settle(&engine);
        }
        engine.shutdown();
        of_processes.push(learned(directory.path()));
    }
    let [before, learned] = of_processes.try_into().expect("there were two processes");
    // The shipped prior has a hundred classes, the file that the first process read had none.
    assert!(before.len() < 50, "{} classes after four turns", before.len());
    // The second process went on with what the first one had learned: its turns are later ones.
    let new = learned.keys().filter(|class| !before.contains_key(class));
    let new: Vec<_> = new.map(|class| turn_and_end(*class)).collect();
    assert!(new.iter().all(|(turn, _)| *turn >= 2), "{new:?}");
    let found: Vec<_> = learned.keys().map(|class| turn_and_end(*class)).collect();
    // Turn 1, 2, 3 to 5, 6 and later; ended: unknown, by a tool call, by a turn.
    assert!(found.contains(&(0, 1)) && found.contains(&(2, 1)), "{found:?}");
    assert!(found.iter().any(|(turn, _)| *turn == 3), "the seventh turn is no second: {found:?}");
    assert!(found.iter().any(|(turn, ended)| *turn >= 2 && *ended != 1), "{found:?}");
}

#[test]
fn a_damaged_history_is_ignored_and_replaced() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("eviction.toml");
    for damaged in ["", "version = 99", "version = 1\n[[class]]\nid = 1\nused = [nan]"] {
        fs::write(&file, damaged).unwrap();
        let engine = engine(&model, Some(directory.path()), options());
        ask(&engine, request("chat", &story(&model, "chat"), 5));
        engine.shutdown();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("version = 1\n") && text != damaged, "{text}");
    }
}

/// A clock that the test moves.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn pass(&self, secs: u64) {
        self.0.fetch_add(secs * 1_000, Ordering::SeqCst);
    }

    fn options(&self, budget_bytes: u64) -> EngineOptions {
        let clock = self.0.clone();
        EngineOptions {
            clock: Arc::new(move || Timestamp(1_000_000_000 + clock.load(Ordering::SeqCst))),
            memory_budget_bytes: budget_bytes,
            slots: 1,
            ..options()
        }
    }
}

#[test]
fn the_guard_switches_to_lru_when_what_was_learned_no_longer_holds() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("eviction.toml"), "version = 1\n").unwrap();
    let clock = Clock::default();
    let alone = OnDisk::new(&model);
    ask(&alone.engine, request("chat", &story(&model, "chat"), 1));
    block_on(alone.engine.park(name("chat")));
    settle(&alone.engine);
    let one_bytes = status(&alone.engine).memory_bytes;
    let engine = engine(&model, Some(directory.path()), clock.options(8 * one_bytes));
    let say = |of: &str| {
        ask(&engine, request(of, &story(&model, of), 1));
        settle(&engine);
    };
    // Some chats go on and on, and others are never opened again: density keeps the former.
    for round in 0..60 {
        for chat in ["x", "y", "z", "w"] {
            say(chat);
            clock.pass(1 + round % 7);
        }
        say(&format!("never again {round}"));
        clock.pass(3);
    }
    assert!(guard(&engine).trusts_density, "{:?}", guard(&engine));
    // From now on each new chat is opened a second time, and the old ones never.
    for round in 0..200 {
        for chat in [round, round + 1, round + 2] {
            say(&format!("new {chat}"));
        }
        clock.pass(1);
        if !guard(&engine).trusts_density {
            break;
        }
    }
    let guard = guard(&engine);
    assert!(!guard.trusts_density && guard.switches >= 1, "{guard:?}");
    assert!(guard.lru_hit_bytes > guard.density_hit_bytes, "{guard:?}");
    engine.shutdown();
}
