//! An answer under way: events of its turns in, pieces for the client out.
//!
//! - Nothing is handed out before the request's text is on the disk, and no end before the
//!   answer's text is.
//! - The wait for a piece may be cancelled and taken up again; nothing is lost.
//! - Dropping it cancels the turns, and the transcript keeps what was heard.

use std::collections::VecDeque;

use hob_runtime::turn::{FinishReason, Logprobs, TokenCounts, TurnEvent, TurnReport};
use hob_slots::{ConversationId, Token};
use serde_json::{Value, json};

use super::Service;
use super::assembly::{Assembly, Delta};
use super::choices::Choices;
use super::conversation_locks::ConversationGuard;
use super::recording::Recording;
use crate::error::ApiError;
use crate::explain::{Explanation, Subject};
use crate::idle::Speaking;
use crate::transcript::Pending;
use crate::wire::answer::{Head, Usage};
use crate::wire::message::Message;

/// Something to tell the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// A choice has begun: its prompt is computed.
    Begin {
        /// Which one.
        choice: usize,
    },
    /// More of a choice.
    More {
        /// Which one.
        choice: usize,
        /// What is new.
        delta: Delta,
        /// Of the tokens since the last piece, where they were asked for.
        logprobs: Vec<Logprobs>,
    },
    /// A choice is complete.
    End {
        /// Which one.
        choice: usize,
        /// OpenAI's `finish_reason`.
        reason: &'static str,
    },
}

/// One whole choice.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The answer.
    pub message: Message,
    /// OpenAI's `finish_reason`.
    pub reason: &'static str,
    /// Of its tokens, where they were asked for.
    pub logprobs: Vec<Logprobs>,
}

/// An answer under way.
pub struct Answering {
    service: Service,
    head: Head,
    conversation: Option<ConversationId>,
    choices: Choices,
    growing: Vec<Growing>,
    /// Choices of one prompt; the first of each tells where the prompt came from.
    choices_per_prompt: usize,
    recording: Recording,
    _pass: Option<ConversationGuard>,
    _speaking: Option<Speaking>,
    ready: VecDeque<Piece>,
    /// The end of the recorded choice waits for the disk.
    closing: Option<(Pending<()>, Piece)>,
    report: TurnReport,
    /// Of the first prompt, the only one that may belong to a conversation.
    subject: Subject,
    explanation: Option<Explanation>,
    usage: Usage,
    failed: bool,
}

struct Growing {
    assembly: Assembly,
    logprobs: Vec<Logprobs>,
    reason: &'static str,
}

/// What an [`Answering`] is made of.
pub(super) struct Begun {
    pub head: Head,
    pub conversation: Option<ConversationId>,
    pub choices: Choices,
    pub assemblies: Vec<Assembly>,
    pub choices_per_prompt: usize,
    pub recording: Recording,
    pub subject: Subject,
    pub guard: Option<ConversationGuard>,
}

impl Answering {
    pub(super) fn new(service: Service, begun: Begun) -> Self {
        let growing = |assembly| Growing { assembly, logprobs: Vec::new(), reason: "stop" };
        Self {
            _speaking: service.announce(begun.conversation.as_ref()),
            head: begun.head,
            conversation: begun.conversation,
            choices: begun.choices,
            growing: begun.assemblies.into_iter().map(growing).collect(),
            choices_per_prompt: begun.choices_per_prompt,
            recording: begun.recording,
            _pass: begun.guard,
            ready: VecDeque::new(),
            closing: None,
            report: TurnReport::default(),
            subject: begun.subject,
            explanation: None,
            usage: Usage::default(),
            failed: false,
            service,
        }
    }

    /// What every object of this answer repeats.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Tokens so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// What happened to the prompt: the `hob` object.
    pub fn hob(&self) -> Value {
        let (tokens, ahead) = (self.report.tokens, self.report.ahead);
        let rows = self.recording.rows();
        json!({
            "conversation": self.conversation,
            "message": rows.map(|rows| rows.answer),
            "parent": rows.map(|rows| rows.parent),
            "slot": self.report.slot.map(|slot| slot.0),
            "cold": self.report.cold,
            "tokens": {
                "shared": tokens.shared,
                "memory": tokens.memory,
                "disk": tokens.disk,
                "computed": tokens.computed,
            },
            "ahead": {
                "memory": ahead.memory,
                "disk": ahead.disk,
                "computed": ahead.computed,
            },
            "restore_ms": to_micros(self.report.restore_ms),
            "ttft_ms": to_micros(self.report.ttft_ms),
            "saved_ms": saved_ms(&self.report).map(to_micros),
            "miss": self.report.miss.as_ref().map(ToString::to_string),
            "explanation": self.explanation.as_ref().map(Explanation::to_json),
        })
    }

    /// Where its text is, for those who want to name it while it grows; `None` for a request that
    /// belongs to nobody.
    pub fn address(&self) -> Option<Value> {
        let rows = self.recording.rows()?;
        Some(json!({
            "conversation": self.conversation,
            "message": rows.answer,
            "parent": rows.parent,
        }))
    }

    /// The next piece; `None` at the end, and after an error.
    pub async fn next(&mut self) -> Option<Result<Piece, ApiError>> {
        match self.try_next().await {
            Ok(piece) => piece.map(Ok),
            Err(error) => {
                self.break_off();
                Some(Err(error))
            }
        }
    }

    /// What there is of a choice so far.
    pub fn message(&self, choice: usize) -> Message {
        self.growing[choice].assembly.message()
    }

    /// The whole answer: one entry a choice.
    pub async fn collect(&mut self) -> Result<Vec<Choice>, ApiError> {
        let mut logprobs = vec![Vec::new(); self.growing.len()];
        while let Some(piece) = self.next().await {
            if let Piece::More { choice, logprobs: more, .. } = piece? {
                logprobs[choice].extend(more);
            }
        }
        let whole = |(growing, logprobs): (&Growing, _)| Choice {
            message: growing.assembly.message(),
            reason: growing.reason,
            logprobs,
        };
        Ok(self.growing.iter().zip(logprobs).map(whole).collect())
    }

    async fn try_next(&mut self) -> Result<Option<Piece>, ApiError> {
        loop {
            if self.failed {
                return Ok(None);
            }
            self.recording.stored().await?;
            if let Some((pending, _)) = &mut self.closing {
                pending.done().await?;
                self.ready.extend(self.closing.take().map(|(_, end)| end));
            }
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            let Some((choice, event)) = self.choices.next().await else { return Ok(None) };
            self.take(choice, event)?;
        }
    }

    fn take(&mut self, choice: usize, event: TurnEvent) -> Result<(), ApiError> {
        match event {
            TurnEvent::Started(mut report) => {
                self.service.metrics().started(&report);
                report.prefill_tokens_per_second = self.service.learn_speed(&report);
                if choice == 0 {
                    self.explain(&report);
                }
                if choice.is_multiple_of(self.choices_per_prompt) {
                    self.add_report(report);
                }
                self.ready.push_back(Piece::Begin { choice });
            }
            TurnEvent::Token { token, text, logprobs } => {
                self.token(choice, token, &text, logprobs);
            }
            TurnEvent::Finished { reason, text, completion_tokens, timeline } => {
                self.service.metrics().generated(completion_tokens);
                self.usage.completion += completion_tokens;
                self.finish(choice, reason, &text, timeline);
            }
            TurnEvent::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// What its conversation had and lost. An anonymous request had nothing.
    fn explain(&mut self, report: &TurnReport) {
        let subject = std::mem::take(&mut self.subject);
        let Some(conversation) = &self.conversation else { return };
        let vocabulary = self.service.engine().model().vocabulary();
        if let Some(found) = Explanation::of(&subject, report, vocabulary) {
            self.service.metrics().missed(found.reason);
            self.recording.explain(conversation, &found);
            self.explanation = Some(found);
        }
    }

    /// With several prompts, the counts are those of all; the rest is of the first.
    fn add_report(&mut self, report: TurnReport) {
        self.usage.prompt += report.tokens.prompt();
        self.usage.cached += report.tokens.cached();
        let before = self.report.tokens;
        let first = before == TokenCounts::default();
        let sum = TokenCounts {
            shared: before.shared + report.tokens.shared,
            memory: before.memory + report.tokens.memory,
            disk: before.disk + report.tokens.disk,
            computed: before.computed + report.tokens.computed,
        };
        if first {
            self.report = report;
        }
        self.report.tokens = sum;
    }

    fn token(&mut self, choice: usize, token: Token, text: &str, logprobs: Option<Logprobs>) {
        let growing = &mut self.growing[choice];
        let delta = growing.assembly.push(text);
        self.usage.reasoning += usize::from(growing.assembly.is_reasoning());
        let ends = self.service.engine().model().vocabulary().is_eog(token);
        growing.logprobs.extend(logprobs.filter(|_| !ends));
        if choice == 0 {
            self.recording.heard(token, || growing.assembly.message());
        }
        if !delta.is_empty() {
            self.more(choice, delta);
        }
    }

    fn finish(&mut self, choice: usize, reason: FinishReason, text: &str, timeline: Vec<Token>) {
        let growing = &mut self.growing[choice];
        let mut delta = growing.assembly.push(text);
        delta.append(growing.assembly.finish());
        growing.reason = match reason {
            _ if growing.assembly.calls_tools() => "tool_calls",
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        };
        let end = Piece::End { choice, reason: growing.reason };
        self.more(choice, delta);
        if choice == 0 {
            let finish = json!({
                "finish_reason": self.growing[0].reason,
                "model": self.head.model,
                "usage": self.usage.to_json(),
                "hob": self.hob(),
            });
            let message = self.growing[0].assembly.message();
            if let Some(pending) = self.recording.finish(&message, &finish, timeline) {
                self.closing = Some((pending, end));
                return;
            }
        }
        self.ready.push_back(end);
    }

    /// Log-probabilities wait for the text that they belong to.
    fn more(&mut self, choice: usize, delta: Delta) {
        let logprobs = std::mem::take(&mut self.growing[choice].logprobs);
        if !delta.is_empty() || !logprobs.is_empty() {
            self.ready.push_back(Piece::More { choice, delta, logprobs });
        }
    }

    fn break_off(&mut self) {
        self.failed = true;
        let assembly = &mut self.growing[0].assembly;
        self.recording.interrupt(|| {
            assembly.finish();
            assembly.message()
        });
    }
}

/// What computing the reused tokens would have taken, at the measured speed of prefill.
fn saved_ms(report: &TurnReport) -> Option<f64> {
    let speed = report.prefill_tokens_per_second?;
    let reused = report.tokens.cached();
    (reused > 0).then(|| reused as f64 / speed * 1e3)
}

/// Milliseconds without digits that no clock here has measured.
fn to_micros(millis: f64) -> f64 {
    (millis * 1000.0).round() / 1000.0
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.break_off();
    }
}
