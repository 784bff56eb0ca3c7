//! Any bytes as a slot file.

#![no_main]

use hob_slots::{SlotHeader, SlotRecord, SlotTable};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target corrects one kind of file")]
#[path = "../../tests/checksums/mod.rs"]
mod checksums;

fuzz_target!(|data: &[u8]| {
    check(data);
    let mut corrected = data.to_vec();
    checksums::correct_slot_file(&mut corrected);
    check(&corrected);
});

fn check(file: &[u8]) {
    let _ = SlotHeader::decode(file);
    let table = SlotTable::decode(file);
    if let Ok((model, record)) = SlotRecord::decode(file) {
        let table = table.expect("a whole file has a whole table");
        assert!(table.objects().eq(record.objects()));
        assert_eq!(SlotRecord::decode(&record.encode(model)), Ok((model, record)));
    }
}
