//! The end of an answer: why it computed tokens again, and what the transcript stores of it.

use hob_slots::Token;
use serde_json::{Value, json};

use super::partial::Growth;
use super::{Answer, Piece, RESPONSE};
use crate::explain::Explanation;
use crate::wire::answer::EndReason;

impl Answer {
    /// Hands out the end of a choice, and stores the first one's.
    pub(super) fn conclude(&mut self, choice: usize, last: Growth, timeline: Vec<Token>) {
        let end = Piece::End { choice, reason: self.partial[choice].reason };
        self.more(choice, last);
        if choice == 0 {
            self.explain();
            // An engine at another address counts all choices together. Here further ones may have begun, or ended.
            let counts_all = self.source.upstream().is_some();
            let usage =
                if counts_all { self.account.usage } else { self.partial[0].figures.usage() };
            let mut finish = json!({
                "finish_reason": self.partial[0].reason.as_str(),
                "model": self.context.head.model,
                "usage": usage.to_json(),
                "hob": self.record(),
            });
            if let Some(kept) = self.kept.take() {
                finish[RESPONSE] = kept;
            }
            let message = self.partial[0].assembly.message();
            if let Some(pending) = self.context.recording.complete(&message, &finish, timeline) {
                self.closing = Some((pending, end));
                return;
            }
        }
        self.end(end);
    }

    /// Hands out an end whose text is stored. The engine in this process counts its answers itself.
    pub(super) fn end(&mut self, end: Piece) {
        if self.source.upstream().is_some() {
            self.context.metrics.forwarded();
        }
        self.ready.push_back(end);
    }

    /// Stores the text so far, unless the end is stored, and the speed behind it.
    pub(super) fn break_off(&mut self) {
        self.has_failed = true;
        self.explain();
        let assembly = &mut self.partial[0].assembly;
        let model = &self.context.head.model;
        let finish = self.kept.take().map(|kept| json!({"model": model, RESPONSE: kept}));
        let partial = || {
            assembly.cut();
            assembly.message()
        };
        self.context.recording.interrupt(partial, finish.as_ref());
        self.context.speed.save();
    }

    /// Explains why the conversation's tokens were computed again.
    fn explain(&mut self) {
        let Some(report) = self.unexplained.take() else { return };
        let subject = std::mem::take(&mut self.subject);
        let Some(conversation) = &self.context.conversation else { return };
        let vocabulary = self.context.model.vocabulary();
        if self.extract.began.is_some() {
            return; // It has left what it had, by choice, and says so.
        }
        if let Some(found) = Explanation::of(&subject, &report, vocabulary) {
            self.context.metrics.missed(found.reason);
            self.context.recording.explain(conversation, &found);
            self.account.explanation = Some(found);
        }
    }

    /// Reports to the engine that the first choice calls tools, if it does.
    pub(super) fn report_tool_calls(&self) {
        if self.partial[0].reason == EndReason::ToolCalls
            && let Some(conversation) = &self.context.conversation
        {
            self.context.engine.called_tools(conversation.clone());
        }
    }

    /// The `hob` object of the stored message, the first choice.
    fn record(&self) -> Value {
        let conversation = self.context.conversation.as_ref();
        let turn = self.account.record(conversation, self.context.recording.rows(), self.extract);
        serde_json::to_value(turn).expect("texts and numbers are JSON")
    }
}
