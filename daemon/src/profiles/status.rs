//! The state of each profile's prefix, and where its KV is.

use std::collections::BTreeMap;

use hob_prewarm::{PrefixName, PrefixState, ProfileName, TrackedPrefix, Warmed};
use hob_runtime::{EngineStatus, SlotStatus};
use hob_slots::store::StoreReader;
use hob_slots::{ConversationId, ModelHash};

use super::Profiles;
use crate::blocking::compute;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixStatus {
    pub profile: ProfileName,
    pub state: PrefixState,
    /// `hot` (in cells), `warm` (in host memory), `cold` (on disk) or `none`.
    pub place: &'static str,
    /// The last time it became warm.
    pub warmed: Option<Warmed>,
    /// Why it is not warm.
    pub error: Option<String>,
}

impl Profiles {
    /// The prefix of each profile. `status`: the engine's.
    pub async fn prefixes(&self, status: &EngineStatus) -> Vec<PrefixStatus> {
        let prefixes = self.warm_status().prefixes.into_iter();
        let of_profile = |(name, prefix): (PrefixName, TrackedPrefix)| match name {
            PrefixName::Profile(profile) => Some((profile, prefix)),
            PrefixName::Learned(_) => None,
        };
        let prefixes: BTreeMap<_, _> = prefixes.filter_map(of_profile).collect();
        let place = |profile: &ProfileName| loaded_place(&profile.prefix_id(), status);
        let loaded: BTreeMap<_, _> =
            prefixes.keys().map(|profile| (profile.clone(), place(profile))).collect();
        let profiles = self.clone();
        // Only a prefix that the engine does not hold costs a look at the disk.
        let places = compute(move || {
            let place = |(profile, place): (ProfileName, Option<&'static str>)| {
                let place = place.unwrap_or_else(|| profiles.stored_place(&profile));
                (profile, place)
            };
            loaded.into_iter().map(place).collect::<BTreeMap<_, _>>()
        });
        let places = places.await;
        let status = |(profile, prefix): (ProfileName, TrackedPrefix)| PrefixStatus {
            place: places[&profile],
            profile,
            state: prefix.state,
            warmed: prefix.warmed,
            error: prefix.failed.map(|failed| failed.reason),
        };
        prefixes.into_iter().map(status).collect()
    }

    fn stored_place(&self, profile: &ProfileName) -> &'static str {
        let options = &self.shared.options;
        stored_place(options.reader.as_ref(), options.fingerprint, &profile.prefix_id())
    }
}

/// The tier of saved KV that the engine does not hold.
pub fn stored_place(
    reader: Option<&StoreReader>,
    fingerprint: ModelHash,
    id: &ConversationId,
) -> &'static str {
    match reader.map(|reader| reader.get_slot(fingerprint, id)) {
        Some(Ok(_)) => "cold",
        Some(Err(_)) | None => "none",
    }
}

/// `None`: not in the engine.
pub fn loaded_place(id: &ConversationId, status: &EngineStatus) -> Option<&'static str> {
    let is_hot = |slot: &SlotStatus| slot.conversation.as_ref() == Some(id) && slot.tokens > 0;
    if status.prefixes.iter().any(is_hot) {
        return Some("hot");
    }
    let saved = status.parked.iter().find(|saved| saved.conversation == *id)?;
    Some(saved.tier().name())
}
