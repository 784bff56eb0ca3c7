//! Paths as clients spell them, and what an unknown one is answered.
//!
//! - A client that lacks `/v1` in its base address, ends it with a slash or repeats a part of it reaches the
//!   same routes.
//! - Access is checked for the path that is routed.

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// A message quotes as many characters of an unknown path.
const MAX_SHOWN_CHARS: usize = 100;

/// Routes that clients also ask for without `/v1`, and those that names and ids follow.
const WITHOUT_VERSION: [&str; 7] = [
    "/chat/completions",
    "/chat/completions/input_tokens",
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
    "/messages",
    "/messages/count_tokens",
];
const WITH_NAMES: [&str; 3] = ["/conversations", "/models", "/responses"];

/// Routes of OpenAI's API that Ollama's server has, too. They read no stored text that the request does not name, and
/// refuse requests without the token that name some.
const OPENAIS_OF_OLLAMA: [&str; 5] =
    ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/responses"];

/// How paths of other servers end, and what hobd has instead. The first that fits counts.
const INSTEAD: [(&str, &str); 10] = [
    ("/chat/completions", "POST /v1/chat/completions"),
    ("/responses", "POST /v1/responses"),
    ("/api/chat", "POST /api/chat"),
    ("/api/generate", "POST /api/generate"),
    ("/completions", "POST /v1/completions"),
    ("/completion", "POST /completion"),
    ("/embedding", "POST /v1/embeddings"),
    ("/embeddings", "POST /v1/embeddings"),
    ("/api/embed", "POST /api/embed"),
    ("/api/tags", "GET /api/tags"),
];

/// Routes a request by the usual spelling of its path.
pub async fn respell(mut request: Request) -> Request {
    if let Some(path) = usual(request.uri().path()) {
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = PathAndQuery::try_from(path + &query).ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// `None`: it is spelled as usual.
fn usual(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut usual = format!("/{}", parts.join("/"));
    while usual.starts_with("/v1/v1/") {
        usual.drain(..3);
    }
    if usual == "/v1/health" {
        usual.drain(..3);
    }
    let rest = WITH_NAMES.iter().find_map(|route| usual.strip_prefix(route));
    let has_name = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if has_name || WITHOUT_VERSION.contains(&usual.as_str()) {
        usual.insert_str(0, "/v1");
    }
    (usual != path).then_some(usual)
}

/// Whether a route of this path is one of Ollama's API.
pub fn is_ollamas(path: &str) -> bool {
    path.starts_with("/api/")
}

/// Whether programs that were written for Ollama's server ask at this path: its own API, and OpenAI's.
pub fn is_of_ollamas_server(path: &str) -> bool {
    is_ollamas(path) || OPENAIS_OF_OLLAMA.contains(&path)
}

/// The path, for a message.
pub fn shown(path: &str) -> String {
    let mut characters = path.escape_debug();
    let mut shown: String = characters.by_ref().take(MAX_SHOWN_CHARS).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// A route that does what another server does at this path.
pub fn instead(path: &str) -> Option<&'static str> {
    INSTEAD.iter().find(|(end, _)| path.ends_with(end)).map(|(_, route)| *route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_are_those_of_the_routes() {
        for (path, expected) in [
            ("/", None),
            ("/v1/models/a/b", None),
            ("/health", None),
            ("/chat/thread.js", None),
            ("//", Some("/")),
            ("/v1/", Some("/v1")),
            ("/v1//conversations/a%2F/", Some("/v1/conversations/a%2F")),
            ("/v1/v1/models", Some("/v1/models")),
            ("/models/a/b", Some("/v1/models/a/b")),
            ("/modelsx", None),
            ("/responses", Some("/v1/responses")),
            ("/conversations", Some("/v1/conversations")),
            ("/conversations/a%2F/items", Some("/v1/conversations/a%2F/items")),
            ("/responses/resp_1_a/cancel", Some("/v1/responses/resp_1_a/cancel")),
            ("/v1/health/", Some("/health")),
        ] {
            assert_eq!(usual(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_path_is_shown_in_one_line_of_bounded_length() {
        assert_eq!(shown("/a\u{7}"), "/a\\u{7}");
        assert_eq!(shown(&"é".repeat(500)).chars().count(), MAX_SHOWN_CHARS + 1);
    }
}
