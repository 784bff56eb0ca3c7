//! `open_link`: opens a link that the user confirmed in the system's program for it.

use tauri::{AppHandle, Url};
use tauri_plugin_opener::OpenerExt;

/// The page has asked the user.
#[tauri::command]
pub fn open_link(app: AppHandle, url: String) -> Result<(), String> {
    let url = accepted(&url)?;
    app.opener().open_url(url, None::<&str>).map_err(|error| error.to_string())
}

/// Accepts web pages and mail addresses: other schemes may start programs.
fn accepted(text: &str) -> Result<String, String> {
    let refused = || "only links to pages and mail addresses are opened".to_owned();
    let url = Url::parse(text).map_err(|_| refused())?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url.into()),
        "mailto" if !attaches(&url) => Ok(url.into()),
        _ => Err(refused()),
    }
}

/// Whether a mail link attaches a file, which some mail programs do without asking.
fn attaches(mail: &Url) -> bool {
    mail.query_pairs().any(|(field, _)| field.to_ascii_lowercase().starts_with("attach"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_and_mail_links_are_opened() {
        for good in [
            "https://example.org/a?b#c",
            "http://127.0.0.1:1/",
            "mailto:ann@example.org?subject=Kettle",
        ] {
            assert_eq!(accepted(good).as_deref(), Ok(good));
        }
        for bad in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/html,x",
            "vscode://x",
            "smb://host/share",
            "mailto:ann@example.org?subject=Kettle&Attach=/home/ann/.ssh/id_ed25519",
            "mailto:ann@example.org?%61ttachment=a",
            "example.org",
            "--help",
            "",
        ] {
            assert!(accepted(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_opened_link_has_no_spaces_and_no_line_breaks() {
        let url = accepted("https://example.org/a b\nc\u{7f}").unwrap();
        assert!(url.bytes().all(|byte| byte.is_ascii_graphic()), "{url}");
    }
}
