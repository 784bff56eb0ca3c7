//! The words of the tray and of one notice: all other words are the page's. In the languages that the
//! page has.

/// What the shell says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// Shows the window.
    pub show: &'static str,
    /// Whether closing the window leaves the app running.
    pub keep_running: &'static str,
    /// Ends the app.
    pub quit: &'static str,
    /// A file is there, which is named behind it.
    pub saved: &'static str,
}

const ENGLISH: Words = Words {
    show: "Show Hob",
    keep_running: "Keep running when closed",
    quit: "Quit",
    saved: "Saved",
};
const GERMAN: Words = Words {
    show: "Hob anzeigen",
    keep_running: "Nach dem Schließen weiterlaufen",
    quit: "Beenden",
    saved: "Gespeichert",
};

impl Words {
    /// In the language of the session.
    pub fn of_user() -> Self {
        let variables = ["LC_ALL", "LC_MESSAGES", "LANG"].map(|name| std::env::var(name).ok());
        Self::of_locale(variables.into_iter().flatten().find(|value| !value.is_empty()))
    }

    fn of_locale(locale: Option<String>) -> Self {
        match locale {
            Some(locale) if locale.starts_with("de") => GERMAN,
            _ => ENGLISH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tray_speaks_the_sessions_language_or_english() {
        assert_eq!(Words::of_locale(Some("de_AT.UTF-8".to_owned())), GERMAN);
        assert_eq!(Words::of_locale(Some("fr_FR.UTF-8".to_owned())), ENGLISH);
        assert_eq!(Words::of_locale(None), ENGLISH);
    }
}
