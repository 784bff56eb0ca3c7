//! The search for tools that the client runs: what it finds, the model may call from then on. To the model it is a
//! function, whose result has the names of what it found.

use serde_json::{Value, json};

use super::client_tools::{SEARCH, function_name};
use crate::error::ApiError;
use crate::wire::fields::Fields;
use crate::wire::tools::MAX_NAME_BYTES;

/// The item with the result of a search. Its `tools` are offered.
pub const OUTPUT: &str = "tool_search_output";

/// Who runs a search that this client runs.
pub const CLIENT: &str = "client";

/// Whether a tool, a call or a result is the client's. Searches of OpenAI's servers found what hobd offers anyway.
pub fn is_of_client(item: &Value) -> bool {
    item["execution"] == CLIENT
}

pub fn function(tool: &Fields<'_>) -> Result<Value, ApiError> {
    let description = tool.string("description")?;
    let parameters = tool.map("parameters")?.cloned().map_or_else(query, Value::Object);
    Ok(json!({
        "name": SEARCH,
        "description": description.unwrap_or("Searches for tools, which can be called afterwards."),
        "parameters": parameters,
    }))
}

fn query() -> Value {
    json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]})
}

/// The arguments of a call as an object. Those of one that was cut are empty.
pub fn arguments(text: &str) -> Value {
    serde_json::from_str(text).ok().filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// The result of a search, for the model. `tools`: what it found.
pub fn result(tools: &[Value]) -> String {
    let mut names = Vec::new();
    for tool in tools {
        let name = tool["name"].as_str().unwrap_or_default();
        match tool["tools"].as_array() {
            Some(_) if name.len() > MAX_NAME_BYTES => {} // No function of it can be called.
            Some(within) => {
                let within = within.iter().filter_map(|tool| tool["name"].as_str());
                names.extend(within.map(|own| function_name(Some(name), own)));
            }
            None => names.push(name.to_owned()),
        }
    }
    if names.is_empty() {
        return "No tool was found.".to_owned();
    }
    format!("These tools can be called now:\n{}", names.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_names_the_functions_that_the_chat_has() {
        let within = json!([{"type": "function", "name": "send"}]);
        let tools = [
            json!({"type": "namespace", "name": "mail", "tools": within}),
            json!({"type": "function", "name": "light"}),
        ];
        assert_eq!(result(&tools), "These tools can be called now:\nmail__send\nlight");
        assert_eq!(result(&[]), "No tool was found.");
        let within = json!([{"type": "function", "name": "send"}]);
        let long = json!({"type": "namespace", "name": "n".repeat(129), "tools": within});
        assert_eq!(result(&[long]), "No tool was found.");
    }
}
