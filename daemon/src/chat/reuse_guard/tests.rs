use std::time::Instant;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::turn::TurnEvent;
use hob_runtime::{EngineOptions, SlotState, SlotStatus};
use hob_slots::Token;
use hob_testkit::wait::PATIENCE;

use super::*;

fn likeness(agreeing: usize, divergence: f64) -> Likeness {
    let mut likeness =
        Likeness { answers: 1, compared: 16, agreeing, divergence, ..Likeness::default() };
    likeness.tokens.moved = 100;
    likeness
}

fn profile() -> ProfileName {
    "reader".parse().unwrap()
}

fn moved(guard: &ReuseGuard) {
    let request = TurnRequest::answer(None, Vec::new(), 8);
    guard.watch(&profile(), &request).unwrap().moved();
}

/// Which of 34 answers are samples, where each comparison is `likeness`.
fn samples(likeness: Likeness) -> Vec<usize> {
    let guard = ReuseGuard::default();
    let is_sample = |_: &usize| {
        moved(&guard);
        let sample = guard.waiting.lock().pop_front();
        sample.map(|sample| guard.add(&sample.profile, likeness)).is_some()
    };
    let samples = (0..34).filter(is_sample).collect();
    assert_eq!(guard.watched(&profile()).unwrap().answers, 34);
    samples
}

#[test]
fn the_first_tokens_and_every_sixteenth_answer_are_samples() {
    assert_eq!(samples(likeness(16, 0.1)), [0, 1, 2, 3, 16, 32]);
    let of_8_tokens = Likeness { compared: 8, agreeing: 8, ..likeness(0, 0.1) };
    assert_eq!(samples(of_8_tokens), [0, 1, 2, 3, 4, 5, 6, 7, 16, 32]);
}

#[test]
fn sixteen_answers_at_most_are_samples_without_a_figure() {
    let first_and_later: Vec<usize> = (0..=16).chain([32]).collect();
    assert_eq!(samples(Likeness::default()), first_and_later);
}

#[test]
fn a_sample_whose_prompt_is_hot_by_then_leaves_its_place_to_a_later_answer() {
    let guard = ReuseGuard::default();
    let is_sampled = || {
        moved(&guard);
        guard.waiting.lock().pop_front().is_some()
    };
    for number in 0..40 {
        assert!(is_sampled(), "{number}");
        guard.was_hot(&profile());
    }
    for number in 0..4 {
        assert!(is_sampled(), "{number}");
        guard.add(&profile(), likeness(16, 3.2));
    }
    assert!(!is_sampled());
    assert!(guard.refusal(&profile(), ReuseLimits::default()).is_some(), "it is judged");
}

#[test]
fn a_private_answer_is_no_sample() {
    let mut request = TurnRequest::answer(None, Vec::new(), 8);
    request.keep.in_memory = Some(true);
    assert!(ReuseGuard::default().watch(&profile(), &request).is_none());
}

#[test]
fn a_profile_falls_back_by_its_latest_samples_and_says_why() {
    let guard = ReuseGuard::default();
    for _ in 0..20 {
        guard.add(&profile(), likeness(16, 0.1));
    }
    assert_eq!(guard.refusal(&profile(), ReuseLimits::default()), None);
    for _ in 0..16 {
        guard.add(&profile(), likeness(13, 0.1));
    }
    let why = guard.refusal(&profile(), ReuseLimits::default()).expect("it fell back");
    // The fifth of them: 11 before it agreed wholly.
    assert!(why.contains("`reader`") && why.contains("0.94"), "{why}");
    let watched = guard.watched(&profile()).unwrap();
    assert_eq!((watched.samples, watched.likeness.compared), (36, WINDOW));
    let other = "other".parse().unwrap();
    assert_eq!(guard.refusal(&other, ReuseLimits::default()), None);
    assert_eq!(guard.watched(&other), None, "it has moved nothing");
    assert_eq!(guard.fallen_back(&[other.clone(), profile()]), 1);
    assert_eq!(guard.fallen_back(&[other]), 0, "the profile was removed");
}

#[test]
fn other_limits_judge_the_latest_samples_again() {
    let guard = ReuseGuard::default();
    (0..4).for_each(|_| guard.add(&profile(), likeness(16, 0.8)));
    let limits = |divergence| ReuseLimits { divergence, ..ReuseLimits::default() };
    assert_eq!(guard.refusal(&profile(), limits(0.1)), None);
    let why = guard.refusal(&profile(), limits(0.01)).expect("0.05 nats a token");
    assert!(why.contains("0.050") && why.contains("`reuse_limits.divergence` 0.01"), "{why}");
    assert_eq!(guard.refusal(&profile(), limits(0.05)), None);
    guard.add(&profile(), likeness(16, 1.6));
    assert!(guard.refusal(&profile(), limits(0.05)).is_some());
}

#[test]
fn a_later_guard_of_the_same_model_knows_what_was_found() {
    let directory = tempfile::tempdir().unwrap();
    let open = |model| ReuseGuard::open(directory.path(), ModelHash([model; 8]));
    let (guard, limits) = (open(1), ReuseLimits::default());
    (0..4).for_each(|_| guard.add(&profile(), likeness(13, 0.1)));
    let why = guard.refusal(&profile(), limits);
    assert!(why.is_some());
    guard.save();
    let later = open(1);
    assert_eq!(later.refusal(&profile(), limits), why);
    let watched = later.watched(&profile()).unwrap();
    let compared = watched.likeness.compared;
    assert_eq!((watched.answers, watched.samples, compared), (0, 4, MIN_COMPARED));
    // A limit that changes judges the same samples again.
    assert_eq!(later.refusal(&profile(), ReuseLimits { agreement: 0.8, ..limits }), None);
    assert_eq!(open(2).watched(&profile()), None);
}

#[tokio::test]
async fn a_new_profile_inherits_nothing_of_a_removed_one_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let open = || ReuseGuard::open(directory.path(), ModelHash([1; 8]));
    let guard = open();
    moved(&guard);
    (0..4).for_each(|_| guard.add(&profile(), likeness(13, 0.1)));
    assert!(guard.refusal(&profile(), ReuseLimits::default()).is_some());
    guard.save();
    assert!(open().watched(&profile()).is_some());
    guard.forget(&profile()).await;
    assert_eq!(guard.refusal(&profile(), ReuseLimits::default()), None);
    assert!(guard.waiting.lock().is_empty(), "an answer of the removed one is not compared");
    assert_eq!(open().watched(&profile()), None);
}

#[test]
fn few_tokens_decide_nothing_and_divergence_alone_does() {
    let guard = ReuseGuard::default();
    for _ in 0..3 {
        guard.add(&profile(), likeness(0, 16.0));
    }
    assert_eq!(guard.refusal(&profile(), ReuseLimits::default()), None);
    let other = ReuseGuard::default();
    for _ in 0..4 {
        other.add(&profile(), likeness(16, 3.2));
    }
    assert!(other.refusal(&profile(), ReuseLimits::default()).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_sample_waits_until_no_answer_runs() {
    let model = Arc::new(FakeModel::new().with_pace(Duration::from_millis(1)));
    let options = EngineOptions::default();
    let engine = Engine::start(model, ModelHash([7; 8]), None, options).unwrap();
    let answer = |max_tokens| TurnRequest::answer(None, vec![Token(97); 40], max_tokens);
    let endless = TurnRequest { ignore_eog: true, ..answer(1_000_000) };
    let mut running = engine.submit(endless).unwrap();
    while !matches!(running.next().await.expect("it runs"), TurnEvent::Token { .. }) {}

    let guard = ReuseGuard::default();
    guard.watch(&profile(), &answer(8)).unwrap().moved();
    tokio::spawn(guard.clone().run(engine.clone()));
    for _ in 0..20 {
        tokio::time::sleep(PAUSE).await;
        // The engine answers in the order in which it is asked: the guard has heard before whether it is idle.
        let status = engine.cell_status().await.unwrap();
        let is_busy = |slot: &&SlotStatus| !matches!(slot.state, SlotState::Free | SlotState::Idle);
        let busy = status.slots.iter().filter(is_busy).count();
        // The paused clock leaves a turn of a comparison no time to end: it would wait, or compute in a slot.
        assert_eq!((status.counters.turns, busy, status.waiting), (0, 1, 0), "another answer runs");
    }
    assert_eq!(guard.waiting.lock().len(), 0, "it is to be compared once no answer runs");
    drop(running);
    let began = Instant::now();
    while engine.cell_status().await.unwrap().counters.turns == 0 {
        assert!(began.elapsed() < PATIENCE, "it is never compared");
        tokio::time::sleep(PAUSE).await;
    }
    engine.shutdown();
}
