//! Messages with a header, which says whether they are reasoning, text or a call.

use super::{Call, Form};

/// `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`. A call:
/// `<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>`.
/// Source: OpenAI's Harmony response format.
pub const HARMONY: Form = Form {
    shown_by: &["<|channel|>", "<|message|>"],
    reasoning: ("<|channel|>analysis<|message|>", "<|end|>"),
    behind: &["<|call|>", "<|end|>", "<|return|>"],
    call: Call::Channel,
    ..Form::BASE
};

/// Begins a message.
pub(crate) const START: &str = "<|start|>";
/// Names the channel of a message.
pub(crate) const CHANNEL: &str = "<|channel|>";
/// Ends the header of a message.
pub(crate) const MESSAGE: &str = "<|message|>";
/// In the header of a call, before the name.
pub(crate) const TO: &str = "to=functions.";
/// In the header of reasoning.
pub(crate) const ANALYSIS: &str = "analysis";
