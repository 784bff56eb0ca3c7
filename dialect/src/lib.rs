//! Parses tool calls and reasoning out of a model's output as it streams.
//!
//! Reading order: [`Dialect`] (which form a template shows), [`forms`] (the forms, as data),
//! [`Signatures`] (the tools that are offered), [`Schema`] (what their parameters take), [`Parser`]
//! (text in, [`Part`]s out), `call` (the JSON of one call), `literal` (calls in another notation),
//! `json` (the end of a JSON value), `mark` (marks that are there in part).
//!
//! - The split of the text into chunks never changes the parts, but one part may come in several.
//! - Text that only resembles a call is returned as content, unchanged.
//! - The parser drops white space around calls and reasoning, and keeps all other.
//! - llama.cpp's own parsers are not linked: they run a template of the model's file without a
//!   limit on memory, time or depth.

mod call;
mod dialect;
pub mod forms;
mod json;
mod literal;
mod mark;
mod parser;
mod reasoning;
mod schema;
mod signatures;

pub use dialect::Dialect;
pub use parser::Parser;
pub use reasoning::{opens_reasoning, written};
pub use schema::{Schema, referred};
pub use signatures::{Kind, Signatures};

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
    /// A piece of the arguments: as the model wrote them where it writes JSON, else as JSON. All
    /// pieces are one JSON object, unless the model broke off or wrote something else behind its `{`.
    ToolCallArguments {
        index: usize,
        json_fragment: String,
    },
    /// The arguments are over. It is missing where the answer ends within them.
    ToolCallEnd {
        index: usize,
    },
}
