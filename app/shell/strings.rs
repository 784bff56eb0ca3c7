//! Texts of the tray and of notifications, from the page's string files.

use serde::Deserialize;

const ENGLISH: &str = include_str!("../ui/strings/later/en.json");
const GERMAN: &str = include_str!("../ui/strings/later/de.json");

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Strings {
    #[serde(rename = "tray.show")]
    pub show: String,
    #[serde(rename = "tray.keep")]
    pub keep_running: String,
    #[serde(rename = "tray.quit")]
    pub quit: String,
    /// A file was saved; its path follows.
    #[serde(rename = "shell.saved")]
    pub saved: String,
    /// A file could not be saved; its path follows.
    #[serde(rename = "shell.not-saved")]
    pub not_saved: String,
}

impl Strings {
    /// In the language of the session.
    pub fn of_user() -> Self {
        let variables = ["LC_ALL", "LC_MESSAGES", "LANG"].map(|name| std::env::var(name).ok());
        Self::of_locale(variables.into_iter().flatten().find(|value| !value.is_empty()))
    }

    fn of_locale(locale: Option<String>) -> Self {
        let is_german = locale.is_some_and(|locale| locale.starts_with("de"));
        let strings = if is_german { GERMAN } else { ENGLISH };
        serde_json::from_str(strings).expect("the page's strings have the shell's")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tray_speaks_the_sessions_language_or_english() {
        let quit = |locale: Option<&str>| Strings::of_locale(locale.map(str::to_owned)).quit;
        assert_eq!(quit(Some("de_AT.UTF-8")), "Beenden");
        assert_eq!(quit(Some("fr_FR.UTF-8")), "Quit");
        assert_eq!(quit(None), "Quit");
    }
}
