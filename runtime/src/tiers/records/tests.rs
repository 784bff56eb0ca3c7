use super::*;
use hob_slots::format::{BlockRef, ObjectKind};
use hob_slots::{ModelHash, Token};

use crate::tiers::empty_record::empty_record;

const MODEL: ModelHash = ModelHash([1; 8]);

fn record(name: &str, tokens: usize) -> SlotRecord {
    SlotRecord { turns: 7, tokens: vec![Token(1); tokens], ..empty_record(name) }
}

fn set(records: &mut Records, record: SlotRecord) -> Arc<SlotRecord> {
    let mut timeline = Timeline::new(MODEL);
    timeline.push(&record.tokens, |_| false);
    records.set(record, &timeline, |_| true).0
}

fn conversation(name: &str) -> ConversationId {
    ConversationId::new(name).unwrap()
}

fn tokens(records: &mut Records, name: &str) -> Option<usize> {
    records.lookup(&conversation(name)).flatten().map(|record| record.tokens.len())
}

#[test]
fn a_record_that_was_set_outranks_one_read_from_disk() {
    let mut records = Records::default();
    assert!(records.lookup(&conversation("chat")).is_none());
    assert_eq!(records.read(record("chat", 1)).unwrap().tokens.len(), 1);
    set(&mut records, record("chat", 2));
    assert_eq!(records.read(record("chat", 1)).unwrap().tokens.len(), 2);
}

#[test]
fn a_forgotten_conversation_stays_forgotten_until_it_is_recorded_again() {
    let mut records = Records::default();
    set(&mut records, record("chat", 1));
    records.forget(&conversation("chat"));
    assert_eq!(records.read(record("chat", 1)), None);
    assert_eq!(records.lookup(&conversation("chat")), Some(None));
    set(&mut records, record("chat", 2));
    assert_eq!(tokens(&mut records, "chat"), Some(2));
}

#[test]
fn a_removed_slot_file_drops_its_record_unless_a_newer_one_is_pending() {
    let mut records = Records::default();
    let first = set(&mut records, record("chat", 1));
    assert!(records.is_pending(&conversation("chat")));
    records.mark_saved(&first);
    let second = set(&mut records, record("chat", 2));
    records.mark_saved(&first); // An older record changes nothing.
    records.slot_removed(&conversation("chat"));
    assert_eq!(tokens(&mut records, "chat"), Some(2));
    records.mark_failed(&second);
    assert!(!records.is_pending(&conversation("chat")));
    assert_eq!(tokens(&mut records, "chat"), Some(2), "memory still has it");
    records.slot_removed(&conversation("chat"));
    assert_eq!(records.lookup(&conversation("chat")), None);
}

#[test]
fn a_replaced_slot_file_drops_its_record_unless_a_newer_one_or_a_deletion_is_to_come() {
    let mut records = Records::default();
    let (chat, block) = (conversation("chat"), BlockId([9; 32]));
    let blocks = vec![BlockRef { end: 1, id: block, bytes: 1 }];
    let pending = set(&mut records, SlotRecord { blocks, ..record("chat", 1) });
    records.slot_file_replaced(&chat);
    assert_eq!(tokens(&mut records, "chat"), Some(1));
    assert!(records.is_pending(&chat) && records.refers_to(&block));

    records.mark_saved(&pending);
    records.slot_file_replaced(&chat);
    assert_eq!(records.lookup(&chat), None);
    assert!(!records.refers_to(&block));

    records.forget(&chat);
    records.slot_file_replaced(&chat);
    assert_eq!(records.lookup(&chat), Some(None));
}

#[test]
fn the_least_recently_used_record_is_dropped_and_its_summary_stays() {
    let mut records = Records::with_budget(100);
    for name in ["one", "other"] {
        let record = set(&mut records, record(name, 10));
        records.mark_saved(&record);
    }
    assert_eq!(tokens(&mut records, "one"), Some(10)); // Used again.
    let third = set(&mut records, record("third", 10));
    records.mark_saved(&third);

    assert_eq!(records.lookup(&conversation("other")), None, "the disk must be read");
    assert!(records.knows(&conversation("other")));
    assert_eq!(records.summary(&conversation("other")).unwrap().turns, 7);
    assert_eq!(records.located().count(), 3);
    assert_eq!(tokens(&mut records, "one"), Some(10));
    let read = records.read(record("other", 10));
    assert_eq!(read.unwrap().tokens.len(), 10);
}

#[test]
fn records_that_are_dropped_or_replaced_on_disk_are_listed_from_the_first_call_on() {
    let mut records = Records::with_budget(100);
    let save = |records: &mut Records, name| {
        let record = set(records, record(name, 10));
        records.mark_saved(&record);
    };
    for name in ["one", "two", "three"] {
        save(&mut records, name);
    }
    assert!(records.take_left().is_empty(), "it is the first call");
    let held = records.lookup(&conversation("three")).flatten();
    for name in ["four", "five"] {
        save(&mut records, name);
    }
    records.slot_file_replaced(&conversation("one"));
    let left = records.take_left().into_iter();
    let left: Vec<_> = left.map(|(name, record)| (name, record.upgrade())).collect();
    let expected = [("two", None), ("three", held), ("one", None)];
    assert_eq!(left, expected.map(|(name, record)| (conversation(name), record)));

    for number in 0..MAX_LEFT + 9 {
        records.slot_file_replaced(&conversation(&number.to_string()));
    }
    let left = records.take_left();
    assert_eq!((left.len(), &left[0].0), (MAX_LEFT, &conversation("9")));
}

#[test]
fn records_that_are_not_on_disk_stay_beyond_the_budget() {
    let mut records = Records::with_budget(100);
    let names = ["a", "b", "c", "d"];
    let all = names.map(|name| set(&mut records, record(name, 1000)));
    assert!(names.iter().all(|name| tokens(&mut records, name) == Some(1000)));

    // An older record that was written changes nothing.
    records.mark_saved(&record("a", 1000));
    all.iter().skip(1).for_each(|record| records.mark_saved(record));
    assert_eq!(
        names.map(|name| tokens(&mut records, name)).map(|n| n.is_some()),
        [true, false, false, true]
    );
}

fn object(number: u8) -> BranchRef {
    let (kind, id) = (ObjectKind::Block, BlockId([number; 32]));
    BranchRef { kind, start: 0, end: 1_000 + u32::from(number), id, bytes: 1 }
}

#[test]
fn a_conversation_refers_to_what_was_put_for_it_until_it_is_forgotten() {
    let mut records = Records::default();
    let chat = conversation("chat");
    let block = BlockRef { end: 1, id: BlockId([9; 32]), bytes: 1 };
    for number in 1..=2 {
        records.put(&chat, object(number));
        let blocks = vec![block];
        let set = set(&mut records, SlotRecord { blocks, ..record("chat", 2) });
        assert_eq!(set.branches.len(), usize::from(number));
    }
    records.put(&chat, object(3));
    assert_eq!(records.references.len(), 4);
    let mut named = records.forget(&chat);
    named.sort();
    assert_eq!(named, [1, 2, 3, 9].map(|number| BlockId([number; 32])));
    assert_eq!(records.unreferenced(named.clone()).len(), named.len());
    records.forgotten(&chat);
    assert!(!records.knows(&chat));
}

#[test]
fn references_are_counted_also_for_records_that_are_only_on_disk() {
    let mut records = Records::with_budget(0);
    let named = |name: &str| {
        let blocks = vec![BlockRef { end: 1, id: BlockId([9; 32]), bytes: 1 }];
        SlotRecord { blocks, ..record(name, 10) }
    };
    for name in ["one", "other"] {
        let record = set(&mut records, named(name));
        records.mark_saved(&record);
    }
    assert_eq!(records.lookup(&conversation("one")), None, "only on disk");
    records.forget(&conversation("other"));
    assert!(records.refers_to(&BlockId([9; 32])));
    records.slot_removed(&conversation("one"));
    assert!(!records.refers_to(&BlockId([9; 32])));
}
