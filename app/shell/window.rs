//! The one window. It never shows anything but Hob's page.

use std::time::Instant;

use tauri::webview::{NewWindowResponse, PageLoadEvent, PermissionKind, PermissionResponse};
use tauri::{
    AppHandle, Manager, Url, WebviewUrl, WebviewWindow, WebviewWindowBuilder, WindowEvent,
};

use super::downloads;
use super::requests::Requests;

/// The label that `app/capabilities` names.
const NAME: &str = "main";

/// Opens the window. `started`: when the process did. `on_close`: called instead of closing it.
pub fn open(
    app: &AppHandle,
    hidden: bool,
    started: Instant,
    on_close: fn(&AppHandle),
) -> tauri::Result<()> {
    let window = WebviewWindowBuilder::new(app, NAME, WebviewUrl::App("index.html".into()))
        .title("Hob")
        .inner_size(1120.0, 780.0)
        .min_inner_size(380.0, 480.0)
        .visible(!hidden)
        // The handler would intercept drags within the page: the cards of a profile.
        .disable_drag_drop_handler()
        .on_navigation(is_ours)
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .on_permission_request(|_, kind| permit(kind))
        .on_download(|webview, event| downloads::decide(&webview, event))
        .on_page_load(move |window, load| match load.event() {
            // The previous page's requests have no listener any more.
            PageLoadEvent::Started => window.state::<Requests>().drop_all(),
            PageLoadEvent::Finished => {
                tracing::info!(millis = started.elapsed().as_millis(), "the page is loaded");
            }
        })
        .build()?;
    let app = app.clone();
    window.on_window_event(move |event| {
        if let WindowEvent::CloseRequested { api, .. } = event {
            api.prevent_close();
            on_close(&app);
        }
    });
    Ok(())
}

/// Brings the window to the front.
pub fn show(app: &AppHandle) {
    if let Some(window) = get(app) {
        let _ = window.show();
        let _ = window.unminimize();
        let _ = window.set_focus();
    }
}

pub fn hide(app: &AppHandle) {
    if let Some(window) = get(app) {
        let _ = window.hide();
    }
}

pub fn get(app: &AppHandle) -> Option<WebviewWindow> {
    app.get_webview_window(NAME)
}

/// Allows the microphone: the page opens it while the talk button is held.
fn permit(kind: PermissionKind) -> PermissionResponse {
    match kind {
        PermissionKind::Microphone => PermissionResponse::Allow,
        _ => PermissionResponse::Deny,
    }
}

/// Whether the page may navigate to `url`: only within itself.
fn is_ours(url: &Url) -> bool {
    match url.scheme() {
        "tauri" => url.host_str() == Some("localhost"),
        // A file that the page offers for download. Only our scripts can create one.
        "blob" => Url::parse(url.path())
            .is_ok_and(|made_by| made_by.scheme() != "blob" && is_ours(&made_by)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_may_use_the_microphone_and_nothing_else() {
        assert!(matches!(permit(PermissionKind::Microphone), PermissionResponse::Allow));
        for other in
            [PermissionKind::Camera, PermissionKind::Geolocation, PermissionKind::DisplayCapture]
        {
            assert!(matches!(permit(other), PermissionResponse::Deny));
        }
    }

    #[test]
    fn the_window_shows_our_page_and_nothing_else() {
        let ours = |url: &str| is_ours(&url.parse().unwrap());
        assert!(ours("tauri://localhost/index.html#/chat/1"));
        assert!(ours("blob:tauri://localhost/1"));
        for foreign in [
            "https://example.org/",
            "http://localhost/",
            // Tauri's origin on Windows; here, whatever serves port 80 of this machine.
            "http://tauri.localhost/",
            "http://127.0.0.1:8642/",
            "tauri://elsewhere/",
            "data:text/html,x",
            "blob:https://example.org/1",
            "blob:blob:tauri://localhost/1",
            "blob:null/1",
            "file:///etc/passwd",
            "about:blank",
        ] {
            assert!(!ours(foreign), "{foreign}");
        }
    }
}
