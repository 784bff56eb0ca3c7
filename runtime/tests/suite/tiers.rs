//! The status tells where saved KV is: the next turn restores it from there.

use std::sync::Arc;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{Engine, EngineOptions, MemoryKind, Model, SavedStatus, Tier, TurnRequest};
use hob_slots::Token;

use crate::support::held::MicroBatches;
use crate::support::*;

/// One model of each kind of memory; with llama.cpp too.
fn models() -> Vec<(String, Arc<dyn Model>)> {
    let fake =
        |memory: MemoryKind| -> Arc<dyn Model> { Arc::new(FakeModel::new().with_memory(memory)) };
    let kinds = [MemoryKind::Plain, MemoryKind::Recurrent];
    #[cfg_attr(not(feature = "llama"), expect(unused_mut, reason = "llama.cpp adds models"))]
    let mut models: Vec<_> = kinds.map(|kind| (format!("fake, {kind}"), fake(kind))).into();
    #[cfg(feature = "llama")]
    models.extend(of_llama_cpp());
    models
}

#[cfg(feature = "llama")]
fn of_llama_cpp() -> impl Iterator<Item = (String, Arc<dyn Model>)> {
    let files = ["hob-tiny-f16.gguf", "fixtures/gemma3.gguf", "fixtures/mamba.gguf"];
    files.into_iter().map(|file| (file.to_owned(), load(file)))
}

fn story(model: &Arc<dyn Model>, of: &str) -> Vec<Token> {
    let text = format!("My locker code is {of}. The capital of France is Paris. ");
    tokens(model, &user(&text.repeat(12)))
}

/// Parks the conversation and waits until it is on disk.
fn park(engine: &Engine, conversation: &str) -> SavedStatus {
    settle(engine);
    block_on(engine.park(name(conversation)));
    settle(engine);
    saved(engine, conversation)
}

fn saved(engine: &Engine, conversation: &str) -> SavedStatus {
    let parked = status(engine).parked;
    let found = parked.into_iter().find(|saved| saved.conversation == name(conversation));
    found.expect("the conversation is known")
}

/// The next turn restores as many tokens from each tier as the status said.
fn goes_on_as_told(
    engine: &Engine,
    model: &Arc<dyn Model>,
    told: &SavedStatus,
    timeline: &[Token],
    of: &str,
) -> Vec<Token> {
    let prompt = then(model, timeline, "What is my locker code?");
    let answer = ask(engine, endless(told.conversation.as_str(), &prompt, 24));
    let counts = answer.report.tokens;
    let restored = (counts.memory, counts.disk);
    assert_eq!(restored, (told.memory_tokens, told.disk_tokens), "{of}: {told:?}, {counts:?}");
    assert_eq!(told.tokens, timeline.len(), "{of}");
    answer.timeline
}

#[test]
fn kv_that_was_restored_from_disk_and_parked_is_told_to_be_on_disk() {
    for (of, model) in models() {
        let mut world = OnDisk::new(&model);
        let first = ask(&world.engine, endless("chat", &story(&model, "48213"), 24)).timeline;
        world.restart();
        let prompt = then(&model, &first, "And then?");
        let second = ask(&world.engine, endless("chat", &prompt, 24)).timeline;
        let told = park(&world.engine, "chat");
        if model.facts().memory.is_plain() {
            // Only the new turn is in memory: a restore reads the disk.
            assert_eq!(told.tier(), Tier::Disk, "{of}: {told:?}");
            assert!(told.memory_tokens > 0 && told.disk_tokens > told.memory_tokens, "{told:?}");
        }
        goes_on_as_told(&world.engine, &model, &told, &second, &of);
    }
}

#[test]
fn kv_that_a_small_memory_has_evicted_is_told_to_be_on_disk() {
    for (of, model) in models() {
        let one = OnDisk::new(&model);
        ask(&one.engine, endless("chat", &story(&model, "48213"), 24));
        park(&one.engine, "chat");
        let bytes = status(&one.engine).memory_bytes;
        assert_eq!(saved(&one.engine, "chat").tier(), Tier::Memory, "{of}");

        let budget = EngineOptions { memory_budget_bytes: bytes * 3 / 2, ..options() };
        let world = OnDisk::with(&model, budget);
        let names = ["a", "b", "c", "d"];
        let timelines = names.map(|name| {
            let timeline = ask(&world.engine, endless(name, &story(&model, name), 24)).timeline;
            park(&world.engine, name);
            timeline
        });
        let told = names.map(|name| saved(&world.engine, name));
        let all_tokens: usize = timelines.iter().map(Vec::len).sum();
        let in_memory: usize = told.iter().map(|told| told.memory_tokens).sum();
        assert!(in_memory < all_tokens, "{of}: memory is too small for all: {told:?}");
        assert!(told.iter().any(|told| told.tier() == Tier::Disk), "{of}: {told:?}");
        for (told, timeline) in told.iter().zip(&timelines) {
            // Those before it may have changed what is in memory.
            let told = saved(&world.engine, told.conversation.as_str());
            goes_on_as_told(&world.engine, &model, &told, timeline, &of);
            park(&world.engine, told.conversation.as_str());
        }
    }
}

#[test]
fn kv_that_this_process_has_never_read_is_looked_up_on_disk() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let mut world = OnDisk::new(&model);
    let prompt = story(&model, "48213");
    let first = ask(&world.engine, endless("chat", &prompt, 24)).timeline;
    world.restart_with(EngineOptions { micro_batch: 16, ..options() });
    // It reads the record alone, and computes a part of the prompt.
    let cold = TurnRequest { cold: true, ..endless("chat", &prompt, 24) };
    batches.cancel_after_first(&world.engine, cold);
    let told = park(&world.engine, "chat");
    assert_eq!(told.memory_tokens + told.disk_tokens, first.len(), "{told:?}");
    assert_eq!(told.tier(), Tier::Disk, "{told:?}");
    goes_on_as_told(&world.engine, &model, &told, &first, "a cold turn");
}

#[test]
fn without_memory_for_kv_a_parked_conversation_is_told_to_be_on_disk() {
    for (of, model) in models() {
        let world = OnDisk::with(&model, EngineOptions { memory_budget_bytes: 0, ..options() });
        let first = ask(&world.engine, endless("chat", &story(&model, "48213"), 24)).timeline;
        let told = park(&world.engine, "chat");
        assert_eq!(told.tier(), Tier::Disk, "{of}: {told:?}");
        let left = block_on(world.engine.map()).unwrap().left;
        assert_eq!(left.last().unwrap().to, Tier::Disk, "{of}: {left:?}");
        goes_on_as_told(&world.engine, &model, &told, &first, &of);
    }
}
