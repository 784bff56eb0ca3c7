//! What must stay in memory leaves nothing on disk.

use hob_runtime::{MemoryKind, Retention, TurnRequest};
use hob_slots::Token;
use hob_slots::store::StoreReader;

use crate::support::*;

fn in_memory() -> Retention {
    Retention { in_memory: Some(true), ..Retention::default() }
}

#[test]
fn a_restore_of_a_private_conversation_writes_no_mark() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let story = tokens(&model, &user(&"hello ".repeat(60)));
    let first = TurnRequest { keep: in_memory(), ..request("private", &story, 5) };
    let first = ask(&disk.engine, first).timeline;
    block_on(disk.engine.park(name("private")));

    let prompt = then(&model, &first, "and now?");
    let again = TurnRequest { keep: in_memory(), ..request("private", &prompt, 5) };
    let report = ask(&disk.engine, again).report;
    assert_eq!(report.tokens.memory, first.len(), "{report:?}");
    assert!(!disk.path().join(FINGERPRINT.to_string()).join("crashes").exists());
}

#[test]
fn later_turns_that_stay_in_memory_leave_what_an_earlier_one_has_saved() {
    let model = of_memory(MemoryKind::Recurrent);
    let disk = OnDisk::new(&model);
    let say = |conversation: &str, before: &[Token], turns: usize, keep: Retention| {
        let mut timeline = before.to_vec();
        for _ in 0..turns {
            let prompt = then(&model, &timeline, "and then?");
            let turn = TurnRequest { keep: keep.clone(), ..request(conversation, &prompt, 5) };
            timeline = ask(&disk.engine, turn).timeline;
        }
        settle(&disk.engine);
        timeline
    };
    // A record has the last four snapshots. The first one that is superseded makes the writer read the slot files.
    say("first", &[], 6, Retention::default());
    let story = tokens(&model, &user("a long story"));
    let saved = say("chat", &story, 2, Retention::default());
    let later = say("chat", &saved, 8, in_memory());

    let reader = StoreReader::open(disk.path()).unwrap();
    let record = disk.record("chat");
    assert!(record.tokens.len() < later.len(), "the slot file is the earlier one");
    for snapshot in &record.snapshots {
        let position = snapshot.position;
        assert!(reader.has_object(FINGERPRINT, snapshot.id), "the snapshot at token {position}");
    }
}
