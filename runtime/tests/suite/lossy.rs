//! KV that was rounded when its conversation aged: what it serves, what it never serves, and what tells of it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hob_runtime::backend::MemoryKind;
use hob_runtime::{Engine, EngineOptions, Model, Retention, Reuse, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::format::SegmentRef;
use hob_slots::store::StoreReader;
use hob_slots::{
    AdjustedTime, Layer, Lossy, ObjectKind, Rules, SlotRecord, Sweeper, Swept, Timestamp, Token,
};
use parking_lot::Mutex;

use crate::support::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn takes(lossy: Option<Lossy>) -> EngineOptions {
    EngineOptions { lossy, ..options() }
}

fn story(model: &Arc<dyn Model>) -> Vec<Token> {
    let words = (0..120).map(|n| format!("word {n}, ")).collect::<String>();
    tokens(model, &user(&words))
}

/// The sweep of two hours later.
fn age(engine: &Engine, lossy: Lossy) -> Swept {
    let rules = Rules { lossy: Some(lossy), ..without_quota() };
    let later = AdjustedTime::from(Timestamp::from(SystemTime::now() + 2 * HOUR));
    let sweeper = Arc::new(Mutex::new(Sweeper::new(rules)));
    let swept = block_on(engine.sweep(sweeper, later)).unwrap();
    assert!(swept.errors.is_empty(), "{:?}", swept.errors);
    swept
}

/// Ends `request`, parks its conversation and lets it age. Returns the answer.
fn saved(engine: &Engine, request: TurnRequest, lossy: Lossy) -> Answer {
    let conversation = request.conversation.clone().expect("it is one of a conversation");
    let answer = ask(engine, request);
    block_on(engine.park(conversation));
    settle(engine);
    assert_eq!(age(engine, lossy).rounded, 1);
    answer
}

fn record(path: &Path, conversation: &str) -> SlotRecord {
    let store = StoreReader::open(path).unwrap();
    store.get_slot(FINGERPRINT, &name(conversation)).unwrap()
}

/// The kinds of the objects of the conversation's blocks.
fn kinds(path: &Path, conversation: &str) -> Vec<ObjectKind> {
    let store = StoreReader::open(path).unwrap();
    let blocks = record(path, conversation).blocks;
    let kind = |id| store.get_object(FINGERPRINT, id, ObjectKind::Block).unwrap().kind;
    blocks.into_iter().map(|block| kind(block.id)).collect()
}

/// Bytes of the objects of conversations.
fn object_bytes(path: &Path) -> u64 {
    let store = StoreReader::open(path).unwrap();
    store.object_lengths(FINGERPRINT).unwrap().values().sum()
}

#[test]
fn an_aged_conversation_goes_on_with_rounded_kv_and_its_answer_says_so() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let prompt = story(&model);
    let first = saved(&tiers.engine, request("chat", &prompt, 8), Lossy::Q8);
    assert_eq!((first.tokens.clone(), first.report.tokens.lossy), (alone(&model, &prompt, 8), 0));
    assert!(kinds(tiers.path(), "chat").iter().all(|kind| *kind == ObjectKind::Lossy));
    let next = then(&model, &first.timeline, "And then?");
    let answer = ask(&tiers.engine, request("chat", &next, 8));
    let counts = answer.report.tokens;
    assert_eq!(counts.lossy, first.timeline.len(), "{counts:?}");
    assert_eq!(counts.computed, next.len() - first.timeline.len(), "{counts:?}");
    assert_eq!(answer.report.miss, None);
    assert_ne!(answer.tokens, alone(&model, &next, 8), "the fake sees that KV was rounded");
    assert_eq!(status(&tiers.engine).counters.lossy_tokens, first.timeline.len() as u64);
    // In its cells, too.
    let more = then(&model, &answer.timeline, "Why?");
    let hot = ask(&tiers.engine, request("chat", &more, 8)).report.tokens;
    assert_eq!((hot.lossy, hot.shared), (first.timeline.len(), answer.timeline.len()));
}

#[test]
fn what_follows_rounded_kv_is_saved_and_restored_and_ages_itself() {
    let model = fake();
    let mut tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let first = saved(&tiers.engine, request("chat", &story(&model), 8), Lossy::Q8);
    let next = then(&model, &first.timeline, &"And then? ".repeat(20));
    let second = ask(&tiers.engine, request("chat", &next, 8));
    settle(&tiers.engine);
    let more = then(&model, &second.timeline, "Why?");
    let expected = ask(&tiers.engine, request("chat", &more, 8));
    tiers.restart_with(takes(Some(Lossy::Q8)));
    let again = ask(&tiers.engine, request("chat", &more, 8));
    assert_eq!(
        again.tokens, expected.tokens,
        "the same rounded KV, and what was computed behind it"
    );
    assert_eq!(again.report.tokens.lossy, first.timeline.len());
    block_on(tiers.engine.park(name("chat")));
    settle(&tiers.engine);
    let before = record(tiers.path(), "chat");
    assert_eq!(age(&tiers.engine, Lossy::Q8).rounded, 1);
    let after = record(tiers.path(), "chat");
    assert_eq!(after.blocks[..8], before.blocks[..8], "they are rounded once");
    assert!(kinds(tiers.path(), "chat").contains(&ObjectKind::Lossy));
    let last = then(&model, &again.timeline, "Who?");
    let answer = ask(&tiers.engine, request("chat", &last, 8)).report.tokens;
    assert_eq!(answer.computed, last.len() - again.timeline.len(), "{answer:?}");
    assert!(answer.lossy > first.timeline.len(), "{answer:?}");
}

#[test]
fn no_other_conversation_finds_or_shares_rounded_kv() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let prompt = story(&model);
    let first = saved(&tiers.engine, request("chat", &prompt, 8), Lossy::Q8);
    let saved_tokens = ask(&tiers.engine, request("other", &prompt, 8));
    assert_eq!(saved_tokens.report.tokens.cached(), 0, "{:?}", saved_tokens.report);
    assert_eq!(saved_tokens.tokens, first.tokens);
    block_on(tiers.engine.forget(name("other"))).unwrap();
    // Hot, neither: in the cells of its own conversation.
    let next = then(&model, &first.timeline, "And then?");
    assert!(ask(&tiers.engine, request("chat", &next, 8)).report.tokens.lossy > 0);
    for conversation in [Some(name("third")), None] {
        let asked = TurnRequest { conversation, ..request("third", &next, 8) };
        let answer = ask(&tiers.engine, asked);
        assert_eq!(answer.report.tokens.cached(), 0, "{:?}", answer.report.tokens);
        assert_eq!(answer.tokens, alone(&model, &next, 8));
        block_on(tiers.engine.forget(name("third"))).ok();
    }
}

#[test]
fn cells_of_another_conversation_that_begins_alike_do_not_hide_the_rounded_kv() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let prompt = story(&model);
    let first = saved(&tiers.engine, request("chat", &prompt, 8), Lossy::Q8);
    let next = then(&model, &first.timeline, "And then?");
    // It shares the first 90 tokens, which are exact in its cells.
    let other = [&prompt[..90], &tokens(&model, "something else")].concat();
    ask(&tiers.engine, request("other", &other, 8));
    let counts = ask(&tiers.engine, request("chat", &next, 8)).report.tokens;
    assert_eq!(counts.computed, next.len() - first.timeline.len(), "{counts:?}");
    assert_eq!((counts.lossy, counts.shared), (first.timeline.len(), 0), "{counts:?}");
    // Where the cells have more than the record has behind them, they are taken, and the rest is computed.
    block_on(tiers.engine.park(name("chat")));
    let most = [&first.timeline[..first.timeline.len() - 10], &tokens(&model, "but")].concat();
    ask(&tiers.engine, request("other", &most, 8));
    let short = first.timeline.clone();
    let counts = ask(&tiers.engine, request("chat", &short, 8)).report.tokens;
    assert_eq!((counts.lossy, counts.shared), (0, first.timeline.len() - 10), "{counts:?}");
}

#[test]
fn a_request_for_exact_kv_alone_computes_it_and_the_conversation_is_exact_from_then_on() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let first = saved(&tiers.engine, request("chat", &story(&model), 8), Lossy::Q8);
    let next = then(&model, &first.timeline, "And then?");
    // From disk, and from the cells.
    for is_hot in [false, true] {
        if is_hot {
            assert_eq!(
                saved(&tiers.engine, request("chat", &next, 0), Lossy::Q8).report.tokens.lossy,
                0
            );
            assert!(ask(&tiers.engine, request("chat", &next, 0)).report.tokens.lossy > 0);
        }
        let asked = TurnRequest { lossless: true, ..request("chat", &next, 8) };
        let exact = ask(&tiers.engine, asked);
        assert_eq!((exact.report.tokens.lossy, exact.report.tokens.cached()), (0, 0), "{is_hot}");
        assert_eq!(exact.tokens, alone(&model, &next, 8));
        settle(&tiers.engine);
        assert!(record(tiers.path(), "chat").lineage.views.is_empty());
    }
}

#[test]
fn moved_kv_is_not_rounded_so_a_request_for_exact_kv_still_tells_it() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let question = |text: &str| tokens(&model, &user(text));
    let known = story(&model);
    ask(&tiers.engine, request("source", &known, 8));
    settle(&tiers.engine);
    let prompt = [question("Read this."), known].concat();
    let moves =
        TurnRequest { reuse: Reuse::Repaired(Repair::default()), ..request("chat", &prompt, 8) };
    let first = ask(&tiers.engine, moves);
    assert!(first.report.tokens.moved > 0, "{:?}", first.report.tokens);
    for conversation in ["source", "chat"] {
        block_on(tiers.engine.park(name(conversation)));
    }
    settle(&tiers.engine);
    age(&tiers.engine, Lossy::Q8);
    assert!(!kinds(tiers.path(), "chat").contains(&ObjectKind::Lossy));
    let next = then(&model, &first.timeline, "And then?");
    let exact = ask(&tiers.engine, request("chat", &next, 8));
    assert_eq!(exact.tokens, alone(&model, &next, 8), "{:?}", exact.report.tokens);
}

#[test]
fn rounded_kv_is_not_moved_into_another_conversation() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let known = story(&model);
    saved(&tiers.engine, request("chat", &known, 8), Lossy::Q8);
    let prompt = [tokens(&model, &user("Read this.")), known].concat();
    let moves =
        TurnRequest { reuse: Reuse::Repaired(Repair::default()), ..request("other", &prompt, 8) };
    let answer = ask(&tiers.engine, moves);
    let counts = answer.report.tokens;
    assert_eq!((counts.moved, counts.lossy), (0, 0), "{counts:?}");
    assert_eq!(answer.tokens, alone(&model, &prompt, 8));
}

#[test]
fn rounded_kv_is_not_moved_into_a_new_timeline() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let known = story(&model);
    saved(&tiers.engine, request("chat", &known, 8), Lossy::Q8);
    let prompt = [tokens(&model, &user("Be kind.")), known].concat();
    for lossless in [false, true] {
        let reanchored = TurnRequest { reanchored: true, lossless, ..request("chat", &prompt, 8) };
        let answer = ask(&tiers.engine, reanchored);
        assert_eq!(answer.report.tokens.moved, 0, "{:?}", answer.report.tokens);
        let is_exact = answer.tokens == alone(&model, &prompt, 8);
        // What both timelines begin with is taken rounded.
        assert_eq!(is_exact, lossless, "{:?}", answer.report.tokens);
    }
}

#[test]
fn without_the_option_rounded_kv_is_computed_again() {
    let model = fake();
    let mut tiers = OnDisk::with(&model, takes(Some(Lossy::Q4)));
    let first = saved(&tiers.engine, request("chat", &story(&model), 8), Lossy::Q4);
    tiers.restart();
    let next = then(&model, &first.timeline, "And then?");
    let exact = ask(&tiers.engine, request("chat", &next, 8));
    assert_eq!((exact.report.tokens.lossy, exact.report.tokens.cached()), (0, 0));
    assert_eq!(exact.tokens, alone(&model, &next, 8));
    assert_eq!(status(&tiers.engine).lossy, None);
}

#[test]
fn protected_layers_keep_their_kv_and_others_share_it() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let prompt = story(&model);
    let segments = vec![
        SegmentRef::new(200, Layer::Rules, ""),
        SegmentRef::new(u32::try_from(prompt.len()).unwrap(), Layer::User, ""),
    ];
    let keep = Retention { segments, ..Retention::default() };
    let first =
        saved(&tiers.engine, TurnRequest { keep, ..request("chat", &prompt, 8) }, Lossy::Q8);
    let kinds = kinds(tiers.path(), "chat");
    assert_eq!(kinds[..4], [ObjectKind::Block; 4]);
    assert!(kinds[4..].iter().all(|kind| *kind == ObjectKind::Lossy));
    let next = then(&model, &first.timeline, "And then?");
    let counts = ask(&tiers.engine, request("chat", &next, 8)).report.tokens;
    assert_eq!(counts.lossy, first.timeline.len() - 256, "{counts:?}");
    let other = ask(&tiers.engine, request("other", &prompt, 8));
    assert_eq!(other.report.tokens.cached(), 256, "{:?}", other.report.tokens);
    assert_eq!(other.tokens, first.tokens);
}

#[test]
fn memory_and_disk_hold_fewer_bytes_of_an_aged_conversation() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let prompt = story(&model);
    ask(&tiers.engine, request("chat", &prompt, 8));
    block_on(tiers.engine.park(name("chat")));
    settle(&tiers.engine);
    let (memory, disk) = (status(&tiers.engine).memory_bytes, object_bytes(tiers.path()));
    assert_eq!(age(&tiers.engine, Lossy::Q8).rounded, 1);
    let (after, on_disk) = (status(&tiers.engine).memory_bytes, object_bytes(tiers.path()));
    assert!(after > 0 && after < memory * 6 / 10, "{after} of {memory}");
    assert!(on_disk < disk * 7 / 10, "{on_disk} of {disk}: headers and tokens stay");
    let next = then(&model, &prompt, "And then?");
    let counts = ask(&tiers.engine, request("chat", &next, 8)).report.tokens;
    assert!(counts.memory > 0 && counts.disk == 0 && counts.lossy == counts.memory, "{counts:?}");
}

#[test]
fn kv_that_stays_in_memory_is_not_rounded() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let keep = Retention { in_memory: Some(true), ..Retention::default() };
    let private = TurnRequest { keep, ..request("private", &story(&model), 8) };
    ask(&tiers.engine, private);
    block_on(tiers.engine.park(name("private")));
    settle(&tiers.engine);
    assert_eq!(age(&tiers.engine, Lossy::Q8).rounded, 0);
}

#[test]
fn models_without_plain_attention_stay_exact_and_the_status_says_why() {
    for memory in [MemoryKind::Windowed, MemoryKind::Hybrid, MemoryKind::Recurrent] {
        let model = of_memory(memory);
        let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
        let prompt = story(&model);
        let first = ask(&tiers.engine, request("chat", &prompt, 8));
        block_on(tiers.engine.park(name("chat")));
        settle(&tiers.engine);
        let before = record(tiers.path(), "chat");
        assert_eq!(age(&tiers.engine, Lossy::Q8).rounded, 0);
        assert_eq!(record(tiers.path(), "chat"), before);
        let next = then(&model, &first.timeline, "And then?");
        let answer = ask(&tiers.engine, request("chat", &next, 8));
        assert_eq!(answer.tokens, alone(&model, &next, 8), "{memory}");
        let told = status(&tiers.engine).lossy.unwrap();
        assert!(told.refused.is_some_and(|why| why.contains(&memory.to_string())), "{memory}");
    }
    assert_eq!(
        status(&OnDisk::with(&fake(), takes(Some(Lossy::Q4))).engine).lossy.unwrap().refused,
        None
    );
}

#[test]
fn a_conversation_that_outgrew_its_budget_is_rounded_and_recalls_what_is_away() {
    let model = fake();
    let tiers = OnDisk::with(&model, takes(Some(Lossy::Q8)));
    let small = |prompt: &[Token]| TurnRequest { budget: Some(512), ..request("chat", prompt, 8) };
    let mut timeline = ask(&tiers.engine, small(&story(&model))).timeline;
    for turn in 0..3 {
        let next = then(&model, &timeline, &format!("Number {turn}? {}", "More of it. ".repeat(8)));
        timeline = ask(&tiers.engine, small(&next)).timeline;
    }
    block_on(tiers.engine.park(name("chat")));
    settle(&tiers.engine);
    assert!(!record(tiers.path(), "chat").lineage.away.is_empty());
    assert_eq!(age(&tiers.engine, Lossy::Q8).rounded, 1);
    assert!(!record(tiers.path(), "chat").lineage.away.is_empty());
    let next = then(&model, &timeline, "What is word 60?");
    let answer = ask(&tiers.engine, small(&next));
    let counts = answer.report.tokens;
    assert!(counts.away > 0 && counts.lossy > 0, "{counts:?}");
    assert_eq!(counts.computed, next.len() - timeline.len(), "{counts:?}");
    assert!(answer.report.recall.is_some(), "{:?}", answer.report);
}

/// Rounded KV of a real model: the answer goes on, and its distributions are almost those of exact KV.
#[cfg(feature = "llama")]
mod real {
    use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
    use hob_runtime::likeness::Measured;

    use super::*;

    fn bundled() -> Arc<dyn Model> {
        let model = LlamaModel::load(&asset("hob-tiny-f16.gguf"), LlamaOptions::default());
        Arc::new(model.unwrap())
    }

    fn asked(prompt: &[Token]) -> TurnRequest {
        endless("chat", prompt, 32)
    }

    #[test]
    fn rounded_kv_continues_with_almost_the_same_distributions() {
        let model = bundled();
        let text =
            "Ann keeps the key of the old mill by the river. Bob feeds the geese. ".repeat(10);
        let prompt = tokens(&model, &user(&text));
        for (lossy, most, part) in [(Lossy::Q8, 0.01, 0.6), (Lossy::Q4, 0.5, 0.4)] {
            let tiers = OnDisk::with(&model, takes(Some(lossy)));
            let exact = block_on(Measured::exactly(&tiers.engine, &asked(&prompt))).unwrap();
            ask(&tiers.engine, request("chat", &prompt, 0));
            block_on(tiers.engine.park(name("chat")));
            settle(&tiers.engine);
            let before = object_bytes(tiers.path());
            assert_eq!(age(&tiers.engine, lossy).rounded, 1);
            let after = object_bytes(tiers.path());
            assert!((after as f64) < part * before as f64, "{lossy}: {after} of {before}");
            let compared = block_on(exact.compare(&tiers.engine, &asked(&prompt)));
            let (likeness, _) = compared.unwrap();
            assert!(likeness.tokens.lossy > prompt.len() - 64, "{lossy}: {likeness:?}");
            assert_eq!(likeness.tokens.computed, 1, "{lossy}: {likeness:?}");
            let divergence = likeness.mean_divergence();
            println!("{lossy}: KL {divergence:.5}, agreement {:.3}", likeness.agreement());
            assert!(divergence > 0.0 && divergence < most, "{lossy}: {likeness:?}");
            let counters = status(&tiers.engine).counters;
            assert_eq!((counters.import_failures, counters.wasted_restores), (0, 0));
        }
    }
}
