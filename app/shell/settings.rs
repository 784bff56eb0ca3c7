//! Settings of the app itself, in `desktop.toml` beside the daemon's data: what closing the window does,
//! and whether a notification announces a long answer.
//!
//! - The system alone stores whether the app starts with the session; by default it does not.
//! - A missing or damaged file means the defaults. The first change moves a damaged one to `desktop.toml.damaged`.
//! - Subscribers receive every change, from the page and from the tray.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tauri::{AppHandle, State};
use tauri_plugin_autostart::ManagerExt;
use tempfile::NamedTempFile;
use tokio::sync::watch;

/// What closing the window does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Close {
    /// The app ends.
    #[default]
    Quit,
    /// The app keeps running in the tray.
    Tray,
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DesktopSettings {
    /// Without a tray, closing the window ends the app.
    pub close: Close,
    /// Whether a notification announces a long answer that ends while the window is not seen.
    pub notifications: bool,
}

impl Default for DesktopSettings {
    fn default() -> Self {
        Self { close: Close::default(), notifications: true }
    }
}

/// The file and its content.
pub struct SettingsFile {
    path: PathBuf,
    settings: watch::Sender<DesktopSettings>,
    /// Held from reading the settings until the changed ones are written.
    writing: Mutex<()>,
    has_tray: AtomicBool,
    /// The file could not be read, and is still there.
    is_damaged: AtomicBool,
}

impl SettingsFile {
    /// The file in a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        let path = data_dir.join("desktop.toml");
        let read = read(&path).inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "the app's settings are the defaults");
        });
        // A directory of this name is no settings: it stays, and no change can be written.
        let is_damaged = AtomicBool::new(read.is_err() && path.is_file());
        let settings = watch::Sender::new(read.unwrap_or_default());
        let (writing, has_tray) = (Mutex::default(), AtomicBool::default());
        Self { path, settings, writing, has_tray, is_damaged }
    }

    pub fn read(&self) -> DesktopSettings {
        self.settings.borrow().clone()
    }

    /// Receives every later change.
    pub fn subscribe(&self) -> watch::Receiver<DesktopSettings> {
        self.settings.subscribe()
    }

    /// Has subscribers read the settings again.
    pub fn notify(&self) {
        self.settings.send_modify(|_| {});
    }

    /// The tray exists.
    pub fn set_has_tray(&self) {
        self.has_tray.store(true, Ordering::Release);
    }

    /// Whether closing the window leaves the app running in the tray.
    pub fn closes_to_tray(&self) -> bool {
        self.read().close == Close::Tray && self.has_tray.load(Ordering::Acquire)
    }

    /// Changes the settings and the file. When the file cannot be written, nothing has changed.
    pub fn change(&self, change: impl FnOnce(&mut DesktopSettings)) -> io::Result<()> {
        let _writing = self.writing.lock();
        let mut changed = self.read();
        change(&mut changed);
        let text = toml::to_string(&changed).expect("two plain values can be written");
        let dir = self.path.parent().expect("the file is in a directory");
        fs::create_dir_all(dir)?;
        let mut temporary = NamedTempFile::new_in(dir)?;
        temporary.write_all(text.as_bytes())?;
        temporary.as_file().sync_all()?;
        if self.is_damaged.load(Ordering::Acquire) {
            match fs::rename(&self.path, self.path.with_extension("toml.damaged")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.is_damaged.store(false, Ordering::Release);
        }
        temporary.persist(&self.path).map_err(|error| error.error)?;
        self.settings.send_replace(changed);
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<DesktopSettings> {
    match fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DesktopSettings::default()),
        Err(error) => Err(error),
    }
}

/// The settings as the page shows them.
#[derive(Debug, Serialize)]
pub struct SettingsView {
    #[serde(flatten)]
    settings: DesktopSettings,
    /// Whether the app starts with the session; null when the system does not say.
    autostart: Option<bool>,
    has_tray: bool,
}

/// The settings that the page changes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SettingsChange {
    close: Option<Close>,
    notifications: Option<bool>,
    autostart: Option<bool>,
}

#[tauri::command]
pub fn settings_get(app: AppHandle, file: State<'_, SettingsFile>) -> SettingsView {
    view(&app, &file)
}

/// Changes settings and returns all of them.
#[tauri::command]
pub fn settings_set(
    app: AppHandle,
    file: State<'_, SettingsFile>,
    settings: SettingsChange,
) -> Result<SettingsView, String> {
    if let Some(wanted) = settings.autostart {
        let autostart = app.autolaunch();
        let set = if wanted { autostart.enable() } else { autostart.disable() };
        // Disabling what is not enabled is an error of the plugin, not a failure.
        if let Err(error) = set
            && autostart.is_enabled().unwrap_or(false) != wanted
        {
            return Err(error.to_string());
        }
    }
    let SettingsChange { close, notifications, .. } = settings;
    if close.is_some() || notifications.is_some() {
        let changed = file.change(|it| {
            it.close = close.unwrap_or(it.close);
            it.notifications = notifications.unwrap_or(it.notifications);
        });
        changed.map_err(|error| format!("cannot write {}: {error}", file.path.display()))?;
    }
    Ok(view(&app, &file))
}

fn view(app: &AppHandle, file: &SettingsFile) -> SettingsView {
    SettingsView {
        settings: file.read(),
        autostart: app.autolaunch().is_enabled().ok(),
        has_tray: file.has_tray.load(Ordering::Acquire),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_survives_a_restart_and_leaves_other_settings_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = SettingsFile::in_dir(&dir.path().join("new"));
        assert_eq!(file.read(), DesktopSettings::default());
        file.change(|it| it.close = Close::Tray).unwrap();

        let again = SettingsFile::in_dir(&dir.path().join("new")).read();
        assert_eq!(again, DesktopSettings { close: Close::Tray, notifications: true });
    }

    #[test]
    fn a_damaged_file_means_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["close = 7", "{", "close = \"never\""] {
            fs::write(dir.path().join("desktop.toml"), text).unwrap();
            let file = SettingsFile::in_dir(dir.path());
            assert_eq!(file.read(), DesktopSettings::default());
            file.change(|it| it.close = Close::Tray).unwrap();
            let moved = dir.path().join("desktop.toml.damaged");
            assert_eq!(fs::read_to_string(&moved).unwrap(), text);
            fs::remove_file(moved).unwrap();
            file.change(|it| it.notifications = false).unwrap();
            let changed = DesktopSettings { close: Close::Tray, notifications: false };
            assert_eq!(SettingsFile::in_dir(dir.path()).read(), changed);
        }
    }

    #[test]
    fn the_page_can_change_known_settings_only() {
        let wanted = serde_json::from_str::<SettingsChange>;
        assert_eq!(wanted(r#"{"close": "tray"}"#).unwrap().close, Some(Close::Tray));
        assert!(wanted(r#"{"close": "explode"}"#).is_err());
        assert!(wanted(r#"{"shell": true}"#).is_err());
    }
}
