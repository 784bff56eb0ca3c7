//! The page at `/`: the same one that the desktop app shows.
//!
//! - It lies in `app/ui` and is embedded, so that `hobd` is one file. A debug build reads it from the
//!   source tree each time, so that it can be edited while `hobd` runs.
//! - It holds no secret and is the same for everyone; its requests carry the token.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{Embed, EmbeddedFile};

#[derive(Embed)]
#[folder = "$CARGO_MANIFEST_DIR/../app/ui"]
struct Page;

/// Model output is hostile input: nothing runs, is loaded or is sent anywhere that is not ours.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether this path is one of the page's files, which everybody may read.
pub fn is_page(path: &str) -> bool {
    kind(file_name(path)).is_some() && Page::get(file_name(path)).is_some()
}

/// What no route serves: a file of the page, or nothing.
pub async fn file(request: Request) -> Response {
    let path = request.uri().path();
    let name = file_name(path);
    let (Some(file), Some(kind)) = (Page::get(name), kind(name)) else {
        return super::respond::no_such_path().await.into_response();
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return super::respond::no_such_method().await.into_response();
    }
    let tag = tag(&file);
    if request.headers().get(header::IF_NONE_MATCH) == Some(&tag) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let headers: [(HeaderName, HeaderValue); 6] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("permissions-policy"), HeaderValue::from_static(PERMISSIONS)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, tag),
    ];
    (headers, file.data).into_response()
}

/// What the page may ask the browser for: the microphone, to talk.
const PERMISSIONS: &str = "camera=(), geolocation=(), payment=(), usb=(), microphone=(self)";

fn file_name(path: &str) -> &str {
    match path.trim_start_matches('/') {
        "" => "index.html",
        name => name,
    }
}

fn tag(file: &EmbeddedFile) -> HeaderValue {
    let hash: String =
        file.metadata.sha256_hash()[..8].iter().map(|b| format!("{b:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hash}\"")).expect("hex digits make a header")
}

/// By the few endings that the page has; what lies beside it for its authors is not served.
fn kind(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "json" => Some("application/json"),
        "svg" => Some("image/svg+xml"),
        "png" => Some("image/png"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_public_and_nothing_beside_it() {
        assert!(is_page("/"));
        assert!(is_page("/app.js"));
        for not in ["/v1/status", "/../Cargo.toml", "/lib", "/README.md", "//etc/passwd"] {
            assert!(!is_page(not), "{not}");
        }
    }

    /// But for the way to the shell.
    #[test]
    fn the_apps_window_has_the_same_policy() {
        let tauri = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tauri.conf.json"));
        let tauri: serde_json::Value = serde_json::from_str(tauri).unwrap();
        let policy = tauri["app"]["security"]["csp"].as_str().unwrap();
        assert_eq!(policy.replace(" ipc: http://ipc.localhost", ""), POLICY);
    }

    /// As they lie on the disk, comments and all; beside them only what others wrote, and the texts.
    #[test]
    fn the_scripts_and_styles_that_are_ours_stay_small() {
        let is_ours = |name: &str| !name.starts_with("vendor/");
        let is_code = |name: &str| name.ends_with(".js") || name.ends_with(".css");
        let files = Page::iter().filter(|name| is_ours(name) && is_code(name));
        let bytes: usize =
            files.map(|name| Page::get(&name).expect("it is listed").data.len()).sum();
        assert!(bytes < 200_000, "the page's own scripts and styles have {bytes} bytes");
    }
}
