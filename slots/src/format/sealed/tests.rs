use chacha20poly1305::aead::stream::{DecryptorBE32, EncryptorBE32};
use chacha20poly1305::aead::{KeyInit, Payload};
use proptest::prelude::*;

use super::*;

const NONCE: [u8; NONCE_BYTES] = *b"nineteen bytes long";

fn seal() -> Seal {
    Seal::new([7; 32])
}

fn clear(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n / 3) as u8).collect()
}

#[test]
fn a_sealed_file_opens_to_what_was_sealed() {
    for bytes in [0, 1, 100, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES] {
        let sealed = seal().seal(b"name", &[&clear(bytes)]);
        assert!(Seal::is_sealed(&sealed));
        assert_eq!(Seal::clear_bytes(&sealed[..Seal::HEADER_BYTES]), Ok(bytes as u64));
        assert_eq!(Seal::sealed_bytes(bytes as u64), sealed.len() as u64);
        assert_eq!(seal().open(b"name", sealed), Ok(clear(bytes)));
    }
}

#[test]
fn opening_decrypts_in_place() {
    let sealed = seal().seal(b"name", &[&clear(2 * CHUNK_BYTES)]);
    let address = sealed.as_ptr();
    let opened = seal().open(b"name", sealed).unwrap();
    assert_eq!(opened.as_ptr(), address);
}

#[test]
fn parts_are_sealed_as_if_they_were_one() {
    let whole = clear(2 * CHUNK_BYTES + 9);
    let (a, rest) = whole.split_at(104);
    let (b, c) = rest.split_at(CHUNK_BYTES + 50);
    let parts = seal().seal_with(NONCE, b"name", &[a, &[], b, c, &[]]);
    assert_eq!(parts, seal().seal_with(NONCE, b"name", &[&whole]));
}

#[test]
fn a_wrong_name_or_key_opens_nothing() {
    let sealed = seal().seal(b"name", &[&clear(1_000)]);
    assert_eq!(seal().open(b"nam", sealed.clone()), Err(FormatError::Seal));
    assert_eq!(seal().open(b"", sealed.clone()), Err(FormatError::Seal));
    assert_eq!(Seal::new([8; 32]).open(b"name", sealed), Err(FormatError::Seal));
}

#[test]
fn no_chunk_is_dropped_added_moved_or_taken_from_another_file() {
    let len = CHUNK_BYTES + TAG_BYTES;
    let sealed = seal().seal(b"name", &[&clear(3 * CHUNK_BYTES)]);
    let other = seal().seal(b"name", &[&clear(3 * CHUNK_BYTES)]);
    let (head, chunks) = sealed.split_at(at::END);
    let [first, second, third] = [0, 1, 2].map(|n| &chunks[n * len..(n + 1) * len]);
    let shorter = |clear_bytes: usize| {
        let mut head = head.to_vec();
        head[at::CLEAR_BYTES..].copy_from_slice(&(clear_bytes as u64).to_le_bytes());
        head
    };
    let (two, four) = (shorter(2 * CHUNK_BYTES), shorter(4 * CHUNK_BYTES));
    for forged in [
        [head, second, first, third].concat(),
        [head, first, third, second].concat(),
        [head, first, first, third].concat(),
        [head, first, &other[at::END + len..at::END + 2 * len], third].concat(),
        [&two[..], first, second].concat(),
        [&two[..], first, third].concat(),
        [&four[..], first, second, third, third].concat(),
        [&other[..at::END], chunks].concat(),
    ] {
        assert_eq!(seal().open(b"name", forged), Err(FormatError::Seal));
    }
    for cut in [0, 9, at::END, at::END + 3, at::END + len, sealed.len() - 1] {
        let cut = seal().open(b"name", sealed[..cut].to_vec());
        assert!(matches!(cut, Err(FormatError::Truncated { .. })), "{cut:?}");
    }
    let longer = seal().open(b"name", [&sealed[..], &[0; 9]].concat());
    assert_eq!(longer, Err(FormatError::Trailing { surplus: 9 }));
}

#[test]
fn a_clear_file_is_not_sealed_and_a_later_version_is_refused() {
    assert!(!Seal::is_sealed(b"HOBOBJ\0\x01"));
    let clear = seal().open(b"", b"HOBOBJ\0\x01 and so on".to_vec());
    assert_eq!(clear, Err(FormatError::NotOurs { expected: "sealed file" }));
    let mut sealed = seal().seal(b"", &[b"text"]);
    sealed[8] = 2;
    let newer = FormatError::Newer { version: 2, readable: 1 };
    assert_eq!(seal().open(b"", sealed), Err(newer));
}

/// A wrong length is refused before anything else is done.
#[test]
fn a_length_that_no_file_has_is_refused() {
    let mut sealed = seal().seal(b"", &[b"text"]);
    sealed[at::CLEAR_BYTES..at::END].fill(0xff);
    assert!(matches!(seal().open(b"", sealed.clone()), Err(FormatError::Field { .. })));
    sealed[at::END - 1] = 0x1f;
    assert!(matches!(seal().open(b"", sealed), Err(FormatError::Truncated { .. })));
}

/// The chunks equal those of the STREAM construction in the `aead` crate with the derived key.
#[test]
fn the_chunks_are_a_stream() {
    let key = keyed(&[7; 32]).chain_update(b"hob sealed files 1").finalize().into_bytes();
    let cipher = || XChaCha20Poly1305::new(&key);
    let clear = clear(CHUNK_BYTES + 10);
    let sealed = seal().seal_with(NONCE, b"name", &[&clear]);
    let (head, chunks) = sealed.split_at(at::END);
    let (first, last) = chunks.split_at(CHUNK_BYTES + TAG_BYTES);
    let aad = &[head, b"name"].concat()[..];
    let payload = |msg| Payload { msg, aad };

    let mut stream = EncryptorBE32::from_aead(cipher(), NONCE.as_ref().into());
    assert_eq!(stream.encrypt_next(payload(&clear[..CHUNK_BYTES])).unwrap(), first);
    assert_eq!(stream.encrypt_last(payload(&clear[CHUNK_BYTES..])).unwrap(), last);
    let mut stream = DecryptorBE32::from_aead(cipher(), NONCE.as_ref().into());
    assert_eq!(stream.decrypt_next(payload(first)).unwrap(), clear[..CHUNK_BYTES]);
    assert_eq!(stream.decrypt_last(payload(last)).unwrap(), clear[CHUNK_BYTES..]);
}

#[test]
fn hidden_names_depend_on_key_purpose_and_text_alone() {
    let name = seal().hidden_name("object", b"abc");
    assert_eq!(seal().hidden_name("object", b"abc"), name);
    assert_ne!(seal().hidden_name("object", b"abd"), name);
    assert_ne!(seal().hidden_name("objecta", b"bc"), name);
    assert_ne!(Seal::new([8; 32]).hidden_name("object", b"abc"), name);
    assert_eq!(format!("{:?}", seal()), "Seal");
}

#[test]
fn two_seals_of_one_text_have_nothing_in_common() {
    let [one, other] = [0; 2].map(|_| seal().seal(b"name", &[b"the same text"]));
    assert_ne!(one[at::NONCE..at::CLEAR_BYTES], other[at::NONCE..at::CLEAR_BYTES]);
    assert_ne!(one[at::END..], other[at::END..]);
}

proptest! {
    #[test]
    fn no_bytes_make_opening_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let file = [&b"HOBSEA\0\x01\x01\0\0\0\0"[..], &bytes].concat();
        prop_assert!(seal().open(b"", file).is_err());
        prop_assert!(seal().open(b"", bytes).is_err());
    }
}
