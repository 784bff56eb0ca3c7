//! Which conversations have KV on disk.

use std::collections::BTreeSet;
use std::time::Duration;

use hob_slots::{ConversationId, Timestamp, TtlClass};

use super::Storage;

/// Up to this many are looked up one by one; for more, the directory is listed.
const MAX_LOOKUPS: usize = 256;

impl Storage {
    /// The class of a record on disk, and when it expires: `None` while there is room. Blocks on the
    /// disk.
    pub fn saved_until(&self, id: &ConversationId) -> Option<(TtlClass, Option<Timestamp>)> {
        let options = self.options();
        let entry = options.reader.as_ref()?.slot(options.engine.fingerprint(), id)?;
        let lifetime = options.lifetimes.of(entry.class);
        let end = |lifetime: Duration| Timestamp(entry.used_at.0 + lifetime.as_millis() as u64);
        Some((entry.class, lifetime.map(end)))
    }

    /// Tokens on disk, for these conversations at least. Blocks on the disk.
    pub fn saved_tokens(&self, ids: BTreeSet<ConversationId>) -> Vec<(ConversationId, usize)> {
        let Some(reader) = &self.options().reader else { return Vec::new() };
        let model = self.options().engine.fingerprint();
        if ids.len() <= MAX_LOOKUPS {
            let slots = ids.into_iter().filter_map(|id| reader.slot(model, &id));
            return slots.map(|slot| (slot.conversation, slot.tokens as usize)).collect();
        }
        let mut cache = self.shared.listing_cache.lock();
        // The list of conversations is shown even if their KV is unknown.
        let saved = reader.conversations(model, &mut cache).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the saved KV");
            Vec::new()
        });
        saved.into_iter().map(|(id, tokens)| (id, tokens as usize)).collect()
    }
}
