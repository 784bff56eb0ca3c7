//! The errors of the HTTP API: OpenAI's error object, and its status.
//!
//! - Every failure of every route is an [`ApiError`].
//! - A message names what is wrong and, if there is one, the remedy. It never quotes a prompt.

use std::fmt;

use hob_runtime::TurnError;
use serde_json::{Value, json};

/// Decides the HTTP status and OpenAI's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    Invalid,
    /// The access token is missing or wrong.
    Unauthorized,
    /// This daemon does not serve the host or the origin.
    Forbidden,
    NotFound,
    MethodNotAllowed,
    /// A setting or a newer change contradicts the request.
    Conflict,
    /// The body did not arrive in time.
    Timeout,
    /// The body is above the limit.
    TooLarge,
    /// The body is not JSON.
    UnsupportedMedia,
    /// This daemon is not configured for it.
    NotImplemented,
    /// The engine at another address gave no answer.
    Upstream,
    /// A queue is full.
    Busy,
    Internal,
}

impl ErrorKind {
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
            Self::Upstream => 502,
            Self::Busy => 503,
        }
    }

    pub fn type_name(self) -> &'static str {
        match self {
            Self::Unauthorized => "authentication_error",
            Self::Forbidden => "permission_error",
            Self::Busy => "overloaded_error",
            Self::Internal | Self::NotImplemented | Self::Upstream => "server_error",
            _ => "invalid_request_error",
        }
    }
}

/// Code of a prewarm that another prefill of its conversation replaced.
pub const SUPERSEDED: &str = "superseded";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub kind: ErrorKind,
    pub message: String,
    /// The path of the wrong field: `messages[2].role`.
    pub param: Option<String>,
    pub code: Option<&'static str>,
    /// Of a prompt that is too long.
    pub overflow: Option<Overflow>,
}

/// Clients shorten a prompt by these numbers, and read them from the words of their own API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    pub prompt_tokens: usize,
    /// What a conversation holds at most.
    pub context_tokens: usize,
}

impl ApiError {
    /// Without a field and without a code.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, code: None, overflow: None }
    }

    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message).param(param).code("invalid_value")
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message).code("not_found")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message).code("internal_error")
    }

    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// A prompt that is too long, in OpenAI's words, which clients search for the numbers, and with the code, for
    /// which those search that read nothing but the message. `way`: what else than a shorter prompt helps.
    fn overflow(overflow: Overflow, way: &str) -> Self {
        let Overflow { prompt_tokens, context_tokens } = overflow;
        let message = format!(
            "This model's maximum context length is {context_tokens} tokens. However, your \
             messages resulted in {prompt_tokens} tokens. Please reduce the length of the \
             messages, or {way} (context_length_exceeded)"
        );
        let error = Self::new(ErrorKind::Invalid, message).code("context_length_exceeded");
        Self { overflow: Some(overflow), ..error }
    }

    /// `{"error": {...}}`.
    pub fn to_json(&self) -> Value {
        let mut error = json!({
            "message": self.message,
            "type": self.kind.type_name(),
            "param": self.param,
            "code": self.code,
        });
        if let Some(Overflow { prompt_tokens, context_tokens }) = self.overflow {
            // llama-server's type and numbers, by which its clients shorten a prompt.
            error["type"] = "exceed_context_size_error".into();
            error["n_prompt_tokens"] = prompt_tokens.into();
            error["n_ctx"] = context_tokens.into();
        }
        json!({ "error": error })
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
            TurnError::TooLong { prompt_tokens, context_tokens, no_eviction } => {
                let way = match no_eviction {
                    None => "start hobd with a larger --ctx (up to the context that the model was \
                             trained with)."
                        .to_owned(),
                    Some(why) => {
                        format!("{}. A conversation stays in its cells: {why}.", why.remedy())
                    }
                };
                Self::overflow(Overflow { prompt_tokens, context_tokens }, &way)
            }
            TurnError::BudgetTooSmall(_) => {
                Self::field("hob.budget", message).code("budget_too_small")
            }
            TurnError::CacheTooSmall { prompt_tokens, cells, why } if prompt_tokens > cells => {
                let way = format!("start with a larger --ctx, because {why}.");
                Self::overflow(Overflow { prompt_tokens, context_tokens: cells }, &way)
            }
            TurnError::CacheTooSmall { .. } => {
                Self::new(ErrorKind::Invalid, message).code("budget_too_small")
            }
            TurnError::DiskTooSlow { .. } => {
                Self::new(ErrorKind::Busy, message).code("disk_too_slow")
            }
            TurnError::EmptyPrompt => Self::new(ErrorKind::Invalid, message).code("empty_prompt"),
            TurnError::UnknownToken { .. } => {
                Self::new(ErrorKind::Invalid, message).code("unknown_token")
            }
            TurnError::NotEmbedding
            | TurnError::NotGenerative
            | TurnError::Ranks
            | TurnError::NotRanking => {
                Self::new(ErrorKind::Invalid, message).code("unsupported_model")
            }
            TurnError::Adapter(_) => Self::field("lora", message).code("adapter_unusable"),
            TurnError::Grammar(_) => Self::new(ErrorKind::Invalid, message).code("grammar"),
            TurnError::Busy { .. } => Self::new(ErrorKind::Busy, message).code("queue_full"),
            TurnError::Forgotten => {
                Self::new(ErrorKind::NotFound, message).code("conversation_deleted")
            }
            TurnError::NotResident => Self::new(ErrorKind::Busy, message).code("not_resident"),
            TurnError::Superseded => Self::new(ErrorKind::Busy, message).code(SUPERSEDED),
            TurnError::Stopped => Self::new(ErrorKind::Busy, message).code("stopping"),
            TurnError::Dead(_) => Self::new(ErrorKind::Busy, message).code("engine_dead"),
            TurnError::Backend(_) | TurnError::NotANumber => {
                Self::internal(message).code("backend")
            }
            TurnError::NotForgotten(_) => Self::internal(message).code("not_deleted"),
        }
    }
}
