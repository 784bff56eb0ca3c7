//! The prefixes of profiles and the learned ones, as the warming loop renders them.

use hob_prewarm::PrefixName;

use super::Learned;
use crate::error::ApiError;
use crate::profiles::Profiles;
use crate::warm::prefixes::{Prefixes, ProfilePrefix};

#[derive(Clone)]
pub struct AllPrefixes {
    pub profiles: Profiles,
    pub learned: Learned,
}

impl AllPrefixes {
    pub fn names(&self) -> Vec<PrefixName> {
        let profiles = self.profiles.names().into_iter().map(PrefixName::Profile);
        profiles.chain(self.learned.names().into_iter().map(PrefixName::Learned)).collect()
    }
}

impl Prefixes for AllPrefixes {
    async fn prefix(&self, name: &PrefixName) -> Result<ProfilePrefix, ApiError> {
        match name {
            PrefixName::Profile(name) => self.profiles.prefix(name).await,
            PrefixName::Learned(name) => self.learned.prefix(name),
        }
    }
}
