//! Who says a message.

use crate::error::ApiError;
use crate::wire::fields::unsupported;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    /// OpenAI's newer word for `System`.
    Developer,
    User,
    Assistant,
    Tool,
}

impl Role {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Whether its messages instruct the model.
    pub fn instructs(self) -> bool {
        matches!(self, Self::System | Self::Developer)
    }

    pub(super) fn parse(text: &str, path: &str) -> Result<Self, ApiError> {
        match text {
            "system" => Ok(Self::System),
            "developer" => Ok(Self::Developer),
            "user" => Ok(Self::User),
            "assistant" => Ok(Self::Assistant),
            "tool" => Ok(Self::Tool),
            "function" => {
                Err(unsupported(path, "role `function` is superseded: use `tools` and role `tool`"))
            }
            other => Err(ApiError::field(
                path,
                format!(
                    "`{path}` must be one of system, developer, user, assistant, tool, not `{}`",
                    other.escape_debug()
                ),
            )),
        }
    }
}
