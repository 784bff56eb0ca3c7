//! Memories that are saved in blocks and snapshots of the rest: what is missing costs time alone.

use std::path::Path;
use std::sync::Arc;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::{BatchLog, FailsAt, FakeModel};
use hob_runtime::{EngineOptions, Model, TurnRequest};

use crate::support::*;

#[test]
fn any_one_damaged_object_is_computed_again_and_the_answer_is_the_same() {
    for memory in [MemoryKind::Windowed, MemoryKind::Hybrid] {
        let model = of_memory(memory);
        let saved = tempfile::tempdir().unwrap();
        let before = engine(&model, Some(saved.path()), options());
        let story = tokens(&model, &user(&"a long story ".repeat(20)));
        let first = ask(&before, request("chat", &story, 20)).timeline;
        let prompt = then(&model, &first, &"and then? ".repeat(9));
        let second = ask(&before, request("chat", &prompt, 20)).timeline;
        before.shutdown();
        let prompt = then(&model, &second, "go on");
        let expected = alone(&model, &prompt, 20);

        let count = files::with_extensions(saved.path(), &["kv"]).len();
        let mut restored = Vec::new();
        for number in 0..count {
            let copy = tempfile::tempdir().unwrap();
            copy_all(saved.path(), copy.path());
            let object = &files::with_extensions(copy.path(), &["kv"])[number];
            let mut bytes = std::fs::read(object).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(object, bytes).unwrap();

            let engine = engine(&model, Some(copy.path()), options());
            let answer = ask(&engine, request("chat", &prompt, 20));
            assert_eq!(answer.tokens, expected, "{memory}, {object:?}");
            let counts = answer.report.tokens;
            assert_eq!(counts.prompt(), prompt.len(), "{memory}, {object:?}");
            let counters = status(&engine).counters;
            let computed = counters.computed_tokens;
            assert_eq!(counts.computed as u64, computed, "{memory}, {object:?}: {counts:?}");
            assert_eq!(counters.wasted_restores, 0, "{memory}, {object:?}: that would be a bug");
            restored.push(counts.disk);
            engine.shutdown();
        }
        assert!(restored.contains(&second.len()), "{memory}: an unused snapshot: {restored:?}");
        assert!(restored.contains(&first.len()), "{memory}: the turn before: {restored:?}");
        assert!(restored.contains(&0), "{memory}: the first block: {restored:?}");
    }
}

#[test]
fn the_last_token_of_an_answer_that_a_device_fails_to_compute_leaves_those_before_it_saved() {
    for memory in [MemoryKind::Windowed, MemoryKind::Hybrid, MemoryKind::Recurrent] {
        let (fails_at, log) = (FailsAt::default(), BatchLog::default());
        let fake = FakeModel::new().with_memory(memory).with_failure(fails_at.clone());
        let model: Arc<dyn Model> = Arc::new(fake.with_batch_log(log.clone()));
        let world = OnDisk::with(&model, EngineOptions { slots: 1, ..options() });
        let story = tokens(&model, &user("a short story"));
        let undrafted = TurnRequest { drafts: false, ..endless("chat", &story, 2) };
        let held = log.lock(); // No micro-batch begins before all of this is arranged.
        let first = world.engine.submit(undrafted).unwrap();
        // It takes the slot as soon as the answer ends, whose last token is computed before it is saved.
        let other = world.engine.submit(request("other", &story, 2)).unwrap();
        let computed = story.len() + 1;
        *fails_at.lock() = Some(computed);
        drop(held);
        let first = finish(first).unwrap();
        finish(other).unwrap();
        assert_eq!(*fails_at.lock(), None, "{memory}: it has failed");

        let prompt = then(&model, &first.timeline, "go on");
        let answer = ask(&world.engine, request("chat", &prompt, 20));
        assert_eq!(answer.report.tokens.cached(), computed, "{memory}: {:?}", answer.report);
        assert_eq!(answer.tokens, alone(&model, &prompt, 20), "{memory}");
    }
}

fn copy_all(from: &Path, to: &Path) {
    for file in files::below(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, target).unwrap();
    }
}
