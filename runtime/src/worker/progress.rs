//! Reports how far a prompt is, to callers that asked for it.
//!
//! - Between two micro-batches, the counts are those of the slot's cells. Within a long one, its
//!   rows count as the nodes of its graph: in proportion. A cut takes these back.
//! - The time that is left is estimated.

use std::time::Instant;

use super::Worker;
use super::plan::Plan;
use super::running::{Phase, Running};
use crate::turn::{PromptPhase, PromptProgress, TokenCounts, TurnEvent};
use crate::watcher::Watch;

/// What stays the same in the reports of one prompt.
#[derive(Clone, Copy)]
struct Prompt {
    submitted: Instant,
    tokens_total: usize,
}

impl Prompt {
    /// `speed`: in tokens a second.
    fn progress(self, phase: PromptPhase, tokens: TokenCounts, speed: Option<f64>) -> TurnEvent {
        let left = self.tokens_total.saturating_sub(tokens.prompt()) as f64;
        TurnEvent::Progress(PromptProgress {
            phase,
            tokens_total: self.tokens_total,
            tokens,
            elapsed_ms: self.submitted.elapsed().as_secs_f64() * 1e3,
            seconds_left: speed.map(|speed| left / speed),
        })
    }
}

impl Running {
    /// The turn gave up its cells.
    pub fn report_waiting(&mut self) {
        self.progress.waiting();
        self.report(PromptPhase::Waiting, TokenCounts::default(), None);
    }

    fn report(&mut self, phase: PromptPhase, tokens: TokenCounts, speed: Option<f64>) {
        if self.wants_progress() && self.progress.take_due(phase) {
            self.events.send(self.prompt().progress(phase, tokens, speed));
        }
    }

    fn wants_progress(&self) -> bool {
        self.request.reports_progress && !self.started
    }

    fn prompt(&self) -> Prompt {
        Prompt { submitted: self.submitted, tokens_total: self.request.prompt.len() }
    }

    /// The prompt's tokens, of which `ready` are in place.
    fn counts(&self, ready: usize) -> TokenCounts {
        let reused = self.report.tokens;
        TokenCounts { computed: ready.saturating_sub(reused.cached()), ..reused }
    }
}

impl Worker<'_> {
    /// Reports the slot's prompt, unless its answer has begun.
    pub(super) fn report_progress(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(turn) = &mut slot.turn else { return };
        let ready = slot.timeline.len();
        match &turn.phase {
            Phase::Restoring(restoring) => {
                let mut tokens = restoring.tokens;
                if restoring.chunk.is_some() {
                    tokens.computed = ready.saturating_sub(tokens.cached());
                }
                turn.report(PromptPhase::Restoring, tokens, None);
            }
            Phase::Prefill => {
                let measured = turn.progress.reading(ready);
                let speed = measured.or_else(|| self.core.pace.rows_per_second());
                turn.report(PromptPhase::Reading, turn.counts(ready), speed);
            }
            Phase::Decoding(_) => {}
        }
    }

    /// Reports the prompt of `plan` while llama.cpp computes it. `None` where the request asks for no
    /// reports, or no micro-batch has shown the number of nodes yet.
    pub(super) fn progress_within(&self, plan: &Plan) -> Option<Watch> {
        let (first, nodes) = (self.core.pulse.beats(), self.core.graph_nodes);
        let share = plan.shares.first().filter(|_| nodes > 0)?;
        let slot = &self.slots[share.slot];
        let turn = slot.turn.as_ref().filter(|turn| turn.wants_progress())?;
        let (events, prompt, mut log) = (turn.events.clone(), turn.prompt(), turn.progress.clone());
        let (ready, counts) = (slot.timeline.len(), turn.counts(slot.timeline.len()));
        let rows = share.tokens.len();
        let known_speed = self.core.pace.rows_per_second();
        Some(Box::new(move |beats| {
            if log.take_due(PromptPhase::Reading) {
                let computed = (beats - first).min(nodes) as f64 / nodes as f64 * rows as f64;
                let computed = computed as usize;
                let tokens = TokenCounts { computed: counts.computed + computed, ..counts };
                let speed = log.reading(ready + computed).or(known_speed);
                events.send(prompt.progress(PromptPhase::Reading, tokens, speed));
            }
        }))
    }
}
