//! What one choice has cost so far, and why it ended: for protocols that report each choice by itself.

use std::time::Instant;

use hob_runtime::turn::{DraftCounts, FinishReason, TurnReport};
use serde_json::{Value, json};

use super::progress::Report;
use crate::wire::answer::Usage;

/// Why a choice ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model ended it, or its form was complete.
    End,
    /// At this text.
    Word(String),
    Limit,
}

#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub slot: Option<u32>,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// The part of `prompt` that was reused.
    pub cached: usize,
    /// From the request's arrival in the engine to the first token, waiting included.
    prompt_ms: f64,
    /// Generated tokens so far, the one that ended the choice included.
    pub predicted: usize,
    /// The part of `predicted` between think marks.
    pub(super) reasoning: usize,
    first_token: Option<Instant>,
    generation_ms: Option<f64>,
    drafts: DraftCounts,
    /// `None`: it goes on.
    pub stop: Option<Stop>,
    pub is_context_full: bool,
}

/// The end of a choice.
pub(super) struct End {
    pub reason: FinishReason,
    pub stop_text: Option<String>,
    pub completion_tokens: usize,
    pub generation_ms: f64,
    pub drafts: DraftCounts,
    /// The request's limit.
    pub max_tokens: Option<usize>,
}

impl Figures {
    pub(super) fn begin(&mut self, report: &TurnReport) {
        self.slot = report.slot.map(|slot| slot.0);
        self.prompt = report.tokens.prompt();
        self.cached = report.tokens.cached();
        self.prompt_ms = report.ttft_ms;
        self.first_token = Some(Instant::now());
    }

    pub(super) fn has_begun(&self) -> bool {
        self.first_token.is_some()
    }

    /// Where the prompt is counted behind the answer.
    pub(super) fn count_prompt(&mut self, prompt: usize, cached: usize) {
        (self.prompt, self.cached) = (prompt, cached);
    }

    /// Since the first token.
    pub(super) fn generation_so_far_ms(&self) -> f64 {
        self.first_token.map_or(0.0, |first| first.elapsed().as_secs_f64() * 1e3)
    }

    pub(super) fn end(&mut self, end: End) {
        self.predicted = end.completion_tokens;
        self.generation_ms = Some(end.generation_ms);
        self.drafts = end.drafts;
        self.stop = Some(match (end.stop_text, end.reason) {
            (Some(text), _) => Stop::Word(text),
            (None, FinishReason::Stop) => Stop::End,
            (None, FinishReason::Length | FinishReason::Time) => Stop::Limit,
        });
        let is_cut = end.reason == FinishReason::Length;
        self.is_context_full = is_cut && is_context_full(self.predicted, end.max_tokens);
    }

    /// The tokens of this choice alone.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            prompt: self.prompt,
            cached: self.cached,
            completion: self.predicted,
            reasoning: self.reasoning,
            drafts: self.drafts,
        }
    }

    /// llama-server's `timings`. The first token is sampled with the prompt: the speed is that of the others.
    pub fn timings(&self) -> Value {
        let predicted_ms = self.generation_ms.unwrap_or_else(|| self.generation_so_far_ms());
        let computed = self.prompt - self.cached;
        let further = self.predicted.saturating_sub(1);
        let mut timings = json!({
            "cache_n": self.cached,
            "prompt_n": computed,
            "prompt_ms": self.prompt_ms,
            "prompt_per_token_ms": ratio(self.prompt_ms, computed as f64),
            "prompt_per_second": ratio(computed as f64 * 1e3, self.prompt_ms),
            "predicted_n": self.predicted,
            "predicted_ms": predicted_ms,
            "predicted_per_token_ms": ratio(predicted_ms, further as f64),
            "predicted_per_second": ratio(further as f64 * 1e3, predicted_ms),
        });
        if self.drafts.drafted > 0 {
            timings["draft_n"] = self.drafts.drafted.into();
            timings["draft_n_accepted"] = self.drafts.accepted.into();
        }
        timings
    }

    /// The timings of a prompt that is still being computed.
    pub fn timings_of(report: &Report) -> Value {
        let (cached, computed, elapsed_ms) = report.counts();
        let prompt_ms = if computed == 0 { 0.0 } else { elapsed_ms };
        Self { prompt: cached + computed, cached, prompt_ms, ..Self::default() }.timings()
    }
}

/// Whether the context and not the request's limit has cut an answer. `tokens`: 0 where an engine at another address
/// counted none; then the limit counts.
pub(super) fn is_context_full(tokens: usize, max_tokens: Option<usize>) -> bool {
    max_tokens.is_none_or(|max| (1..max).contains(&tokens))
}

/// 0 where nothing was counted.
fn ratio(of: f64, by: f64) -> f64 {
    if by > 0.0 { of / by } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(completion_tokens: usize, stop_text: Option<&str>) -> Figures {
        let mut figures = Figures::default();
        figures.end(End {
            reason: FinishReason::Length,
            stop_text: stop_text.map(str::to_owned),
            completion_tokens,
            generation_ms: 30.0,
            drafts: DraftCounts::default(),
            max_tokens: Some(16),
        });
        figures
    }

    #[test]
    fn the_speed_leaves_out_the_first_token() {
        let timings = ended(16, None).timings();
        assert_eq!(timings["predicted_per_second"], json!(500.0));
        assert_eq!(timings["predicted_per_token_ms"], json!(2.0));
        assert_eq!(ended(1, None).timings()["predicted_per_second"], json!(0.0));
    }

    #[test]
    fn an_answer_below_its_limit_was_cut_by_the_context() {
        assert!(ended(15, None).is_context_full);
        assert!(!ended(16, None).is_context_full);
        assert!(!ended(0, None).is_context_full, "the tokens are unknown");
        assert_eq!(ended(3, Some("x")).stop, Some(Stop::Word("x".into())));
    }
}
