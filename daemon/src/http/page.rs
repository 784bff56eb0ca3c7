//! The page at `/`: the same one that the desktop app shows.
//!
//! - A release build embeds `app/ui` as `hob-page` joins it, so `hobd` is one file. A debug build reads
//!   the files from the source tree at each request: edit and reload.
//! - The files hold no secret and are served without a token; the page's requests carry it.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hob_slots::hex_text;
use rust_embed::{Embed, EmbeddedFile};

#[derive(Embed)]
#[cfg_attr(debug_assertions, folder = "$CARGO_MANIFEST_DIR/../app/ui")]
#[cfg_attr(not(debug_assertions), folder = "$OUT_DIR/page")]
struct Page;

/// Model output is hostile input: scripts, resources and requests are limited to this origin.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether the path names a file of the page, which is served without a token.
pub fn is_page(path: &str) -> bool {
    kind(file_name(path)).is_some() && Page::get(file_name(path)).is_some()
}

/// The router's fallback: a file of the page, or 404.
pub async fn file(request: Request) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    if method == Method::GET && uri.path() == "/" && asks_for_no_page(request.headers()) {
        return OLLAMAS_GREETING.into_response();
    }
    let name = file_name(uri.path());
    let (Some(file), Some(kind)) = (Page::get(name), kind(name)) else {
        return super::respond::no_such_path(method, uri).await.into_response();
    };
    if !matches!(method, Method::GET | Method::HEAD) {
        return super::respond::no_such_method(method, uri).await.into_response();
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

/// What programs for Ollama look for at `/`.
const OLLAMAS_GREETING: &str = "Ollama is running";

/// Whether a request names what it accepts, and a page is not among it. Browsers name `text/html`.
fn asks_for_no_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| !accepted.contains("text/html"))
}

/// The page may use the microphone, for push-to-talk, and no other device.
const PERMISSIONS: &str = "camera=(), geolocation=(), payment=(), usb=(), microphone=(self)";

fn file_name(path: &str) -> &str {
    match path.trim_start_matches('/') {
        "" => "index.html",
        name => name,
    }
}

fn tag(file: &EmbeddedFile) -> HeaderValue {
    let hash = hex_text(&file.metadata.sha256_hash()[..8]);
    HeaderValue::from_str(&format!("\"{hash}\"")).expect("hex digits make a header")
}

/// The content type, by extension. Other files of the directory, such as its README, are not
/// served.
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
    use std::collections::BTreeSet;
    use std::io::Write;
    use std::sync::LazyLock;

    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use hob_page::{ENTRY, Files};

    #[test]
    fn the_page_is_public_and_nothing_beside_it() {
        assert!(is_page("/"));
        assert!(is_page("/app.js"));
        for not in ["/v1/status", "/../Cargo.toml", "/lib", "/README.md", "//etc/passwd"] {
            assert!(!is_page(not), "{not}");
        }
    }

    /// Except for the connection to the shell.
    #[test]
    fn the_apps_window_has_the_same_policy() {
        let tauri = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tauri.conf.json"));
        let tauri: serde_json::Value = serde_json::from_str(tauri).unwrap();
        let policy = tauri["app"]["security"]["csp"].as_str().unwrap();
        assert_eq!(policy.replace(" ipc:", ""), POLICY);
    }

    const MAX_GZIPPED_BYTES: usize = 120 * 1024;

    /// Loaded with the first message and with the first formula.
    const LOADED_LATER: [&str; 2] = ["vendor/markdown-it.js", "vendor/temml.js"];

    /// These styles import all others.
    const JOINED_STYLES: [&str; 3] = ["style/connect.css", "style/main.css", "style/pages.css"];

    /// The page's scripts and styles, as one gzip stream at the level of `CompressionLayer`.
    /// Translated strings do not count.
    #[test]
    fn the_pages_scripts_and_styles_stay_below_120_kib_gzipped() {
        let is_first = |name: &str| !LOADED_LATER.contains(&name);
        let is_code = |name: &str| name.ends_with(".js") || JOINED_STYLES.contains(&name);
        let counted = SENT.iter().filter(|(name, _)| is_first(name) && is_code(name));

        let whole: String = counted.map(|(_, text)| text.as_str()).collect();
        let bytes = gzipped_bytes(&whole);

        assert!(bytes < MAX_GZIPPED_BYTES, "{bytes} bytes, of at most {MAX_GZIPPED_BYTES}");
    }

    const INDEX: &str = "index.html";
    const MAX_FIRST_MESSAGE_BYTES: usize = 120_000;

    /// Loaded when a chat is opened, for its messages.
    const WITH_A_MESSAGE: &str = "chat/rich-text.js";

    /// All that a browser loads for a chat with a message, as `hobd` sends it: each file gzipped by
    /// itself, with the texts of either language. The other pages are loaded when nothing else is, and
    /// what is opened from a chat when it is opened.
    #[test]
    fn a_chat_with_its_first_message_stays_below_120_000_bytes_gzipped() {
        let quoted = ["href=\"", "src=\""].into_iter().flat_map(|at| SENT[INDEX].split(at).skip(1));
        let linked =
            quoted.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name.to_owned());
        let names: BTreeSet<_> = linked
            .chain(hob_page::modules(WITH_A_MESSAGE, &SENT))
            .chain([INDEX.to_owned()])
            .collect();
        assert!(names.contains(ENTRY) && names.contains("style/main.css"), "{names:?}");
        assert!(names.contains("vendor/markdown-it.js"), "{names:?}");
        let size = |name: &str| gzipped_bytes(&SENT[name]);
        let code: usize = names.iter().map(|name| size(name)).sum();

        for language in ["en", "de"] {
            let texts = size(&format!("strings/{language}.json"));
            let (bytes, files) = (code + texts, names.len() + 1);

            println!("{language}: {bytes} bytes in {files} files, {texts} of them texts");
            let most = MAX_FIRST_MESSAGE_BYTES;
            assert!(bytes < most, "{language}: {bytes} bytes in {files} files, of at most {most}");
        }
    }

    /// The files that a release build embeds.
    static SENT: LazyLock<Files> = LazyLock::new(|| {
        let read = |name: &str| {
            let file = Page::get(name).expect("it was listed");
            String::from_utf8(file.data.into_owned()).expect("the page is text")
        };
        let files = Page::iter().map(|name| (name.to_string(), read(&name))).collect();
        if cfg!(debug_assertions) { hob_page::embedded(&files) } else { files }
    });

    fn gzipped_bytes(content: &str) -> usize {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(content.as_bytes()).unwrap();
        gzip.finish().unwrap().len()
    }
}
