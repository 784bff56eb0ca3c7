//! Python's Jinja2 as Hugging Face's library configures it, for minijinja.

use std::fmt;

use minijinja::value::{Kwargs, Value as Jinja};
use minijinja::{Environment, Error, ErrorKind, Output, State, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::{Serializer, Value};

const MAX_INDENT: usize = 16;

/// Adds Python's methods, `tojson`, `raise_exception`, and Python's form of simple values.
pub(super) fn configure(environment: &mut Environment<'_>) {
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.set_formatter(write_value);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", raise);
}

/// Neutralises `{% generation %}`, which marks training data and has no effect on a prompt.
pub(super) fn without_training_marks(source: &str) -> String {
    let mut source = source.to_owned();
    for (mark, block) in [("generation", "if true"), ("endgeneration", "endif")] {
        for open in ["{%", "{%-", "{%+"] {
            for close in ["%}", "-%}", "+%}"] {
                source = source
                    .replace(&format!("{open} {mark} {close}"), &format!("{open} {block} {close}"));
            }
        }
    }
    source
}

/// The message of a `raise_exception`, if that caused the error.
pub(super) fn refusal(error: &Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Refusal(message)) = error.downcast_ref() {
            return Some(message.clone());
        }
        cause = error.source();
    }
    None
}

#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn raise(message: String) -> Result<Jinja, Error> {
    let error = Error::new(ErrorKind::InvalidOperation, "the template refused its input");
    Err(error.with_source(Refusal(message)))
}

/// Writes booleans with a capital letter, as Python does, and `none` as nothing: a template that
/// would write `None` was not made for a missing value.
fn write_value(out: &mut Output<'_>, state: &State<'_, '_>, value: &Jinja) -> Result<(), Error> {
    if value.is_none() {
        return Ok(());
    }
    match bool::try_from(value.clone()) {
        Ok(truth) if value.kind() == minijinja::value::ValueKind::Bool => {
            Ok(out.write_str(if truth { "True" } else { "False" })?)
        }
        _ => escape_formatter(out, state, value),
    }
}

/// `json.dumps(value, ensure_ascii=False, indent=…, separators=…, sort_keys=…)`.
fn to_json(value: &Jinja, indent: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<usize>>("indent")?,
    };
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.get::<Option<bool>>("ensure_ascii")?; // No known template needs it.
    options.assert_all_used()?;

    let failed = |error| {
        Error::new(ErrorKind::InvalidOperation, "a value cannot be written as JSON")
            .with_source(error)
    };
    let mut value = serde_json::to_value(value).map_err(failed)?;
    if sorted {
        value.sort_all_objects();
    }
    match (indent, separators.as_deref()) {
        (Some(width), _) => {
            let spaces = " ".repeat(width.min(MAX_INDENT));
            write_json(&value, PrettyFormatter::with_indent(spaces.as_bytes()))
        }
        (None, Some([item, key])) => write_json(&value, Separated { item, key }),
        (None, _) => write_json(&value, Separated { item: ", ", key: ": " }),
    }
    .map_err(failed)
}

fn write_json(value: &Value, formatter: impl Formatter) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
    Ok(String::from_utf8(bytes).expect("serde_json writes UTF-8"))
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
