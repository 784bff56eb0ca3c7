//! What was said, and where its KV is.

pub mod export;
pub mod transcript;
pub mod trash;

use std::collections::HashMap;
use std::sync::PoisonError;

use hob_prewarm::Event;
use hob_runtime::EngineStatus;
use hob_slots::{AdjustedTime, ConversationId};

use crate::error::ApiError;
use crate::service::{Service, compute};
use transcript::{
    Change, ConversationText, Hit, RecentTurn, Remembered, SearchQuery, Snippet, Summary,
    TranscriptError,
};

/// Where a conversation's KV is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// `slot`, `memory`, `disk` or `none`.
    pub name: &'static str,
    /// The slot that it is pinned to.
    pub slot: Option<u32>,
    /// Its tokens there.
    pub tokens: usize,
}

/// So many are looked for on disk one by one; for more, the directory is listed.
const FEW: usize = 256;

/// Where everything is.
struct Map {
    places: HashMap<ConversationId, Place>,
}

impl Map {
    /// The nearest place counts, so it is written last.
    fn of(status: EngineStatus, kept: Vec<(ConversationId, usize)>) -> Self {
        let far = |name| move |(id, tokens)| (id, Place { name, slot: None, tokens });
        let mut places: HashMap<_, _> = kept.into_iter().map(far("disk")).collect();
        places.extend(status.parked.into_iter().map(far("memory")));
        for slot in status.slots {
            if let Some(id) = slot.conversation {
                let number = Some(slot.slot.0);
                places.insert(id, Place { name: "slot", slot: number, tokens: slot.tokens });
            }
        }
        Self { places }
    }

    fn place(&self, id: &str) -> Place {
        let nowhere = Place { name: "none", slot: None, tokens: 0 };
        let id = ConversationId::new(id).ok();
        id.and_then(|id| self.places.get(&id).cloned()).unwrap_or(nowhere)
    }
}

impl Service {
    /// All conversations, the latest first; those in the trash, or the others.
    pub async fn conversations(&self, trashed: bool) -> Result<Vec<(Summary, Place)>, ApiError> {
        let list = self.inner.transcript.list(trashed).done().await?;
        let map = self.map(list.iter()).await?;
        let placed = |summary: Summary| {
            let place = map.place(&summary.id);
            (summary, place)
        };
        Ok(list.into_iter().map(placed).collect())
    }

    /// Those of the list that have what is looked for.
    pub async fn search(
        &self,
        query: SearchQuery,
        trashed: bool,
    ) -> Result<Vec<(Summary, Option<Snippet>, Place)>, ApiError> {
        let hits = self.inner.transcript.search(query, trashed).done().await?;
        let map = self.map(hits.iter().map(|(summary, _)| summary)).await?;
        let placed = |(summary, snippet): Hit| {
            let place = map.place(&summary.id);
            (summary, snippet, place)
        };
        Ok(hits.into_iter().map(placed).collect())
    }

    /// One conversation with all its branches.
    pub async fn conversation(
        &self,
        id: &ConversationId,
    ) -> Result<Option<(ConversationText, Place)>, ApiError> {
        let Some(text) = self.inner.transcript.get(id).done().await? else { return Ok(None) };
        let place = self.map([&text.summary]).await?.place(id.as_str());
        Ok(Some((text, place)))
    }

    /// Why it last computed what was computed before. The outer `None`: there is none of that name;
    /// the inner one: it never did.
    pub async fn explanation(
        &self,
        id: &ConversationId,
    ) -> Result<Option<Option<Remembered>>, ApiError> {
        if let Some(remembered) = self.inner.transcript.explanation(id).done().await? {
            return Ok(Some(Some(remembered)));
        }
        let transcript = &self.inner.transcript;
        let is_known = transcript.get(id).done().await?.is_some()
            || !transcript.tokens(id, self.engine().fingerprint()).done().await?.is_empty();
        Ok(is_known.then_some(None))
    }

    async fn map(&self, of: impl IntoIterator<Item = &Summary>) -> Result<Map, ApiError> {
        let ids: Vec<_> =
            of.into_iter().filter_map(|summary| ConversationId::new(&summary.id).ok()).collect();
        let status = self.engine().status().await?;
        let service = self.clone();
        let kept = compute(move || service.kept(ids)).await;
        Ok(Map::of(status, kept))
    }

    /// What is on disk of these conversations at least.
    fn kept(&self, ids: Vec<ConversationId>) -> Vec<(ConversationId, usize)> {
        let Some(reader) = &self.inner.kept else { return Vec::new() };
        let model = self.engine().fingerprint();
        if ids.len() <= FEW {
            let kept = ids.into_iter().filter_map(|id| reader.slot(model, &id));
            return kept.map(|slot| (slot.conversation, slot.tokens as usize)).collect();
        }
        let mut listing_cache =
            self.inner.listing_cache.lock().unwrap_or_else(PoisonError::into_inner);
        // A directory that cannot be listed is no reason to show nothing.
        let kept = reader.kept(model, &mut listing_cache).unwrap_or_else(|error| {
            tracing::warn!(%error, "the directory of kept KV cannot be listed");
            Vec::new()
        });
        kept.into_iter().map(|(id, tokens)| (id, tokens as usize)).collect()
    }

    /// The latest answers over all conversations.
    pub async fn recent_turns(&self, most: usize) -> Result<Vec<RecentTurn>, ApiError> {
        Ok(self.inner.transcript.recent(most).done().await?)
    }

    /// Changes what is known of it; `false` when there is none of that name.
    pub async fn change(&self, id: &ConversationId, change: Change) -> Result<bool, ApiError> {
        match self.inner.transcript.change(id, change, self.now()).done().await {
            Err(error @ TranscriptError::NoSuchMessage { .. }) => {
                Err(ApiError::field("head", error.to_string()))
            }
            changed => Ok(changed?),
        }
    }

    /// Deletes its text and its KV, wherever that is; a running answer breaks off. `false` when
    /// there was no text.
    pub async fn delete(&self, id: &ConversationId) -> Result<bool, ApiError> {
        let had_text = self.inner.transcript.delete(id).done().await?;
        self.forget(id).await;
        Ok(had_text)
    }

    /// Deletes what has lain in the trash for too long; what was taken out meanwhile stays.
    pub async fn empty_trash(&self, moment: &AdjustedTime) -> Result<(), ApiError> {
        let trash = self.inner.transcript.trash().done().await?;
        for (id, since) in trash::due(&trash, moment) {
            if self.inner.transcript.delete_trashed(id, *since).done().await? {
                self.forget(id).await;
            }
        }
        Ok(())
    }

    async fn forget(&self, id: &ConversationId) {
        self.engine().forget(id.clone()).await;
        self.tell_planner(Event::Forgotten { conversation: id.clone() });
    }
}
