//! Reads the TOML file's text into raw values, each with its line.
//!
//! - A key may be written in one piece or in a table: `slots_encrypt`, or `encrypt` in `[slots]`.
//! - [`layers`](crate::layers) parses the values.

use toml::de::{DeTable, DeValue};

use crate::error::ConfigError;
use crate::key::{Key, nearest};
use crate::origin::{GivenValues, Origin};
use crate::parse::Raw;
use crate::sources::ConfigFile;

pub(crate) fn read(file: &ConfigFile) -> Result<GivenValues, ConfigError> {
    let table = DeTable::parse(&file.text).map_err(|error| ConfigError::Syntax {
        path: file.path.clone(),
        problem: error.to_string().trim_end().to_owned(),
    })?;
    let mut set = GivenValues::new();
    read_table(file, "", table.get_ref(), &mut set)?;
    Ok(set)
}

/// Reads a table whose keys begin with `prefix`.
fn read_table(
    file: &ConfigFile,
    prefix: &str,
    table: &DeTable<'_>,
    set: &mut GivenValues,
) -> Result<(), ConfigError> {
    for (name, value) in table {
        let line = 1 + file.text[..name.span().start].matches('\n').count();
        let origin = Origin::File { path: file.path.clone(), line };
        let name = format!("{prefix}{}", name.get_ref());
        if let DeValue::Table(inner) = value.get_ref()
            && Key::all().any(|key| key.name().starts_with(&format!("{name}_")))
        {
            read_table(file, &format!("{name}_"), inner, set)?;
            continue;
        }
        // A file that names another file would be a second layer of files.
        let Some(key) = Key::named(&name).filter(|key| *key != Key::Config) else {
            let suggestion = nearest(&name).map(str::to_owned);
            return Err(ConfigError::Unknown { name, place: origin.to_string(), suggestion });
        };
        set.insert(key, (raw(value.get_ref()), origin));
    }
    Ok(())
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
        DeValue::Boolean(value) => Raw::Text(value.to_string()),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}
