//! `notify`: shows a desktop notification while the window is not focused.

use tauri::{AppHandle, State, WebviewWindow};
use tauri_plugin_notification::NotificationExt;

use super::settings::SettingsFile;

/// Desktops truncate longer notifications.
const MAX_CHARS: usize = 240;

/// Shows a notification unless the window is focused or the user has disabled them; returns whether it
/// did.
#[tauri::command]
pub async fn notify(
    app: AppHandle,
    window: WebviewWindow,
    settings: State<'_, SettingsFile>,
    title: String,
    body: String,
) -> Result<bool, String> {
    let is_focused = window.is_focused().unwrap_or(false);
    if is_focused || !settings.read().notifications {
        return Ok(false);
    }
    let notice = app.notification().builder().title(short(&title)).body(short(&body));
    notice.show().map(|()| true).map_err(|error| error.to_string())
}

/// Removes markup: models write it, and some desktops render it.
fn short(text: &str) -> String {
    let plain = |c| match c {
        '<' => '‹',
        '>' => '›',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(plain).take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_short_and_holds_no_markup() {
        assert_eq!(short("<img src=x>\nhello"), "‹img src=x› hello");
        assert_eq!(short(&"ä".repeat(1000)).chars().count(), MAX_CHARS);
    }
}
