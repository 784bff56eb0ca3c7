//! The status of the engine, its cache map, and what saved KV it has of a conversation or a prompt.

use std::collections::BTreeSet;

use hob_slots::{Block, ConversationId, SlotId, Token};
use tokio::sync::watch;

use super::Engine;
use crate::command::{Command, Reply};
use crate::heartbeat::{Activity, Death, Health};
use crate::map::CacheMap;
use crate::status::{EngineStatus, Residency};
use crate::turn::TurnError;

impl Engine {
    /// A reading of the engine. Looks parked conversations up on the caller's thread.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn status(&self) -> Result<EngineStatus, TurnError> {
        Ok(self.with_parked(self.cell_status().await?, |_| true))
    }

    /// Adds to a [`Self::cell_status`] the parked conversations for which `is_asked` is true. Blocks
    /// on the disk: it may read one file's facts for each of their blocks.
    pub fn with_parked(
        &self,
        status: EngineStatus,
        is_asked: impl Fn(&ConversationId) -> bool,
    ) -> EngineStatus {
        let slots = status.slots.iter().chain(&status.prefixes);
        let hot: BTreeSet<_> = slots
            .filter(|slot| slot.tokens > 0)
            .filter_map(|slot| slot.conversation.clone())
            .collect();
        let parked = self.inner.tiers.conversations(|id| !hot.contains(id) && is_asked(id));
        EngineStatus { parked, ..status }
    }

    /// How many tokens of a prompt are in memory and on disk, whichever conversation they are of.
    /// `blocks`: the prompt's. Models whose KV is not restored block by block count what is saved
    /// under `key`. Blocks on the disk.
    pub fn saved_tokens(&self, blocks: &[Block], key: &ConversationId) -> (usize, usize) {
        if self.inner.model.facts().memory.is_plain() {
            return self.inner.tiers.tokens_of(blocks);
        }
        let saved = self.inner.tiers.conversations(|id| id == key);
        saved.first().map_or((0, 0), |saved| (saved.memory_tokens, saved.disk_tokens))
    }

    /// The tokens of a conversation's newest record; `None` without one whose KV is exact. Blocks on the
    /// disk.
    pub fn recorded_tokens(&self, conversation: &ConversationId) -> Option<Vec<Token>> {
        let record = self.inner.tiers.record(conversation)?;
        record.lineage.views.is_empty().then(|| record.tokens.clone())
    }

    /// All of [`Self::status`] but the parked conversations, whose blocks are looked up in the tiers.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn cell_status(&self) -> Result<EngineStatus, TurnError> {
        self.check_alive()?;
        if let Some(status) = self.inner.busy_status.lock().clone() {
            let residency = *self.inner.residency.borrow();
            return Ok(EngineStatus { residency, ..status });
        }
        let (reply, answer) = Reply::channel();
        self.send(Command::Status(reply))?;
        self.answered(answer).await
    }

    /// The map of the cells, block by block, and the latest evictions.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn map(&self) -> Result<CacheMap, TurnError> {
        let (reply, answer) = Reply::channel();
        self.send(Command::Cells(reply))?;
        self.answered(answer).await.map(CacheMap::of)
    }

    /// The tokens that the last turn without a name has left in the cells of a slot. Empty while a turn runs
    /// there, and where a private one did.
    ///
    /// # Errors
    /// [`TurnError::Stopped`].
    pub async fn unnamed_tokens(&self, slot: SlotId) -> Result<Vec<Token>, TurnError> {
        let (reply, answer) = Reply::channel();
        self.send(Command::UnnamedTokens { slot, reply })?;
        self.answered(answer).await
    }

    /// Waits until no turn runs, all KV is exported, and everything is on disk.
    pub async fn settled(&self) {
        let (done, wait) = Reply::channel();
        if self.send(Command::Settle(done)).is_ok() {
            self.answered(wait).await.ok(); // An error: the engine has settled, or died.
        }
    }

    /// Changes whenever [`Engine::map`] does; ends with the engine.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.clone()
    }

    /// What the engine's thread does. Does not wait for it.
    pub fn activity(&self) -> Activity {
        self.inner.heartbeat.activity()
    }

    /// Whether the engine can answer. Does not wait for its thread.
    pub fn health(&self) -> Health {
        self.inner.heartbeat.health(*self.inner.residency.borrow())
    }

    /// Why the engine is dead; `None` while it lives.
    pub fn death(&self) -> watch::Receiver<Option<Death>> {
        self.inner.heartbeat.death()
    }

    /// Whether [`Engine::shutdown`] was called.
    pub fn is_stopping(&self) -> bool {
        self.inner.heartbeat.is_stopping()
    }

    pub fn residency(&self) -> watch::Receiver<Residency> {
        self.inner.residency.clone()
    }
}
