//! The cache map on the fake backend: origins, owners and evictions.

use std::sync::Arc;
use std::time::Duration;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::{
    CacheMap, Engine, EngineOptions, Eviction, Model, Origin, Purpose, Retention, SlotMap,
    SlotState, TurnRequest,
};
use hob_slots::format::SegmentRef;
use hob_slots::{BLOCK_TOKENS, Layer};

use crate::support::held::MicroBatches;
use crate::support::*;

fn map(engine: &Engine) -> CacheMap {
    block_on(engine.map()).expect("the engine runs")
}

fn of(map: &CacheMap, conversation: &str) -> SlotMap {
    let mut slots = map.slots.iter();
    let found = slots.find(|slot| slot.conversation == Some(name(conversation)));
    found.expect("it is hot").clone()
}

/// Each origin of a slot's blocks, in order, without repetitions.
fn origins(map: &CacheMap, conversation: &str) -> Vec<Origin> {
    let mut origins: Vec<_> = of(map, conversation).blocks.iter().map(|b| b.origin).collect();
    origins.dedup();
    origins
}

/// Each eviction as `conversation: tier, reason`.
fn evictions(map: &CacheMap) -> Vec<String> {
    let line = |left: &Eviction| {
        let owner = left.conversation.as_ref().map_or("unowned", |name| name.as_str());
        format!("{owner}: {}, {}", left.to.as_str(), left.why.as_str())
    };
    map.left.iter().map(line).collect()
}

/// Long enough for several blocks.
fn long(words: &str) -> String {
    user(&words.repeat(200 / words.len()))
}

#[test]
fn computed_and_generated_blocks_have_their_origins() {
    let model = fake();
    let engine = engine(&model, None, options());
    let answer = ask(&engine, endless("chat", &tokens(&model, &long("hello ")), 100));
    settle(&engine);
    let map = map(&engine);
    assert_eq!(origins(&map, "chat"), [Origin::Computed, Origin::Generated]);
    let slot = of(&map, "chat");
    assert_eq!((slot.tokens, slot.state), (answer.timeline.len(), SlotState::Idle));
    assert_eq!((slot.prompt_tokens, slot.prefix), (None, false));
    let ends: Vec<_> = slot.blocks.iter().map(|block| block.range.end).collect();
    assert!(ends.is_sorted() && ends.last() == Some(&slot.tokens));
}

#[test]
fn shared_blocks_count_both_slots() {
    let model = fake();
    let engine = engine(&model, None, options());
    let system = "<|im_start|>system\nYou are a careful assistant.<|im_end|>\n".repeat(4);
    for one in ["first", "second"] {
        ask(&engine, request(one, &tokens(&model, &format!("{system}{}", user(one))), 4));
    }
    settle(&engine);
    let map = map(&engine);
    assert_eq!(origins(&map, "first"), [Origin::Computed]);
    assert_eq!(origins(&map, "second"), [Origin::Shared, Origin::Computed]);
    for slot in [of(&map, "first"), of(&map, "second")] {
        assert_eq!((slot.blocks[0].sharers, slot.blocks.last().unwrap().sharers), (1, 0));
    }
    let hot: usize = map.slots.iter().map(|slot| slot.tokens).sum();
    assert!(map.used_tokens <= hot - tokens(&model, &system).len());
    assert_eq!(map.used_tokens, status(&engine).used_tokens);
}

#[test]
fn restored_blocks_have_the_tier_as_origin() {
    for memory in [MemoryKind::Plain, MemoryKind::Hybrid] {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_memory(memory));
        let directory = tempfile::tempdir().unwrap();
        for (budget, origin) in [(1 << 20, Origin::Memory), (0, Origin::Disk)] {
            let options = EngineOptions { memory_budget_bytes: budget, ..options() };
            let engine = engine(&model, Some(directory.path()), options);
            let first = ask(&engine, request("chat", &tokens(&model, &long("hello ")), 4));
            settle(&engine);
            block_on(engine.park(name("chat")));
            settle(&engine);
            let prompt = then(&model, &first.timeline, &long("and "));
            ask(&engine, request("chat", &prompt, 4));
            assert_eq!(origins(&map(&engine), "chat"), [origin, Origin::Computed], "{memory}");
            block_on(engine.forget(name("chat"))).unwrap();
            engine.shutdown();
        }
    }
}

#[test]
fn evictions_have_a_tier_and_a_reason() {
    let model = fake();
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(&model, Some(directory.path()), options());
    // Shorter than what is parked beside others.
    let prompt = |word: &str| tokens(&model, &user(&word.repeat(80 / word.len())));
    for name in ["one", "two", "three"] {
        ask(&engine, request(name, &prompt(name), 4));
    }
    assert_eq!(evictions(&map(&engine)), ["one: memory, slot"]);
    block_on(engine.park(name("two")));
    ask(&engine, request("three", &prompt("another beginning "), 4));
    block_on(engine.forget(name("three"))).unwrap();
    assert!(block_on(engine.unload()));
    let logged = evictions(&map(&engine));
    let forgotten = ["unowned: memory, differs", "unowned: nowhere, deleted"];
    assert_eq!(
        logged[1..],
        [&["two: memory, idle"], &forgotten[..]].concat(),
        "its name is forgotten"
    );
    assert!(map(&engine).slots.iter().all(|slot| slot.blocks.is_empty()));
}

#[test]
fn an_eviction_without_tiers_goes_nowhere() {
    let model = fake();
    let none = EngineOptions { memory_budget_bytes: 0, ..options() };
    let engine = engine(&model, None, none);
    ask(&engine, request("chat", &tokens(&model, &long("hello ")), 4));
    block_on(engine.park(name("chat")));
    assert_eq!(evictions(&map(&engine)), ["chat: nowhere, idle"]);
}

#[test]
fn unowned_cells_are_evicted_without_a_name() {
    let model = fake();
    let engine = engine(&model, None, EngineOptions { slots: 1, ..options() });
    let anonymous = TurnRequest { conversation: None, ..request("x", &tokens(&model, "hello"), 4) };
    ask(&engine, anonymous);
    assert_eq!(map(&engine).slots[0].conversation, None);
    ask(&engine, request("chat", &tokens(&model, &long("bye ")), 4));
    assert_eq!(evictions(&map(&engine)), ["unowned: nowhere, slot"]);
}

#[test]
fn blocks_have_their_segments_layer_and_prefixes_their_slots() {
    let model = fake();
    let engine = engine(&model, None, options());
    let prompt = tokens(&model, &"a long beginning ".repeat(12));
    let segment = |end, layer, key: &str| SegmentRef::new(end, layer, key);
    let half = (BLOCK_TOKENS * 2) as u32;
    let segments = vec![
        segment(half, Layer::Identity, "identity"),
        segment(prompt.len() as u32, Layer::Capabilities, "tools"),
    ];
    let keep = Retention { segments, ..Retention::default() };
    let purpose = Purpose::Prewarm;
    ask(&engine, TurnRequest { keep, purpose, ..request("prefix", &prompt, 0) });
    let slot = of(&map(&engine), "prefix");
    assert!(slot.prefix);
    let layers: Vec<_> = slot.blocks.iter().map(|block| block.layer.unwrap()).collect();
    assert_eq!(layers[..3], [Layer::Identity, Layer::Identity, Layer::Capabilities]);
    assert_eq!(slot.blocks[2].key.as_deref(), Some("tools"));
}

#[test]
fn a_prompt_shows_its_progress_and_watchers_wake_only_on_changes() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let engine = engine(&model, None, EngineOptions { micro_batch: 16, ..options() });
    let changes = engine.changes();
    let prompt = tokens(&model, &long("hello "));
    let (turn, mut paused) = batches.first_of(&engine, request("chat", &prompt, 4));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (map, later) = paused.reply(engine.map());
        let map = map.unwrap();
        let slot = map.slots.iter().find(|slot| slot.state == SlotState::Prefill).unwrap();
        assert_eq!(slot.prompt_tokens, Some(prompt.len()));
        seen.push(slot.tokens);
        paused = later;
    }
    assert!(seen.is_sorted() && seen.last() > seen.first(), "{seen:?}");
    drop(paused);
    finish(turn).unwrap();
    settle(&engine);
    let before = *changes.borrow();
    assert!(before > 0);
    for _ in 0..20 {
        map(&engine);
        status(&engine);
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(*changes.borrow(), before, "reading changes nothing");
}
