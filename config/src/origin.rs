//! Which layer set a value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::key::Key;
use crate::parse::Raw;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "origin", rename_all = "lowercase")]
pub enum Origin {
    Default,
    File {
        #[serde(serialize_with = "as_text")]
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    Environment {
        name: String,
    },
    Flag {
        /// Without dashes in front.
        name: String,
    },
    /// A client of the running daemon chose it.
    Client,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { name } => write!(f, "environment {name}"),
            Self::Flag { name } => write!(f, "flag --{name}"),
            Self::Client => f.write_str("the page or the API"),
        }
    }
}

/// Bytes that are not UTF-8 are replaced, as in the values.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// One line of `hob config show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    /// Null when the setting has no value.
    pub value: Value,
    pub origin: Origin,
}

impl Entry {
    /// The value as one writes it: `5m`, `8MiB`; `-` for none.
    pub fn written(&self) -> String {
        let row = self.key.row();
        match (row.placeholder, &self.value) {
            ("TIME", value) => span(value.as_f64().unwrap_or(0.0)),
            ("BYTES", Value::Number(bytes)) => bytes.as_u64().map_or("-".to_owned(), size),
            ("COMMAND", Value::Array(words)) if words.is_empty() => "off".to_owned(),
            (placeholder, Value::Array(items)) => {
                let separator = match placeholder {
                    "COMMAND" => " ",
                    "TEXT" => "|",
                    _ => ",",
                };
                let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
                if items.is_empty() { "-".to_owned() } else { items.join(separator) }
            }
            (_, Value::Null) => "-".to_owned(),
            (_, Value::String(text)) => text.clone(),
            (_, other) => other.to_string(),
        }
    }
}

/// In the largest unit that needs no fraction.
fn span(secs: f64) -> String {
    let millis = (secs * 1e3).round() as u64;
    let units =
        [(604_800_000, "w"), (86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    // A day is written as 24h.
    let fits = |(unit, name): &(u64, &str)| {
        millis.is_multiple_of(*unit) && (millis > *unit || !matches!(*name, "w" | "d"))
    };
    match units.iter().find(|unit| fits(unit)) {
        _ if millis == 0 => "0".to_owned(),
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

/// In the largest unit that needs no fraction.
fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _): &&(u64, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// The values that file, environment and flags set, each by the strongest layer that sets it.
pub(crate) type GivenValues = BTreeMap<Key, (Raw, Origin)>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse;

    #[test]
    fn values_are_written_as_they_are_read() {
        let written = |key, value| Entry { key, value, origin: Origin::Default }.written();
        for secs in [0.0, 0.5, 90.0, 300.0, 3_600.0, 86_400.0, 604_800.0, 1_209_600.0] {
            let text = written(Key::TtlShort, json!(secs));
            let read = parse::duration(&Raw::Text(text.clone())).unwrap();
            assert_eq!(read.as_secs_f64(), secs, "{text}");
        }
        assert_eq!(written(Key::TtlExtended, json!(86_400.0)), "24h");
        assert_eq!(written(Key::SweepInterval, json!(300.0)), "5m");
        assert_eq!(written(Key::UnloadAfter, json!(0.0)), "0");
        assert_eq!(written(Key::MaxBodyBytes, json!(8 << 20)), "8MiB");
        assert_eq!(written(Key::MaxBodyBytes, json!(1_500)), "1500");
        assert_eq!(written(Key::IdlePark, json!(3_600)), "3600");
        assert_eq!(written(Key::VoiceRecognizer, json!([])), "off");
        assert_eq!(written(Key::VoiceCommand, json!(["say", "-v"])), "say -v");
        assert_eq!(written(Key::AllowHost, json!([])), "-");
        assert_eq!(written(Key::ReadyFile, Value::Null), "-");
    }
}
