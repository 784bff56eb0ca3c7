//! Any bytes as the file of an object.

#![no_main]

use hob_slots::{Object, ObjectHeader};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target corrects one kind of file")]
#[path = "../../tests/checksums/mod.rs"]
mod checksums;

fuzz_target!(|data: &[u8]| {
    check(data);
    let mut corrected = data.to_vec();
    checksums::correct_object(&mut corrected);
    check(&corrected);
});

fn check(file: &[u8]) {
    let _ = ObjectHeader::decode(file).map(|header| header.chunks().next());
    if let Ok(object) = Object::decode(file.to_vec()) {
        assert_eq!(Object::decode(object.encode()).as_ref(), Ok(&object));
        let compressed = Object::compressed(file, 1).expect("what is read can be compressed");
        assert!(compressed.is_none_or(|file| Object::decode(file) == Ok(object)));
    }
}
