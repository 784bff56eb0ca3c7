//! What is known of each profile's prefix, and where its KV is now.

use std::collections::BTreeMap;

use hob_prewarm::{PrefixState, ProfileName, Warmed};
use hob_runtime::EngineStatus;

use super::{Service, compute};

/// A prefix, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixStatus {
    /// Whose it is.
    pub profile: ProfileName,
    /// What happens to it.
    pub state: PrefixState,
    /// `hot` (in cells), `warm` (in memory), `cold` (on disk) or `none`.
    pub place: &'static str,
    /// How it became warm, when it was at last.
    pub warmed: Option<Warmed>,
    /// Why it is not.
    pub error: Option<String>,
}

impl Service {
    /// Each profile's prefix. `status` is the engine's.
    pub async fn prefixes(&self, status: &EngineStatus) -> Vec<PrefixStatus> {
        let prefixes = self.warm_status().prefixes;
        let near = prefixes.keys().map(|profile| (profile.clone(), near(profile, status)));
        let near: BTreeMap<_, _> = near.collect();
        let service = self.clone();
        // Whatever is not near is looked for on disk.
        let places = compute(move || {
            let place = |(profile, near): (ProfileName, Option<&'static str>)| {
                let place = near.unwrap_or_else(|| service.far(&profile));
                (profile, place)
            };
            near.into_iter().map(place).collect::<BTreeMap<_, _>>()
        });
        let places = places.await;
        let shown = |(profile, prefix): (ProfileName, hob_prewarm::Prefix)| PrefixStatus {
            place: places[&profile],
            profile,
            state: prefix.state,
            warmed: prefix.warmed,
            error: prefix.failed.map(|failed| failed.reason),
        };
        prefixes.into_iter().map(shown).collect()
    }

    fn far(&self, profile: &ProfileName) -> &'static str {
        let Some(kept) = &self.inner.kept else { return "none" };
        match kept.get_slot(self.engine().fingerprint(), &profile.prefix_id()) {
            Ok(_) => "cold",
            Err(_) => "none",
        }
    }
}

fn near(profile: &ProfileName, status: &EngineStatus) -> Option<&'static str> {
    let id = profile.prefix_id();
    let hot = |slot: &hob_runtime::SlotStatus| slot.conversation.as_ref() == Some(&id);
    if status.prefixes.iter().any(|slot| hot(slot) && slot.tokens > 0) {
        return Some("hot");
    }
    status.parked.iter().any(|(parked, _)| *parked == id).then_some("warm")
}
