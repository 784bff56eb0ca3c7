//! The fields of a chat's body under the names that they have in Anthropic's request, for errors.

use crate::error::ApiError;
use crate::http::translation::renamed;

pub struct Names {
    /// The path of the origin of each chat message.
    messages: Vec<String>,
    /// The place of each chat tool in the client's list.
    tools: Vec<usize>,
}

impl Names {
    /// `messages`: the path of the origin of each chat message. `tools`: the place of each chat tool in the client's list.
    pub fn of(messages: Vec<String>, tools: Vec<usize>) -> Self {
        Self { messages, tools }
    }

    /// The error with the name by which the client wrote the field.
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
                let rest = self.of_tool(rest).unwrap_or_else(|| rest.to_owned());
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

    /// `rest`: of the path, behind `tools`. `None`: it names no tool by its place.
    fn of_tool(&self, rest: &str) -> Option<String> {
        let (index, behind) = rest.strip_prefix('[')?.split_once(']')?;
        let place = self.tools.get(index.parse::<usize>().ok()?)?;
        Some(format!("[{place}]{behind}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field_that_the_client_sent() {
        let messages = ["system", "messages[0]", "messages[0]"].map(str::to_owned);
        let names = Names::of(messages.to_vec(), vec![0, 2]);
        for (chat, own) in [
            ("messages[0]", "system"),
            ("messages[2].hob.key", "messages[0].hob.key"),
            ("messages[9]", "messages[9]"),
            ("messages", "messages"),
            ("tools[1].function.name", "tools[2].name"),
            ("tools[1].function.parameters", "tools[2].input_schema"),
            ("tools[1]", "tools[2]"),
            ("tools", "tools"),
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
