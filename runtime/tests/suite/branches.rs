//! Earlier branches of a conversation: edits, other answers and answers cut off stay until the
//! conversation goes, and go with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::sample::Sampling;
use hob_runtime::{Engine, Model, TurnRequest};
use hob_slots::format::SlotRecord;
use hob_slots::store::{Key, Store, StoreReader};
use hob_slots::{AdjustedTime, ModelHash, Rules, SAVE_GRACE, Sweeper, Timestamp, TtlClass};
use parking_lot::Mutex;

use crate::support::held::MicroBatches;
use crate::support::wait::until;
use crate::support::*;

fn record(directory: &Path, conversation: &str) -> SlotRecord {
    let store = StoreReader::open(directory).unwrap();
    store.get_slot(FINGERPRINT, &name(conversation)).unwrap()
}

/// Sweeps after the grace of every object has passed.
fn sweep_later(engine: &Engine) {
    let rules = Rules { compress_after: None, ..without_quota() };
    let sweeper = Arc::new(Mutex::new(Sweeper::new(rules)));
    let later = AdjustedTime::from(Timestamp::from(SystemTime::now() + 2 * SAVE_GRACE));
    let swept = block_on(engine.sweep(sweeper, later)).unwrap();
    assert!(swept.errors.is_empty() && !swept.left, "{swept:?}");
}

/// Slot files and objects, in quarantine too.
fn saved(directory: &Path) -> Vec<PathBuf> {
    files::with_extensions(directory, &["kv", "bin"])
}

#[test]
fn going_back_to_an_earlier_branch_after_sweeps_and_a_restart_restores_it_from_disk() {
    for memory in [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let mut world = OnDisk::new(&model);
        let story = tokens(&model, &user(&"a long story ".repeat(20)));
        let first = ask(&world.engine, request("chat", &story, 40)).timeline;
        let edited = tokens(&model, &user(&"another story ".repeat(20)));
        let second = ask(&world.engine, request("chat", &edited, 40)).timeline;
        // The same question gets another answer: two branches of one prompt.
        let again = endless("chat", &edited, 90);
        let third = ask(&world.engine, again).timeline;
        assert_ne!(second, third);

        for branch in [&first, &second, &third] {
            settle(&world.engine);
            block_on(world.engine.park(name("chat")));
            sweep_later(&world.engine);
            world.restart();
            sweep_later(&world.engine);
            let prompt = then(&model, branch, "and then?");
            let report = ask(&world.engine, request("chat", &prompt, 5)).report;
            assert!(report.tokens.disk > 0, "{memory}: {report:?}");
            let new = prompt.len() - branch.len();
            assert_eq!(report.tokens.computed, new, "{memory}: {report:?}");
        }
        let counters = status(&world.engine).counters;
        assert_eq!((counters.wasted_restores, counters.import_failures), (0, 0), "{memory}");
    }
}

#[test]
fn a_prompt_that_is_the_whole_timeline_leaves_its_end_restorable() {
    for memory in [MemoryKind::Plain, MemoryKind::Windowed, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let mut world = OnDisk::new(&model);
        let story = tokens(&model, &user(&"a long story ".repeat(20)));
        let kept = ask(&world.engine, request("chat", &story, 20)).timeline;
        settle(&world.engine);
        // It computes the last token again, for the logits, and answers.
        ask(&world.engine, endless("chat", &kept, 5));
        world.restart();
        let prompt = then(&model, &kept, "and then?");
        let report = ask(&world.engine, request("chat", &prompt, 5)).report;
        assert_eq!(report.tokens.computed, prompt.len() - kept.len(), "{memory}: {report:?}");
    }
}

#[test]
fn an_answer_that_a_longer_branch_begins_with_is_computed_again_and_its_prompt_is_not() {
    for memory in [MemoryKind::Windowed, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let world = OnDisk::new(&model);
        let story = tokens(&model, &user(&"a long story ".repeat(20)));
        let endless = |most| endless("chat", &story, most);
        let long = ask(&world.engine, endless(60)).timeline;
        let short = ask(&world.engine, endless(20)).timeline;
        assert!(long.starts_with(&short), "{memory}");
        let sampling = Sampling { seed: Some(7), ..Sampling::default() };
        let other = ask(&world.engine, TurnRequest { sampling, ..endless(40) }).timeline;
        assert_ne!(other[..short.len()], short, "{memory}");
        let last_batch = (story.len() - 1) % options().micro_batch + 1;
        let prompt = story.len() - if memory.can_drop_newest() { 1 } else { last_batch };
        for (branch, restored) in [(&short, prompt), (&long, long.len())] {
            settle(&world.engine);
            let prompt = then(&model, branch, "and then?");
            let report = ask(&world.engine, request("chat", &prompt, 5)).report;
            assert_eq!(report.tokens.computed, prompt.len() - restored, "{memory}: {report:?}");
        }
    }
}

#[test]
fn a_branch_that_ends_inside_a_block_is_restored_to_its_last_token() {
    let batches = MicroBatches::default();
    let model = batches.of(FakeModel::new());
    let mut world = OnDisk::new(&model);
    let prompt = tokens(&model, &user(&"a long story ".repeat(20)));
    let endless = TurnRequest { drafts: false, ..endless("chat", &prompt, 500) };
    let (cancelled, mut paused) = batches.first_of(&world.engine, endless);
    for _ in 0..50 {
        paused = paused.step();
    }
    drop(cancelled);
    drop(paused);
    settle(&world.engine);
    let cut_off = record(world.path(), "chat");
    assert_ne!(cut_off.tokens.len() % 64, 0, "the last block is not full");
    let edited = tokens(&model, &user(&"another story ".repeat(20)));
    ask(&world.engine, request("chat", &edited, 40));
    settle(&world.engine);
    sweep_later(&world.engine);
    world.restart();
    let prompt = then(&model, &cut_off.tokens, "go on");
    let report = ask(&world.engine, request("chat", &prompt, 5)).report;
    assert_eq!(report.tokens.computed, prompt.len() - cut_off.tokens.len(), "{report:?}");
}

#[test]
fn the_objects_of_branches_count_and_their_number_is_bounded() {
    let model = of_memory(MemoryKind::Plain);
    let world = OnDisk::new(&model);
    for number in 0..60 {
        let prompt = tokens(&model, &user(&format!("the story number {number} ").repeat(5)));
        ask(&world.engine, request("chat", &prompt, 20));
    }
    settle(&world.engine);
    let record = record(world.path(), "chat");
    let tokens: u32 = record.branches.iter().map(|object| object.end - object.start).sum();
    assert!((2_000..=4_096).contains(&tokens), "{tokens} tokens of branches");
    sweep_later(&world.engine);
    let reader = StoreReader::open(world.path()).unwrap();
    let contents = &reader.contents(FINGERPRINT).unwrap().slots[0];
    assert_eq!(contents.objects.len(), record.blocks.len() + record.branches.len());
    let on_disk = reader.object_files(FINGERPRINT).unwrap().len();
    assert_eq!(on_disk, contents.objects.len(), "an object of each, and no others");
}

#[test]
fn a_deleted_conversation_leaves_no_object_of_any_branch_in_memory_or_on_disk() {
    for memory in [MemoryKind::Plain, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let world = OnDisk::new(&model);
        for text in ["a long story ", "another story ", "a short one "] {
            let prompt = tokens(&model, &user(&text.repeat(20)));
            ask(&world.engine, request("chat", &prompt, 20));
        }
        let shared = tokens(&model, &user(&"a long story ".repeat(20)));
        let kept = ask(&world.engine, request("other", &shared, 20)).timeline;
        settle(&world.engine);
        let before = saved(world.path()).len();
        block_on(world.engine.forget(name("chat"))).unwrap();
        let left = saved(world.path());
        assert!(left.len() < before);
        let others = record(world.path(), "other");
        assert_eq!(left.len(), 1 + others.objects().count(), "{memory}: {left:?}");
        block_on(world.engine.forget(name("other"))).unwrap();
        assert_eq!(saved(world.path()), Vec::<PathBuf>::new(), "{memory}");
        assert_eq!(status(&world.engine).memory_bytes, 0, "{memory}: {} tokens", kept.len());
    }
}

#[test]
fn a_superseded_snapshot_stays_where_a_slot_file_names_it_that_was_replaced_meanwhile() {
    let model = of_memory(MemoryKind::Recurrent);
    let world = OnDisk::new(&model);
    let say = |conversation: &str, words: &str, turns: usize| {
        let mut timeline = Vec::new();
        for _ in 0..turns {
            let prompt = then(&model, &timeline, words);
            timeline = ask(&world.engine, request(conversation, &prompt, 5)).timeline;
        }
        settle(&world.engine);
        timeline
    };
    // A record has the last four. The first one that is superseded makes the writer read the slot files.
    say("first", "something else", 6);
    let timeline = say("named", "a long story", 2);
    block_on(world.engine.park(name("named")));
    let replaced = world.engine.maintain(|store, live_refs| {
        let record = store.get_slot(FINGERPRINT, &name("named")).unwrap();
        let record = SlotRecord { class: TtlClass::Short, ..record };
        store.put_slot(FINGERPRINT, &record).unwrap();
        live_refs.slot_file_replaced(FINGERPRINT, &name("named"));
    });
    block_on(replaced).unwrap();
    say("same", "a long story", 7);

    let prompt = then(&model, &timeline, "and then?");
    let report = ask(&world.engine, request("named", &prompt, 5)).report;
    assert_eq!(report.tokens.computed, prompt.len() - timeline.len(), "{report:?}");
}

#[test]
fn a_sealed_directory_keeps_branches_and_gives_them_up_with_their_conversation() {
    let model = of_memory(MemoryKind::Plain);
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let key = Key::load_or_make(&directory.path().join("key")).unwrap();
        let store = Store::open(directory.path().join("slots")).unwrap().sealed(&key).unwrap();
        Engine::start(model.clone(), FINGERPRINT, Some(Arc::new(store)), options()).unwrap()
    };
    let engine = start();
    let mut timelines = Vec::new();
    for text in ["a long story ", "another story "] {
        let prompt = tokens(&model, &user(&text.repeat(20)));
        timelines.push(ask(&engine, request("chat", &prompt, 20)).timeline);
    }
    settle(&engine);
    sweep_later(&engine);
    let before = saved(directory.path());
    sweep_later(&engine); // References are known by hidden names.
    assert_eq!(saved(directory.path()), before);
    engine.shutdown();
    let engine = start();
    for timeline in timelines {
        let prompt = then(&model, &timeline, "and then?");
        let report = ask(&engine, request("chat", &prompt, 5)).report;
        assert_eq!(report.tokens.computed, prompt.len() - timeline.len(), "{report:?}");
        sweep_later(&engine);
    }
    block_on(engine.forget(name("chat"))).unwrap();
    assert_eq!(saved(directory.path()), Vec::<PathBuf>::new());
    engine.shutdown();
}

#[test]
fn a_deletion_takes_what_other_models_and_quarantine_have_of_the_conversation() {
    let model = of_memory(MemoryKind::Plain);
    let directory = tempfile::tempdir().unwrap();
    let prompt = tokens(&model, &user(&"a long story ".repeat(20)));
    let store = Arc::new(Store::open(directory.path()).unwrap());
    let other_model = ModelHash(*b"another!");
    let before = Engine::start(model.clone(), other_model, Some(store), options()).unwrap();
    ask(&before, request("chat", &prompt, 20));
    before.shutdown();
    drop(before);
    let engine = engine(&model, Some(directory.path()), options());
    ask(&engine, request("chat", &prompt, 20));
    engine.shutdown();
    drop(engine);
    // A damaged block moves to quarantine when it is read.
    let damaged = saved(directory.path()).into_iter().find(|path| {
        path.extension().is_some_and(|end| end == "kv")
            && path.to_string_lossy().contains(&FINGERPRINT.to_string())
    });
    let damaged = damaged.unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let engine = crate::support::engine(&model, Some(directory.path()), options());
    ask(&engine, request("chat", &prompt, 5));
    settle(&engine);
    assert!(saved(directory.path()).iter().any(|file| file.to_string_lossy().contains("quar")));
    block_on(engine.forget(name("chat"))).unwrap();
    assert_eq!(saved(directory.path()), Vec::<PathBuf>::new());
    engine.shutdown();
}

#[test]
fn a_deletion_after_a_crash_takes_objects_that_no_slot_file_names_yet() {
    let model: Arc<dyn Model> = Arc::new(FakeModel::new().with_pace(Duration::from_millis(1)));
    let before = OnDisk::new(&model);
    let prompt = tokens(&model, &user(&"a secret ".repeat(20)));
    let endless = endless("chat", &prompt, 1_000_000);
    let running = before.engine.submit(endless).unwrap();
    until("it has saved blocks", || saved(before.path()).len() >= 3);
    // What a crash at this moment leaves.
    let crashed = tempfile::tempdir().unwrap();
    for file in saved(before.path()) {
        let copy = crashed.path().join(file.strip_prefix(before.path()).unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(&file, copy).unwrap();
    }
    drop(running);
    assert!(saved(crashed.path()).iter().all(|file| file.extension().unwrap() == "kv"));
    let engine = engine(&model, Some(crashed.path()), options());
    block_on(engine.forget(name("chat"))).unwrap();
    assert_eq!(saved(crashed.path()), Vec::<PathBuf>::new());
    engine.shutdown();
}
