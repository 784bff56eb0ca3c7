//! What the warming loop needs to know of prefixes: the tokens of each, and their order.

use std::future::Future;

use hob_prewarm::{PrefixName, ProfileName};
use hob_slots::format::SegmentRef;
use hob_slots::{ConversationId, Token, TtlClass};

use crate::error::ApiError;

/// The tokens that all first requests of a profile share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfilePrefix {
    /// The name of its KV in the engine and the store.
    pub id: ConversationId,
    pub class: TtlClass,
    /// From position 0.
    pub tokens: Vec<Token>,
    pub segments: Vec<SegmentRef>,
}

/// Renders prefixes.
pub trait Prefixes: Send + Sync + 'static {
    /// The prefix as it is now: a template may write the date into a profile's.
    fn prefix(
        &self,
        name: &PrefixName,
    ) -> impl Future<Output = Result<ProfilePrefix, ApiError>> + Send;
}

/// The default profile first, because requests that name no profile use it; learned ones last.
pub fn default_first(mut prefixes: Vec<PrefixName>) -> Vec<PrefixName> {
    prefixes.sort_by_key(|prefix| match prefix {
        PrefixName::Profile(name) if *name == ProfileName::default() => 0,
        PrefixName::Profile(_) => 1,
        PrefixName::Learned(_) => 2,
    });
    prefixes
}
