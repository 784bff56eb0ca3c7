//! Python's Jinja2 as Hugging Face's library configures it, for minijinja.

use std::fmt;

use minijinja::value::{Kwargs, Value as Jinja};
use minijinja::{Environment, Error, ErrorKind, Output, State, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::json::to_json;
use super::repr::Repr;

/// Maximum of `indent`, in columns.
const MAX_WIDTH: usize = 256;

/// Adds Python's methods, what Hugging Face's library adds, and what minijinja does otherwise than
/// Jinja2.
pub(super) fn configure(environment: &mut Environment<'_>) {
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.set_formatter(write_value);
    environment.add_filter("indent", indent);
    environment.add_filter("string", |value: &Jinja| match value.as_str() {
        Some(text) => text.to_owned(),
        None => Repr(value).to_string(),
    });
    environment.add_filter("tojson", to_json);
    environment.add_test("iterable", is_iterable);
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

/// Writes what Python's `str` returns.
fn write_value(out: &mut Output<'_>, state: &State<'_, '_>, value: &Jinja) -> Result<(), Error> {
    if value.is_undefined() || value.as_str().is_some() {
        return escape_formatter(out, state, value);
    }
    Ok(write!(out, "{}", Repr(value))?)
}

/// Python's `None` cannot be iterated over; minijinja iterates over it as over nothing.
fn is_iterable(value: &Jinja) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Jinja2's `indent`: a line break at the end stays, which minijinja's removes.
fn indent(text: &str, width: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let width = options.get::<Option<usize>>("width")?.or(width).unwrap_or(4).min(MAX_WIDTH);
    let first = options.get::<Option<bool>>("first")?.unwrap_or(false);
    let blank = options.get::<Option<bool>>("blank")?.unwrap_or(false);
    options.assert_all_used()?;
    let spaces = " ".repeat(width);
    let mut lines = text.split('\n');
    let mut indented = if first { spaces.clone() } else { String::new() };
    indented += lines.next().unwrap_or_default();
    for line in lines {
        indented.push('\n');
        if blank || !line.is_empty() {
            indented += &spaces;
        }
        indented += line;
    }
    Ok(indented)
}
