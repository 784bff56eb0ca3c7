//! Damaged files that verification takes from the disk.

use hob_slots::store::StoreReader;
use hob_slots::verify::condemn;

use crate::support::*;

#[test]
fn a_damaged_block_that_memory_has_is_written_again_after_its_file_was_condemned() {
    let model = fake();
    let mut disk = OnDisk::new(&model);
    let story = tokens(&model, &user(&"hello ".repeat(60)));
    let first = ask(&disk.engine, request("chat", &story, 20)).timeline;
    block_on(disk.engine.park(name("chat")));
    let block = disk.record("chat").blocks[0].id;

    let reader = StoreReader::open(disk.path()).unwrap();
    let path = reader.object_path(FINGERPRINT, block);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let files = reader.stored_files(FINGERPRINT).unwrap();
    let condemned = disk.engine.maintain(move |store, live_refs| condemn(store, live_refs, &files));
    assert_eq!(block_on(condemned), Ok(1));

    let prompt = then(&model, &first, "and now?");
    let second = ask(&disk.engine, request("chat", &prompt, 5));
    assert_eq!(second.report.tokens.memory, first.len(), "{:?}", second.report);
    settle(&disk.engine);
    disk.restart();
    let prompt = then(&model, &second.timeline, "and then?");
    let report = ask(&disk.engine, request("chat", &prompt, 5)).report;
    assert_eq!(report.tokens.computed, prompt.len() - second.timeline.len(), "{report:?}");
}
