//! Why a prompt computes tokens that its conversation once had.

use std::fmt;
use std::sync::Arc;

use hob_slots::{ModelHash, Token};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissReason {
    /// The prompt differs from the conversation.
    Differs {
        /// The first token that differs.
        at: usize,
        /// The conversation's tokens from there on, at least one.
        saved: Arc<[Token]>,
    },
    /// The conversation's KV was computed with other adapters.
    OtherAdapters,
    /// The KV was saved under another model fingerprint.
    OtherFingerprint {
        found: ModelHash,
        /// The fields that differ, or a note that they are unknown.
        fields: String,
    },
    /// The saved KV is gone, damaged or refused.
    Unusable {
        /// The first token that is missing.
        from: usize,
        reason: String,
    },
    /// The KV was never saved, because the process ended before.
    NotSaved {
        /// The first token that is missing.
        from: usize,
    },
}

impl MissReason {
    /// The prompt differs from `saved` at token `at`.
    pub(crate) fn differs(saved: &[Token], at: usize) -> Self {
        Self::Differs { at, saved: saved[at..].into() }
    }

    /// No tier has the block at token `from` any more.
    pub(crate) fn lost(from: usize) -> Self {
        Self::Unusable { from, reason: "the block that was saved is lost".to_owned() }
    }

    /// The label of the kind in the metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Differs { .. } => "differs",
            Self::OtherAdapters => "other_adapters",
            Self::OtherFingerprint { .. } => "other_fingerprint",
            Self::Unusable { .. } => "unusable",
            Self::NotSaved { .. } => "not_kept",
        }
    }
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { at, saved } => {
                let all = at + saved.len();
                write!(f, "the prompt differs from the saved tokens at token {at} of {all}")
            }
            Self::OtherAdapters => f.write_str("it was computed with other adapters"),
            Self::OtherFingerprint { found, fields } => {
                write!(f, "saved under another fingerprint, {found}; what differs: {fields}")
            }
            Self::Unusable { from, reason } => write!(f, "tokens from {from} on: {reason}"),
            Self::NotSaved { from } => write!(f, "tokens from {from} on were not saved"),
        }
    }
}
