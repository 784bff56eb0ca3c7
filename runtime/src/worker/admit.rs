//! From the queue into a slot: pin the conversation and share what is hot. `restore` does the rest.
//!
//! - Turns of one conversation are served in their order; a turn that finds no slot lets others pass
//!   that already have one.
//! - A turn that was put aside waits until another has ended: before that, it would only be put
//!   aside again.
//! - The last token of a prompt is always computed: it gives the logits for the answer.

use std::sync::atomic::Ordering;
use std::time::Instant;

use hob_slots::{ConversationId, Pin};
use tokio::sync::mpsc;

use super::slot::{Phase, Running};
use super::{Submitted, Worker};
use crate::map::{EvictionReason, Origin, Origins};
use crate::miss::MissReason;
use crate::sample::{Output, Sampler};
use crate::tiers::common_prefix;
use crate::turn::{Purpose, TurnEvent, TurnReport};

/// A turn in the queue.
pub(super) enum Waiting {
    New {
        turn: Box<Submitted>,
        conversation: Option<ConversationId>,
    },
    /// Was running and gave its cells to others, when `ended` turns had ended.
    Preempted {
        turn: Box<Running>,
        ended: u64,
    },
}

/// Whose cells a turn finds in its slot.
#[derive(Clone, Copy)]
enum Whose {
    /// The conversation's.
    Own,
    /// The conversation's, of something that it might have said.
    Speculation,
    /// Their owner has left them.
    Nobodys,
}

impl Waiting {
    pub fn new(turn: Box<Submitted>) -> Self {
        let conversation = turn.request.conversation.clone();
        Self::New { turn, conversation }
    }

    pub fn events(&self) -> &mpsc::UnboundedSender<TurnEvent> {
        match self {
            Self::New { turn, .. } => &turn.events,
            Self::Preempted { turn, .. } => &turn.events,
        }
    }

    pub fn purpose(&self) -> Purpose {
        match self {
            Self::New { turn, .. } => turn.request.purpose,
            Self::Preempted { turn, .. } => turn.request.purpose,
        }
    }

    pub fn conversation(&self) -> Option<&ConversationId> {
        match self {
            Self::New { conversation, .. } => conversation.as_ref(),
            Self::Preempted { turn, .. } => Some(&turn.conversation),
        }
    }
}

impl Worker<'_> {
    /// Admits every waiting turn that finds a slot.
    pub(super) fn admit(&mut self) {
        self.freed = false;
        let mut index = 0;
        while index < self.queue.len() {
            let nameless = || ConversationId::anonymous(self.turns);
            let conversation = self.queue[index].conversation().cloned().unwrap_or_else(nameless);
            let purpose = self.queue[index].purpose();
            self.supersede(&conversation);
            if self.is_due(index)
                && let Some((slot, held)) = self.pin(&conversation, purpose)
            {
                let waiting = self.queue.remove(index).expect("the index is below the length");
                self.waiting.fetch_sub(1, Ordering::AcqRel);
                self.registry.begin(&conversation);
                self.begin(slot, held, conversation, waiting);
            } else {
                index += 1;
            }
        }
    }

    /// Takes out of the queue what `leaves`; says how many that are.
    pub(super) fn leave_queue(&mut self, leaves: impl Fn(&Waiting) -> bool) -> usize {
        let before = self.queue.len();
        self.queue.retain(|waiting| !leaves(waiting));
        let gone = before - self.queue.len();
        self.waiting.fetch_sub(gone, Ordering::AcqRel);
        gone
    }

    /// Whether only the lack of a slot may keep this turn waiting.
    fn is_due(&self, index: usize) -> bool {
        let waiting = &self.queue[index];
        if let Waiting::Preempted { ended, .. } = waiting
            && *ended == self.ended
        {
            return false;
        }
        let Some(conversation) = waiting.conversation() else { return true };
        let mut earlier = self.queue.iter().take(index);
        !self.registry.is_running(conversation)
            && earlier.all(|earlier| earlier.conversation() != Some(conversation))
    }

    /// The conversation's slot, and whether it had it already.
    fn pin(&mut self, conversation: &ConversationId, purpose: Purpose) -> Option<(usize, bool)> {
        let now = self.now();
        let pin = match purpose.is_prefix() {
            true => self.registry.pin_prefix(conversation, now),
            false => self.registry.pin(conversation, now),
        };
        let slot = match pin {
            Pin::Held(slot) => return Some((slot.0 as usize, true)),
            Pin::Full if purpose == Purpose::Answer && self.free_a_slot() => {
                return self.pin(conversation, purpose);
            }
            Pin::Full => return None,
            Pin::Taken(slot) => slot.0 as usize,
            Pin::Parks { slot, .. } => {
                let slot = slot.0 as usize;
                self.counters.parked += 1;
                self.save(slot);
                self.leaves(slot, 0, EvictionReason::Slot);
                self.vacate(slot);
                slot
            }
        };
        // The slot's cells may stay: whoever begins alike goes on from them.
        self.slots[slot].exported = 0;
        self.slots[slot].snapshots.clear();
        self.slots[slot].turns = 0;
        self.slots[slot].owner = Some(conversation.clone());
        Some((slot, false))
    }

    fn begin(&mut self, index: usize, held: bool, conversation: ConversationId, waiting: Waiting) {
        let mut running = match waiting {
            Waiting::New { turn, conversation: named } => {
                self.turns += 1;
                let mut sampler = Sampler::new(&turn.request.sampling);
                sampler.prime(&turn.request.prompt);
                Running {
                    number: self.turns,
                    conversation,
                    anonymous: named.is_none(),
                    sampler,
                    output: Output::new(turn.request.stop.clone()),
                    request: turn.request,
                    events: turn.events,
                    submitted: turn.at,
                    admitted: Instant::now(),
                    phase: Phase::Prefill,
                    restoring: None,
                    constraint: turn.constraint,
                    generated: 0,
                    report: TurnReport::default(),
                    started: false,
                    expected: 0,
                    changes_nothing: false,
                }
            }
            Waiting::Preempted { turn, .. } => {
                Running { phase: Phase::Prefill, restoring: None, ..*turn }
            }
        };
        let speculates = running.request.purpose == Purpose::Speculate;
        let leaves = speculates || running.is_cold() || !self.is_plain();
        if leaves && self.slots[index].wants_keeping_soon() {
            // This memory cannot go back to where it is now, or what follows is not to be kept, or
            // what is here is computed once more.
            self.save(index);
        }
        let speculated = std::mem::replace(&mut self.slots[index].speculates, speculates);
        self.slots[index].anonymous = running.anonymous;
        if held && !speculated && !running.started && !running.is_cold() {
            running.report.miss = self.turns_away(index, &running);
        }
        let whose = match (held, speculated) {
            (true, false) => Whose::Own,
            (true, true) => Whose::Speculation,
            (false, _) => Whose::Nobodys,
        };
        let was_hot = self.take_hot(index, whose, &running);
        let slot = &mut self.slots[index];
        let hot = slot.timeline.len();
        slot.at_hand = if speculated { slot.at_hand.min(hot) } else { hot };
        if !running.started {
            running.report.ahead = slot.came_ahead(slot.at_hand);
        }
        slot.keep = running.request.keep.clone();
        slot.turn = Some(running);
        self.change_log.touch();
        let slot = &mut self.slots[index];
        let whole = !std::mem::take(&mut slot.cut_short);
        self.restore(index, held && whole && hot > 0 && hot == was_hot);
    }

    /// The prompt says something else than what the conversation has in its own slot.
    fn turns_away(&self, index: usize, running: &Running) -> Option<MissReason> {
        let own = self.slots[index].timeline.tokens();
        let at = common_prefix(own, &running.request.prompt);
        (at < own.len().min(running.limit())).then(|| MissReason::differs(own, at))
    }

    /// Makes the longest hot beginning of the prompt this slot's own. Returns how many tokens the
    /// slot held before.
    fn take_hot(&mut self, index: usize, whose: Whose, running: &Running) -> usize {
        let prompt = &running.request.prompt;
        let limit = running.limit();
        self.slots[index].tail.clear();
        let before = self.slots[index].timeline.len();
        if running.is_cold() {
            self.clear(index);
            return before;
        }
        let own = common_prefix(self.slots[index].timeline.tokens(), prompt);
        if !self.is_plain() {
            // Only a whole state can be continued.
            if own < before || own > limit {
                self.not_continued(index, whose, 0);
                self.clear(index);
            }
            return before;
        }
        let own = own.min(limit);
        let id = self.slots[index].id;
        match self.radix.longest_prefix(prompt, Some(id)) {
            Some((other, length)) if length.min(limit) > own => {
                let length = length.min(limit);
                self.not_continued(index, whose, own);
                self.clear(index);
                let from = self.slots[other.0 as usize].sequence;
                self.backend.share(from, self.slots[index].sequence, 0..length);
                let shared = Origins::of(length, Origin::Shared);
                self.extend(index, &prompt[..length], &shared);
            }
            _ => {
                self.not_continued(index, whose, own);
                self.cut_back(index, own);
            }
        }
        before
    }

    /// The prompt goes on otherwise from `from` on.
    fn not_continued(&mut self, index: usize, whose: Whose, from: usize) {
        match whose {
            Whose::Own => self.leaves(index, from, EvictionReason::Differs),
            Whose::Speculation => {} // Nobody said it after all.
            Whose::Nobodys => self.leftovers_leave(index, from),
        }
    }

    /// The slot's turn is over, however it ended.
    pub(super) fn end_turn(&mut self, index: usize) {
        let now = self.now();
        let slot = &mut self.slots[index];
        let restores = slot.restores();
        let Some(turn) = slot.turn.take() else { return };
        // What is kept is as good as before when the turn did not get past it.
        slot.cut_short = restores;
        if !slot.speculates {
            slot.turns += u32::from(turn.started);
            slot.recorded &= restores || turn.changes_nothing;
        }
        (slot.unkept, slot.kept_again) = (None, false);
        self.freed = true;
        self.change_log.touch();
        self.ended += 1;
        self.registry.end(&turn.conversation, now);
        let slot = &mut self.slots[index];
        if slot.anonymous {
            slot.tail.clear();
            slot.owner = None; // Its cells stay until someone needs the slot.
            self.registry.unpin(&turn.conversation);
        }
    }
}
