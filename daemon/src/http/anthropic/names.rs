//! The fields of a chat's body under the names that they have in Anthropic's request, for errors.

use crate::error::ApiError;
use crate::http::translation::renamed;

pub struct Names {
    /// The path of the origin of each chat message.
    messages: Vec<String>,
}

impl Names {
    /// `messages`: the path of the origin of each chat message.
    pub fn of(messages: Vec<String>) -> Self {
        Self { messages }
    }

    /// The same error of a field as the client wrote it.
    pub fn rename(&self, error: ApiError) -> ApiError {
        renamed(error, |param| self.own(param))
    }

    /// `None`: the name is the same.
    fn own(&self, param: &str) -> Option<String> {
        if let Some(rest) = param.strip_prefix("messages[") {
            let (index, rest) = rest.split_once(']')?;
            return Some(format!("{}{rest}", self.messages.get(index.parse::<usize>().ok()?)?));
        }
        let (field, rest) = param.split_at(param.find(['.', '[']).unwrap_or(param.len()));
        Some(match field {
            "tools" | "tool_choice" => {
                let rest = rest.replace(".function.parameters", ".input_schema");
                format!("{field}{}", rest.replace(".function", ""))
            }
            "stop" => format!("stop_sequences{rest}"),
            "response_format" => {
                format!("output_config.format{}", rest.replace(".json_schema", ""))
            }
            "continue_final_message" => "messages".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field_that_the_client_sent() {
        let names = Names::of(vec!["system".into(), "messages[0]".into(), "messages[0]".into()]);
        for (chat, own) in [
            ("messages[0]", "system"),
            ("messages[2].hob.key", "messages[0].hob.key"),
            ("messages[9]", "messages[9]"),
            ("messages", "messages"),
            ("tools[1].function.name", "tools[1].name"),
            ("tools[1].function.parameters", "tools[1].input_schema"),
            ("tools[1]", "tools[1]"),
            ("tool_choice.function.name", "tool_choice.name"),
            ("stop[3]", "stop_sequences[3]"),
            ("response_format.json_schema.schema", "output_config.format.schema"),
            ("top_p", "top_p"),
        ] {
            let error = names.rename(ApiError::field(chat, format!("`{chat}` is wrong")));
            assert_eq!(error.param.as_deref(), Some(own));
            assert_eq!(error.message, format!("`{own}` is wrong"));
        }
    }
}
