//! How fast the model computes prompts, to tell people what reuse saved.
//!
//! - What the engine measured since it started counts; before that, what was measured the last time:
//!   a chat that is reopened after a restart computes too little to measure anything.
//! - An estimate: losing it loses nothing else.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hob_runtime::turn::TurnReport;

use super::Service;

/// A speed that changed by less than this part is not written down again.
const WORTH_WRITING: f64 = 0.1;

/// What is known, in tokens a second.
#[derive(Debug, Default)]
pub struct Speed(Mutex<Known>);

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    is_read: bool,
    now: Option<f64>,
    written: Option<f64>,
}

impl Speed {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Reads what was measured the last time, once.
    pub(super) async fn recall_speed(&self) {
        if std::mem::replace(&mut self.inner.speed.lock().is_read, true) {
            return;
        }
        let read = self.inner.transcript.prefill_speed(self.engine().fingerprint()).done().await;
        let read = read.unwrap_or_else(|error| {
            tracing::warn!(%error, "what reuse saves is told once speed is measured");
            None
        });
        let mut known = self.inner.speed.lock();
        known.now = known.now.or(read);
        known.written = read;
    }

    /// The latest of what is known, with what this turn tells.
    pub(super) fn learn_speed(&self, report: &TurnReport) -> Option<f64> {
        let mut known = self.inner.speed.lock();
        let Some(measured) = report.prefill_tokens_per_second else { return known.now };
        known.now = Some(measured);
        if known.written.is_none_or(|old| (measured - old).abs() > WORTH_WRITING * old) {
            known.written = Some(measured);
            self.inner.transcript.put_prefill_speed(self.engine().fingerprint(), measured);
        }
        known.now
    }
}
