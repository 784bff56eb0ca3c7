//! Messages with a header, which says whether they are reasoning, text or a call.

use super::tagged::MUSE_CALL;
use super::{Call, Form, Tagged};

/// How messages begin, and whom they are for.
#[derive(Debug)]
pub struct Channels {
    /// Each begins a message; its header goes on up to `header_end`.
    pub starts: &'static [&'static str],
    pub header_end: &'static str,
    /// In a header, before whom the message is for. Empty: the header is that name and nothing else.
    pub to: &'static str,
    /// Before the name of a function, behind `to`.
    pub function: &'static str,
    /// In the header of reasoning.
    pub reasoning: Option<&'static str>,
    /// Whom text is for, where a header names it.
    pub user: &'static str,
    /// The header of a call before its name, as the model writes it, and what may stand behind the
    /// name: the first is what a forced call has.
    pub call: (&'static str, &'static [&'static str]),
    /// End a message.
    pub ends: &'static [&'static str],
    /// Between two messages of one answer.
    pub between: &'static str,
    /// The model may write several calls.
    pub writes_several: bool,
    /// What a call's message is; `None`: its arguments, as JSON.
    pub tagged: Option<Tagged>,
}

/// `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`. A call:
/// `<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>`.
/// Source: OpenAI's Harmony response format.
pub const HARMONY: Form = Form {
    shown_by: &["<|channel|>", "<|message|>"],
    reasoning: ("<|channel|>analysis<|message|>", "<|end|>"),
    written_reasoning: ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
    before_text: "<|channel|>final<|message|>",
    behind: &["<|call|>", "<|end|>", "<|return|>"],
    call: Call::Channel(Channels {
        starts: &["<|start|>", "<|channel|>"],
        header_end: "<|message|>",
        to: "to=",
        function: "functions.",
        reasoning: Some("analysis"),
        user: "assistant",
        ends: &["<|call|>", "<|end|>", "<|return|>"],
        call: (
            "<|channel|>commentary to=functions.",
            &[
                " <|constrain|>json<|message|>",
                "<|constrain|>json<|message|>",
                " json<|message|>",
                "<|message|>",
                "<|channel|>commentary <|constrain|>json<|message|>",
                "<|channel|>commentary json<|message|>",
                "<|channel|>commentary<|message|>",
                "<|channel|>analysis <|constrain|>json<|message|>",
                "<|channel|>analysis json<|message|>",
                "<|channel|>analysis<|message|>",
            ],
        ),
        between: "<|start|>assistant",
        writes_several: false,
        tagged: None,
    }),
    ..Form::BASE
};

/// ` to=self<|message|>…<|eom|><|start|>assistant to=user<|message|>…<|eot|>`. A call:
/// ` to=name<|message|><atem:function_calls>\n<atem:invoke name="name">…`
pub const MUSE: Form = Form {
    shown_by: &["<atem:function_calls>"],
    reasoning: (" to=self<|message|>", "<|eom|>"),
    written_reasoning: (" to=self<|message|>", "<|eom|><|start|>assistant"),
    before_text: " to=user<|message|>",
    before: &["<atem:function_calls>"],
    open: "<atem:invoke name=\"",
    behind: &["</atem:function_calls>", "<|eom|>", "<|eot|>"],
    around_call: ("<atem:function_calls>", "</atem:function_calls>"),
    call: Call::Channel(Channels {
        starts: &["<|start|>"],
        header_end: "<|message|>",
        to: "to=",
        function: "",
        reasoning: Some("to=self"),
        user: "user",
        ends: &["<|eom|>", "<|eot|>"],
        call: (" to=", &["<|message|>"]),
        between: "<|eom|><|start|>assistant",
        writes_several: true,
        tagged: Some(MUSE_CALL),
    }),
    ..Form::BASE
};

/// "all\ntext>>>name\n{…}". The prompt ends with `>>>`.
pub const FUNCTIONARY32: Form = Form {
    shown_by: &[">>>all", "recipient"],
    written_reasoning: ("", ">>>"),
    before_text: "all\n",
    call: Call::Channel(Channels {
        starts: &[">>>"],
        header_end: "\n",
        to: "",
        function: "",
        reasoning: None,
        user: "all",
        ends: &[],
        call: ("", &["\n"]),
        between: ">>>",
        writes_several: true,
        tagged: None,
    }),
    ..Form::BASE
};
