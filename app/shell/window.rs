//! The one window. Nothing but our page is ever shown in it.

use std::time::Instant;

use tauri::webview::{NewWindowResponse, PageLoadEvent, PermissionKind, PermissionResponse};
use tauri::{
    AppHandle, Manager, Url, WebviewUrl, WebviewWindow, WebviewWindowBuilder, WindowEvent,
};

use super::downloads;
use super::ending;
use super::requests::Requests;
use super::settings::{Close, SettingsFile};
use super::tray::Tray;

/// Its name, which the capability is given to.
const NAME: &str = "main";

/// Opens the window. `begun`: when the process did.
pub fn open(app: &AppHandle, hidden: bool, begun: Instant) -> tauri::Result<()> {
    let window = WebviewWindowBuilder::new(app, NAME, WebviewUrl::App("index.html".into()))
        .title("Hob")
        .inner_size(1120.0, 780.0)
        .min_inner_size(380.0, 480.0)
        .visible(!hidden)
        // It would take the cards of a profile that are dragged.
        .disable_drag_drop_handler()
        .on_navigation(is_ours)
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .on_permission_request(|_, kind| permit(kind))
        .on_download(|webview, event| downloads::decide(&webview, event))
        .on_page_load(move |window, load| match load.event() {
            // Nobody hears the answers to what the page before it asked.
            PageLoadEvent::Started => window.state::<Requests>().drop_all(),
            PageLoadEvent::Finished => {
                tracing::info!(millis = begun.elapsed().as_millis(), "the page is loaded");
            }
        })
        .build()?;
    let app = app.clone();
    window.on_window_event(move |event| {
        if let WindowEvent::CloseRequested { api, .. } = event {
            api.prevent_close();
            close(&app);
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

/// Puts the window out of sight.
pub fn hide(app: &AppHandle) {
    if let Some(window) = get(app) {
        let _ = window.hide();
    }
}

/// The window.
pub fn get(app: &AppHandle) -> Option<WebviewWindow> {
    app.get_webview_window(NAME)
}

fn close(app: &AppHandle) {
    let keeps = app.state::<SettingsFile>().read().close == Close::Tray;
    match keeps && app.try_state::<Tray>().is_some() {
        true => hide(app),
        false => ending::begin(app, 0),
    }
}

/// The microphone, to talk: it is opened while somebody holds a button, and by our scripts alone.
fn permit(kind: PermissionKind) -> PermissionResponse {
    match kind {
        PermissionKind::Microphone => PermissionResponse::Allow,
        _ => PermissionResponse::Deny,
    }
}

/// Whether the page may go there: only to itself.
fn is_ours(url: &Url) -> bool {
    match url.scheme() {
        "tauri" => url.host_str() == Some("localhost"),
        // How other systems spell it.
        "http" | "https" => url.host_str() == Some("tauri.localhost"),
        // A file that the page has made, to be saved. Only our scripts can make one.
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
