//! The events of an engine at another address, which has parsed the text.

use hob_runtime::turn::{DraftCounts, FinishReason, TurnReport};

use super::held::TokenRun;
use super::partial::{Growth, PartialChoice};
use super::{Answer, Piece};
use crate::chat::assembly::Delta;
use crate::chat::figures::End;
use crate::chat::source::{Forwarded, logprobs_of};
use crate::error::ApiError;
use crate::upstream::{Event, UpstreamError};
use crate::wire::answer::EndReason;

impl Answer {
    /// What the engine says of a choice that was not asked for is dropped.
    pub(super) fn handle_upstream_event(&mut self, event: Event) {
        match event {
            Event::More { choice, content, reasoning, tool_calls, logprobs } => {
                if choice >= self.partial.len() {
                    return;
                }
                self.begin_upstream(choice);
                let partial = &mut self.partial[choice];
                let delta = partial.assembly.accept(Delta { content, reasoning, tool_calls });
                if choice == 0 {
                    self.context.recording.flush(|| partial.assembly.message());
                }
                let run = TokenRun { logprobs: logprobs_of(logprobs), ..TokenRun::default() };
                self.more(choice, Growth { delta, run });
            }
            Event::Usage(usage) => {
                self.context.metrics.generated(usage.completion, DraftCounts::default());
                let counted = &mut self.account.usage;
                counted.prompt = usage.prompt;
                counted.cached = usage.cached.min(usage.prompt);
                counted.completion = usage.completion;
                counted.reasoning = usage.reasoning;
            }
            Event::End { choice, reason, stop_text } => {
                if choice >= self.partial.len() {
                    return;
                }
                self.begin_upstream(choice);
                self.end_upstream(choice, EndReason::parse(&reason), stop_text);
            }
        }
    }

    /// Checks that every choice has ended, once the engine sends nothing more. Many engines ignore `n`.
    ///
    /// # Errors
    /// When the engine at another address has given fewer choices than it was asked for.
    pub(super) fn check_all_given(&self) -> Result<(), ApiError> {
        let Some(forwarded) = self.source.upstream() else { return Ok(()) };
        let is_given = |partial: &&PartialChoice| partial.figures.stop.is_some();
        let (given, asked) = (self.partial.iter().filter(is_given).count(), self.partial.len());
        if given == asked {
            return Ok(());
        }
        Err(UpstreamError::TooFew { url: forwarded.url.clone(), given, asked }.into())
    }

    /// The first event of a choice: its prompt is computed.
    fn begin_upstream(&mut self, choice: usize) {
        if self.partial[choice].figures.has_begun() {
            return;
        }
        if let Some(forwarded) = self.source.upstream() {
            self.context.head.model.clone_from(&forwarded.model);
        }
        let waited_ms = self.source.upstream().map_or(0.0, Forwarded::elapsed_ms);
        let report = TurnReport { ttft_ms: waited_ms, ..TurnReport::default() };
        self.partial[choice].figures.begin(&report);
        if choice == 0 {
            self.account.add_prompt(report);
        }
        self.ready.push_back(Piece::Begin { choice });
    }

    fn end_upstream(
        &mut self,
        choice: usize,
        reason: Option<EndReason>,
        stop_text: Option<String>,
    ) {
        let is_cut = reason == Some(EndReason::Length);
        let (ended, usage) =
            (if is_cut { FinishReason::Length } else { FinishReason::Stop }, self.account.usage);
        // The engine counts all choices together.
        let completion_tokens = if self.partial.len() == 1 { usage.completion } else { 0 };
        let partial = &mut self.partial[choice];
        partial.figures.count_prompt(usage.prompt, usage.cached);
        let generation_ms = partial.figures.generation_so_far_ms();
        partial.figures.end(End {
            reason: ended,
            stop_text: stop_text.clone(),
            completion_tokens,
            generation_ms,
            drafts: DraftCounts::default(),
            max_tokens: self.max_tokens,
        });
        partial.reason = match reason {
            Some(cut @ (EndReason::Length | EndReason::ContentFilter)) => cut,
            _ if partial.assembly.calls_tools() => EndReason::ToolCalls,
            _ => EndReason::Stop,
        };
        if choice == 0 {
            self.stop_text = stop_text;
            self.account.end_first(ended, completion_tokens, generation_ms, self.max_tokens);
        }
        self.conclude(choice, Growth::default(), Vec::new());
    }
}
