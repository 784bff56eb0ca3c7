//! The words of the tray and of notices. They stand among the page's strings, in its languages.

use serde::Deserialize;

const ENGLISH: &str = include_str!("../ui/strings/en.json");
const GERMAN: &str = include_str!("../ui/strings/de.json");

/// What the shell says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Words {
    /// Shows the window.
    #[serde(rename = "tray.show")]
    pub show: String,
    /// Whether closing the window leaves the app running.
    #[serde(rename = "tray.keep")]
    pub keep_running: String,
    /// Ends the app.
    #[serde(rename = "tray.quit")]
    pub quit: String,
    /// A file is there, which is named behind it.
    #[serde(rename = "shell.saved")]
    pub saved: String,
    /// A file is not there, though somebody has asked for it.
    #[serde(rename = "shell.not-saved")]
    pub not_saved: String,
}

impl Words {
    /// In the language of the session.
    pub fn of_user() -> Self {
        let variables = ["LC_ALL", "LC_MESSAGES", "LANG"].map(|name| std::env::var(name).ok());
        Self::of_locale(variables.into_iter().flatten().find(|value| !value.is_empty()))
    }

    fn of_locale(locale: Option<String>) -> Self {
        let strings = match locale {
            Some(locale) if locale.starts_with("de") => GERMAN,
            _ => ENGLISH,
        };
        serde_json::from_str(strings).expect("the page's strings have the shell's")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tray_speaks_the_sessions_language_or_english() {
        let quit = |locale: Option<&str>| Words::of_locale(locale.map(str::to_owned)).quit;
        assert_eq!(quit(Some("de_AT.UTF-8")), "Beenden");
        assert_eq!(quit(Some("fr_FR.UTF-8")), "Quit");
        assert_eq!(quit(None), "Quit");
    }
}
