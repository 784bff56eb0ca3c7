//! The speed of prefill, from which answers estimate how much time reuse saved.
//!
//! - The engine's own measurement counts. Until it has one, the speed of the last run does: a chat
//!   that is reopened after a restart computes too few tokens for a measurement.
//! - It is written behind the end of an answer: the client waits for that end, and each write for the disk.

use std::time::{Duration, Instant};

use hob_runtime::turn::TurnReport;
use hob_slots::ModelHash;

use crate::conversations::transcript::Transcript;
use parking_lot::{Mutex, MutexGuard};

/// Changes below 10 % are not written.
const MIN_CHANGE: f64 = 0.1;

/// At least between two writes: short prompts and long ones are computed at different speeds, and take turns.
const BETWEEN_WRITES: Duration = Duration::from_secs(60);

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
    /// By this run.
    written_at: Option<Instant>,
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
            let now = known.now.or(read);
            *known = KnownSpeed { is_read: true, now, written: read, ..*known };
        }
    }

    /// The latest speed, updated by this turn's measurement.
    pub fn learn(&self, report: &TurnReport) -> Option<f64> {
        let mut known = self.lock();
        known.now = report.prefill_tokens_per_second.or(known.now);
        known.now
    }

    /// Writes the latest speed in the background, if it has changed and was not written a moment ago.
    pub fn save(&self) {
        let mut known = self.lock();
        let Some(now) = known.now else { return };
        let has_changed = known.written.is_none_or(|old| (now - old).abs() > MIN_CHANGE * old);
        if has_changed && known.written_at.is_none_or(|at| at.elapsed() >= BETWEEN_WRITES) {
            (known.written, known.written_at) = (Some(now), Some(Instant::now()));
            self.transcript.put_prefill_speed(self.fingerprint, now);
        }
    }

    /// The latest speed.
    pub fn now(&self) -> Option<f64> {
        self.lock().now
    }

    fn lock(&self) -> MutexGuard<'_, KnownSpeed> {
        self.known.lock()
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::Timestamp;

    use super::*;

    const MODEL: ModelHash = ModelHash([1; 8]);

    async fn written(speed: &Speed) -> Option<f64> {
        speed.transcript.prefill_speed(MODEL).done().await.unwrap()
    }

    #[tokio::test]
    async fn a_speed_that_has_changed_is_written_when_it_is_saved_and_not_when_it_is_learned() {
        let transcript = Transcript::in_memory(Timestamp(0)).unwrap();
        let speed = Speed::new(transcript, MODEL);
        let learn = |measured| {
            let prefill_tokens_per_second = Some(measured);
            let report = TurnReport { prefill_tokens_per_second, ..TurnReport::default() };
            assert_eq!(speed.learn(&report), Some(measured));
        };
        speed.recall(Some(50.0));
        for (measured, saved) in [(54.0, None), (56.0, Some(56.0)), (90.0, Some(56.0))] {
            let before = written(&speed).await;
            learn(measured);
            assert_eq!(written(&speed).await, before);
            speed.save();
            assert_eq!(written(&speed).await, saved, "{measured}");
        }
    }
}
