//! How models write tool calls and reasoning, and how to read them while they are written.
//!
//! Reading order: [`Dialect`] (which form a model was taught), [`Parser`] (text in, [`Part`]s
//! out), `call` (one call's JSON), `json` (where a JSON value ends).
//!
//! - How the text is split never changes the parts, except where one part becomes several.
//! - What only looks like a call comes out as content, letter by letter.
//! - White space beside calls and reasoning belongs to them and is dropped; all other is kept.

mod call;
mod json;
mod parser;

pub use parser::{Parser, opens_reasoning};

/// The form of tool calls that a model was taught, told by its chat template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`: Hermes, Qwen.
    Hermes,
    /// `{"name": …, "parameters": {…}}` instead of text, or after `<|python_tag|>`: Llama 3.
    Llama3,
    /// `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]name[ARGS]{…}`: Mistral.
    Mistral,
    /// No form that we can read.
    #[default]
    Plain,
}

impl Dialect {
    /// The form that a chat template writes past calls in.
    pub fn detect(template_source: &str) -> Self {
        let has = |mark: &str| template_source.contains(mark);
        if has(MISTRAL_CALLS) {
            Self::Mistral
        } else if has(HERMES_OPEN) && !has("<function=") {
            Self::Hermes
        } else if has("<|start_header_id|>") && has("parameters") {
            Self::Llama3
        } else {
            Self::Plain
        }
    }
}

/// Opens a Hermes call.
pub const HERMES_OPEN: &str = "<tool_call>";
/// Closes a Hermes call.
pub const HERMES_CLOSE: &str = "</tool_call>";
/// Announces Llama 3 calls; the model may leave it out.
pub const LLAMA_PYTHON: &str = "<|python_tag|>";
/// Announces Mistral calls.
pub const MISTRAL_CALLS: &str = "[TOOL_CALLS]";
/// Stands between name and arguments in newer Mistral models.
pub const MISTRAL_ARGUMENTS: &str = "[ARGS]";

/// A piece of a model's answer. Calls are numbered from 0 in the order in which they appear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text for the user.
    Content(String),
    /// What the model wrote between its think marks.
    Reasoning(String),
    /// A call begins.
    ToolCallStart {
        /// Which call of this answer.
        index: usize,
        /// The function to call.
        name: String,
    },
    /// A piece of the call's arguments; together they are the text of one JSON object.
    ToolCallArguments {
        /// Which call of this answer.
        index: usize,
        /// JSON text in the model's own words.
        json_fragment: String,
    },
    /// The call is complete.
    ToolCallEnd {
        /// Which call of this answer.
        index: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_tells_the_dialect() {
        for (source, dialect) in [
            (r#"{{ '<tool_call>\n{"name": "' }}"#, Dialect::Hermes),
            (r#"<|start_header_id|>ipython … '"parameters": '"#, Dialect::Llama3),
            ("<|start_header_id|>{{ message.content }}<|eot_id|>", Dialect::Plain),
            ("{{ '[TOOL_CALLS] [' }}", Dialect::Mistral),
            ("<tool_call>\n<function=name>\n<parameter=key>", Dialect::Plain),
            ("<|im_start|>{{ message.role }}", Dialect::Plain),
        ] {
            assert_eq!(Dialect::detect(source), dialect, "{source}");
        }
    }
}
