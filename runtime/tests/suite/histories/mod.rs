//! Random histories: every answer equals the answer of a model that has seen only its prompt, and no
//! token is computed twice whose KV could have been saved, also after a turn was cancelled.
//!
//! - `world`: an engine over a directory, conversations, and random events
//! - `alone`: the naive model that every answer is compared with
//! - `recordable`: what a turn may have recorded
//! - `faulty`: contexts that fail now and then
//! - `directory`: checks of the files on disk
//! - `sessions`: conversations with budgets, one turn at a time, and random events between
//! - `observer`: on llama.cpp, the bytes of each cell that leaves and comes back in them, and the next logits
//! - `evicted`: their answers, compared with a replay of which cells each token saw
//! - `wrapped`: a model with the contexts of `faulty` or `observer`
//! - `hooked`: contexts with hooks, of which `faulty` makes its own
//!
//! A failed history prints its seed. Threads have their own timing, so a seed repeats the events,
//! not their exact times. `HOB_TEST_HISTORIES=500` runs more of each kind, `HOB_TEST_SEED=7` begins
//! with that seed.

mod alone;
mod directory;
mod evicted;
mod faulty;
pub mod hooked;
#[cfg(feature = "llama")]
mod observer;
mod random;
mod recordable;
mod sessions;
mod world;
pub mod wrapped;

use hob_runtime::backend::MemoryKind;
use world::World;
#[cfg(feature = "llama")]
use {
    crate::support::{asset, load},
    hob_runtime::Model,
    hob_runtime::backend::llama::{LlamaModel, LlamaOptions},
    std::sync::Arc,
};

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

/// On llama.cpp the same prompt in other micro-batches may round to another token, so answers are
/// not compared: their tokens and where these came from are.
#[cfg(feature = "llama")]
#[test]
fn no_token_is_computed_twice_on_llama_cpp() {
    for file in
        ["hob-tiny-f16.gguf", "fixtures/gemma3.gguf", "fixtures/lfm2.gguf", "fixtures/mamba.gguf"]
    {
        let model = load(file);
        for seed in seeds(2) {
            run_history(World::on(&model, seed));
        }
    }
}

/// 500 sessions are run whole, by `HOB_TEST_ALL=1`.
#[cfg(feature = "llama")]
#[test]
fn what_comes_back_on_llama_cpp_has_the_bytes_and_the_logits_of_what_left() {
    // Cells of these types give equal logits wherever they lie in the cache, but for the order of additions.
    let [cache_type_k, cache_type_v] = ["bf16"; 2].map(str::to_owned);
    let options =
        LlamaOptions { threads: 1, cache_type_k, cache_type_v, ..LlamaOptions::default() };
    let model = LlamaModel::load(&asset("fixtures/long.gguf"), options).unwrap();
    let model: Arc<dyn Model> = Arc::new(model);
    let sessions = if std::env::var_os("HOB_TEST_ALL").is_some() { 500 } else { 150 };
    let mut sums = observer::Sums::default();
    for seed in seeds(sessions) {
        let observed = Arc::new(observer::observed(&model, seed));
        let mut session = sessions::Session::new(&(observed.clone() as Arc<dyn Model>), seed, 256);
        (0..sessions::STEPS).for_each(|step| drop(session.step(step)));
        drop(session);
        sums.add(*observed.contexts.sums.lock());
    }
    println!("{sums:?}");
    assert!(sums.back > 0 && sums.restored > 0, "{sums:?}");
    assert!(sums.missed * 10 > sums.trials * 9, "{sums:?}");
}

fn run(memory: MemoryKind) {
    for seed in seeds(12) {
        run_history(World::new(memory, seed));
    }
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = setting("HOB_TEST_SEED").unwrap_or(1);
    first..first + setting("HOB_TEST_HISTORIES").unwrap_or(count)
}

fn run_history(mut world: World) {
    for _ in 0..STEPS {
        world.step();
    }
    world.end();
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
