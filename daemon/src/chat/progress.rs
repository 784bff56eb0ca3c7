//! What a client reads before its answer: how far the prompt is.
//!
//! - The first report comes at once, before the engine has seen the turn.
//! - While the weights load, the engine's thread reports nothing: the load is read from the residency,
//!   at most once in [`EVERY`].

use std::time::{Duration, Instant};

use hob_api::Progress;
use hob_runtime::turn::{PromptPhase, PromptProgress};
use hob_runtime::{Engine, Residency};
use serde_json::{Value, json};
use tokio::sync::watch;

const EVERY: Duration = Duration::from_millis(100);

/// A report, in two forms.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    progress: Progress,
    elapsed_ms: f64,
}

impl Report {
    /// `hob.progress`
    pub fn to_json(&self) -> Value {
        serde_json::to_value(&self.progress).expect("texts and numbers are JSON")
    }

    /// Tokens that need no computing, those that are computed, and milliseconds since the request.
    pub fn counts(&self) -> (usize, usize, f64) {
        let Progress { tokens_ready, tokens_computed, .. } = self.progress;
        (tokens_ready - tokens_computed, tokens_computed, self.elapsed_ms)
    }

    /// llama-server's `prompt_progress`. `cache`: tokens that need no computing; `processed`: all
    /// that are in place.
    pub fn to_llama_server(&self) -> Value {
        let Progress { tokens_total, tokens_ready, tokens_computed, .. } = self.progress;
        json!({
            "total": tokens_total,
            "cache": tokens_ready - tokens_computed,
            "processed": tokens_ready,
            "time_ms": self.elapsed_ms.round(),
        })
    }
}

impl From<PromptProgress> for Report {
    fn from(reported: PromptProgress) -> Self {
        let PromptProgress { phase, tokens_total, tokens, elapsed_ms, seconds_left } = reported;
        let phase = match phase {
            PromptPhase::Waiting => "waiting",
            PromptPhase::Restoring => "restoring",
            PromptPhase::Reading => "reading",
        };
        let progress = Progress {
            phase: phase.into(),
            loaded_percent: None,
            tokens_total,
            tokens_ready: tokens.prompt(),
            tokens_shared: tokens.shared,
            tokens_from_memory: tokens.memory,
            tokens_from_disk: tokens.disk,
            tokens_away: tokens.away,
            tokens_moved: tokens.moved,
            tokens_computed: tokens.computed,
            seconds_left: seconds_left.map(|seconds| (seconds * 10.0).round() / 10.0),
        };
        Self { progress, elapsed_ms }
    }
}

/// Reports a turn that the engine has not begun.
#[derive(Debug)]
pub(super) struct BeforeTheEngine {
    residency: watch::Receiver<Residency>,
    tokens_total: usize,
    began: Instant,
    last: Instant,
}

impl BeforeTheEngine {
    pub fn new(engine: &Engine, tokens_total: usize) -> Self {
        let now = Instant::now();
        Self { residency: engine.residency(), tokens_total, began: now, last: now }
    }

    /// What is known at once.
    pub fn first(&self) -> Report {
        self.report(match *self.residency.borrow() {
            Residency::Resident => None,
            Residency::Unloaded => Some(0),
            Residency::Loading { percent } => Some(percent),
        })
    }

    /// The next report of the load; pending while there is none. It may be cancelled.
    pub async fn loading(&mut self) -> Report {
        while self.residency.changed().await.is_ok() {
            self.residency.mark_changed(); // Until it is read: the sleep may be cancelled.
            tokio::time::sleep_until((self.last + EVERY).into()).await;
            let percent = self.residency.borrow_and_update().loaded_percent();
            if percent.is_some() {
                self.last = Instant::now();
                return self.report(percent);
            }
        }
        std::future::pending().await // The engine has stopped; its turn says so.
    }

    fn report(&self, loaded_percent: Option<u8>) -> Report {
        let phase = if loaded_percent.is_some() { "loading" } else { "waiting" };
        let progress = Progress {
            phase: phase.into(),
            loaded_percent,
            tokens_total: self.tokens_total,
            ..Progress::default()
        };
        Report { progress, elapsed_ms: self.began.elapsed().as_secs_f64() * 1e3 }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_report_is_lost_where_the_wait_for_it_is_cancelled() {
        let (sender, residency) = watch::channel(Residency::Unloaded);
        let now = Instant::now();
        let mut before = BeforeTheEngine { residency, tokens_total: 1, began: now, last: now };
        sender.send_replace(Residency::Loading { percent: 7 });
        let cancelled = timeout(EVERY / 100, before.loading()).await;
        assert!(cancelled.is_err(), "it is too early");
        let report = timeout(EVERY * 2, before.loading()).await.unwrap();
        assert_eq!(report.progress.loaded_percent, Some(7));
    }
}
