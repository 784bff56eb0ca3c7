//! Any bytes as a sealed file, and as what is sealed in one.

#![no_main]

use hob_slots::Seal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let seal = Seal::new([7; 32]);
    assert!(seal.open(b"name", data.to_vec()).is_err(), "nobody guesses a tag");
    let mut headed = seal.seal(b"name", &[]);
    headed.splice(32.., data.iter().copied());
    let _ = seal.open(b"name", headed);

    let (first, second) = data.split_at(data.len() / 3);
    let sealed = seal.seal(b"name", &[first, second]);
    assert_eq!(seal.open(b"name", sealed).as_deref(), Ok(data));
});
