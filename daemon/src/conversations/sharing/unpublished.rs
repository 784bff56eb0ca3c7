//! The conversations that are to be published to the shared tier.
//!
//! They take turns: one that the tier refuses again and again holds up no other.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use hob_slots::ConversationId;

#[derive(Debug, Default)]
pub struct Unpublished {
    waiting: BTreeSet<ConversationId>,
    /// The one that was begun last.
    last: Option<ConversationId>,
    is_busy: bool,
}

impl Unpublished {
    /// Whether any is waiting.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether none is waiting or being published.
    pub fn is_done(&self) -> bool {
        !self.is_busy && self.waiting.is_empty()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// `false`: it was waiting.
    pub fn add(&mut self, id: &ConversationId) -> bool {
        self.waiting.insert(id.clone())
    }

    /// `false`: it was not waiting.
    pub fn remove(&mut self, id: &ConversationId) -> bool {
        self.waiting.remove(id)
    }

    /// Takes the next one. [`Self::end`] follows.
    pub fn begin(&mut self) -> Option<ConversationId> {
        let behind = self.last.as_ref().and_then(|last| {
            self.waiting.range::<ConversationId, _>((Excluded(last), Unbounded)).next()
        });
        let next = behind.or_else(|| self.waiting.first())?.clone();
        self.waiting.remove(&next);
        self.last = Some(next.clone());
        self.is_busy = true;
        Some(next)
    }

    /// `again`: the one that was begun waits again.
    pub fn end(&mut self, again: bool) {
        self.is_busy = false;
        if again {
            self.waiting.extend(self.last.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_refused_again_and_again_holds_up_no_other() {
        let [a, b] = ["a", "b"].map(|id| ConversationId::new(id).unwrap());
        let mut unpublished = Unpublished::default();
        assert!(unpublished.is_done() && unpublished.begin().is_none());
        assert!(unpublished.add(&a) && unpublished.add(&b) && !unpublished.add(&b));
        let mut begun = Vec::new();
        for _ in 0..3 {
            let id = unpublished.begin().unwrap();
            assert!(!unpublished.is_done());
            unpublished.end(id == a);
            begun.push(id);
        }
        assert_eq!(begun, [a.clone(), b, a.clone()]);
        assert!(unpublished.remove(&a) && unpublished.is_done());
    }
}
