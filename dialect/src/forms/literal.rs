//! Calls in another notation than JSON.

use super::{Call, Form, Notation, THINK};

/// `<|tool_call_start|>[name(key="value"), …]<|tool_call_end|>`
pub const LFM2: Form = Form {
    shown_by: &["ist of tools: "],
    written_reasoning: THINK,
    open: "<|tool_call_start|>",
    behind: &["<|tool_call_end|>"],
    around_calls: ("", "<|tool_call_end|>"),
    call: Call::Literal(Notation::Python),
    ..Form::BASE
};

/// `<|tool_call>call:name{key:<|"|>value<|"|>}<tool_call|>`
pub const GEMMA4: Form = Form {
    shown_by: &["<|tool_call>"],
    reasoning: ("<|channel>thought", "<channel|>"),
    written_reasoning: ("<|channel>thought\n", "<channel|>"),
    // Without reasoning, the model opens and closes it, or closes it only.
    silent: &[
        "<|channel><|channel>thought\n<channel|>",
        "<|channel>thought\n<channel|>",
        "<channel|>",
    ],
    open: "<|tool_call>",
    behind: &["<tool_call|>"],
    around_call: ("", "<tool_call|>"),
    call: Call::Literal(Notation::Gemma),
    ..Form::BASE
};
