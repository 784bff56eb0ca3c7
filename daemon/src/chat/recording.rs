//! What a turn saves: its text, its timeline as tokens, and why tokens were computed again.
//!
//! - An interrupted answer saves its timeline too: what was computed need not be computed again.
//! - Of requests without a conversation, nothing is saved; of a hint, only the timeline.
//! - A private conversation is recorded in memory.

use hob_slots::{ConversationId, ModelHash, Token};
use serde_json::Value;

use super::Options;
use crate::clock::Clock;
use crate::conversations::sharing::Sharing;
use crate::conversations::transcript::{
    AnswerRows, ClosedAnswer, OpenAnswer, Pending, SaveIf, Transcript, TurnEnd,
};
use crate::error::ApiError;
use crate::explain::Explanation;
use crate::wire::message::Message;

/// Records the first choice of a request.
pub struct Recording {
    transcript: Transcript,
    sharing: Option<Sharing>,
    clock: Clock,
    fingerprint: ModelHash,
    /// The owner of the timeline.
    conversation: Option<ConversationId>,
    answer: Option<OpenAnswer>,
    rows: Option<AnswerRows>,
    has_text: bool,
    is_private: bool,
    explanation: Option<(ConversationId, Value)>,
    /// Prompt and answer so far; empty after the end.
    timeline: Vec<Token>,
    prompt_tokens: usize,
}

impl Recording {
    /// Saves nothing until [`Self::keep`].
    pub fn new(
        options: &Options,
        transcript: Transcript,
        prompt: Vec<Token>,
        is_private: bool,
    ) -> Self {
        Self {
            transcript,
            sharing: options.sharing.clone(),
            clock: options.clock.clone(),
            fingerprint: options.engine.fingerprint(),
            conversation: None,
            answer: None,
            rows: None,
            has_text: false,
            is_private,
            explanation: None,
            prompt_tokens: prompt.len(),
            timeline: prompt,
        }
    }

    /// Saves the timeline of a conversation, and the text of its answer.
    pub fn keep(&mut self, conversation: Option<ConversationId>, answer: Option<OpenAnswer>) {
        self.conversation = conversation;
        self.has_text = answer.is_some();
        self.answer = answer;
    }

    /// Waits until the request's text is on disk.
    pub async fn stored(&mut self) -> Result<(), ApiError> {
        if let Some(answer) = &mut self.answer {
            answer.stored().await?;
            self.rows = answer.rows();
        }
        Ok(())
    }

    /// The row of the answer and its parent, once the request's text is on disk.
    pub fn rows(&self) -> Option<AnswerRows> {
        self.rows
    }

    /// Adds a token of the answer. `partial`: the message with it.
    pub fn token(&mut self, token: Token, partial: impl FnOnce() -> Message) {
        self.timeline.push(token);
        self.flush(partial);
    }

    /// The answer has more text. `partial`: the message with it.
    pub fn flush(&mut self, partial: impl FnOnce() -> Message) {
        if let Some(answer) = &mut self.answer {
            answer.flush(partial);
        }
    }

    /// Adds why the turn computed tokens that had been computed before. It quotes the prompt, and a
    /// hint has no text.
    pub fn explain(&mut self, conversation: &ConversationId, explanation: &Explanation) {
        if conversation.is_hint() {
            return;
        }
        self.explanation = Some((conversation.clone(), explanation.to_json()));
    }

    /// Saves the complete answer; the result arrives when its text is on disk.
    pub fn complete(
        &mut self,
        message: &Message,
        finish: &Value,
        timeline: Vec<Token>,
    ) -> Option<Pending<()>> {
        self.timeline.clear();
        let answer = self.answer.take().map(|answer| answer.complete(message, finish));
        self.end(answer, Some(timeline))
    }

    /// Saves an answer that broke off. `finish`: what is stored beside it.
    pub fn interrupt(&mut self, partial: impl FnOnce() -> Message, finish: Option<&Value>) {
        let answer = self.answer.take().map(|answer| answer.break_off(&partial(), finish));
        let timeline = std::mem::take(&mut self.timeline);
        let timeline = Some(timeline).filter(|timeline| timeline.len() > self.prompt_tokens);
        self.end(answer, timeline);
    }

    fn end(
        &mut self,
        answer: Option<ClosedAnswer>,
        timeline: Option<Vec<Token>>,
    ) -> Option<Pending<()>> {
        let has_answer = answer.is_some();
        let written = self.transcript.end_turn(TurnEnd {
            fingerprint: self.fingerprint,
            answer,
            timeline: self.conversation.clone().zip(timeline),
            explanation: self.explanation.take(),
            save_if: if self.has_text { SaveIf::HasText } else { SaveIf::Always },
            is_private: self.is_private,
            now: (self.clock)(),
        });
        // The transcript's thread reads the text for it after this write.
        if let (Some(sharing), Some(id), true) = (&self.sharing, &self.conversation, has_answer)
            && !self.is_private
        {
            sharing.changed(id);
        }
        written
    }
}
