//! Names of tokens, models, blocks, conversations and slots.
//!
//! - Equal [`BlockId`]s mean equal KV: the id is a hash of the model, of the adapters of the request, of
//!   every token up to the block's end, and of what these tokens did not attend to.
//! - A value of these types is always well-formed: texts are parsed at the edge.
//! - A [`ConversationId`] comes from a request and is never used as a path, see
//!   [`ConversationId::file_stem`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

mod conversation;
mod hex;
mod reserved;

pub use conversation::ConversationId;
pub(crate) use hex::parse_hex;
pub use hex::{ParseIdError, hex_text};

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Token(pub i32);

/// A llama.cpp sequence. An open conversation is pinned to one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SlotId(pub u32);

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Digest of the weights and of every load option that changes the meaning of KV bytes.
/// State moves between two contexts only when their `ModelHash` is equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelHash(pub [u8; 8]);

/// The name of a block: SHA-256 of its parent's name and its tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub [u8; 32]);

impl BlockId {
    /// The parent of the first block: the fingerprint, then zeros. [`AdapterSet::root`] names that of a
    /// request with adapters.
    ///
    /// [`AdapterSet::root`]: crate::AdapterSet::root
    pub fn root(model: ModelHash) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&model.0);
        Self(bytes)
    }

    pub fn child(parent: Self, tokens: &[Token]) -> Self {
        let mut hash = Sha256::new_with_prefix(parent.0);
        update_with_tokens(&mut hash, tokens);
        Self(hash.finalize().into())
    }

    /// The name of a snapshot of a whole sequence at the position that `at` names.
    pub fn snapshot(at: Self) -> Self {
        Self(Sha256::new_with_prefix(b"hob snapshot").chain_update(at.0).finalize().into())
    }

    /// The name of what blocks do not hold of a sequence at the position that `at` names.
    pub fn partial(at: Self) -> Self {
        Self(Sha256::new_with_prefix(b"hob partial snapshot").chain_update(at.0).finalize().into())
    }
}

fn update_with_tokens(hash: &mut Sha256, tokens: &[Token]) {
    // One call for 64 tokens: SHA-256 is faster over runs than over single tokens.
    let mut bytes = [0; 64 * 4];
    for run in tokens.chunks(64) {
        for (place, token) in bytes.chunks_exact_mut(4).zip(run) {
            place.copy_from_slice(&token.0.to_le_bytes());
        }
        hash.update(&bytes[..run.len() * 4]);
    }
}

/// Gives a digest its text form: lower-case hex, in `Display`, `FromStr` and serde.
macro_rules! hex_text_form {
    ($name:ident, $what:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&hex_text(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse_hex($what, text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use hex_text_form;

hex_text_form!(ModelHash, "fingerprint");
hex_text_form!(BlockId, "block id");

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ModelHash = ModelHash([1, 2, 3, 4, 5, 6, 7, 8]);

    fn tokens(ids: &[i32]) -> Vec<Token> {
        ids.iter().copied().map(Token).collect()
    }

    #[test]
    fn a_fingerprint_is_written_as_sixteen_hex_digits_and_read_back() {
        assert_eq!(MODEL.to_string(), "0102030405060708");
        assert_eq!("0102030405060708".parse(), Ok(MODEL));
        assert_eq!(serde_json::to_string(&MODEL).unwrap(), "\"0102030405060708\"");
        assert_eq!(serde_json::from_str::<ModelHash>("\"0102030405060708\"").unwrap(), MODEL);
    }

    #[test]
    fn text_that_is_not_a_fingerprint_is_refused_with_what_was_expected() {
        for text in
            ["", "01020304050607", "010203040506070809", "010203040506070G", "AB02030405060708"]
        {
            let error = text.parse::<ModelHash>().unwrap_err();
            assert_eq!(error.to_string(), "a fingerprint has 16 hex digits in lower case");
        }
    }

    #[test]
    fn the_first_parent_is_the_fingerprint_and_zeros() {
        let root = BlockId::root(MODEL);
        assert_eq!(root.to_string(), format!("0102030405060708{}", "0".repeat(48)));
    }

    #[test]
    fn a_block_is_named_by_its_parent_and_its_tokens_as_little_endian_integers() {
        let parent = BlockId::root(MODEL);
        let mut bytes = parent.0.to_vec();
        bytes.extend([7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(BlockId::child(parent, &tokens(&[7, -1])).0, *Sha256::digest(&bytes));
    }

    #[test]
    fn long_runs_of_tokens_hash_like_their_bytes() {
        let run: Vec<Token> = (0..1_000).map(Token).collect();
        let parent = BlockId::root(MODEL);
        let mut bytes = parent.0.to_vec();
        bytes.extend((0..1_000_i32).flat_map(i32::to_le_bytes));
        assert_eq!(BlockId::child(parent, &run).0, *Sha256::digest(bytes));
    }

    #[test]
    fn equal_text_after_another_history_is_another_block() {
        let text = tokens(&[1, 2, 3]);
        let here = BlockId::child(BlockId::root(MODEL), &text);
        let there = BlockId::child(here, &text);
        assert_ne!(here, there);
    }

    #[test]
    fn a_snapshot_has_another_name_than_the_position_it_was_taken_at() {
        let at = BlockId::child(BlockId::root(MODEL), &tokens(&[1]));
        assert_ne!(BlockId::snapshot(at), at);
        assert_ne!(BlockId::snapshot(at), BlockId::snapshot(BlockId::root(MODEL)));
        assert_ne!(BlockId::snapshot(at), BlockId::partial(at));
    }
}
