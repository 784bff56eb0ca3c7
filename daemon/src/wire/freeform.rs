//! Custom tools, whose calls have a text. The model writes it as the argument `input` of a function.
//!
//! - A text that must follow a grammar follows it as the pattern of that argument.
//! - The text is known while the model writes the JSON around it, up to an escape that is not whole.
//! - Arguments of another form are the text as they are.

use hob_runtime::grammar::{GrammarError, lark_pattern, whole_pattern};
use serde_json::{Value, json};

use super::fields::Fields;
use crate::error::ApiError;

/// The only argument.
const INPUT: &str = "input";

/// The function that stands for a custom tool. `tool`: has its `description` and its `format`.
///
/// # Errors
/// When the grammar of its text is wrong, or cannot be followed.
pub fn function(name: &str, tool: &Fields<'_>) -> Result<Value, ApiError> {
    let pattern = match tool.get("format") {
        Some(format) => pattern(&Fields::of(format, &tool.path("format"))?)?,
        None => None,
    };
    let mut input = json!({"type": "string"});
    let is_strict = pattern.is_some();
    if let Some(pattern) = pattern {
        input["pattern"] = pattern.into();
    }
    let parameters = json!({"type": "object", "properties": {INPUT: input}, "required": [INPUT],
                            "additionalProperties": false});
    let mut function = json!({"name": name});
    if let Some(description) = tool.string("description")? {
        function["description"] = description.into();
    }
    function["parameters"] = parameters;
    if is_strict {
        function["strict"] = true.into();
    }
    Ok(function)
}

/// What the text must match; `None`: it is free.
fn pattern(format: &Fields<'_>) -> Result<Option<String>, ApiError> {
    match format.required_string("type")? {
        "text" => return Ok(None),
        "grammar" => {}
        _ => {
            let path = format.path("type");
            return Err(ApiError::field(&path, format!("`{path}` must be text or grammar")));
        }
    }
    // A chat has an object here, a response its fields.
    let path = format.path("grammar");
    let grammar = match format.get("grammar") {
        Some(grammar) => Fields::of(grammar, &path)?,
        None => *format,
    };
    let definition = grammar.required_string("definition")?;
    let pattern = match grammar.required_string("syntax")? {
        "regex" => whole_pattern(definition),
        "lark" => lark_pattern(definition),
        _ => {
            let path = grammar.path("syntax");
            return Err(ApiError::field(&path, format!("`{path}` must be lark or regex")));
        }
    };
    let refused = |error: GrammarError| {
        ApiError::field(grammar.path("definition"), error.to_string()).code("grammar")
    };
    pattern.map(Some).map_err(refused)
}

/// Reads the text of arguments that arrive in pieces.
#[derive(Debug, Default)]
pub struct InputReader {
    state: State,
    /// What is not read yet.
    rest: String,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Before,
    Within,
    Behind,
}

impl InputReader {
    /// What these add to the text.
    pub fn push(&mut self, arguments: &str) -> String {
        self.rest.push_str(arguments);
        if matches!(self.state, State::Before)
            && let Some(bytes) = opening(&self.rest)
        {
            self.rest.drain(..bytes);
            self.state = State::Within;
        }
        match self.state {
            State::Before => String::new(),
            State::Within => self.within(),
            State::Behind => {
                self.rest.clear();
                String::new()
            }
        }
    }

    /// Ends the text where nothing follows.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.rest);
        if !matches!(self.state, State::Before) {
            return String::new();
        }
        match serde_json::from_str::<Value>(&rest) {
            Ok(arguments) => arguments[INPUT].as_str().map_or(rest, str::to_owned),
            Err(_) if rest.trim_start().starts_with('{') => String::new(), // They were cut.
            Err(_) => rest,
        }
    }

    fn within(&mut self) -> String {
        let mut text = String::new();
        loop {
            let plain = self.rest.find(['"', '\\']).unwrap_or(self.rest.len());
            text.extend(self.rest.drain(..plain));
            if self.rest.starts_with('"') {
                self.state = State::Behind;
                self.rest.clear();
                return text;
            }
            let Some(bytes) = escape_bytes(&self.rest) else { return text };
            let escape: String = self.rest.drain(..bytes).collect();
            let character = serde_json::from_str::<String>(&format!("\"{escape}\""));
            text.push_str(&character.unwrap_or(escape));
        }
    }
}

/// The text in whole arguments.
pub fn input_of(arguments: &str) -> String {
    let mut reader = InputReader::default();
    let text = reader.push(arguments);
    text + &reader.finish()
}

/// The arguments with this text.
pub fn arguments_of(input: &str) -> String {
    json!({INPUT: input}).to_string()
}

/// The bytes in front of the text.
fn opening(arguments: &str) -> Option<usize> {
    let mut rest = arguments;
    for mark in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start().strip_prefix(mark)?;
    }
    Some(arguments.len() - rest.len())
}

/// The bytes of the escape with which the text begins, or of the two that are one character. `None`: more of
/// it follows.
fn escape_bytes(text: &str) -> Option<usize> {
    let bytes = unit_bytes(text)?;
    let code =
        text[..bytes].strip_prefix("\\u").and_then(|code| u16::from_str_radix(code, 16).ok());
    if !code.is_some_and(|code| (0xD800..0xDC00).contains(&code)) {
        return Some(bytes);
    }
    match &text[bytes..] {
        "" | "\\" => None,
        second if second.starts_with("\\u") => Some(bytes + unit_bytes(second)?),
        _ => Some(bytes),
    }
}

fn unit_bytes(text: &str) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    let (at, kind) = characters.next()?;
    let (at, last) = if kind == 'u' { characters.nth(3)? } else { (at, kind) };
    Some(at + last.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text in each piece, with that at the end.
    fn read(pieces: &[&str]) -> Vec<String> {
        let mut reader = InputReader::default();
        let mut texts: Vec<String> = pieces.iter().map(|piece| reader.push(piece)).collect();
        texts.push(reader.finish());
        texts
    }

    #[test]
    fn the_text_arrives_with_the_json_around_it() {
        let pieces = ["{\"in", "put\": \"a", "b\\", "n\\\"\\u00", "e9", " 😀\"", "}"];
        assert_eq!(read(&pieces), ["", "a", "b", "\n\"", "é", " 😀", "", ""]);
        assert_eq!(read(&["{\"input\":\"\\ud83d", "\\ude0", "0!\"}"]), ["", "", "😀!", ""]);
    }

    #[test]
    fn pieces_of_any_length_give_the_whole_text() {
        for text in ["", "one\n\"two\" \\ é 😀\t{}", "\u{0}\u{7f}"] {
            let arguments = arguments_of(text);
            assert_eq!(input_of(&arguments), text);
            let letters: Vec<String> = arguments.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(read(&letters).concat(), text);
        }
    }

    #[test]
    fn arguments_of_another_form_are_read_as_far_as_they_go() {
        for (arguments, text) in [
            ("", ""),
            ("{\"inp", ""),
            ("{\"input\": \"cut", "cut"),
            ("{\"input\": \"cut\\u00", "cut"),
            ("{\"input\": \"lone \\ud83d here\"}", "lone \\ud83d here"),
            ("{\"why\": 1, \"input\": \"x\"}", "x"),
            ("{\"other\": 1}", "{\"other\": 1}"),
            ("*** Begin Patch", "*** Begin Patch"),
        ] {
            assert_eq!(input_of(arguments), text, "{arguments}");
        }
    }
}
