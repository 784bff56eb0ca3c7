//! What the warming loop needs to know of profiles: the prompt prefix of each, and their order.

use std::future::Future;

use hob_prewarm::ProfileName;
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
    /// The prefix of a profile as it is now: a template may write the date.
    fn prefix(
        &self,
        profile: &ProfileName,
    ) -> impl Future<Output = Result<ProfilePrefix, ApiError>> + Send;
}

/// The default profile first, because requests that name no profile use it.
pub fn default_first(mut profiles: Vec<ProfileName>) -> Vec<ProfileName> {
    profiles.sort_by_key(|name| *name != ProfileName::default());
    profiles
}
