//! What a turn leaves behind: its text, and its timeline as tokens.
//!
//! - A timeline that broke off is kept too: what was computed need not be computed again.
//! - Nothing is recorded for a request that belongs to nobody.

use hob_slots::{ConversationId, ModelHash, Token};
use serde_json::Value;

use crate::clock::Clock;
use crate::error::ApiError;
use crate::explain::Explanation;
use crate::transcript::{Grown, OpenAnswer, Pending, Transcript};
use crate::wire::message::Message;

/// Records the first choice of a request.
pub struct Recording {
    transcript: Transcript,
    clock: Clock,
    fingerprint: ModelHash,
    pinned: Option<ConversationId>,
    answer: Option<OpenAnswer>,
    rows: Option<Grown>,
    keeps_text: bool,
    /// Prompt and answer so far; empty once it is saved.
    heard: Vec<Token>,
    prompt_tokens: usize,
}

impl Recording {
    /// `pinned`: whose timeline it is. `answer`: the row of its text, where text is kept.
    pub fn new(
        transcript: Transcript,
        clock: Clock,
        fingerprint: ModelHash,
        pinned: Option<ConversationId>,
        answer: Option<OpenAnswer>,
        prompt: Vec<Token>,
    ) -> Self {
        let (keeps_text, prompt_tokens) = (answer.is_some(), prompt.len());
        let heard = prompt;
        Self {
            transcript,
            clock,
            fingerprint,
            pinned,
            answer,
            rows: None,
            keeps_text,
            heard,
            prompt_tokens,
        }
    }

    /// Waits until the request's text is on the disk.
    pub async fn stored(&mut self) -> Result<(), ApiError> {
        if let Some(answer) = &mut self.answer {
            answer.stored().await?;
            self.rows = answer.rows();
        }
        Ok(())
    }

    /// Where the text of the answer is, once the request's is on the disk.
    pub fn rows(&self) -> Option<Grown> {
        self.rows
    }

    /// A token of the answer, and what the message is with it.
    pub fn heard(&mut self, token: Token, partial: impl FnOnce() -> Message) {
        self.heard.push(token);
        if let Some(answer) = &mut self.answer {
            answer.flush(partial);
        }
    }

    /// Why the request computed what was computed before.
    pub fn explain(&self, conversation: &ConversationId, found: &Explanation) {
        let (found, now) = (found.to_json(), (self.clock)());
        self.transcript.put_explanation(conversation, &found, self.keeps_text, now);
    }

    /// The whole answer; what is returned tells when its text is on the disk.
    pub fn finish(
        &mut self,
        message: &Message,
        finish: &Value,
        timeline: Vec<Token>,
    ) -> Option<Pending<()>> {
        self.heard.clear();
        self.save(timeline);
        let now = (self.clock)();
        self.answer.take().map(|mut answer| answer.finish(message, finish, now))
    }

    /// The answer broke off.
    pub fn interrupt(&mut self, partial: impl FnOnce() -> Message) {
        if let Some(mut answer) = self.answer.take() {
            answer.interrupt(&partial());
        }
        if self.heard.len() > self.prompt_tokens {
            let heard = std::mem::take(&mut self.heard);
            self.save(heard);
        }
    }

    fn save(&self, timeline: Vec<Token>) {
        if let Some(conversation) = &self.pinned {
            let (fingerprint, now) = (self.fingerprint, (self.clock)());
            let beside_text = self.keeps_text;
            self.transcript.put_tokens(conversation, fingerprint, timeline, beside_text, now);
        }
    }
}
