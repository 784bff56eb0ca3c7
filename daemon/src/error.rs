//! What a caller is told when a request cannot be served: OpenAI's error object, and its status.
//!
//! - Every failure on every route is one [`ApiError`]; nothing else is ever shown to a client.
//! - A message names what is wrong and, where there is one, the remedy. It never quotes a prompt.

use std::fmt;

use hob_runtime::TurnError;
use serde_json::{Value, json};

/// What kind of failure this is; it decides the HTTP status and OpenAI's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself is wrong.
    Invalid,
    /// No token, or not the right one.
    Unauthorized,
    /// A host or an origin that this daemon does not serve.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// Something that was decided elsewhere, or meanwhile, stands against it.
    Conflict,
    /// The body did not arrive in time.
    Timeout,
    /// The body is larger than the daemon reads.
    TooLarge,
    /// The body is not JSON.
    UnsupportedMedia,
    /// Something that this daemon was not set up for.
    NotImplemented,
    /// More work is waiting than the queue holds.
    Busy,
    /// A failure of ours.
    Internal,
}

impl ErrorKind {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Timeout => 408,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::UnsupportedMedia => 415,
            Self::Internal => 500,
            Self::NotImplemented => 501,
            Self::Busy => 503,
        }
    }

    /// OpenAI's `type`.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Unauthorized => "authentication_error",
            Self::Forbidden => "permission_error",
            Self::Busy => "overloaded_error",
            Self::Internal | Self::NotImplemented => "server_error",
            _ => "invalid_request_error",
        }
    }
}

/// One failure, as the client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
    /// The field that is wrong, as a path: `messages[2].role`.
    pub param: Option<String>,
    /// For programs.
    pub code: Option<&'static str>,
}

impl ApiError {
    /// A failure with neither a field nor a code.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, code: None }
    }

    /// A field that is wrong.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message).param(param).code("invalid_value")
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message).code("not_found")
    }

    /// A failure of ours.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message).code("internal_error")
    }

    /// Names the field.
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Names the cause.
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// `{"error": {...}}`.
    pub fn to_json(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind.type_name(),
            "param": self.param,
            "code": self.code,
        }})
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl From<TurnError> for ApiError {
    fn from(error: TurnError) -> Self {
        let message = error.to_string();
        match error {
            TurnError::TooLong { .. } => {
                Self::new(ErrorKind::Invalid, message).code("context_length_exceeded")
            }
            TurnError::EmptyPrompt => Self::new(ErrorKind::Invalid, message).code("empty_prompt"),
            TurnError::UnknownToken { .. } => {
                Self::new(ErrorKind::Invalid, message).code("unknown_token")
            }
            TurnError::NotEmbedding | TurnError::NotGenerative => {
                Self::new(ErrorKind::Invalid, message).code("unsupported_model")
            }
            TurnError::Grammar(_) => Self::new(ErrorKind::Invalid, message).code("grammar"),
            TurnError::Busy { .. } => Self::new(ErrorKind::Busy, message).code("queue_full"),
            TurnError::Forgotten => {
                Self::new(ErrorKind::NotFound, message).code("conversation_deleted")
            }
            TurnError::NotResident => Self::new(ErrorKind::Busy, message).code("not_resident"),
            TurnError::Superseded => Self::new(ErrorKind::Busy, message).code("superseded"),
            TurnError::Stopped => Self::new(ErrorKind::Busy, message).code("stopping"),
            TurnError::Backend(_) => Self::internal(message).code("backend"),
        }
    }
}
