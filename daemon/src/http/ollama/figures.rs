//! The times and counts at the end of an answer, in nanoseconds and tokens.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hob_runtime::{Engine, Residency};
use serde_json::Value;

use crate::chat::answer::Answer;

/// Measures from a request's arrival.
pub struct Timer {
    began: Instant,
    /// Whether the weights were in memory.
    was_resident: bool,
    /// How long the request waited for the weights, once they are there; never set where they were.
    loaded: Arc<OnceLock<Duration>>,
}

impl Timer {
    pub fn start(engine: &Engine) -> Self {
        let (began, loaded) = (Instant::now(), Arc::new(OnceLock::new()));
        let mut residency = engine.residency();
        let was_resident = *residency.borrow() == Residency::Resident;
        if !was_resident {
            let loaded = loaded.clone();
            tokio::spawn(async move {
                let is_resident = |residency: &Residency| *residency == Residency::Resident;
                if residency.wait_for(is_resident).await.is_ok() {
                    loaded.get_or_init(|| began.elapsed());
                }
            });
        }
        Self { began, was_resident, loaded }
    }

    /// The weights are in memory: they were used, or waited for.
    pub fn note_loaded(&self) {
        if !self.was_resident {
            self.loaded.get_or_init(|| self.began.elapsed());
        }
    }

    /// Adds the times of a request that generates nothing.
    pub fn write_load(&self, body: &mut Value) {
        let total = self.began.elapsed();
        body["total_duration"] = nanos(total);
        body["load_duration"] = nanos(self.loaded.get().copied().unwrap_or_default().min(total));
    }

    /// Adds the figures of a complete answer.
    pub fn write(&self, answer: &Answer, body: &mut Value) {
        let (usage, hob) = (answer.usage(), answer.hob());
        let millis = |name: &str| {
            Duration::from_secs_f64(hob[name].as_f64().unwrap_or_default().max(0.0) / 1e3)
        };
        let to_first_token = millis("ttft_ms");
        let loading = self.loaded.get().copied().unwrap_or_default();
        self.write_load(body);
        body["prompt_eval_count"] = usage.prompt.into();
        body["prompt_eval_duration"] = nanos(to_first_token.saturating_sub(loading));
        body["eval_count"] = usage.completion.into();
        // The first token is sampled with the prompt: an answer of one token takes no time, and clients divide
        // by this figure.
        let generation = millis("total_ms").saturating_sub(to_first_token);
        body["eval_duration"] = nanos(generation.max(Duration::from_nanos(1)));
        body["hob"] = hob;
    }
}

fn nanos(duration: Duration) -> Value {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).into()
}
