//! Where the KV of conversations is, looked up in the cells, the engine's tiers and the slot files.
//!
//! - Only the conversations that are asked for are looked up: there may be thousands.
//! - A dead engine has no cells; what is on disk is still found.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hob_runtime::{EngineStatus, Tier, TurnError};
use hob_slots::ConversationId;

use super::Conversations;
use super::readiness::Readiness;
use super::transcript::Summary;
use crate::blocking::compute;
use crate::error::ApiError;

/// Where the KV of a conversation is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvLocation {
    /// `slot`, `memory`, `disk` or `none`.
    pub name: &'static str,
    /// The same place as a tier: `hot`, `warm`, `cold` or `none`.
    pub tier: &'static str,
    /// The number of its slot, if it is in one.
    pub slot: Option<u32>,
    pub tokens: usize,
    /// The part of `tokens` that a restore reads from memory.
    pub memory_tokens: usize,
    /// The part of `tokens` that a restore reads from disk.
    pub disk_tokens: usize,
    pub next: Readiness,
}

pub struct KvLocations {
    of: HashMap<ConversationId, KvLocation>,
    /// Length of each conversation's last timeline.
    lengths: HashMap<ConversationId, usize>,
    /// Speed of prefill, in tokens a second.
    speed: Option<f64>,
}

impl KvLocations {
    /// What the engine looked up outranks the slot files, and the cells outrank both.
    fn of(status: EngineStatus, on_disk: Vec<(ConversationId, usize)>) -> Self {
        let cold = |(id, tokens)| (id, KvLocation::saved(Tier::Disk, 0, tokens));
        let mut locations: HashMap<_, _> = on_disk.into_iter().map(cold).collect();
        for saved in status.parked {
            let location = KvLocation::saved(saved.tier(), saved.memory_tokens, saved.disk_tokens);
            locations.insert(saved.conversation, location);
        }
        for slot in status.slots.into_iter().filter(|slot| slot.tokens > 0) {
            if let Some(id) = slot.conversation {
                let (number, tokens) = (Some(slot.slot.0), slot.tokens);
                let hot = KvLocation { name: "slot", tier: "hot", ..KvLocation::default() };
                locations.insert(id, KvLocation { slot: number, tokens, ..hot });
            }
        }
        Self { of: locations, lengths: HashMap::new(), speed: None }
    }

    pub fn get(&self, id: &str) -> KvLocation {
        let none = KvLocation::saved(Tier::Nowhere, 0, 0);
        let Ok(id) = ConversationId::new(id) else { return none };
        let location = self.of.get(&id).cloned().unwrap_or(none);
        let next = Readiness::of(self.lengths.get(&id).copied(), location.tokens, self.speed);
        KvLocation { next, ..location }
    }
}

impl KvLocation {
    /// `tier`: the slowest that a restore reads.
    fn saved(tier: Tier, memory_tokens: usize, disk_tokens: usize) -> Self {
        let name = match tier {
            Tier::Memory => "memory",
            Tier::Disk => "disk",
            Tier::Nowhere => "none",
        };
        let tokens = memory_tokens + disk_tokens;
        let tier = tier.name();
        Self { name, tier, tokens, memory_tokens, disk_tokens, ..Self::default() }
    }
}

impl Conversations {
    /// Whether a restore would find KV of the conversation or hint that is not in a slot yet.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn is_restorable(&self, id: &ConversationId) -> Result<bool, ApiError> {
        let tier = self.locations_of(BTreeSet::from([id.clone()])).await?.get(id.as_str()).tier;
        Ok(matches!(tier, "warm" | "cold"))
    }

    /// The readiness of each conversation in a slot. `status`: the engine's.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn slot_readiness(
        &self,
        status: &EngineStatus,
        speed: Option<f64>,
    ) -> Result<BTreeMap<ConversationId, Readiness>, ApiError> {
        let slots = status.slots.iter();
        let kept = slots.filter_map(|slot| Some((slot.conversation.clone()?, slot.tokens)));
        let kept: BTreeMap<_, _> = kept.collect();
        let ids = kept.keys().cloned().collect();
        let mut lengths = self.transcript.timeline_lengths(ids, self.engine.fingerprint());
        let lengths: BTreeMap<_, _> = lengths.done().await?.into_iter().collect();
        let readiness = |(id, tokens): (ConversationId, usize)| {
            let readiness = Readiness::of(lengths.get(&id).copied(), tokens, speed);
            (id, readiness)
        };
        Ok(kept.into_iter().map(readiness).collect())
    }

    /// Tokens of the conversation whose KV exists, in any tier.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn kv_tokens(&self, id: &ConversationId) -> Result<usize, ApiError> {
        Ok(self.locations_of(BTreeSet::from([id.clone()])).await?.get(id.as_str()).tokens)
    }

    pub(super) async fn locations(
        &self,
        of: impl IntoIterator<Item = &Summary>,
    ) -> Result<KvLocations, ApiError> {
        let ids = of.into_iter().filter_map(|summary| ConversationId::new(&summary.id).ok());
        self.locations_of(ids.collect()).await
    }

    /// Looks these conversations up, and no others.
    async fn locations_of(&self, ids: BTreeSet<ConversationId>) -> Result<KvLocations, ApiError> {
        let cells = match self.engine.cell_status().await {
            Err(TurnError::Dead(_)) => None, // Texts stay readable.
            cells => Some(cells?),
        };
        let fingerprint = self.engine.fingerprint();
        let lengths = self.transcript.timeline_lengths(ids.clone(), fingerprint).done().await?;
        let speed = self.prefill_speed(&cells.clone().unwrap_or_default()).await?;
        let (engine, storage) = (self.engine.clone(), self.storage.clone());
        let look_up = move || {
            let status = cells.map(|cells| engine.with_parked(cells, |id| ids.contains(id)));
            KvLocations::of(status.unwrap_or_default(), storage.saved_tokens(ids))
        };
        let lengths = lengths.into_iter().collect();
        Ok(KvLocations { lengths, speed, ..compute(look_up).await })
    }

    /// The speed of prefill that was measured last, in tokens a second. `status`: the engine's.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn prefill_speed(&self, status: &EngineStatus) -> Result<Option<f64>, ApiError> {
        match status.prefill_tokens_per_second {
            Some(speed) => Ok(Some(speed)),
            None => Ok(self.transcript.prefill_speed(self.engine.fingerprint()).done().await?),
        }
    }
}
