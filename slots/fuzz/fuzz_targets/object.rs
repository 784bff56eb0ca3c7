//! Any bytes as the file of an object.

#![no_main]

use hob_slots::{Object, ObjectHeader};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target mends one kind of file")]
#[path = "../../tests/mend/mod.rs"]
mod mend;

fuzz_target!(|data: &[u8]| {
    check(data);
    let mut mended = data.to_vec();
    mend::object(&mut mended);
    check(&mended);
});

fn check(file: &[u8]) {
    let _ = ObjectHeader::decode(file).map(|header| header.chunks().next());
    if let Ok(object) = Object::decode(file.to_vec()) {
        assert_eq!(Object::decode(object.encode()).as_ref(), Ok(&object));
        let compressed = Object::compressed(file, 1).expect("what is read can be compressed");
        assert!(compressed.is_none_or(|file| Object::decode(file) == Ok(object)));
    }
}
