//! What must stay in memory leaves nothing on disk.

use hob_runtime::{Retention, TurnRequest};

use crate::support::*;

#[test]
fn a_restore_of_a_private_conversation_writes_no_mark() {
    let model = fake();
    let disk = OnDisk::new(&model);
    let keep = Retention { in_memory: Some(true), ..Retention::default() };
    let story = tokens(&model, &user(&"hello ".repeat(60)));
    let first = TurnRequest { keep: keep.clone(), ..request("private", &story, 5) };
    let first = ask(&disk.engine, first).timeline;
    block_on(disk.engine.park(name("private")));

    let prompt = then(&model, &first, "and now?");
    let report = ask(&disk.engine, TurnRequest { keep, ..request("private", &prompt, 5) }).report;
    assert_eq!(report.tokens.memory, first.len(), "{report:?}");
    assert!(!disk.path().join(FINGERPRINT.to_string()).join("crashes").exists());
}
