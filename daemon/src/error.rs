//! The errors of the HTTP API: OpenAI's error object, and its status.
//!
//! - Every failure of every route is an [`ApiError`].
//! - A message names what is wrong and, if there is one, the remedy. It never quotes a prompt.

use std::error::Error;
use std::{fmt, io};

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
    /// A queue is full, or a part that the request needs fails now: the same request may succeed later.
    Busy,
    /// The disk is full.
    InsufficientStorage,
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
            Self::InsufficientStorage => 507,
        }
    }

    pub fn type_name(self) -> &'static str {
        match self {
            Self::Unauthorized => "authentication_error",
            Self::Forbidden => "permission_error",
            Self::Busy => "overloaded_error",
            Self::Internal | Self::InsufficientStorage | Self::NotImplemented | Self::Upstream => {
                "server_error"
            }
            _ => "invalid_request_error",
        }
    }
}

/// What a message of a full disk ends with.
const FREE_SPACE: &str =
    "free space there; `hob slots prune` deletes saved KV, which slots_quota_bytes bounds";

/// Code of a prewarm that another prefill of its conversation replaced.
pub const SUPERSEDED: &str = "superseded";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub kind: ErrorKind,
    pub message: String,
    /// The path of the wrong field: `messages[2].role`.
    pub param: Option<String>,
    pub code: Option<&'static str>,
    /// Set for a prompt that is too long.
    pub overflow: Option<Overflow>,
    /// What the engine at another address says of the next attempt, as its header has it.
    pub retry_after: Option<Box<str>>,
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
        let (param, code, overflow, retry_after) = (None, None, None, None);
        Self { kind, message: message.into(), param, code, overflow, retry_after }
    }

    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message).param(param).code("invalid_value")
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message).code("not_found")
    }

    /// A conversation that is not stored.
    pub fn no_such_conversation() -> Self {
        Self::not_found("there is no conversation of this name").code("conversation_not_found")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message).code("internal_error")
    }

    /// This error, unless `cause` is a full disk: that has a status and a remedy of its own. The message names the
    /// directory.
    pub fn unless_disk_full(self, cause: &(dyn Error + 'static)) -> Self {
        if !is_disk_full(cause) {
            return self;
        }
        let message = format!("{}: {FREE_SPACE}", self.message);
        Self { kind: ErrorKind::InsufficientStorage, message, ..self }.code("disk_full")
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

impl Error for ApiError {}

/// Whether the error or one of its causes is that of a write without room, of a file or of SQLite.
fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let of_file = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let of_database =
        error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    matches!(of_file, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
        || of_database == Some(rusqlite::ErrorCode::DiskFull)
        || error.source().is_some_and(is_disk_full)
}

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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hob_slots::archive::ArchiveError;
    use hob_slots::maintenance::MaintenanceError;
    use hob_slots::store::StoreError;
    use rustix::io::Errno;

    use super::*;

    fn store_error(source: io::Error) -> StoreError {
        StoreError::Io { doing: "write", path: PathBuf::from("/data/slots"), source }
    }

    fn failed(cause: &(dyn Error + 'static)) -> ApiError {
        ApiError::internal(cause.to_string()).code("slots").unless_disk_full(cause)
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures_in_whichever_error_it_comes() {
        let full = || io::Error::from(Errno::NOSPC);
        let over_quota = io::Error::from(Errno::DQUOT);
        let sqlite = |code| {
            rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some("it".to_owned()))
        };
        let causes: [&(dyn Error + 'static); 6] = [
            &full(),
            &over_quota,
            &io::Error::other(store_error(full())),
            &ArchiveError::Store(store_error(full())),
            &MaintenanceError::Store(store_error(full())),
            &sqlite(rusqlite::ffi::SQLITE_FULL),
        ];
        for cause in causes {
            let error = failed(cause);
            assert_eq!((error.kind.status(), error.code), (507, Some("disk_full")), "{cause:?}");
            assert_eq!(error.kind.type_name(), "server_error");
            for remedy in ["free space", "hob slots prune", "slots_quota_bytes"] {
                assert!(error.message.contains(remedy), "{error}");
            }
        }
        let other = io::Error::from(io::ErrorKind::PermissionDenied);
        let causes: [&(dyn Error + 'static); 2] =
            [&store_error(other), &sqlite(rusqlite::ffi::SQLITE_CORRUPT)];
        for cause in causes {
            let error = failed(cause);
            assert_eq!((error.kind.status(), error.code), (500, Some("slots")), "{cause:?}");
            assert_eq!(error.message, cause.to_string());
        }
    }

    #[test]
    fn the_message_of_a_full_disk_names_the_directory() {
        let full = store_error(io::ErrorKind::StorageFull.into());
        assert!(failed(&full).message.contains("/data/slots"), "{}", failed(&full));
    }
}
