//! Values as Python writes them: `repr` of what is in lists and dicts, `str` of the rest.

use std::collections::HashMap;
use std::fmt::{self, Display, Write};
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value as Jinja, ValueKind};
use serde_json::{Map, Value};

/// Python's values nest as deep as JSON's: serde_json reads 128 levels.
const MAX_DEPTH: usize = 200;

/// JSON as lists and dicts that are written as Python writes them, in whatever a template does with
/// them: `{{ x }}`, `x ~ y`, `x | join`.
pub(super) fn python_value(json: &Value) -> Jinja {
    match json {
        Value::Array(items) => Jinja::from_object(List(items.iter().map(python_value).collect())),
        Value::Object(members) => Jinja::from_object(Dict::new(members)),
        simple => Jinja::from_serialize(simple),
    }
}

#[derive(Debug)]
struct List(Vec<Jinja>);

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr(&Jinja::from_dyn_object(Arc::clone(self))).fmt(f)
    }
}

/// In the order of the JSON.
#[derive(Debug)]
struct Dict {
    keys: Vec<Jinja>,
    values: HashMap<String, Jinja>,
}

impl Dict {
    fn new(members: &Map<String, Value>) -> Self {
        Self {
            keys: members.keys().map(|key| Jinja::from(key.as_str())).collect(),
            values: members.iter().map(|(key, value)| (key.clone(), python_value(value))).collect(),
        }
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        self.values.get(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Jinja> {
        self.values.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.keys.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.keys.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr(&Jinja::from_dyn_object(Arc::clone(self))).fmt(f)
    }
}

/// Writes `str(value)`.
pub(super) struct Repr<'a>(pub &'a Jinja);

impl Display for Repr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_str(self.0, 0, f)
    }
}

fn write_str(value: &Jinja, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if depth > MAX_DEPTH {
        return f.write_str("...");
    }
    let items = value.as_object().and_then(|object| object.try_iter());
    match (value.kind(), items) {
        (ValueKind::None, _) => f.write_str("None"),
        (ValueKind::Bool, _) => f.write_str(if value.is_true() { "True" } else { "False" }),
        (ValueKind::Number, _) if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => f.write_str(&python_float(number)),
            Err(_) => write!(f, "{value}"),
        },
        (ValueKind::Seq | ValueKind::Iterable, Some(items)) => {
            f.write_char('[')?;
            for (n, item) in items.enumerate() {
                f.write_str(if n == 0 { "" } else { ", " })?;
                write_repr(&item, depth + 1, f)?;
            }
            f.write_char(']')
        }
        (ValueKind::Map, Some(keys)) => {
            f.write_char('{')?;
            for (n, key) in keys.enumerate() {
                f.write_str(if n == 0 { "" } else { ", " })?;
                write_repr(&key, depth + 1, f)?;
                f.write_str(": ")?;
                write_repr(&value.get_item(&key).unwrap_or_default(), depth + 1, f)?;
            }
            f.write_char('}')
        }
        _ => write!(f, "{value}"),
    }
}

fn write_repr(value: &Jinja, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value.as_str() {
        Some(text) => write_quoted(text, f),
        None => write_str(value, depth, f),
    }
}

/// In single quotes, unless it has some and no double ones.
fn write_quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    f.write_char(quote)?;
    for character in text.chars() {
        match character {
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\\' => f.write_str("\\\\")?,
            _ if character == quote => write!(f, "\\{quote}")?,
            _ if is_printable(character) => f.write_char(character)?,
            _ => match u32::from(character) {
                code @ ..=0xff => write!(f, "\\x{code:02x}")?,
                code @ ..=0xffff => write!(f, "\\u{code:04x}")?,
                code => write!(f, "\\U{code:08x}")?,
            },
        }
    }
    f.write_char(quote)
}

/// As the standard library's table says, which is that of Python's `str.isprintable`. Behind a letter,
/// because the library writes a mark that begins a text as its code.
fn is_printable(character: char) -> bool {
    let text = ['a', character].iter().collect::<String>();
    matches!(character, '"' | '\'') || text.escape_debug().count() == 2
}

/// `repr(number)`: the shortest digits that read back equal; an exponent below 1e-4 and from 1e16 on.
pub(super) fn python_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific.to_lowercase(); // `nan`, `inf`
    };
    match exponent.parse::<i32>().unwrap_or_default() {
        plain @ -4..16 => {
            let text = format!("{number}");
            if plain >= 0 && !text.contains('.') { text + ".0" } else { text }
        }
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_dicts_are_written_as_python_writes_them() {
        let value = json!([{"a": null, "b": [true, 1, 1.5, "it's"]}, "say \"'\"\n", "é\u{7}\u{a0}\u{200b}"]);
        let written = python_value(&value).to_string();
        let expected =
            r#"[{'a': None, 'b': [True, 1, 1.5, "it's"]}, 'say "\'"\n', 'é\x07\xa0\u200b']"#;
        assert_eq!(written, expected);
    }

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        for (number, written) in [
            (1.0, "1.0"),
            (-0.5, "-0.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
        ] {
            assert_eq!(python_float(number), written);
        }
    }
}
