//! The local shell: a tool of OpenAI's that the client runs. To the model it is a function with the fields of an
//! action.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::wire::fields::Fields;

pub const NAME: &str = "local_shell";

/// What the model writes of an action.
const WRITTEN: [&str; 3] = ["command", "working_directory", "timeout_ms"];

pub fn function() -> Value {
    json!({
        "name": NAME,
        "description": "Runs a command on the user's machine.",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "array", "items": {"type": "string"},
                            "description": "The program, and each of its arguments."},
                "working_directory": {"type": "string"},
                "timeout_ms": {"type": "integer"},
            },
            "required": ["command"],
            "additionalProperties": false,
        },
    })
}

/// The action of a call. One that was cut has no command.
pub fn action(arguments: &str) -> Value {
    let written: Value = serde_json::from_str(arguments).unwrap_or_default();
    let command = written["command"].as_array().cloned().unwrap_or_default();
    json!({
        "type": "exec", "command": command, "env": {}, "timeout_ms": written["timeout_ms"],
        "user": null, "working_directory": written["working_directory"],
    })
}

/// The arguments of a call with this action.
///
/// # Errors
/// When its command is no list.
pub fn arguments(action: &Fields<'_>) -> Result<String, ApiError> {
    action.required("command")?;
    action.list("command")?;
    let written = |name: &str| Some((name.to_owned(), action.get(name)?.clone()));
    Ok(Value::Object(WRITTEN.into_iter().filter_map(written).collect()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_written_as_arguments_again() {
        let text = r#"{"command":["ls","-a"],"timeout_ms":5}"#;
        let read = action(text);
        assert_eq!((&read["type"], &read["env"]), (&json!("exec"), &json!({})));
        assert_eq!(read["working_directory"], Value::Null);
        assert_eq!(arguments(&Fields::of(&read, "action").unwrap()).unwrap(), text);
        assert_eq!(action(r#"{"command":["l"#)["command"], json!([]));
    }
}
