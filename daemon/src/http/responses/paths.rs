//! The fields of a response's request under their own names, in errors about the chat that it becomes.

use crate::error::ApiError;
use crate::http::translation::{behind, renamed};

/// What the chat calls a field, and what the client calls it. Of several that fit an error, the last one counts.
#[derive(Clone, Debug)]
pub struct Paths(Vec<(String, String)>);

/// Fields that another name stands for in every request. Of several that fit an error, the first one counts.
const RENAMED: [(&str, &str); 8] = [
    ("messages", "input"),
    ("max_tokens", "max_output_tokens"),
    ("tool_choice.function", "tool_choice"),
    ("response_format.json_schema", "text.format"),
    ("response_format", "text.format"),
    ("reasoning_effort", "reasoning.effort"),
    ("hob.instructions", "instructions"),
    ("hob.newest", "truncation"),
];

impl Paths {
    pub fn new() -> Self {
        let owned = |(chat, own): (&str, &str)| (chat.to_owned(), own.to_owned());
        Self(RENAMED.into_iter().rev().map(owned).collect())
    }

    /// Adds a field. A request may have a hundred thousand.
    pub fn add(&mut self, chat: String, own: &str) {
        self.0.push((chat, own.to_owned()));
    }

    /// The error, about the client's field.
    pub fn own(&self, error: ApiError) -> ApiError {
        if error.param.is_none() && error.code == Some("context_length_exceeded") {
            return error.param("input");
        }
        renamed(error, |param| {
            let mut known = self.0.iter().rev();
            known.find_map(|(chat, own)| Some(format!("{own}{}", behind(param, chat)?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field_that_the_client_sent() {
        let mut paths = Paths::new();
        paths.add("messages[1]".to_owned(), "input[3]");
        paths.add("messages[1]".to_owned(), "input[4]");
        paths.add("tools[0].function".to_owned(), "tools[2]");
        for (chat, own) in [
            ("messages[1].content[0].type", "input[4].content[0].type"),
            ("messages[10].role", "input[10].role"),
            ("messages", "input"),
            ("tools[0].function.name", "tools[2].name"),
            ("tool_choice.function.name", "tool_choice.name"),
            ("tool_choice", "tool_choice"),
            ("response_format.json_schema.schema", "text.format.schema"),
            ("response_format.type", "text.format.type"),
            ("temperature", "temperature"),
        ] {
            let error = ApiError::field(chat, format!("`{chat}` is wrong"));
            let error = paths.own(error);
            assert_eq!(error.param.as_deref(), Some(own));
            assert_eq!(error.message, format!("`{own}` is wrong"));
        }
    }
}
