//! Calls as JSON objects.

use super::{Call, Form, Json, Named, THINK, THINK_LINES};

/// No calls.
pub const PLAIN: Form = Form::BASE;

/// `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`
pub const HERMES: Form = Form {
    shown_by: &["<tool_call>"],
    unless: &["<function="],
    open: "<tool_call>",
    behind: &["</tool_call>"],
    ..Form::BASE
};

/// `{"name": …, "parameters": {…}}` instead of text, or behind the mark.
pub const LLAMA3: Form = Form {
    shown_by: &["<|start_header_id|>", "parameters"],
    open: "<|python_tag|>",
    behind: &[";"],
    call: Call::Json(Json { members: ("name", "parameters"), is_bare: true, ..Json::BASE }),
    ..Form::BASE
};

/// `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`.
pub const MISTRAL: Form = Form {
    shown_by: &["[TOOL_CALLS]"],
    reasoning: ("[THINK]", "[/THINK]"),
    written_reasoning: ("[THINK]", "[/THINK]"),
    open: "[TOOL_CALLS]",
    call: Call::Json(Json {
        named: Some(Named {
            before_name: "",
            name_ends: &["[ARGS]", "[CALL_ID]"],
            before_arguments: "",
        }),
        ..Json::LIST
    }),
    ..Form::BASE
};

/// `<TOOLCALL>[{"name": …, "arguments": {…}}]</TOOLCALL>`
pub const NEMOTRON: Form = Form {
    shown_by: &["<TOOLCALL>"],
    open: "<TOOLCALL>",
    behind: &["</TOOLCALL>"],
    call: Call::Json(Json::LIST),
    ..Form::BASE
};

/// `<tool_calls>[{"name": …, "arguments": {…}}]</tool_calls>`
pub const APRIEL: Form = Form {
    shown_by: &["<tool_calls>"],
    open: "<tool_calls>",
    behind: &["</tool_calls>"],
    call: Call::Json(Json::LIST),
    ..Form::BASE
};

/// The form of [`APRIEL`]; reasoning, which the prompt opens, ends with other words than a mark.
pub const APRIEL16: Form = Form {
    shown_by: &["[BEGIN FINAL RESPONSE]", "<|begin_assistant|>"],
    reasoning: ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    written_reasoning: ("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
    ..APRIEL
};

/// `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": …, "parameters": {…}}]<|END_ACTION|>`
pub const COMMAND: Form = Form {
    shown_by: &["<|START_ACTION|>"],
    reasoning: ("<|START_THINKING|>", "<|END_THINKING|>"),
    written_reasoning: ("<|START_THINKING|>", "<|END_THINKING|>"),
    silent: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
    open: "<|START_ACTION|>",
    behind: &["<|END_ACTION|>"],
    call: Call::Json(Json { members: ("tool_name", "parameters"), ..Json::LIST }),
    ..Form::BASE
};

/// "Action:\n```json\n[{"tool_name": …, "parameters": {…}}]\n```"
pub const COMMAND_R_PLUS: Form = Form {
    shown_by: &["Action:", "```json", "tool_name"],
    silent: &["<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"],
    open: "Action:\n```json\n",
    behind: &["```"],
    call: Call::Json(Json { members: ("tool_name", "parameters"), ..Json::LIST }),
    ..Form::BASE
};

/// ` functools[{"name": …, "arguments": {…}}]`
pub const FIREFUNCTION: Form = Form {
    shown_by: &["functools["],
    open: "functools",
    call: Call::Json(Json::LIST),
    ..Form::BASE
};

/// `<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": …, "arguments": {…}}`
pub const GIGACHAT3: Form = Form {
    shown_by: &["function call", "<|role_sep|>"],
    written_reasoning: ("", THINK_LINES.1),
    open: "<|message_sep|>\n\nfunction call<|role_sep|>\n",
    ..Form::BASE
};

/// `<|function_call|>{"name": …, "arguments": {…}}`
pub const GIGACHAT31: Form = Form {
    shown_by: &["<|function_call|>"],
    written_reasoning: ("", THINK_LINES.1),
    open: "<|function_call|>",
    ..Form::BASE
};

/// `<|tool_call|>[{"name": …, "arguments": {…}}]`
pub const GRANITE3: Form = Form {
    shown_by: &["<|tool_call|>"],
    written_reasoning: THINK,
    open: "<|tool_call|>",
    behind: &["<|/tool_call|>"],
    call: Call::Json(Json::LIST),
    ..Form::BASE
};

/// `<|tools_prefix|>[{"the_name": {…}}]<|tools_suffix|>`
pub const APERTUS: Form = Form {
    shown_by: &["<|tools_prefix|>"],
    reasoning: ("<|inner_prefix|>", "<|inner_suffix|>"),
    written_reasoning: ("<|inner_prefix|>", "<|inner_suffix|>"),
    open: "<|tools_prefix|>",
    behind: &["<|tools_suffix|>"],
    call: Call::Json(Json { is_keyed: true, ..Json::LIST }),
    ..Form::BASE
};
