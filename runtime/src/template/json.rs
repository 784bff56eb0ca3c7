//! `tojson`: Python's `json.dumps`, with the defaults of Hugging Face's library.

use minijinja::value::{Kwargs, Value as Jinja};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::{Serializer, Value};

use super::repr::python_float;

const MAX_INDENT: usize = 16;

/// `json.dumps(value, ensure_ascii=False, indent=…, separators=…, sort_keys=…)`.
pub(super) fn to_json(
    value: &Jinja,
    indent: Option<usize>,
    options: Kwargs,
) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<usize>>("indent")?,
    };
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    options.assert_all_used()?;

    let failed = |error| {
        Error::new(ErrorKind::InvalidOperation, "a value cannot be written as JSON")
            .with_source(error)
    };
    let mut value = serde_json::to_value(value).map_err(failed)?;
    if sorted {
        value.sort_all_objects();
    }
    let written = match (indent, separators.as_deref()) {
        (Some(width), _) => {
            let spaces = " ".repeat(width.min(MAX_INDENT));
            write_json(&value, PrettyFormatter::with_indent(spaces.as_bytes()))
        }
        (None, Some([item, key])) => write_json(&value, Separated { item, key }),
        (None, _) => write_json(&value, Separated { item: ", ", key: ": " }),
    };
    let written = written.map_err(failed)?;
    Ok(if ascii { escaped(&written) } else { written })
}

fn write_json(value: &Value, formatter: impl Formatter) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
    Ok(String::from_utf8(bytes).expect("serde_json writes UTF-8"))
}

/// JSON whose texts are ASCII.
fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                escaped += &format!("\\u{unit:04x}");
            }
        }
    }
    escaped
}

/// JSON in one line.
struct Separated<'a> {
    item: &'a str,
    key: &'a str,
}

impl Separated<'_> {
    fn between<W: ?Sized + std::io::Write>(&self, out: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(self.item.as_bytes()) }
    }
}

impl Formatter for Separated<'_> {
    fn write_f64<W>(&mut self, out: &mut W, value: f64) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        out.write_all(python_float(value).as_bytes())
    }

    fn begin_array_value<W>(&mut self, out: &mut W, first: bool) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        self.between(out, first)
    }

    fn begin_object_key<W>(&mut self, out: &mut W, first: bool) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        self.between(out, first)
    }

    fn begin_object_value<W>(&mut self, out: &mut W) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        out.write_all(self.key.as_bytes())
    }
}
