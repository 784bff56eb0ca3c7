//! "Why did it miss?": the reasons for which a prompt computes what was once computed.

use std::fmt;
use std::sync::Arc;

use hob_slots::{ModelHash, Token};

/// Why tokens that a conversation once had were computed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissReason {
    /// The prompt says something else than what was kept.
    Differs {
        /// The first token that differs.
        at: usize,
        /// What was kept from there on, at least one token.
        kept: Arc<[Token]>,
    },
    /// It is kept for another fingerprint.
    OtherFingerprint {
        /// For which.
        found: ModelHash,
        /// The fields of the fingerprint that differ, or that this is not known.
        fields: String,
    },
    /// What was kept is gone, damaged or refused.
    Unusable {
        /// The first token that it would have given.
        from: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It was never saved: the process ended before.
    NotKept {
        /// The first token that is missing.
        from: usize,
    },
}

impl MissReason {
    /// `kept` goes on otherwise from `at` on.
    pub(crate) fn differs(kept: &[Token], at: usize) -> Self {
        Self::Differs { at, kept: kept[at..].into() }
    }

    /// A word for the kind of reason, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Differs { .. } => "differs",
            Self::OtherFingerprint { .. } => "other_fingerprint",
            Self::Unusable { .. } => "unusable",
            Self::NotKept { .. } => "not_kept",
        }
    }
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { at, kept } => {
                let all = at + kept.len();
                write!(f, "the prompt differs from what was kept at token {at} of {all}")
            }
            Self::OtherFingerprint { found, fields } => {
                write!(f, "kept under another fingerprint, {found}; what differs: {fields}")
            }
            Self::Unusable { from, reason } => write!(f, "tokens from {from} on: {reason}"),
            Self::NotKept { from } => write!(f, "tokens from {from} on were not kept"),
        }
    }
}
