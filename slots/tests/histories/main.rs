//! Random histories of a store against a naive model.
//!
//! - Conversations are saved, restored, forked, rewound, closed, swept, forgotten, damaged; at any
//!   time the process is killed or the power fails.
//! - A read returns the last save; after a crash, the state before or after the interrupted step.
//!   Referenced objects exist, conversations in use are never changed, expired ones are removed.
//! - At the end of a history everything can be removed, and no file is left.
//!
//! The seed repeats a history: `HOB_TEST_SEED=7`. `HOB_TEST_ALL=1` runs 100,000.

mod remembered;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use support::bounded;
use world::{Counts, World};

/// Steps of one history.
const STEPS: usize = 24;

#[test]
fn every_history_reads_what_was_saved() {
    if let Some(seed) = std::env::var("HOB_TEST_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("seed {seed}: {:?}", history(seed, true));
        return;
    }
    let (histories, next) = (bounded(2_000, 100_000), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = std::thread::scope(|scope| {
        let run = || {
            let mut counts = Counts::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= histories {
                    return counts;
                }
                match catch_unwind(|| history(seed, false)) {
                    Ok(more) => counts.add(more),
                    Err(panic) => {
                        next.store(histories, Ordering::Relaxed);
                        println!("HOB_TEST_SEED={seed} repeats this");
                        resume_unwind(panic);
                    }
                }
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut all = Counts::default();
        for thread in running {
            all.add(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    });
    println!("{histories} histories: {counts:?}");
}

fn history(seed: u64, tells: bool) -> Counts {
    let mut world = World::new(seed, tells);
    for _ in 0..STEPS {
        world.step();
    }
    world.end()
}
