//! The speed of prefill, from which answers estimate how much time reuse saved.
//!
//! - The engine's own measurement counts. Until it has one, the speed of the last run does: a chat
//!   that is reopened after a restart computes too few tokens for a measurement.

use hob_runtime::turn::TurnReport;
use hob_slots::ModelHash;

use crate::conversations::transcript::Transcript;
use parking_lot::{Mutex, MutexGuard};

/// Changes below 10 % are not written.
const MIN_CHANGE: f64 = 0.1;

/// In tokens a second.
#[derive(Debug)]
pub struct Speed {
    transcript: Transcript,
    fingerprint: ModelHash,
    known: Mutex<KnownSpeed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct KnownSpeed {
    is_read: bool,
    now: Option<f64>,
    written: Option<f64>,
}

impl Speed {
    pub fn new(transcript: Transcript, fingerprint: ModelHash) -> Self {
        Self { transcript, fingerprint, known: Mutex::default() }
    }

    /// Whether the speed of the last run has not been read yet.
    pub fn is_unknown(&self) -> bool {
        !self.lock().is_read
    }

    /// Takes the speed of the last run, once.
    pub fn recall(&self, read: Option<f64>) {
        let mut known = self.lock();
        if !known.is_read {
            *known = KnownSpeed { is_read: true, now: known.now.or(read), written: read };
        }
    }

    /// The latest speed, updated by this turn's measurement.
    pub fn learn(&self, report: &TurnReport) -> Option<f64> {
        let mut known = self.lock();
        let Some(measured) = report.prefill_tokens_per_second else { return known.now };
        known.now = Some(measured);
        if known.written.is_none_or(|old| (measured - old).abs() > MIN_CHANGE * old) {
            known.written = Some(measured);
            self.transcript.put_prefill_speed(self.fingerprint, measured);
        }
        known.now
    }

    /// The latest speed.
    pub fn now(&self) -> Option<f64> {
        self.lock().now
    }

    fn lock(&self) -> MutexGuard<'_, KnownSpeed> {
        self.known.lock()
    }
}
