//! Each argument of a call in a tag of its own.

use super::{Attribute, Call, Form, THINK, Tagged, ValueEnd};

/// `name>\n<parameter=key>\nvalue\n</parameter>\n</function>`
const FUNCTION: Tagged = Tagged {
    name_end: ">",
    head_end: "",
    head: "",
    parameter: "<parameter=",
    key_end: ">",
    attribute: Attribute::None,
    value: "",
    value_end: ValueEnd::Mark("</parameter>"),
    is_framed: true,
    nests: false,
    close: "</function>",
};

/// `<function=name>\n<parameter=key>\nvalue\n</parameter>\n</function>`, in `<tool_call>` or not.
pub const QWEN_CODER: Form = Form {
    shown_by: &["<function=", "<parameter="],
    calls_end_reasoning: true,
    before: &["<tool_call>"],
    open: "<function=",
    behind: &["</tool_call>"],
    around_call: ("<tool_call>", "</tool_call>"),
    call: Call::Tagged(FUNCTION),
    ..Form::BASE
};

/// The same in `<seed:tool_call>`, with no line feeds around a value.
pub const SEED_OSS: Form = Form {
    shown_by: &["<seed:tool_call>"],
    reasoning: ("<seed:think>", "</seed:think>"),
    written_reasoning: ("<seed:think>", "</seed:think>\n"),
    before: &["<seed:tool_call>"],
    behind: &["</seed:tool_call>"],
    around_call: ("<seed:tool_call>", "</seed:tool_call>"),
    call: Call::Tagged(Tagged { is_framed: false, ..FUNCTION }),
    ..QWEN_CODER
};

/// `<tool_call>name\n<arg_key>key</arg_key>\n<arg_value>value</arg_value>\n</tool_call>`
pub const GLM: Form = Form {
    shown_by: &["<tool_call>", "<arg_key>"],
    written_reasoning: THINK,
    calls_end_reasoning: true,
    silent: &["<|role_end|>"],
    open: "<tool_call>",
    call: Call::Tagged(Tagged {
        name_end: "\n",
        head_end: "",
        head: "",
        parameter: "<arg_key>",
        key_end: "</arg_key>",
        attribute: Attribute::None,
        value: "<arg_value>",
        value_end: ValueEnd::Mark("</arg_value>"),
        is_framed: false,
        nests: false,
        close: "</tool_call>",
    }),
    ..Form::BASE
};

/// `<invoke name="name">\n<parameter name="key">value</parameter>\n</invoke>`
pub const MINIMAX: Form = Form {
    shown_by: &["<minimax:tool_call>"],
    before: &["<minimax:tool_call>"],
    open: "<invoke name=\"",
    behind: &["</minimax:tool_call>"],
    around_calls: ("<minimax:tool_call>", "</minimax:tool_call>"),
    call: Call::Tagged(Tagged {
        name_end: "\">",
        head_end: "",
        head: "",
        parameter: "<parameter name=\"",
        key_end: "\">",
        attribute: Attribute::None,
        value: "",
        value_end: ValueEnd::Mark("</parameter>"),
        is_framed: false,
        nests: false,
        close: "</invoke>",
    }),
    ..Form::BASE
};

/// `]<]minimax[>[<invoke name="name">]<]minimax[>[<key>value]<]minimax[>[</key>…`
pub const MINIMAX3: Form = Form {
    shown_by: &["]<]minimax[>["],
    reasoning: ("<mm:think>", "</mm:think>"),
    written_reasoning: ("<mm:think>", "</mm:think>"),
    before: &["]<]minimax[>[<tool_call>"],
    open: "]<]minimax[>[<invoke name=\"",
    behind: &["]<]minimax[>[</tool_call>"],
    around_calls: ("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>"),
    call: Call::Tagged(Tagged {
        name_end: "\">",
        head_end: "",
        head: "",
        parameter: "]<]minimax[>[<",
        key_end: ">",
        attribute: Attribute::None,
        value: "",
        value_end: ValueEnd::WithKey("]<]minimax[>[</", ">"),
        is_framed: false,
        nests: true,
        close: "]<]minimax[>[</invoke>",
    }),
    ..Form::BASE
};

/// `<｜DSML｜invoke name="name">\n<｜DSML｜parameter name="key" string="true">value</｜DSML｜parameter>`
pub const DSML: Form = Form {
    shown_by: &["｜DSML｜"],
    written_reasoning: THINK,
    calls_end_reasoning: true,
    before: &["<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"],
    open: "<｜DSML｜invoke name=\"",
    behind: &["</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"],
    around_calls: ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
    call: Call::Tagged(Tagged {
        name_end: "\">",
        head_end: "",
        head: "",
        parameter: "<｜DSML｜parameter name=\"",
        key_end: "\"",
        attribute: Attribute::IsString,
        value: ">",
        value_end: ValueEnd::Mark("</｜DSML｜parameter>"),
        is_framed: false,
        nests: false,
        close: "</｜DSML｜invoke>",
    }),
    ..Form::BASE
};

/// The same with another mark around all calls.
pub const DSML4: Form = Form {
    shown_by: &["｜DSML｜", "tool_calls>"],
    around_calls: ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
    ..DSML
};

/// `<function name="name"><param name="key">value</param></function>`
pub const MINICPM5: Form = Form {
    shown_by: &["<param name", "<function name"],
    open: "<function name=\"",
    call: Call::Tagged(Tagged {
        name_end: "\">",
        head_end: "",
        head: "",
        parameter: "<param name=\"",
        key_end: "\">",
        attribute: Attribute::None,
        value: "",
        value_end: ValueEnd::Mark("</param>"),
        is_framed: false,
        nests: false,
        close: "</function>",
    }),
    ..Form::BASE
};

/// `<|open|>call tool="name" index="1"<|sep|><|open|>argument key="key" type="string"<|sep|>value…`
pub const KIMI_K3: Form = Form {
    shown_by: &["Kimi K3 tool calls"],
    reasoning: ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    written_reasoning: ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    before_text: "<|open|>response<|sep|>",
    calls_end_reasoning: true,
    silent: &[
        "<|open|>response<|sep|>",
        "<|close|>response<|sep|>",
        "<|close|>message<|sep|>",
        "<|end_of_msg|>",
    ],
    before: &["<|open|>tools<|sep|>"],
    open: "<|open|>call tool=\"",
    behind: &["<|close|>tools<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>"],
    around_calls: ("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
    call: Call::Tagged(Tagged {
        name_end: "\"",
        head_end: "<|sep|>",
        head: " index=\"#\"",
        parameter: "<|open|>argument key=\"",
        key_end: "\"",
        attribute: Attribute::Type,
        value: "<|sep|>",
        value_end: ValueEnd::Mark("<|close|>argument<|sep|>"),
        is_framed: false,
        nests: false,
        close: "<|close|>call<|sep|>",
    }),
    ..Form::BASE
};

/// `name">\n<atem:parameter name="key">value</atem:parameter>\n</atem:invoke>`
pub(super) const MUSE_CALL: Tagged = Tagged {
    name_end: "\">",
    head_end: "",
    head: "",
    parameter: "<atem:parameter name=\"",
    key_end: "\">",
    attribute: Attribute::None,
    value: "",
    value_end: ValueEnd::Mark("</atem:parameter>"),
    is_framed: false,
    nests: false,
    close: "</atem:invoke>",
};
