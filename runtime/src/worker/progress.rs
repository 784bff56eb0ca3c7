//! Reports how far a prompt is, to callers that asked for it.
//!
//! - The counts are those of the slot's cells; nothing is estimated but the time that is left.

use super::Worker;
use super::slot::{Phase, Running};
use crate::turn::{PromptPhase, PromptProgress, TokenCounts, TurnEvent};

impl Running {
    /// The turn gave up its cells.
    pub fn report_waiting(&mut self) {
        self.progress.waiting();
        self.report(PromptPhase::Waiting, TokenCounts::default(), None);
    }

    /// `speed`: in tokens a second.
    fn report(&mut self, phase: PromptPhase, tokens: TokenCounts, speed: Option<f64>) {
        let is_wanted = self.request.reports_progress && !self.started;
        if !is_wanted || !self.progress.take_due(phase) {
            return;
        }
        let tokens_total = self.request.prompt.len();
        let left = tokens_total.saturating_sub(tokens.prompt()) as f64;
        self.events.send(TurnEvent::Progress(PromptProgress {
            phase,
            tokens_total,
            tokens,
            elapsed_ms: self.submitted.elapsed().as_secs_f64() * 1e3,
            seconds_left: speed.map(|speed| left / speed),
        }));
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
                let tokens = restoring.tokens;
                turn.report(PromptPhase::Restoring, tokens, None);
            }
            Phase::Prefill => {
                let reused = turn.report.tokens;
                let computed = ready.saturating_sub(reused.cached());
                let tokens = TokenCounts { computed, ..reused };
                let measured = turn.progress.reading(ready);
                let speed = measured.or_else(|| self.core.pace.rows_per_second());
                turn.report(PromptPhase::Reading, tokens, speed);
            }
            Phase::Decoding(_) => {}
        }
    }
}
