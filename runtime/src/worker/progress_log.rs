//! What a turn has reported of its prompt, and how fast it computes it.

use std::time::{Duration, Instant};

use crate::turn::PromptPhase;

const EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Default)]
pub(super) struct ProgressLog {
    last: Option<(PromptPhase, Instant)>,
    /// When the turn began to compute its prompt, and how many tokens were in place then.
    reading: Option<(Instant, usize)>,
}

impl ProgressLog {
    /// Whether to report now: at each change of the phase, and between them at most once in
    /// [`EVERY`].
    pub fn take_due(&mut self, phase: PromptPhase) -> bool {
        let is_due = self.last.is_none_or(|(last, at)| last != phase || at.elapsed() >= EVERY);
        if is_due {
            self.last = Some((phase, Instant::now()));
        }
        is_due
    }

    /// The turn computes its prompt, of which `ready` tokens are in place. Returns tokens a second;
    /// `None` before its first micro-batch.
    pub fn reading(&mut self, ready: usize) -> Option<f64> {
        let (began, before) = *self.reading.get_or_insert_with(|| (Instant::now(), ready));
        let seconds = began.elapsed().as_secs_f64();
        (ready > before && seconds > 0.0).then(|| (ready - before) as f64 / seconds)
    }

    /// The turn gave up its cells.
    pub fn waiting(&mut self) {
        self.reading = None;
    }
}
