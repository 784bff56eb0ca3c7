//! Reads what was said while no answer is made.
//!
//! - No caller waits for it, so the [`Ledger`] is not charged: the next answer begins with a draft model that
//!   has read all but the newest message.
//! - The end of an answer is guessed token by token, as the next one will be: so the draft model's
//!   [`Confidence`] and the time of a guess are known before they cost an answer anything.
//!
//! [`Ledger`]: crate::draft::Ledger
//! [`Confidence`]: crate::draft::Confidence

use super::{Drafter, Followed};

/// Tokens at the end of an answer that are guessed.
const GUESSED: usize = 8;

/// A known draft model that is right less often reads nothing ahead. It may still prove itself within
/// the ledger.
const MIN_MEAN: f64 = 0.3;

impl Drafter<'_> {
    /// Computes a micro-batch of what it lacks of an idle slot's text. `answer`: where the newest answer
    /// begins. Returns whether more is lacking.
    pub fn read_unread(&mut self, text: &Followed<'_>, answer: usize) -> bool {
        if self.is_known_to_be_wrong() || text.timeline.len() > self.max_tokens() {
            return false;
        }
        self.turn_to(text);
        if self.is_restoring(text.slot) {
            // The thread may sleep from here on, and import nothing more: the next turn restores the rest.
            self.end_restore(text.slot);
            return false;
        }
        if self.tracks[text.slot].has_given_up {
            return false;
        }
        self.share(text);
        self.read_or_guess(text, answer)
    }

    fn is_known_to_be_wrong(&self) -> bool {
        let confidence = &self.core.guesser.confidence;
        confidence.is_known() && confidence.expected(1)[0] < MIN_MEAN
    }

    fn read_or_guess(&mut self, text: &Followed<'_>, answer: usize) -> bool {
        let Followed { slot, timeline, .. } = *text;
        let held = self.tracks[slot].timeline.len();
        let guessed_from = timeline.len().saturating_sub(GUESSED).max(answer).min(timeline.len());
        if held < guessed_from {
            let rows = (guessed_from - held).min(self.core.guesser.max_rows());
            return self.read(slot, &timeline[held..held + rows], false);
        }
        let Some(&token) = timeline.get(held) else { return false };
        if !self.read(slot, &[token], true) {
            return false;
        }
        let Some(&next) = timeline.get(held + 1) else { return false };
        if let Some((guess, probability)) = self.likeliest(0, true) {
            self.core.guesser.confidence.observe(probability, guess == next);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use hob_slots::{ConversationId, ModelHash, Token, TtlClass};

    use super::*;
    use crate::backend::fake::FakeModel;
    use crate::backend::{Backend, Model};
    use crate::draft_model::DraftModel;
    use crate::drafter::{DrafterCore, Owner};
    use crate::options::EngineOptions;

    fn text<'t>(conversation: &str, timeline: &'t [Token]) -> Followed<'t> {
        let owner = Owner {
            conversation: ConversationId::new(conversation).unwrap(),
            class: TtlClass::Long,
            in_memory: conversation == "private",
        };
        Followed { slot: 0, timeline, owner: Some(owner) }
    }

    /// Calls `check` with a drafter of one slot. `cells`: of its context; `None`: as many as hobd makes.
    fn with_drafter(
        target: Option<Duration>,
        cells: Option<usize>,
        mut check: impl FnMut(&mut Drafter<'_>),
    ) {
        let model: Arc<dyn Model> = Arc::new(FakeModel::new());
        let options = EngineOptions { slots: 1, micro_batch_target: target, ..Default::default() };
        let mut shape = options.shape(model.facts());
        shape.context_tokens = cells.unwrap_or(shape.context_tokens);
        let mut run = |backend: &mut dyn Backend| {
            let draft_model = DraftModel::new(model.clone(), ModelHash([0; 8]), &*model).unwrap();
            let core = DrafterCore::new(draft_model, None, &options, || {});
            check(&mut Drafter::new(backend, core, model.vocabulary().len()));
        };
        model.with_context(shape, &mut run).unwrap();
    }

    #[test]
    fn what_is_restored_of_another_conversation_does_not_reach_the_one_that_took_its_slot() {
        with_drafter(None, None, |drafter| {
            let [private, other] = [7, 8].map(|token| vec![Token(token); 200]);
            drafter.turn_to(&text("private", &private));
            assert!(drafter.read(0, &private, false));
            drafter.save(0);
            drafter.clear(0);
            drafter.restore(&text("private", &private));
            while drafter.tracks[0].restoring.is_some() {
                std::thread::sleep(Duration::from_millis(1)); // The reader delivers meanwhile.
                drafter.read_unread(&text("other", &other), 200);
                assert!(other.starts_with(drafter.tracks[0].timeline.tokens()));
            }
        });
    }

    #[test]
    fn no_restore_outlasts_its_turn() {
        with_drafter(None, None, |drafter| {
            let tokens = vec![Token(7); 200];
            drafter.turn_to(&text("chat", &tokens));
            drafter.restore(&text("chat", &tokens));
            assert!(drafter.tracks[0].restoring.is_some());
            drafter.vacate(0);
            assert!(drafter.tracks[0].restoring.is_none(), "the conversation has left the slot");
            drafter.restore(&text("chat", &tokens));
            drafter.read_unread(&text("chat", &tokens), 200);
            assert!(drafter.tracks[0].restoring.is_none(), "no turn runs");
        });
    }

    #[test]
    fn a_micro_batch_that_finds_no_room_teaches_no_speed() {
        let target = Some(Duration::from_millis(100));
        with_drafter(target, Some(32), |drafter| {
            assert!(!drafter.read(0, &[Token(7); 64], false));
            assert_eq!(drafter.core.guesser.rows_per_second(), None);
            assert_eq!(drafter.core.guesser.seconds(std::iter::once(1)), None);
        });
    }
}
