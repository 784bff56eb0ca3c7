use hob_slots::format::{BlockRef, Object, ObjectKind};
use hob_slots::store::Key;
use hob_slots::{Payload, TtlClass};

use super::empty_record::empty_record;
use super::offload::placed;
use super::*;
use crate::backend::fake::FakeModel;
use crate::background;

const MODEL: ModelHash = ModelHash([0; 8]);

fn tiers(store: Option<Arc<Store>>) -> KvTiers {
    let budget = MemoryBudget { memory_bytes: 0, unsaved_bytes: 0 };
    KvTiers::new(Arc::new(FakeModel::new()), MODEL, store, budget, None, || {})
}

/// The object of 64 equal tokens at the beginning of a timeline.
fn first_block(token: i32) -> Object {
    Object {
        kind: ObjectKind::Block,
        model: MODEL,
        parent: AdapterSet::default().root(MODEL),
        start: 0,
        tokens: vec![Token(token); 64],
        payload: Payload::from(vec![9; 64]),
    }
}

#[test]
fn the_writer_works_behind_answers_until_the_engine_stops() {
    let niceness = || rustix::process::nice(0).unwrap();
    let [of_model, of_draft_model] = [tiers(None), tiers(None)];
    of_model.protect(&of_draft_model);
    let of_writer = |tiers: &KvTiers| {
        let (send, receive) = mpsc::channel();
        tiers.when_flushed(move || send.send(niceness()).unwrap());
        receive.recv().unwrap()
    };
    let normal = niceness();
    for tiers in [&of_model, &of_draft_model] {
        assert_eq!(of_writer(tiers), normal + background::BEHIND_ANSWERS);
    }
    of_model.maintainer().stop();
    for tiers in [&of_model, &of_draft_model] {
        assert_eq!((of_writer(tiers), of_writer(tiers)), (normal, normal));
    }
}

#[test]
fn what_the_policy_of_the_draft_model_learns_does_not_replace_what_that_of_the_model_does() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(directory.path()).unwrap());
    let [of_model, of_draft_model] = [tiers(Some(store.clone())), tiers(Some(store))];
    of_model.protect(&of_draft_model);
    let chat = ConversationId::new("chat").unwrap();
    let put = |tiers: &KvTiers, token| {
        let (object, usage) = (first_block(token), Use::default());
        let id = object.id();
        tiers.put(Exported { conversation: &chat, id, after: None, object, usage }, false);
    };
    let learned = directory.path().join("eviction.toml");
    put(&of_draft_model, 1);
    drop(of_draft_model);
    assert!(!learned.exists());
    put(&of_model, 2);
    drop(of_model);
    assert!(learned.exists());
}

#[test]
fn what_was_in_memory_alone_stays_there_until_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = Some(Arc::new(Store::open(directory.path()).unwrap()));
    let budget = MemoryBudget { memory_bytes: 100, unsaved_bytes: 1_000 };
    let tiers = KvTiers::new(Arc::new(FakeModel::new()), MODEL, store, budget, None, || {});
    let (busy, is_busy) = mpsc::channel::<()>();
    tiers.maintainer().run(move |_, _| is_busy.recv().unwrap_or(()));
    let chat = ConversationId::new("chat").unwrap();
    let put = |object: &Object, in_memory| {
        let (id, after, object) = (object.id(), None, object.clone());
        let exported = Exported { conversation: &chat, id, after, object, usage: Use::default() };
        tiers.put(exported, in_memory);
    };
    let [first, other] = [1, 2].map(first_block);
    put(&first, true);
    put(&first, false);
    assert_eq!(tiers.unsaved_bytes().0, 64);
    put(&other, true);
    assert!(tiers.in_memory(&first.id()).is_some(), "the disk does not have it yet");
    drop(busy);
    tiers.flush();
    assert_eq!(tiers.unsaved_bytes().0, 0);
    assert!(tiers.holds(&first.id()), "it is on disk");
}

#[test]
fn records_that_no_read_came_before_keep_the_class_and_the_branches_of_the_slot_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(directory.path()).unwrap());
    let object = first_block(9);
    store.put_object(MODEL, object.id(), &object).unwrap();
    let earlier = SlotRecord {
        class: TtlClass::Short,
        tokens: vec![Token(1)],
        branches: vec![placed(object.id(), &object)],
        ..empty_record("chat")
    };
    store.put_slot(MODEL, &earlier).unwrap();

    let tiers = tiers(Some(store.clone()));
    let (busy, is_busy) = mpsc::channel::<()>();
    tiers.maintainer().run(move |_, _| is_busy.recv().unwrap_or(()));
    for tokens in [2, 3] {
        let record = SlotRecord { tokens: vec![Token(1); tokens], ..empty_record("chat") };
        let timeline = tiers.shared.timeline(&record.adapters, &record.tokens, &[]);
        let options = RecordOptions { in_memory: false, is_default_class: true };
        tiers.record(record, &timeline, options).unwrap();
    }
    drop(busy);
    tiers.flush();
    let saved = store.get_slot(MODEL, &earlier.conversation).unwrap();
    assert_eq!((saved.tokens.len(), saved.class), (3, TtlClass::Short));
    assert_eq!(saved.branches, earlier.branches);
}

#[test]
fn a_class_that_is_set_on_disk_alone_leaves_what_the_slot_file_names() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(directory.path()).unwrap());
    let tiers = tiers(Some(store.clone()));
    let guest = ConversationId::new("guest").unwrap();
    let comes_and_goes = |object: &Object| {
        tiers.shared.records().put(&guest, placed(object.id(), object));
        tiers.forget_anonymous(&guest);
        tiers.flush();
    };
    // From here on, the writer knows what slot files name.
    let unnamed = first_block(8);
    store.put_object(MODEL, unnamed.id(), &unnamed).unwrap();
    comes_and_goes(&unnamed);
    assert!(!store.has_object(MODEL, unnamed.id()));

    let (chat, object) = (ConversationId::new("chat").unwrap(), first_block(9));
    let (id, tokens) = (object.id(), object.tokens.clone());
    let usage = Use::default();
    tiers.put(
        Exported { conversation: &chat, id, after: None, object: first_block(9), usage },
        false,
    );
    let block = BlockRef { end: 64, id, bytes: tiers.file_bytes(&id) };
    let record = SlotRecord { tokens, blocks: vec![block], ..empty_record("chat") };
    let timeline = tiers.shared.timeline(&record.adapters, &record.tokens, &[]);
    let options = RecordOptions { in_memory: false, is_default_class: false };
    tiers.record(record, &timeline, options).unwrap();
    tiers.flush();
    // Another record leaves no room in memory for it.
    let long = SlotRecord { tokens: vec![Token(1); 5_000_000], ..empty_record("long") };
    tiers.shared.records().read(long);
    assert!(tiers.shared.records().lookup(&chat).is_none());

    assert!(tiers.reclass(&chat, TtlClass::Short));
    tiers.flush();
    comes_and_goes(&object);
    assert!(store.has_object(MODEL, id), "the conversation's slot file names it");
    assert_eq!(store.get_slot(MODEL, &chat).unwrap().class, TtlClass::Short);
}

#[test]
fn the_file_name_of_an_object_to_which_no_conversation_refers_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let key = Key::load_or_make(&directory.path().join("key")).unwrap();
    let store = Store::open(directory.path().join("slots")).unwrap().sealed(&key).unwrap();
    let store = Arc::new(store);
    let tiers = tiers(Some(store.clone()));
    let (guest, object) = (ConversationId::new("guest").unwrap(), first_block(9));
    let (id, usage) = (object.id(), Use::default());
    let name = store.name(id);
    tiers.put(Exported { conversation: &guest, id, after: None, object, usage }, false);
    tiers.flush();
    assert!(store.has_object(MODEL, id));
    assert_eq!(tiers.shared.id_of(&name), Some(id));
    tiers.forget_anonymous(&guest);
    tiers.flush();
    assert!(!store.has_object(MODEL, id));
    assert_eq!(tiers.shared.id_of(&name), None);
}
