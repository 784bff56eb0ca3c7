//! Any bytes as a slot file.

#![no_main]

use hob_slots::{SlotHeader, SlotRecord, SlotTable};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target mends one kind of file")]
#[path = "../../tests/mend/mod.rs"]
mod mend;

fuzz_target!(|data: &[u8]| {
    check(data);
    let mut mended = data.to_vec();
    mend::slot_file(&mut mended);
    check(&mended);
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
