//! Parses tool calls and reasoning out of a model's output as it streams.
//!
//! Reading order: [`Dialect`] (the form that a model writes calls in), [`Parser`] (text in,
//! [`Part`]s out), `call` (the JSON of one call), `json` (the end of a JSON value).
//!
//! - The split of the text into chunks never changes the parts, but one part may come in several.
//! - Text that only resembles a call is returned as content, unchanged.
//! - The parser drops white space around calls and reasoning, and keeps all other.

mod call;
mod json;
mod parser;

pub use parser::{Parser, opens_reasoning, written};

/// The form in which a model writes tool calls, detected from its chat template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `<tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>`: Hermes, Qwen.
    Hermes,
    /// `{"name": …, "parameters": {…}}` instead of text, or after `<|python_tag|>`: Llama 3.
    Llama3,
    /// `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]name[ARGS]{…}`: Mistral.
    Mistral,
    /// An unknown form: the parser finds no calls.
    #[default]
    Plain,
}

impl Dialect {
    /// The form in which the template renders past calls.
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
/// Precedes Llama 3 calls; the model may omit it.
pub const LLAMA_PYTHON: &str = "<|python_tag|>";
/// Precedes Mistral calls.
pub const MISTRAL_CALLS: &str = "[TOOL_CALLS]";
/// Separates name and arguments in newer Mistral models.
pub const MISTRAL_ARGUMENTS: &str = "[ARGS]";

/// A piece of a model's answer. `index` numbers the calls of the answer from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text for the user.
    Content(String),
    /// The text between the think marks.
    Reasoning(String),
    ToolCallStart {
        index: usize,
        name: String,
    },
    /// A piece of the arguments as the model wrote them. All pieces are one JSON object, unless the
    /// model broke off or wrote something else behind its `{`.
    ToolCallArguments {
        index: usize,
        json_fragment: String,
    },
    /// The arguments are over. It is missing where the answer ends within them.
    ToolCallEnd {
        index: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_is_detected_from_the_template() {
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
