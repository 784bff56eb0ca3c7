//! `notify`: says on the desktop what happened while nobody looked.

use tauri::{AppHandle, State, WebviewWindow};
use tauri_plugin_notification::NotificationExt;

use super::settings::SettingsFile;

/// A desktop shows little more.
const LONGEST: usize = 240;

/// Shows a notice, if the window is out of sight and the user wants to know. Says whether it did.
#[tauri::command]
pub async fn notify(
    app: AppHandle,
    window: WebviewWindow,
    settings: State<'_, SettingsFile>,
    title: String,
    body: String,
) -> Result<bool, String> {
    let is_seen = window.is_focused().unwrap_or(false);
    if is_seen || !settings.read().notifications {
        return Ok(false);
    }
    let notice = app.notification().builder().title(short(&title)).body(short(&body));
    notice.show().map(|()| true).map_err(|error| error.to_string())
}

/// Some desktops read markup, and models write it.
fn short(text: &str) -> String {
    let plain = |c| match c {
        '<' => '‹',
        '>' => '›',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(plain).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_short_and_holds_no_markup() {
        assert_eq!(short("<img src=x>\nhello"), "‹img src=x› hello");
        assert_eq!(short(&"ä".repeat(1000)).chars().count(), LONGEST);
    }
}
