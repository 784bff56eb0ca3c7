//! What closing the window means and what is told on the desktop: the settings of the app itself, in a
//! file beside the daemon's data.
//!
//! - Whether the app starts with the session is kept by the system, and only there. It does not, unless
//!   somebody asks for it.
//! - A file that is missing or damaged means the defaults.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tauri::{AppHandle, Manager, State};
use tauri_plugin_autostart::ManagerExt;
use tempfile::NamedTempFile;

use super::tray;

/// What closing the window means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Close {
    /// The app ends.
    #[default]
    Quit,
    /// The app goes on in the tray.
    Tray,
}

/// What is kept in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DesktopSettings {
    /// What closing the window means, where there is a tray.
    pub close: Close,
    /// Whether a long answer that ends unseen is told.
    pub notifications: bool,
}

impl Default for DesktopSettings {
    fn default() -> Self {
        Self { close: Close::default(), notifications: true }
    }
}

/// The file, and what it says.
pub struct SettingsFile {
    path: PathBuf,
    settings: Mutex<DesktopSettings>,
}

impl SettingsFile {
    /// The file in a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        let path = data_dir.join("desktop.toml");
        let settings = match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).unwrap_or_else(|error| {
                tracing::warn!(path = %path.display(), %error, "the app's settings are the defaults");
                DesktopSettings::default()
            }),
            Err(_) => DesktopSettings::default(),
        };
        Self { path, settings: Mutex::new(settings) }
    }

    /// What holds now.
    pub fn read(&self) -> DesktopSettings {
        self.lock().clone()
    }

    /// Changes it, here and in the file.
    ///
    /// # Errors
    /// When the file cannot be written; nothing has changed then.
    pub fn change(&self, change: impl FnOnce(&mut DesktopSettings)) -> io::Result<()> {
        let mut settings = self.lock();
        let mut changed = settings.clone();
        change(&mut changed);
        let text = toml::to_string(&changed).expect("two plain values can be written");
        let dir = self.path.parent().expect("the file lies in a directory");
        fs::create_dir_all(dir)?;
        let mut temporary = NamedTempFile::new_in(dir)?;
        temporary.write_all(text.as_bytes())?;
        temporary.as_file().sync_all()?;
        temporary.persist(&self.path).map_err(|error| error.error)?;
        *settings = changed;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, DesktopSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the page shows.
#[derive(Debug, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    settings: DesktopSettings,
    /// Whether the app starts with the session; null where the system does not tell.
    autostart: Option<bool>,
    /// Whether there is a tray to go on in.
    has_tray: bool,
}

/// What the page wants changed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wanted {
    close: Option<Close>,
    notifications: Option<bool>,
    autostart: Option<bool>,
}

/// The settings.
#[tauri::command]
pub fn settings_get(app: AppHandle, file: State<'_, SettingsFile>) -> Shown {
    shown(&app, &file)
}

/// Changes settings, and answers with all of them.
#[tauri::command]
pub fn settings_set(
    app: AppHandle,
    file: State<'_, SettingsFile>,
    settings: Wanted,
) -> Result<Shown, String> {
    if let Some(wanted) = settings.autostart {
        let autostart = app.autolaunch();
        let set = if wanted { autostart.enable() } else { autostart.disable() };
        // Taking away what is not there is no failure.
        if let Err(error) = set
            && autostart.is_enabled().unwrap_or(false) != wanted
        {
            return Err(error.to_string());
        }
    }
    let Wanted { close, notifications, .. } = settings;
    if close.is_some() || notifications.is_some() {
        let changed = file.change(|it| {
            it.close = close.unwrap_or(it.close);
            it.notifications = notifications.unwrap_or(it.notifications);
        });
        changed.map_err(|error| format!("cannot write {}: {error}", file.path.display()))?;
        tray::show_settings(&app, &file.read());
    }
    Ok(shown(&app, &file))
}

fn shown(app: &AppHandle, file: &SettingsFile) -> Shown {
    Shown {
        settings: file.read(),
        autostart: app.autolaunch().is_enabled().ok(),
        has_tray: app.try_state::<tray::Tray>().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_is_there_the_next_time_and_the_rest_stays() {
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
            assert_eq!(SettingsFile::in_dir(dir.path()).read(), DesktopSettings::default());
        }
    }

    #[test]
    fn the_page_may_change_what_there_is_and_nothing_else() {
        let wanted = serde_json::from_str::<Wanted>;
        assert_eq!(wanted(r#"{"close": "tray"}"#).unwrap().close, Some(Close::Tray));
        assert!(wanted(r#"{"close": "explode"}"#).is_err());
        assert!(wanted(r#"{"shell": true}"#).is_err());
    }
}
