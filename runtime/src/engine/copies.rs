//! The deletion of a hint with its copies.
//!
//! - The copies that are open or have a record in memory are listed first, then those that have a file: a copy that
//!   is parked in between is in the first list, one that a turn restores in between is in the second. The engine
//!   forgets each by its name, wherever its KV is by then. A turn that was preempted keeps the name of its copy.
//! - The writer thread lists the directories, behind the saves before: no slot file of the model is written meanwhile.

use std::collections::BTreeSet;

use hob_slots::ConversationId;

use super::Engine;
use crate::command::Reply;
use crate::turn::TurnError;

/// Copies of a hint that are looked for. An engine makes one for each slot at most, of which the configuration allows
/// 247, and one for each turn in the queue that waits for cells again: up to twice its slots and its queue. That is no
/// limit here, since an earlier run with more slots may have left files of further copies.
const MAX_COPIES: u32 = 1024;

impl Engine {
    /// As [`Self::forget`], of a hint and of its copies, which turns at the same time have made; of another id, of
    /// that alone.
    ///
    /// # Errors
    /// As for [`Self::forget`], and [`TurnError::NotForgotten`] when a directory could not be listed; what can be
    /// dropped is.
    pub async fn forget_copies(&self, id: ConversationId) -> Result<(), TurnError> {
        let mut forgotten = self.forget(id.clone()).await;
        if !id.is_hint() {
            return forgotten;
        }
        let numbered: Vec<_> = (1..=MAX_COPIES).map(|number| id.copy(number)).collect();
        let mut copies = self.inner.tiers.known_among(&numbered);
        let (saved, listed) = self.saved_among(numbered).await;
        copies.extend(saved);
        forgotten = forgotten.and(listed);
        copies.remove(&id);
        for copy in copies {
            forgotten = self.forget(copy).await.and(forgotten);
        }
        forgotten
    }

    /// The members of `conversations` that have a slot file under any model, and whether all directories were
    /// listed.
    async fn saved_among(
        &self,
        conversations: Vec<ConversationId>,
    ) -> (BTreeSet<ConversationId>, Result<(), TurnError>) {
        let (reply, answer) = Reply::channel();
        self.inner.maintainer.saved_among(conversations, |saved| reply.send(saved));
        let Ok((saved, listed)) = answer.await else {
            return (BTreeSet::new(), Err(self.stopped()));
        };
        (saved, listed.map_err(|error| TurnError::NotForgotten(error.to_string())))
    }
}
