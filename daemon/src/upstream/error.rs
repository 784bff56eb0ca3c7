//! Why the engine at the other address gave no answer, each with what can be done.

use serde_json::Value;

use crate::error::{ApiError, ErrorKind, Overflow};

const MAX_QUOTED_CHARS: usize = 1000;

/// The words by which engines say that a prompt is too long.
const TOO_LONG: [&str; 4] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "maximum context length",
    "longer than the model's context length",
];

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum UpstreamError {
    #[error(
        "the upstream {url} cannot be reached ({reason}): start its server, or correct the setting `upstream`"
    )]
    Unreachable { url: String, reason: String },
    #[error(
        "the upstream {url} has sent nothing for {secs} s: check its server, or raise `upstream_timeout_secs`"
    )]
    Silent { url: String, secs: u64 },
    #[error(
        "the upstream {url} broke the answer off ({reason}): check its server; the text so far is stored, ask again"
    )]
    Broken { url: String, reason: String },
    #[error(
        "the upstream {url} answers in another way than OpenAI's API ({what}): correct the setting `upstream`"
    )]
    Foreign { url: String, what: String },
    #[error(
        "the upstream {url} gave {given} of {asked} answers: ask it for one in each request, by one prompt and without `n`"
    )]
    TooFew { url: String, given: usize, asked: usize },
    #[error(
        "the upstream {url} refuses the token: write the one that its server expects to the file of the setting `upstream_token_file`"
    )]
    Token { url: String },
    #[error("the upstream {url} is busy: {message}")]
    Busy {
        url: String,
        message: String,
        /// Its header of that name.
        retry_after: Option<Box<str>>,
    },
    #[error("the upstream {url} refuses the request: {message}")]
    Refused {
        url: String,
        message: String,
        /// The wrong field.
        param: Option<String>,
        /// The prompt is too long.
        is_too_long: bool,
        overflow: Option<Overflow>,
    },
    #[error("the upstream {url} failed: {message}; check its server")]
    Failed { url: String, message: String },
}

impl UpstreamError {
    /// The same with the header `Retry-After` of the answer, where the engine is busy.
    pub fn with_retry_after(mut self, header: Option<&str>) -> Self {
        if let Self::Busy { retry_after, .. } = &mut self {
            *retry_after = header.map(Box::from);
        }
        self
    }

    /// What an answer with this status and body, or an event of a stream, says.
    pub fn of_answer(url: &str, status: u16, body: &str) -> Self {
        let json: Value = serde_json::from_str(body).unwrap_or_default();
        let error = json.get("error").unwrap_or(&json);
        let url = url.to_owned();
        let text = |name: &str| error[name].as_str().map(str::to_owned);
        let detail = json["detail"].as_str().map(str::to_owned);
        let said = text("message").or(detail).or_else(|| error.as_str().map(str::to_owned));
        let whole = said.unwrap_or_else(|| format!("status {status}"));
        let message: String = whole.chars().take(MAX_QUOTED_CHARS).collect();
        match status {
            401 | 403 => Self::Token { url },
            429 | 503 => Self::Busy { url, message, retry_after: None },
            404 if json.is_null() => Self::Foreign { url, what: "it has no such route".to_owned() },
            400..=499 => {
                let number = |name: &str| error[name].as_u64().map(|count| count as usize);
                let overflow = number("n_prompt_tokens").zip(number("n_ctx"));
                let overflow = overflow.map(|(prompt_tokens, context_tokens)| Overflow {
                    prompt_tokens,
                    context_tokens,
                });
                let said = [Some(message.clone()), text("code"), text("type")];
                let is_too_long = said.into_iter().flatten().any(|text| {
                    let text = text.to_lowercase();
                    TOO_LONG.iter().any(|words| text.contains(words))
                });
                Self::Refused { url, message, param: text("param"), is_too_long, overflow }
            }
            _ => Self::Failed { url, message },
        }
    }
}

impl From<UpstreamError> for ApiError {
    fn from(error: UpstreamError) -> Self {
        let message = error.to_string();
        let gateway = |code| Self::new(ErrorKind::Upstream, message.clone()).code(code);
        match error {
            UpstreamError::Unreachable { .. } => gateway("upstream_unreachable"),
            UpstreamError::Silent { .. } => gateway("upstream_timeout"),
            UpstreamError::Broken { .. } => gateway("upstream_broken"),
            UpstreamError::Foreign { .. } | UpstreamError::TooFew { .. } => {
                gateway("upstream_foreign")
            }
            UpstreamError::Token { .. } => gateway("upstream_token"),
            UpstreamError::Failed { .. } => gateway("upstream_failed"),
            UpstreamError::Busy { retry_after, .. } => {
                let error = Self::new(ErrorKind::Busy, message).code("upstream_busy");
                Self { retry_after, ..error }
            }
            UpstreamError::Refused { param, is_too_long, overflow, .. } => {
                let code = if is_too_long { "context_length_exceeded" } else { "upstream_refused" };
                let error = Self::new(ErrorKind::Invalid, message).code(code);
                Self { param, overflow, ..error }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://engine:8000";

    fn refused(status: u16, body: &str) -> ApiError {
        UpstreamError::of_answer(URL, status, body).into()
    }

    #[test]
    fn errors_of_engines_become_hobs_with_the_address_in_them() {
        for (status, body, expected, code) in [
            (400, r#"{"error": {"message": "no", "param": "top_k"}}"#, 400, "upstream_refused"),
            (422, r#"{"detail": "no"}"#, 400, "upstream_refused"),
            (401, r#"{"error": "no"}"#, 502, "upstream_token"),
            (404, "not found", 502, "upstream_foreign"),
            (429, r#"{"error": {"message": "wait"}}"#, 503, "upstream_busy"),
            (500, "<html>", 502, "upstream_failed"),
        ] {
            let error = refused(status, body);
            assert_eq!((error.kind.status(), error.code), (expected, Some(code)), "{body}");
            assert!(error.message.contains(URL), "{}", error.message);
        }
        assert!(refused(500, "<html>").message.contains("check its server"));
    }

    #[test]
    fn a_prompt_that_is_too_long_is_told_in_each_engines_words() {
        let llama = r#"{"error": {"code": 400, "message": "the request exceeds the available context size",
            "type": "exceed_context_size_error", "n_prompt_tokens": 90, "n_ctx": 64}}"#;
        let vllm = r#"{"error": {"message": "This model's maximum context length is 64 tokens."}}"#;
        let overflow = Some(Overflow { prompt_tokens: 90, context_tokens: 64 });
        for (body, overflow) in [(llama, overflow), (vllm, None)] {
            let error = refused(400, body);
            assert_eq!(error.code, Some("context_length_exceeded"));
            assert_eq!(error.overflow, overflow);
        }
    }
}
