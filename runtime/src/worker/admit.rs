//! From the queue into a slot: pin the conversation, share what is hot, restore what is kept.
//!
//! - Turns of one conversation are served in their order; a turn that finds no slot lets others pass
//!   that already have one.
//! - A turn that was put aside waits until another has ended: before that, it would only be put
//!   aside again.
//! - What is hot is found first and taken at once; memory and disk are asked for the rest, off the
//!   thread, and only when there can be a rest.
//! - The last token of a prompt is always computed: it gives the logits for the answer.

use std::sync::atomic::Ordering;
use std::time::Instant;

use hob_slots::{ConversationId, Pin};
use tokio::sync::mpsc;

use super::slot::{Phase, Running};
use super::{Command, Submitted, Worker};
use crate::backend::StateError;
use crate::sample::{Output, Sampler};
use crate::shelf::{Fetched, Piece, Place, Wanted, common_prefix};
use crate::splice;
use crate::turn::{TokenCounts, TurnEvent, TurnReport};

/// A turn in the queue.
pub(super) enum Waiting {
    New {
        turn: Submitted,
        conversation: Option<ConversationId>,
    },
    /// Was running and gave its cells to others, when `ended` turns had ended.
    Preempted {
        turn: Box<Running>,
        ended: u64,
    },
}

impl Waiting {
    pub fn new(turn: Submitted) -> Self {
        let conversation = turn.request.conversation.clone();
        Self::New { turn, conversation }
    }

    pub fn events(&self) -> &mpsc::UnboundedSender<TurnEvent> {
        match self {
            Self::New { turn, .. } => &turn.events,
            Self::Preempted { turn, .. } => &turn.events,
        }
    }

    fn conversation(&self) -> Option<&ConversationId> {
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
            if self.is_due(index)
                && let Some((slot, held)) = self.pin(&conversation)
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
    fn pin(&mut self, conversation: &ConversationId) -> Option<(usize, bool)> {
        let now = self.now();
        let slot = match self.registry.pin(conversation, now) {
            Pin::Held(slot) => return Some((slot.0 as usize, true)),
            Pin::Full => return None,
            Pin::Taken(slot) => slot.0 as usize,
            Pin::Parks { slot, .. } => {
                let slot = slot.0 as usize;
                self.counters.parked += 1;
                self.save(slot);
                self.vacate(slot);
                slot
            }
        };
        // The slot's cells may stay: whoever begins alike goes on from them.
        self.slots[slot].exported = 0;
        self.slots[slot].snapshots.clear();
        self.slots[slot].owner = Some(conversation.clone());
        Some((slot, false))
    }

    fn begin(&mut self, slot: usize, held: bool, conversation: ConversationId, waiting: Waiting) {
        let running = match waiting {
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
                    constraint: turn.constraint,
                    generated: 0,
                    report: TurnReport::default(),
                    started: false,
                    expected: 0,
                }
            }
            Waiting::Preempted { turn, .. } => Running { phase: Phase::Prefill, ..*turn },
        };
        if !self.is_plain() && self.slots[slot].wants_keeping_soon() {
            self.save(slot); // This memory cannot go back to where it is now.
        }
        self.slots[slot].anonymous = running.anonymous;
        let was_hot = self.take_hot(slot, &running);
        self.slots[slot].turn = Some(running);
        let hot = self.slots[slot].timeline.len();
        self.restore(slot, held && hot > 0 && hot == was_hot);
    }

    /// Makes the longest hot beginning of the prompt this slot's own. Returns how many tokens the
    /// slot held before.
    fn take_hot(&mut self, index: usize, running: &Running) -> usize {
        let prompt = &running.request.prompt;
        let limit = prompt.len() - 1;
        self.slots[index].tail.clear();
        let before = self.slots[index].timeline.len();
        let own = common_prefix(self.slots[index].timeline.tokens(), prompt);
        if !self.is_plain() {
            // Only a whole state can be continued.
            if own < before || own > limit {
                self.clear(index);
            }
            return before;
        }
        let own = own.min(limit);
        let id = self.slots[index].id;
        match self.radix.longest_prefix(prompt, Some(id)) {
            Some((other, length)) if length.min(limit) > own => {
                let length = length.min(limit);
                self.clear(index);
                let from = self.slots[other.0 as usize].sequence;
                self.backend.share(from, self.slots[index].sequence, 0..length);
                self.extend(index, &prompt[..length]);
            }
            _ => self.cut_back(index, own),
        }
        before
    }

    /// Asks memory and disk for what is not hot, unless there can be nothing: the conversation goes
    /// on where it stopped, or all of its prompt is here.
    fn restore(&mut self, index: usize, goes_on: bool) {
        let slot = &mut self.slots[index];
        let hot = slot.timeline.len();
        let turn = slot.turn.as_mut().expect("the turn was just begun");
        let limit = turn.request.prompt.len() - 1;
        turn.report.slot = Some(slot.id);
        if !turn.started {
            turn.report.tokens = TokenCounts { shared: hot, ..TokenCounts::default() };
        }
        if goes_on || hot == limit {
            turn.expected = hot;
            return;
        }
        self.fetches += 1;
        turn.phase = Phase::Restoring { fetch: self.fetches };
        let wanted = Wanted {
            conversation: (!turn.anonymous).then(|| turn.conversation.clone()),
            prompt: turn.request.prompt.clone(),
            hot,
        };
        let (commands, fetch) = (self.commands.clone(), self.fetches);
        self.shelf.fetch(wanted, move |fetched| {
            // An error: the engine stopped meanwhile, and the turn with it.
            commands.send(Command::Fetched { slot: index, fetch, fetched: Box::new(fetched) }).ok();
        });
    }

    /// Brings in what the shelf found, unless the turn is gone.
    pub(super) fn fetched(&mut self, index: usize, fetch: u64, fetched: Fetched) {
        let Some(turn) = &self.slots[index].turn else { return };
        if turn.phase != (Phase::Restoring { fetch }) {
            return;
        }
        let prompt = turn.request.prompt.clone();
        let mut counts = turn.report.tokens;
        let mut miss = fetched.miss;
        let first = self.slots[index].timeline.len();
        for piece in &fetched.pieces {
            if let Err(error) = self.bring_in(index, piece) {
                self.counters.import_failures += 1;
                miss = Some(format!("tokens from {} on: {error}", piece.wanted.start));
                break;
            }
            self.extend(index, &prompt[piece.wanted.clone()]);
            match piece.place {
                Place::Memory => counts.memory += piece.wanted.len(),
                Place::Disk => counts.disk += piece.wanted.len(),
            }
        }
        let placed = self.slots[index].timeline.len();
        if placed > first && self.backend.end(self.slots[index].sequence) != placed {
            // Nothing that was brought in can be trusted now.
            self.counters.wasted_restores += 1;
            self.clear(index);
            (counts.shared, counts.memory, counts.disk) = (0, 0, 0);
        }
        if !self.is_plain() {
            self.slots[index].snapshots = fetched.snapshots;
        }
        let limit = prompt.len() - 1;
        let differs = fetched.expected < fetched.recorded.min(limit);
        if miss.is_none() && differs {
            let (at, all) = (fetched.expected, fetched.recorded);
            miss = Some(format!("the prompt differs from what was kept at token {at} of {all}"));
        }
        let turn = self.slots[index].turn.as_mut().expect("the turn was found above");
        turn.expected = fetched.expected;
        turn.phase = Phase::Prefill;
        if !turn.started {
            turn.report.tokens = counts;
            turn.report.restore_ms = turn.admitted.elapsed().as_secs_f64() * 1e3;
            turn.report.miss = miss;
        }
    }

    fn bring_in(&mut self, index: usize, piece: &Piece) -> Result<(), StateError> {
        // llama.cpp does not tell a refused state from a full cache: make room, then try once more.
        match self.import(index, piece) {
            Err(_) if self.make_room(index) => self.import(index, piece),
            result => result,
        }
    }

    fn import(&mut self, index: usize, piece: &Piece) -> Result<(), StateError> {
        let (scratch, sequence) = (self.scratch(), self.slots[index].sequence);
        if !self.is_plain() {
            return self.backend.import(sequence, &piece.payload);
        }
        let (held, wanted) = (piece.held.clone(), piece.wanted.clone());
        splice::import(self.backend, scratch, sequence, &piece.payload, held, wanted)
    }
}
