//! A draft model changes how fast an answer comes, and nothing else. Its KV follows the conversation's
//! through edits, restarts and deletion. Costs do not depend on the clock here, so that it always
//! guesses.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::{FakeModel, LoadLog};
use hob_runtime::grammar::Grammar;
use hob_runtime::{
    Disagreement, DraftCounts, DraftModel, DraftModelCounters, Engine, EngineOptions, Model,
    Retention, TurnRequest,
};
use hob_slots::store::StoreReader;
use hob_slots::{Token, TtlClass};
use proptest::prelude::*;

use crate::support::wait::until;
use crate::support::*;

const TEXT: &str = "What the kettle said to the lamp, nobody on the shelf had ever heard before. ";

fn with_drafts(draft_model: Option<DraftModel>) -> EngineOptions {
    EngineOptions { draft_model, ..options() }
}

fn counters(engine: &Engine) -> DraftModelCounters {
    status(engine).draft_model.expect("it has one")
}

fn answer(prompt: &[Token], max_tokens: usize) -> TurnRequest {
    endless("chat", prompt, max_tokens)
}

/// For a token, longer than a reader for a block: what is saved arrives while it answers.
const UNHURRIED: Duration = Duration::from_millis(1);

fn unhurried() -> Arc<dyn Model> {
    Arc::new(FakeModel::new().with_pace(UNHURRIED))
}

/// Files under the draft model's directory: records and objects.
fn saved(directory: &Path) -> (usize, usize) {
    let directory = directory.join(DRAFT_FINGERPRINT.to_string());
    let count = |extension| files::with_extensions(&directory, &[extension]).len();
    (count("bin"), count("kv"))
}

#[test]
fn a_turn_that_asks_for_no_drafts_asks_the_draft_model_for_none() {
    let model = unhurried();
    let prompt = tokens(&model, &user(TEXT));
    let engine = engine(&model, None, with_drafts(Some(draft_model(&model, false))));
    let without = TurnRequest { drafts: false, ..answer(&prompt, 160) };
    let (_, counts) = events(&engine, without);
    assert_eq!(counts, DraftCounts::default());
    let with = endless("other", &prompt, 160);
    let (_, counts) = events(&engine, with);
    assert!(counts.model_accepted > 50, "{counts:?}");
}

#[test]
fn a_model_that_drafts_for_itself_is_always_right() {
    let model = unhurried();
    let prompt = tokens(&model, &user(TEXT));
    let engine = engine(&model, None, with_drafts(Some(draft_model(&model, false))));
    let (_, counts) = events(&engine, answer(&prompt, 160));
    assert!(counts.model_accepted > 50, "{counts:?}");
    assert_eq!(counts.model_accepted, counts.model_drafted, "{counts:?}");
    let all = counters(&engine);
    assert_eq!(all.drafted_tokens, counts.model_drafted as u64);
    assert_eq!(all.accepted_tokens, counts.model_accepted as u64);
    assert_eq!(status(&engine).counters.drafted_tokens, counts.drafted as u64);
}

#[test]
fn what_no_answer_had_time_for_is_read_behind_it() {
    // A row of the draft model takes as long as one of the model: no answer can pay for the prompt.
    let model = unhurried();
    let draft_model = DraftModel::new(unhurried(), DRAFT_FINGERPRINT, model.as_ref()).unwrap();
    let timed = EngineOptions::default().micro_batch_target;
    let options = EngineOptions {
        micro_batch_target: timed,
        delivery_patience: Duration::from_secs(3600),
        ..with_drafts(Some(draft_model))
    };
    let engine = engine(&model, None, options);
    let prompt = tokens(&model, &user(&TEXT.repeat(6)));
    // What is behind the answer begins when the turn is dropped.
    let mut turn = engine.submit(answer(&prompt, 40)).unwrap();
    let first = crate::support::answer(std::iter::from_fn(|| turn.next_blocking())).unwrap();
    let during = counters(&engine).computed_tokens;
    drop(turn);
    settle(&engine);
    let all = counters(&engine).computed_tokens;
    assert!(during < prompt.len() as u64, "{during} of {} tokens", prompt.len());
    assert_eq!(all, first.timeline.len() as u64);
}

/// Those with a running state are refused, see `DraftModel::new`.
#[test]
fn a_model_with_a_sliding_window_has_guesses_and_the_same_answer() {
    let unhurried = FakeModel::new().with_pace(Duration::from_millis(1));
    let model: Arc<dyn Model> = Arc::new(unhurried.with_memory(MemoryKind::Windowed));
    let prompt = tokens(&model, &user(TEXT));
    let on = engine(&model, None, with_drafts(Some(draft_model(&model, false))));
    let (seen, counts) = events(&on, answer(&prompt, 60));
    assert!(counts.model_drafted > 0, "{counts:?}");
    let off = engine(&model, None, with_drafts(None));
    assert_eq!(seen, events(&off, answer(&prompt, 60)).0);
}

#[test]
fn after_a_restart_the_draft_model_computes_only_what_is_new() {
    let model = unhurried();
    let mut disk = OnDisk::with(&model, with_drafts(Some(draft_model(&model, false))));
    let prompt = tokens(&model, &user(&TEXT.repeat(6)));
    let first = ask(&disk.engine, answer(&prompt, 100));
    settle(&disk.engine);
    let (records, objects) = saved(disk.path());
    assert!(records == 1 && objects > 5, "{records} records, {objects} objects");
    let before = counters(&disk.engine);
    assert_eq!(before.restored_tokens, 0);

    disk.restart_with(with_drafts(Some(draft_model(&model, false))));
    let next = then(&model, &first.timeline, "and then?");
    // The draft model's KV is read while this answers.
    let second = ask(&disk.engine, answer(&next, 600));
    let after = counters(&disk.engine);
    // The last tokens of an answer are sampled, and nothing is guessed behind them.
    let held = (first.timeline.len() - 16) as u64;
    assert!(after.restored_tokens >= held, "{after:?}, {held} of {}", first.timeline.len());
    assert!(after.accepted_tokens > 300, "{after:?}");
    let new = second.timeline.len() as u64 - after.restored_tokens;
    assert!(after.computed_tokens <= new, "{after:?}, {new} new");
}

#[test]
fn what_the_disk_does_not_take_at_once_of_the_draft_model_is_saved_when_it_does() {
    let model = unhurried();
    let drafts = with_drafts(Some(draft_model(&model, false)));
    // An eighth of it is the draft model's: a block fills that.
    let disk = OnDisk::with(&model, EngineOptions { unsaved_budget_bytes: 4_000, ..drafts });
    let prompt = tokens(&model, &user(&TEXT.repeat(4)));
    let timeline = ask(&disk.engine, answer(&prompt, 60)).timeline;
    settle(&disk.engine);
    let store = StoreReader::open(disk.path()).unwrap();
    let record = store.get_slot(DRAFT_FINGERPRINT, &name("chat")).expect("it is saved");
    assert!(record.tokens.len() > prompt.len() && timeline.starts_with(&record.tokens));
}

#[test]
fn an_edited_conversation_is_followed_from_where_it_differs() {
    let model = unhurried();
    let engine = engine(&model, None, with_drafts(Some(draft_model(&model, false))));
    let prompt = tokens(&model, &user(&TEXT.repeat(6)));
    let first = ask(&engine, answer(&prompt, 60));
    // Regenerated, then edited in the middle, then continued.
    let edited = [&prompt[..300], &tokens(&model, "Or was it so? ")[..], &prompt[320..]].concat();
    let next = then(&model, &first.timeline, "go on");
    for (prompt, more) in [(&prompt, 16), (&edited, edited.len() - 300), (&next, next.len() - 300)]
    {
        let computed = counters(&engine).computed_tokens;
        let (seen, counts) = events(&engine, answer(prompt, 60));
        assert_eq!(seen.len(), 62, "a start, 60 tokens and an end");
        assert_eq!(counts.model_accepted, counts.model_drafted, "{counts:?}");
        assert!(counts.model_accepted > 30, "{counts:?}");
        let computed = counters(&engine).computed_tokens - computed;
        // Behind a draft that was right to its end, one token lacks; and what was sampled during a
        // restore.
        assert!(computed <= more as u64 + 20, "{computed} of {more} tokens");
    }
}

#[test]
fn a_deleted_conversation_leaves_nothing_of_the_draft_model() {
    let model = unhurried();
    let disk = OnDisk::with(&model, with_drafts(Some(draft_model(&model, false))));
    let prompt = tokens(&model, &user(&TEXT.repeat(4)));
    ask(&disk.engine, answer(&prompt, 80));
    settle(&disk.engine);
    assert!(saved(disk.path()).1 > 3);
    block_on(disk.engine.forget(name("chat"))).unwrap();
    assert_eq!(saved(disk.path()), (0, 0));
    // Also one whose turn runs.
    let running = disk.engine.submit(answer(&prompt, 1_000_000)).unwrap();
    until("guesses are accepted", || counters(&disk.engine).accepted_tokens >= 100);
    block_on(disk.engine.forget(name("chat"))).unwrap();
    drop(running);
    settle(&disk.engine);
    assert_eq!(saved(disk.path()), (0, 0));
}

#[test]
fn a_class_that_is_set_is_that_of_the_draft_models_kv_too() {
    let model = unhurried();
    let disk = OnDisk::with(&model, with_drafts(Some(draft_model(&model, false))));
    let class = || {
        let store = StoreReader::open(disk.path()).unwrap();
        store.get_slot(DRAFT_FINGERPRINT, &name("chat")).expect("it is saved").class
    };
    let prompt = tokens(&model, &user(&TEXT.repeat(4)));
    let first = ask(&disk.engine, answer(&prompt, 60));
    settle(&disk.engine);
    assert_ne!(class(), TtlClass::Short);
    assert_eq!(block_on(disk.engine.set_class(name("chat"), TtlClass::Short)), Ok(true));
    settle(&disk.engine);
    assert_eq!(class(), TtlClass::Short);
    ask(&disk.engine, answer(&then(&model, &first.timeline, "go on"), 60));
    settle(&disk.engine);
    assert_eq!(class(), TtlClass::Short);
}

#[test]
fn private_and_anonymous_kv_of_the_draft_model_stays_in_memory() {
    let model = unhurried();
    let disk = OnDisk::with(&model, with_drafts(Some(draft_model(&model, false))));
    let prompt = tokens(&model, &user(&TEXT.repeat(4)));
    let keep = Retention { in_memory: Some(true), ..Retention::default() };
    let private = TurnRequest { keep, ..answer(&prompt, 60) };
    let anonymous =
        TurnRequest { ignore_eog: true, ..TurnRequest::answer(None, prompt.clone(), 60) };
    for request in [private, anonymous] {
        assert!(events(&disk.engine, request).1.model_accepted > 0);
    }
    settle(&disk.engine);
    disk.engine.shutdown();
    assert_eq!(saved(disk.path()), (0, 0));
}

#[test]
fn the_draft_model_is_unloaded_and_loaded_with_the_model() {
    let loads = LoadLog::default();
    let logged = |name, pace| FakeModel::new().with_pace(pace).with_load_log(name, loads.clone());
    let model: Arc<dyn Model> = Arc::new(logged("model", UNHURRIED));
    let drafter: Arc<dyn Model> = Arc::new(logged("draft model", Duration::ZERO));
    let draft_model = DraftModel::new(drafter.clone(), DRAFT_FINGERPRINT, model.as_ref()).unwrap();
    let disk = OnDisk::with(&model, with_drafts(Some(draft_model)));
    let prompt = tokens(&model, &user(&TEXT.repeat(4)));
    let first = ask(&disk.engine, answer(&prompt, 60));
    assert!(block_on(disk.engine.unload()));
    let shape =
        hob_runtime::backend::ContextShape { context_tokens: 64, sequences: 1, micro_batch: 64 };
    assert!(drafter.with_context(shape, &mut |_| {}).is_err(), "its weights are dropped");
    let next = then(&model, &first.timeline, "go on");
    // The draft model's KV is read while this answers.
    let (_, counts) = events(&disk.engine, answer(&next, 400));
    assert!(counts.model_accepted > 130, "{counts:?}");
    assert!(counters(&disk.engine).restored_tokens > 200);
    assert_eq!(*loads.lock(), ["draft model", "model"], "the layers of the model leave it room");
}

#[test]
fn a_draft_model_without_weights_costs_the_drafts_alone() {
    let model = fake();
    let drafter: Arc<dyn Model> = Arc::new(FakeModel::new());
    let draft_model = DraftModel::new(drafter.clone(), DRAFT_FINGERPRINT, model.as_ref()).unwrap();
    drafter.drop_weights().unwrap();
    let engine = engine(&model, None, with_drafts(Some(draft_model)));
    let prompt = tokens(&model, &user(TEXT));
    assert_eq!(ask(&engine, answer(&prompt, 40)).tokens.len(), 40);
    assert_eq!(counters(&engine), DraftModelCounters::default());
    let failure = status(&engine).draft_failure;
    assert_eq!(failure.as_deref(), Some("the model's weights are not in memory"));
}

#[test]
fn the_status_says_why_a_draft_model_was_not_loaded_again_until_it_is() {
    let is_damaged = Arc::new(AtomicBool::new(false));
    let model = fake();
    let drafter: Arc<dyn Model> = Arc::new(FakeModel::new().with_damage(is_damaged.clone()));
    let draft_model = DraftModel::new(drafter, DRAFT_FINGERPRINT, model.as_ref()).unwrap();
    let engine = engine(&model, None, with_drafts(Some(draft_model)));
    let prompt = tokens(&model, &user(TEXT));
    let failure_of_reload = || {
        assert!(block_on(engine.unload()));
        ask(&engine, answer(&prompt, 5));
        status(&engine).draft_failure
    };
    assert_eq!(failure_of_reload(), None);
    is_damaged.store(true, Ordering::SeqCst);
    let failure = failure_of_reload().expect("it has no weights");
    assert!(failure.contains("the file is damaged"), "{failure}");
    assert!(failure.contains("the next load tries again"), "{failure}");
    is_damaged.store(false, Ordering::SeqCst);
    assert_eq!(failure_of_reload(), None);
}

#[test]
fn a_model_with_another_vocabulary_cannot_draft() {
    let target = FakeModel::new().with_pooling("last");
    let found = DraftModel::new(Arc::new(target), DRAFT_FINGERPRINT, fake().as_ref()).err();
    assert_eq!(found, Some(Disagreement::Embeds));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn events_equal_those_without_a_draft_model(
        sampling in samplings(),
        grammar in prop::option::of(Just(())),
        copies in any::<bool>(),
        same in any::<bool>(),
        max_tokens in 0_usize..120,
        logprobs in prop::option::of(0_usize..3),
        ignore_eog in any::<bool>(),
        context_tokens in 230_usize..400,
        micro_batch in prop::sample::select(vec![4, 16, 128]),
        memory in prop::sample::select(vec![MemoryKind::Plain, MemoryKind::Windowed]),
    ) {
        let model = FakeModel::new().with_memory(memory);
        let model: Arc<dyn Model> = Arc::new(if copies { model.with_copies() } else { model });
        let prompt = tokens(&model, &user(TEXT));
        let grammar = grammar.map(|()| Arc::new(Grammar::lark("start: /[a-z,. ]*/")));
        let request = TurnRequest {
            sampling, grammar, logprobs, ignore_eog,
            ..request("chat", &prompt, max_tokens)
        };
        let drafter = draft_model(&model, copies == same);
        let [seen, expected] = [Some(drafter), None].map(|draft_model| {
            let drafts = draft_model.is_some();
            let options =
                EngineOptions { draft_model, drafts, context_tokens, micro_batch, ..options() };
            let engine = engine(&model, None, options);
            let (first, _) = events(&engine, request.clone());
            let (second, _) = events(&engine, request.clone()); // Its slot holds the first one.
            engine.shutdown();
            (first, second)
        });
        prop_assert_eq!(seen, expected);
    }
}

/// On llama.cpp a row that is computed beside others may round otherwise, which decides where two
/// tokens are equally likely. These answers have no such place.
#[cfg(feature = "llama")]
#[test]
fn answers_of_llama_cpp_equal_those_without_a_draft_model() {
    for (target, drafter, is_right) in [
        ("hob-tiny-f16.gguf", "hob-tiny-f16.gguf", true),
        ("hob-tiny-f16.gguf", "fixtures/qwen3.gguf", false),
        ("fixtures/gemma3.gguf", "fixtures/qwen2.gguf", false),
    ] {
        let (model, drafter_model) = (load(target), load(drafter));
        let prompt = tokens(&model, &user("My locker code is 48213. What is my locker code?"));
        let greedy = endless("chat", &prompt, 200);
        let drawn = hob_runtime::sample::Sampling {
            temperature: 0.8,
            seed: Some(11),
            ..Default::default()
        };
        let drawn = TurnRequest { sampling: drawn, ..request("chat", &prompt, 60) };
        let grammar = Some(Arc::new(Grammar::lark("start: /[A-Za-z0-9,. ]+/")));
        let bound = TurnRequest { grammar, ..request("chat", &prompt, 60) };
        for (kind, request) in [("greedy", greedy), ("drawn", drawn), ("bound", bound)] {
            let draft_model =
                DraftModel::new(drafter_model.clone(), DRAFT_FINGERPRINT, model.as_ref()).unwrap();
            let [(seen, counts), (expected, _)] = [Some(draft_model), None].map(|draft_model| {
                let drafts = draft_model.is_some();
                let options = EngineOptions { draft_model, drafts, ..options() };
                let engine = engine(&model, None, options);
                let events = events(&engine, request.clone());
                engine.shutdown();
                events
            });
            println!("{target} with {drafter}, {kind}: {counts:?}");
            assert_eq!(seen, expected, "{target} with {drafter}, {kind}");
            assert!(counts.model_drafted > 0, "{target} with {drafter}, {kind}: {counts:?}");
            if is_right && kind == "greedy" {
                assert!(2 * counts.model_accepted > counts.model_drafted, "{counts:?}");
            }
        }
    }
}
