//! A name, and the JSON of its arguments behind it.

use super::{Call, Form, Named, THINK};

/// "<｜tool▁call▁begin｜>function<｜tool▁sep｜>name\n```json\n{…}\n```<｜tool▁call▁end｜>"
pub const DEEPSEEK: Form = Form {
    shown_by: &["<｜tool▁call▁begin｜>", "```json"],
    before: &["<｜tool▁calls▁begin｜>"],
    open: "<｜tool▁call▁begin｜>",
    behind: &["```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
    around_call: ("", "```<｜tool▁call▁end｜>"),
    around_calls: ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    call: Call::Named(Named {
        before_name: "function<｜tool▁sep｜>",
        name_ends: &["\n"],
        before_arguments: "```json\n",
    }),
    ..Form::BASE
};

/// `<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`
pub const DEEPSEEK31: Form = Form {
    shown_by: &["<｜tool▁call▁begin｜>"],
    unless: &["```json"],
    written_reasoning: THINK,
    behind: &["<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
    around_call: ("", "<｜tool▁call▁end｜>"),
    call: Call::Named(Named {
        before_name: "",
        name_ends: &["<｜tool▁sep｜>"],
        before_arguments: "",
    }),
    ..DEEPSEEK
};

/// `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`
pub const KIMI_K2: Form = Form {
    shown_by: &["<|tool_calls_section_begin|>"],
    written_reasoning: THINK,
    calls_end_reasoning: true,
    before: &["<|tool_calls_section_begin|>"],
    open: "<|tool_call_begin|>",
    behind: &["<|tool_call_end|>", "<|tool_calls_section_end|>"],
    around_call: ("", "<|tool_call_end|>"),
    around_calls: ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    call: Call::Named(Named {
        before_name: "functions.",
        name_ends: &[":", "<|tool_call_argument_begin|>"],
        before_arguments: "#<|tool_call_argument_begin|>",
    }),
    ..Form::BASE
};

/// `<function=name>{…}</function>`
pub const FUNCTIONARY: Form = Form {
    shown_by: &["<function=", "</function>"],
    unless: &["<parameter="],
    open: "<function=",
    behind: &["</function>"],
    around_call: ("", "</function>"),
    call: Call::Named(Named { before_name: "", name_ends: &[">"], before_arguments: "" }),
    ..Form::BASE
};
