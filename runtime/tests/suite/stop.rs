//! Stopping an engine while something takes long, and the death of its thread.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::{BatchLog, FakeModel};
use hob_runtime::{EngineOptions, Health, Model, Residency, TurnRequest};

use crate::support::wait::until;
use crate::support::{ask, block_on, engine, options, request, then, tokens, user};

fn fake(pace: Duration) -> Arc<dyn Model> {
    Arc::new(FakeModel::new().with_pace(pace))
}

#[test]
fn a_stop_interrupts_a_long_micro_batch_and_saves_what_was_there_before() {
    let directory = tempfile::tempdir().unwrap();
    let log = BatchLog::default();
    let paced = FakeModel::new().with_pace(Duration::from_millis(30)).with_batch_log(log.clone());
    let slow: Arc<dyn Model> = Arc::new(paced);
    let options = || EngineOptions { micro_batch: 1024, ..options() };
    let before = engine(&slow, Some(directory.path()), options());
    let first = ask(&before, request("chat", &tokens(&slow, &user("hello")), 4));
    block_on(before.settled()); // The last token of the answer is computed behind it.
    let prompt = then(&slow, &first.timeline, &"and now? ".repeat(80));
    let batches = log.lock().len();
    let turn = before.submit(request("chat", &prompt, 4)).unwrap();
    until("it computes for 20 s", || log.lock().len() > batches);
    assert!(before.shutdown());
    drop((turn, before));

    let model = fake(Duration::ZERO);
    let after = engine(&model, Some(directory.path()), options());
    let answer = ask(&after, request("chat", &prompt, 4));
    // A whole micro-batch would have been saved.
    assert_eq!(answer.report.tokens.disk, first.timeline.len(), "{:?}", answer.report);
}

#[test]
fn a_stop_saves_an_answer_whose_last_token_waits_behind_a_long_prompt() {
    for memory in [MemoryKind::Hybrid, MemoryKind::Recurrent] {
        let of_pace = |pace| -> Arc<dyn Model> {
            Arc::new(FakeModel::new().with_memory(memory).with_pace(pace))
        };
        let directory = tempfile::tempdir().unwrap();
        let slow = of_pace(Duration::from_millis(5));
        let options = || EngineOptions { micro_batch: 256, ..options() };
        let before = engine(&slow, Some(directory.path()), options());
        let long = tokens(&slow, &"word ".repeat(300));
        let waits = before.submit(request("long", &long, 4)).unwrap();
        let short = request("chat", &tokens(&slow, &user("hello")), 2);
        let first = ask(&before, TurnRequest { ignore_eog: true, ..short });
        assert!(before.shutdown()); // In a micro-batch of the long prompt, of which each takes 1.3 s.
        drop((waits, before));

        let model = of_pace(Duration::ZERO);
        let after = engine(&model, Some(directory.path()), options());
        let prompt = then(&model, &first.timeline, "and now?");
        let answer = ask(&after, request("chat", &prompt, 4));
        let saved = answer.report.tokens.disk;
        assert!(saved >= first.timeline.len() - 1, "{memory}: {:?}", answer.report);
    }
}

#[test]
fn a_stop_interrupts_a_load() {
    let slow = fake(Duration::from_secs(4));
    let engine = engine(&slow, None, options());
    assert!(block_on(engine.unload()));
    assert_eq!(engine.health(), Health::Unloaded);
    engine.load(); // For 12 s.
    until("it loads", || engine.health() != Health::Unloaded);
    assert!(matches!(engine.health(), Health::Loading { .. }), "{:?}", engine.health());
    assert!(engine.shutdown());
    assert_ne!(*engine.residency().borrow(), Residency::Resident, "the load has ended early");
}

#[test]
fn saves_do_not_wait_behind_queued_maintenance() {
    let directory = tempfile::tempdir().unwrap();
    let model = fake(Duration::ZERO);
    let before = engine(&model, Some(directory.path()), options());
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..5 {
        let ran = ran.clone();
        let job = before.maintain(move |_, live_refs| {
            ran.fetch_add(1, Ordering::SeqCst);
            until("the engine is told to stop", || live_refs.is_stopping());
        });
        // Queued when it is polled for the first time.
        assert!(Box::pin(job).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let first = ask(&before, request("chat", &tokens(&model, &user("hello")), 4));
    assert!(before.shutdown());
    assert!(ran.load(Ordering::SeqCst) <= 1, "the jobs behind it are dropped");
    drop(before);
    let after = engine(&model, Some(directory.path()), options());
    let prompt = then(&model, &first.timeline, "and now?");
    let answer = ask(&after, request("chat", &prompt, 4));
    assert_eq!(answer.report.tokens.disk, first.timeline.len(), "{:?}", answer.report);
}

#[cfg(feature = "llama")]
mod llama {
    use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
    use hob_runtime::backend::{Backend, ContextShape, DecodeError, Row, Sequence};
    use hob_runtime::heartbeat::Heartbeat;
    use hob_slots::Token;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Level, Metadata, Subscriber};

    use super::*;
    use crate::support::asset;

    fn rows(tokens: &[Token], from: usize) -> Vec<Row> {
        let row = |(index, &token): (usize, &Token)| Row {
            token,
            position: from + index,
            sequence: Sequence(0),
            wants_logits: index + 1 == tokens.len(),
        };
        tokens.iter().enumerate().map(row).collect()
    }

    /// Counts what is logged as an error.
    struct Errors(Arc<AtomicUsize>);

    impl Subscriber for Errors {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::ERROR
        }

        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    const MODELS: [&str; 5] = [
        "hob-tiny-f16.gguf",
        "fixtures/qwen2.gguf",
        "fixtures/gemma3.gguf",
        "fixtures/lfm2.gguf",
        "fixtures/mamba.gguf",
    ];

    /// A running state comes back from a sequence that shares it. llama.cpp logs it as an error, which it is not.
    #[test]
    fn an_interrupted_micro_batch_of_llama_cpp_leaves_the_cache_and_the_log_as_they_were() {
        let errors = Arc::new(AtomicUsize::new(0));
        let _counted = tracing::subscriber::set_default(Errors(errors.clone()));
        for file in MODELS {
            let model = LlamaModel::load(&asset(file), LlamaOptions::default()).unwrap();
            let can_drop = model.facts().memory.can_drop_newest();
            let mark = Sequence(1);
            let text = model.tokenize(&"The kettle is hot. ".repeat(80), false, true);
            // The first part is longer than gemma3's window.
            let (first, second) = text[..400].split_at(200);
            let shape = ContextShape { context_tokens: 1024, sequences: 3, micro_batch: 512 };
            let mut run = |backend: &mut dyn Backend| {
                backend.decode(&rows(first, 0)).unwrap();
                let mut interrupted = 0;
                for into_it in [0, 2, 5, 12].map(Duration::from_millis) {
                    let stopped = Arc::new(Heartbeat::default());
                    stopped.stop();
                    std::thread::sleep(Duration::from_secs(1) - into_it);
                    backend.report_to(stopped);
                    backend.share(Sequence(0), mark, 0..first.len());
                    let Err(error) = backend.decode(&rows(second, first.len())) else { break };
                    assert_eq!(error, DecodeError::Interrupted, "{file}");
                    if !can_drop {
                        backend.clear(Sequence(0));
                        backend.share(mark, Sequence(0), 0..first.len());
                    }
                    backend.clear(mark);
                    assert_eq!(backend.end(Sequence(0)), first.len(), "{file}");
                    interrupted += 1;

                    backend.report_to(Arc::default());
                    backend.decode(&rows(second, first.len())).unwrap();
                    let after = backend.logits(second.len() - 1).to_vec();
                    backend.clear(Sequence(0));
                    backend.decode(&rows(first, 0)).unwrap();
                    backend.decode(&rows(second, first.len())).unwrap();
                    let expected = backend.logits(second.len() - 1);
                    assert_eq!(after, expected, "{file}: as if it was never interrupted");
                    backend.clear(Sequence(0));
                    backend.decode(&rows(first, 0)).unwrap();
                }
                assert!(interrupted > 0, "{file}");
                assert_eq!(errors.load(Ordering::Relaxed), 0, "{file}: what was cut is no error");
                // What is one is logged, also after a cut: these positions are taken.
                assert!(backend.decode(&rows(first, 0)).is_err(), "{file}");
                assert!(errors.swap(0, Ordering::Relaxed) > 0, "{file}");
            };
            model.with_context(shape, &mut run).unwrap();
        }
    }
}
