//! Random histories on the fake backend: every answer equals the answer of a model that has seen
//! only its prompt, and no token is computed twice whose KV could have been saved.
//!
//! - `world`: an engine over a directory, conversations, and random events
//! - `alone`: the naive model that every answer is compared with
//! - `trouble`: a backend that fails now and then
//! - `directory`: checks of the files on disk
//!
//! A failed history prints its seed. Threads have their own timing, so a seed repeats the events,
//! not their exact times. `HOB_TEST_HISTORIES=500` runs more of each kind, `HOB_TEST_SEED=7` begins
//! with that seed.

mod alone;
mod directory;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod trouble;
mod world;

use hob_runtime::backend::MemoryKind;
use world::World;

/// Events of one history.
const STEPS: usize = 40;

#[test]
fn every_answer_is_the_answer_alone_where_memory_is_plain() {
    run(MemoryKind::Plain);
}

#[test]
fn every_answer_is_the_answer_alone_where_memory_has_a_window() {
    run(MemoryKind::Windowed);
}

#[test]
fn every_answer_is_the_answer_alone_where_memory_is_recurrent() {
    run(MemoryKind::Recurrent);
}

fn run(memory: MemoryKind) {
    let first = setting("HOB_TEST_SEED").unwrap_or(1);
    for seed in first..first + setting("HOB_TEST_HISTORIES").unwrap_or(12) {
        let mut world = World::new(memory, seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.end();
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
