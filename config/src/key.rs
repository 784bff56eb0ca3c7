//! The settings' keys, with the names, help and defaults of [`table`](crate::table).

use crate::table::settings_table;

/// Which program has the key as a flag. File and environment hold every key for both programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// `hobd` alone.
    Daemon,
    /// `hob` alone.
    Client,
    Everyone,
}

/// The facts of one key; those after `help` are the options of its row.
#[derive(Debug)]
pub struct Row {
    pub audience: Audience,
    /// Placeholder of the value in `--help`.
    pub placeholder: &'static str,
    /// One line for `--help`.
    pub help: &'static str,
    /// The name in the TOML file.
    pub name: &'static str,
    /// Default as text; empty where there is none or where it depends on the user's directories.
    pub default: &'static str,
    /// Whether several values may be given.
    pub is_list: bool,
    /// The variable by which agents of the eliza family set the same time, in milliseconds. Ours
    /// wins over theirs.
    pub eliza_variable_ms: Option<&'static str>,
}

macro_rules! keys {
    ($(
        $(#[doc = $help:literal])+
        #[setting($audience:ident, $placeholder:literal $(, $option:ident = $set:expr)*)]
        $key:ident => $field:ident: $type:ty = $reader:ident($($bounds:tt)*);
    )+) => {
        /// A setting, in the order in which `hob config show` lists them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key { $( $(#[doc = $help])+ $key, )+ }

        const KEYS: &[Key] = &[$( Key::$key, )+];

        const ROWS: &[Row] = &[$( {
            #[allow(unused_mut)]
            let mut row = Row {
                audience: Audience::$audience,
                placeholder: $placeholder,
                help: concat!($($help),+).trim_ascii_start(),
                name: stringify!($field),
                default: "",
                is_list: false,
                eliza_variable_ms: None,
            };
            $( row.$option = $set; )*
            row
        }, )+];
    };
}

settings_table!(keys);

impl Key {
    /// Every key, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        KEYS.iter().copied()
    }

    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name in the TOML file: `data_dir`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The name in the environment: `HOB_DATA_DIR`.
    pub fn variable(self) -> String {
        format!("HOB_{}", self.name().to_ascii_uppercase())
    }

    /// The name as a flag, without dashes in front: `data-dir`.
    pub fn flag(self) -> String {
        self.name().replace('_', "-")
    }

    /// The key with this name in the TOML file.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|key| key.name() == name)
    }

    /// The key that this variable of the eliza family sets, in milliseconds.
    pub(crate) fn of_eliza_variable(variable: &str) -> Option<Self> {
        Self::all().find(|key| key.row().eliza_variable_ms == Some(variable))
    }
}

/// The known name that is closest to `name`, when one is close.
pub fn nearest(name: &str) -> Option<&'static str> {
    let wanted = name.replace('-', "_").to_ascii_lowercase();
    ROWS.iter()
        .map(|row| (strsim::jaro_winkler(row.name, &wanted), row.name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [&str; 5] = [
        include_str!("../../docs/CONFIGURATION.md"),
        include_str!("../../docs/PROFILES.md"),
        include_str!("../../docs/SECURITY.md"),
        include_str!("../../docs/STORAGE.md"),
        include_str!("../../docs/VOICE.md"),
    ];

    #[test]
    fn a_page_describes_each_setting() {
        let is_described = |key: &Key| {
            let (name, flag) = (key.name(), key.flag());
            let spellings = ["`NAME`", "`NAME =", "--FLAG ", "--FLAG`"];
            let spellings = spellings.map(|it| it.replace("NAME", name).replace("FLAG", &flag));
            PAGES.iter().any(|page| spellings.iter().any(|spelling| page.contains(spelling)))
        };
        let missing: Vec<_> = Key::all().filter(|key| !is_described(key)).map(Key::name).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_key_finds_its_own_row() {
        for (at, row) in ROWS.iter().enumerate() {
            let key = Key::named(row.name).unwrap();
            assert_eq!(key as usize, at, "{} is out of place", row.name);
        }
        assert_eq!(ROWS.len(), Key::ProfilesDir as usize + 1);
    }

    #[test]
    fn one_name_has_three_spellings() {
        assert_eq!(Key::DataDir.name(), "data_dir");
        assert_eq!(Key::DataDir.variable(), "HOB_DATA_DIR");
        assert_eq!(Key::DataDir.flag(), "data-dir");
    }

    #[test]
    fn a_misspelt_name_is_recognised_and_nonsense_is_not() {
        assert_eq!(nearest("slot_dir"), Some("slots_dir"));
        assert_eq!(nearest("data-dir"), Some("data_dir"));
        assert_eq!(nearest("idle_park"), Some("idle_park_secs"));
        assert_eq!(nearest("zzz"), None);
    }
}
