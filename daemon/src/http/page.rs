//! The page at `/`: what this is and how to talk to it. Static, and the same for everyone.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse};

const PAGE: &str = include_str!("page.html");

/// Nothing may be loaded, run or framed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'none'";

/// `GET /`
pub async fn index() -> impl IntoResponse {
    let headers: [(HeaderName, HeaderValue); 2] = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, Html(PAGE))
}
