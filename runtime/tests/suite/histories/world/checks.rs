//! Invariants after every answer, and when the engine is idle.

use std::ops::Range;
use std::time::Instant;

use hob_runtime::{
    FinishReason, MissReason, Model, SlotState, SlotStatus, TurnError, TurnReport, TurnRequest,
};
use hob_slots::common_prefix;

use super::{FOREVER, Running, World, finish_async, model_of};

use crate::histories::alone::{self, Expected};
use crate::histories::recordable::Recordable;
use crate::support::*;

impl World {
    /// Waits for a turn and compares it with the same turn alone. Returns its answer.
    pub(super) fn finish(&mut self, index: usize) -> Option<Answer> {
        let Running { chat, number, request, mut turn, forgotten, .. } = self.running.remove(index);
        self.note(format!("finish chat {chat:?} turn {number}"));
        let answer = match self.patiently(finish_async(&mut turn)) {
            Ok(answer) => answer,
            Err(TurnError::Forgotten) if forgotten => return None,
            Err(error) if self.may_fail(&request, &error) => return None,
            Err(error) => panic!("{error}"),
        };
        self.compare(chat, number, &request, &answer);
        if request.conversation.is_none() {
            self.nameless.timeline.clone_from(&answer.timeline);
        }
        if let Some(chat) = chat {
            let chat = &mut self.chats[chat];
            chat.timeline = answer.timeline.clone();
            chat.asked[number - 1] = Recordable { timeline: answer.timeline.clone(), unseen: 0 };
            let is_its_own = request.adapters.set() == chat.adapters.set();
            let is_sound = !forgotten && !self.harmed && !self.is_faulty;
            let is_sound = is_sound && !chat.private && self.stores;
            if chat.turns == number && is_its_own && is_sound {
                (chat.kept, chat.cancelled_at) = (Some(answer.timeline.clone()), None);
                let mut earlier = chat.asked[..number - 1].iter();
                chat.is_covered = earlier.any(|asked| asked.may_cover(&answer.timeline));
            }
        }
        Some(answer)
    }

    pub(super) fn compare(
        &mut self,
        chat: Option<usize>,
        number: usize,
        request: &TurnRequest,
        answer: &Answer,
    ) {
        let is_whole = self.is_whole(chat, number, request, answer);
        if self.exact && is_whole {
            let cells = self.options.context_tokens;
            let ended_with_cells = answer.reason == FinishReason::Length
                && request.prompt.len() + answer.tokens.len() > cells;
            let most = match self.evicts() {
                false => cells,
                // The last token has no cell.
                true if ended_with_cells && !self.has_room(request) => cells + 1,
                true => usize::MAX,
            };
            let expected = alone::alone(&*self.model_alone(), request, most);
            let (tokens, text) = (answer.tokens.clone(), answer.text.clone());
            let answered = Expected { tokens, text, reason: answer.reason };
            assert_eq!(answered, expected, "{:?}", answer.report);
        }
        let counts = answer.report.tokens;
        assert_eq!(counts.prompt(), request.prompt.len(), "{:?}", answer.report);
        let is_background = request.purpose.is_background();
        assert!(counts.computed > 0 || is_background, "{:?}", answer.report);
        assert!(!request.cold || counts.cached() == 0, "{:?}", answer.report);
        let timeline = [&request.prompt[..], &answer.tokens].concat();
        assert_eq!(answer.timeline, timeline);
    }

    /// Whether a turn may end so in this world.
    pub(super) fn may_fail(&self, request: &TurnRequest, error: &TurnError) -> bool {
        let is_background = request.purpose.is_background();
        match error {
            TurnError::Backend(_) | TurnError::Adapter(_) => self.is_faulty,
            TurnError::Superseded | TurnError::NotResident | TurnError::Forgotten => is_background,
            // What cannot be exported, or must not be saved, cannot leave its cells.
            TurnError::TooLong { .. }
            | TurnError::BudgetTooSmall(_)
            | TurnError::CacheTooSmall { .. } => {
                let has_room = self.has_room(request);
                self.evicts() && (self.is_faulty || is_background || !has_room)
            }
            _ => false,
        }
    }

    /// Whether what leaves the turn's cells has a place, in memory or on disk.
    fn has_room(&self, request: &TurnRequest) -> bool {
        let no_memory = self.options.memory_budget_bytes < 1 << 20;
        !no_memory || (self.stores && !self.is_private(request))
    }

    /// Whether nothing of the turn reaches the disk.
    fn is_private(&self, request: &TurnRequest) -> bool {
        request.conversation.as_ref().is_none_or(|conversation| {
            let mut private = self.chats.iter().filter(|chat| chat.private);
            private.any(|chat| name(&chat.name) == *conversation)
        })
    }

    /// Whether the answer is that of its tokens alone: each saw all before it.
    fn is_whole(
        &mut self,
        chat: Option<usize>,
        number: usize,
        request: &TurnRequest,
        answer: &Answer,
    ) -> bool {
        let TurnReport { tokens, away, .. } = &answer.report;
        let cells = self.options.context_tokens;
        let budget = request.budget.map_or(cells, |budget| budget.min(cells));
        if !request.purpose.is_background() {
            assert_eq!(answer.cells.budget, budget);
        }
        assert!(answer.cells.peak <= budget, "{:?}", answer.cells);
        assert!(tokens.away <= away.iter().map(Range::len).sum(), "{:?}", answer.report);
        let computed_from = (!away.is_empty()).then_some(tokens.cached());
        let first = answer.moved.iter().map(|moved| moved.at).chain(computed_from).min();
        assert!(first.is_none() || self.evicts(), "{:?}", answer.moved);
        let evicted = match chat {
            Some(chat) => &mut self.chats[chat].evicted,
            None if request.conversation.is_none() => &mut self.nameless.evicted,
            None => return first.is_none(),
        };
        evicted.retain(|(of, ..)| *of == 0 || *of != number);
        let mut goes_on = evicted
            .iter()
            .filter(|(_, timeline, pure)| common_prefix(timeline, &request.prompt) > *pure);
        let is_whole = first.is_none() && goes_on.next().is_none();
        if let Some(first) = first {
            evicted.push((0, answer.timeline.clone(), first));
        }
        is_whole
    }

    fn model_alone(&self) -> Box<dyn Model> {
        Box::new(model_of(self.memory, self.copies))
    }

    /// Ends all turns; then a conversation that continues computes only its new tokens.
    pub(super) fn calm(&mut self) {
        while !self.running.is_empty() {
            self.finish(0);
        }
        self.check_rest();
        for chat in 0..self.chats.len() {
            let Some(kept) = self.chats[chat].kept.clone().filter(|_| self.random.one_in(2)) else {
                continue;
            };
            let cancelled_at = self.chats[chat].cancelled_at.unwrap_or(usize::MAX);
            let is_covered = self.chats[chat].is_covered;
            let may_differ_at = cancelled_at.min(kept.len());
            let parked = self.random.one_in(2);
            if parked {
                let name = name(&self.chats[chat].name);
                self.note(format!("park {name}"));
                self.patiently(self.engine.park(name));
            } else if self.roomy {
                settle(&self.engine);
            }
            let prompt = then(&self.model, &kept, "and?");
            if prompt.len() > self.longest_prompt(chat).max(self.options.context_tokens) {
                continue;
            }
            let name = self.chats[chat].name.clone();
            let adapters = self.adapters_of(chat);
            let budget = self.chats[chat].budget;
            let request = TurnRequest { adapters, budget, ..request(&name, &prompt, 3) };
            self.submit_as(Some(chat), request);
            let report = self.finish(0).expect("the turn succeeds").report;
            // Without room, the tail of the answer is computed with the next prompt.
            let unseen = usize::from(!self.roomy);
            // A cancelled answer that repeats `kept` and goes on has snapshots after its end instead.
            // After one that differs, a branch that `kept` begins has only its furthest snapshot.
            let has_others = |miss: &MissReason| matches!(miss, MissReason::Differs { at, .. } if *at >= kept.len() || is_covered);
            let outgrown = !self.memory.is_plain() && report.miss.as_ref().is_some_and(has_others);
            let from = if outgrown { kept.len().min(cancelled_at - 1) } else { kept.len() };
            let new = prompt.len() - from;
            assert!(report.tokens.computed <= new + unseen, "{new} tokens are new: {report:?}");
            // The record may cover more than `kept`, or the answer of a turn that was cancelled.
            let is_allowed = |miss: &MissReason| matches!(miss, MissReason::Differs { at, .. } if *at >= may_differ_at);
            assert_eq!(report.miss.filter(|miss| self.roomy && !is_allowed(miss)), None);
        }
    }

    fn check_rest(&self) {
        let rests = |slot: &SlotStatus| matches!(slot.state, SlotState::Idle | SlotState::Free);
        let began = Instant::now();
        let status = loop {
            let status = self.patiently(self.engine.status()).expect("the engine runs");
            if status.waiting == 0 && status.slots.iter().all(rests) {
                break status;
            }
            // A turn that was cancelled ends with its micro-batch.
            assert!(began.elapsed() < FOREVER, "{status:?}");
        };
        for slot in &status.slots {
            assert_eq!(slot.conversation.is_some(), slot.state == SlotState::Idle, "{status:?}");
            assert!(self.evicts() || slot.tokens <= self.options.context_tokens, "{status:?}");
        }
        assert_eq!(status.counters.import_failures, 0, "{:?}", status.counters);
        assert_eq!(status.counters.wasted_restores, 0, "{:?}", status.counters);
        assert_eq!(status.counters.write_errors, 0, "{:?}", status.counters);
    }
}
