//! Reads the TOML file's text into raw values, each with its line.
//!
//! - The file is flat: every key stands at the top level.
//! - What the values mean is [`layers`](crate::layers)' business.

use toml::de::{DeTable, DeValue};

use crate::error::ConfigError;
use crate::key::{Key, nearest};
use crate::layers::Given;
use crate::parse::Raw;
use crate::resolve::Origin;
use crate::sources::ConfigFile;

pub(crate) fn read(file: &ConfigFile) -> Result<Given, ConfigError> {
    let table = DeTable::parse(&file.text).map_err(|error| ConfigError::Syntax {
        path: file.path.clone(),
        problem: error.to_string().trim_end().to_owned(),
    })?;
    let mut set = Given::new();
    for (name, value) in table.get_ref() {
        let line = 1 + file.text[..name.span().start].matches('\n').count();
        let origin = Origin::File { path: file.path.clone(), line };
        // A file that names another file would be a second layer of files.
        let Some(key) = Key::named(name.get_ref()).filter(|key| *key != Key::Config) else {
            return Err(ConfigError::Unknown {
                name: name.get_ref().to_string(),
                place: origin.to_string(),
                suggestion: nearest(name.get_ref()).map(str::to_owned),
            });
        };
        set.insert(key, (raw(value.get_ref()), origin));
    }
    Ok(set)
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Raw::Other("a number that is too large"), Raw::Integer),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map_or(Raw::Other("a mixed array"), Raw::List)
        }
        DeValue::Float(_) => Raw::Other("a fraction"),
        DeValue::Boolean(_) => Raw::Other("a boolean"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}
