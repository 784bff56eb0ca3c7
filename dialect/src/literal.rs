//! Calls in Python's notation, and in Gemma's: where one begins, and its arguments as JSON, as they come.

use crate::forms::Notation;
use crate::json::inside_quotes;
use crate::mark::{awaits_any, partial_mark};

/// Values inside one another: JSON that is deeper is refused by those who read it.
const MAX_DEPTH: usize = 64;

/// A name, a key, and a value that is no text, have at most this many bytes.
const MAX_WORD_BYTES: usize = 256;

/// The quotes of Gemma's texts.
const GEMMA_QUOTE: &str = "<|\"|>";

/// The beginning of a call, up to its first key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Incomplete,
    No,
    Call {
        name: String,
        /// The index behind the bracket that begins the arguments.
        arguments_at: usize,
    },
}

/// Why a reader stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Incomplete,
    Broken,
}

/// Reads `[name(` and a key, or `call:name{` and a key. `in_list`: behind another call of the list.
pub(crate) fn read_head(notation: Notation, in_list: bool, text: &str) -> Head {
    let mut reader = Reader { rest: text };
    let mut read = || {
        let (open, between, close) = match notation {
            Notation::Python => ("(", "=", ")"),
            Notation::Gemma => ("{", ":", "}"),
        };
        match notation {
            Notation::Python if in_list => {}
            Notation::Python => reader.mark("[")?,
            Notation::Gemma => reader.mark("call:")?,
        }
        let name = reader.tool()?.to_owned();
        reader.mark(open)?;
        let arguments_at = text.len() - reader.rest.len();
        match reader.mark(close) {
            Err(Stop::Broken) => reader.key(between).map(drop)?,
            decided => decided?,
        }
        Ok(Head::Call { name, arguments_at })
    };
    match read() {
        Ok(head) => head,
        Err(Stop::Broken) => Head::No,
        Err(Stop::Incomplete) if text.len() > 3 * MAX_WORD_BYTES => Head::No,
        Err(Stop::Incomplete) => Head::Incomplete,
    }
}

/// Arguments behind the bracket that begins them.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    notation: Notation,
    open: Vec<Bracket>,
    next: Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    Call,
    Object,
    List,
}

/// What the text goes on with.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The JSON of the bracket that is read.
    Begin,
    /// A member or an item, or the end of them.
    Member {
        is_first: bool,
    },
    Value,
    /// The rest of a text in these quotes.
    Text(Quote),
    /// What follows a value.
    Behind,
}

#[derive(Clone, Copy, Debug)]
enum Quote {
    Letter(char),
    Gemma,
}

/// What a reader made of the text.
pub(crate) struct Piece {
    /// How many bytes of the text were read.
    pub bytes: usize,
    pub json: String,
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Open,
    Closed,
    /// The text that follows is of no value.
    Broken,
}

impl Arguments {
    pub fn new(notation: Notation) -> Self {
        Self { notation, open: vec![Bracket::Call], next: Next::Begin }
    }

    /// Calls stand in a list.
    pub fn is_python(&self) -> bool {
        self.notation == Notation::Python
    }

    /// Reads on; what is not read yet is the beginning of the next text.
    pub fn advance(&mut self, text: &str) -> Piece {
        let (mut reader, mut json) = (Reader { rest: text }, String::new());
        let end = loop {
            match self.step(&mut reader, &mut json) {
                Ok(()) if self.open.is_empty() => break End::Closed,
                Ok(()) => {}
                Err(Stop::Incomplete) => break End::Open,
                Err(Stop::Broken) => break End::Broken,
            }
        };
        Piece { bytes: text.len() - reader.rest.len(), json, end }
    }

    /// The JSON of a rest that nothing follows: of a text, what is no part of an escape.
    pub fn rest(&self, text: &str) -> String {
        match self.next {
            Next::Text(Quote::Gemma) => inside_quotes(text),
            _ => String::new(),
        }
    }

    fn step(&mut self, reader: &mut Reader<'_>, json: &mut String) -> Result<(), Stop> {
        match self.next {
            Next::Begin => {
                json.push('{');
                self.next = Next::Member { is_first: true };
                Ok(())
            }
            Next::Member { is_first } => self.member(is_first, reader, json),
            Next::Value => self.value(reader, json),
            Next::Text(quote) => {
                reader.text(quote, json)?;
                self.next = Next::Behind;
                Ok(())
            }
            Next::Behind => match reader.mark(",") {
                Err(Stop::Broken) => self.close(reader, json),
                Ok(()) => {
                    self.next = Next::Member { is_first: false };
                    Ok(())
                }
                incomplete => incomplete,
            },
        }
    }

    fn member(
        &mut self,
        is_first: bool,
        reader: &mut Reader<'_>,
        json: &mut String,
    ) -> Result<(), Stop> {
        match self.close(reader, json) {
            Err(Stop::Broken) => {}
            decided => return decided,
        }
        let between = match (self.open.last(), self.notation) {
            (Some(Bracket::List), _) => None,
            (Some(Bracket::Call), Notation::Python) => Some("="),
            _ => Some(":"),
        };
        let key = between.map(|between| reader.key(between)).transpose()?;
        if !is_first {
            json.push_str(", ");
        }
        if let Some(key) = key {
            json.push_str(&format!("\"{key}\": "));
        }
        self.next = Next::Value;
        Ok(())
    }

    fn value(&mut self, reader: &mut Reader<'_>, json: &mut String) -> Result<(), Stop> {
        if let Some(quote) = reader.quote(self.notation)? {
            json.push('"');
            self.next = Next::Text(quote);
            return Ok(());
        }
        for (mark, bracket) in [("{", Bracket::Object), ("[", Bracket::List)] {
            if reader.rest.starts_with(mark) {
                if self.open.len() == MAX_DEPTH {
                    return Err(Stop::Broken);
                }
                reader.mark(mark)?;
                json.push_str(mark);
                self.open.push(bracket);
                self.next = Next::Member { is_first: true };
                return Ok(());
            }
        }
        json.push_str(reader.word()?);
        self.next = Next::Behind;
        Ok(())
    }

    /// The bracket that closes the innermost one.
    fn close(&mut self, reader: &mut Reader<'_>, json: &mut String) -> Result<(), Stop> {
        let (mark, written) = match (self.open.last(), self.notation) {
            (Some(Bracket::List), _) => ("]", ']'),
            (Some(Bracket::Call), Notation::Python) => (")", '}'),
            _ => ("}", '}'),
        };
        reader.mark(mark)?;
        json.push(written);
        self.open.pop();
        self.next = Next::Behind;
        Ok(())
    }
}

/// Reads from the beginning of a text whose end may be missing. What it refuses stays in `rest`.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn mark(&mut self, mark: &str) -> Result<(), Stop> {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(mark) {
            Some(rest) => self.rest = rest,
            None if mark.starts_with(self.rest) => return Err(Stop::Incomplete),
            None => return Err(Stop::Broken),
        }
        Ok(())
    }

    /// The name of a tool, which may contain a colon.
    fn tool(&mut self) -> Result<&'a str, Stop> {
        self.rest = self.rest.trim_start();
        self.until(|c: char| !c.is_alphanumeric() && !"_-.:".contains(c))
    }

    /// The name of a parameter, which `between` follows: `$top`, say, or `filter[first name]`.
    fn name(&mut self, between: &str) -> Result<&'a str, Stop> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with(['[', ']']) {
            return Err(Stop::Broken);
        }
        let ends = |c: char| between.starts_with(c) || c.is_control() || "\"',(){}<".contains(c);
        self.until(ends).map(str::trim_end)
    }

    /// A name or a text, and the mark behind it. Returns the key as JSON, without quotes.
    fn key(&mut self, between: &str) -> Result<String, Stop> {
        let mut reader = Reader { rest: self.rest.trim_start() };
        let whole = reader.rest;
        let mut read = || {
            let mut key = String::new();
            match reader.quote(Notation::Gemma)? {
                Some(quote) => {
                    reader.text(quote, &mut key).map(|()| key.truncate(key.len() - 1))?
                }
                None => key = inside_quotes(reader.name(between)?),
            }
            reader.mark(between)?;
            Ok(key)
        };
        let key = read().map_err(|stop| match stop {
            Stop::Incomplete if whole.len() > 2 * MAX_WORD_BYTES => Stop::Broken,
            stop => stop,
        })?;
        self.rest = reader.rest;
        Ok(key)
    }

    /// The quote before a text. `None`: no text begins.
    fn quote(&mut self, notation: Notation) -> Result<Option<Quote>, Stop> {
        self.rest = self.rest.trim_start();
        if notation == Notation::Gemma {
            if let Some(rest) = self.rest.strip_prefix(GEMMA_QUOTE) {
                self.rest = rest;
                return Ok(Some(Quote::Gemma));
            }
            if awaits_any(self.rest, [GEMMA_QUOTE]) {
                return Err(Stop::Incomplete);
            }
        }
        let first = self.rest.chars().next().ok_or(Stop::Incomplete)?;
        if !['"', '\''].contains(&first) {
            return Ok(None);
        }
        self.rest = &self.rest[1..];
        Ok(Some(Quote::Letter(first)))
    }

    /// The rest of a text, as JSON with the closing quote; as much of it as is there.
    fn text(&mut self, quote: Quote, json: &mut String) -> Result<(), Stop> {
        let quote = match quote {
            Quote::Letter(quote) => quote,
            Quote::Gemma => {
                let end = self.rest.find(GEMMA_QUOTE);
                let partial = || partial_mark(self.rest, GEMMA_QUOTE);
                let known = end.unwrap_or_else(|| self.rest.len() - partial());
                let (text, rest) = self.rest.split_at(known);
                json.push_str(&inside_quotes(text));
                self.rest = rest;
                end.ok_or(Stop::Incomplete)?;
                self.rest = &self.rest[GEMMA_QUOTE.len()..];
                json.push('"');
                return Ok(());
            }
        };
        loop {
            let known = self.rest.find([quote, '\\']).unwrap_or(self.rest.len());
            let (text, rest) = self.rest.split_at(known);
            json.push_str(&inside_quotes(text));
            self.rest = rest;
            if let Some(rest) = rest.strip_prefix(quote) {
                self.rest = rest;
                json.push('"');
                return Ok(());
            }
            let escaped = rest.strip_prefix('\\').ok_or(Stop::Incomplete)?;
            self.rest = escape(escaped, json)?;
        }
    }

    /// A value that is neither text, list nor object, as JSON.
    fn word(&mut self) -> Result<&'a str, Stop> {
        let mut reader = Reader { rest: self.rest };
        let word = reader.until(|c: char| c.is_whitespace() || ",)]}".contains(c))?;
        let value = match word {
            "True" | "true" => "true",
            "False" | "false" => "false",
            "None" | "null" => "null",
            number if serde_json::from_str::<serde_json::Number>(number).is_ok() => number,
            _ => return Err(Stop::Broken),
        };
        self.rest = reader.rest;
        Ok(value)
    }

    /// The letters before one that ends them. There is at least one.
    fn until(&mut self, ends: impl FnMut(char) -> bool) -> Result<&'a str, Stop> {
        let end = self.rest.find(ends);
        if end.unwrap_or(self.rest.len()) > MAX_WORD_BYTES || end == Some(0) {
            return Err(Stop::Broken);
        }
        let (word, rest) = self.rest.split_at(end.ok_or(Stop::Incomplete)?);
        self.rest = rest;
        Ok(word)
    }
}

/// Writes what stands behind a `\` as JSON. Returns the text behind it.
fn escape<'a>(escaped: &'a str, json: &mut String) -> Result<&'a str, Stop> {
    let mut rest = escaped.chars();
    match rest.next().ok_or(Stop::Incomplete)? {
        c @ ('n' | 't' | 'r' | 'b' | 'f' | '/' | '\\' | '"') => json.extend(['\\', c]),
        '\'' => json.push('\''),
        'u' => {
            let digits: String = rest.clone().take(4).collect();
            let are_digits = digits.chars().all(|c| c.is_ascii_hexdigit());
            if are_digits && digits.len() < 4 {
                return Err(Stop::Incomplete);
            }
            json.push_str(if are_digits { "\\u" } else { "\\\\u" });
        }
        other => json.push_str(&inside_quotes(&format!("\\{other}"))),
    }
    Ok(rest.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(notation: Notation, text: &str) -> (String, End) {
        let piece = Arguments::new(notation).advance(text);
        (piece.json, piece.end)
    }

    #[test]
    fn pythons_values_are_json() {
        let text = r#"x=1, y="it's", z=[True, None, 1.5,], o={"k": 'v\n\'\u00e9\x'}, 'q'="")"#;
        let expected = r#"{"x": 1, "y": "it's", "z": [true, null, 1.5], "o": {"k": "v\n'\u00e9\\x"}, "q": ""}"#;
        assert_eq!(json(Notation::Python, text), (expected.to_owned(), End::Closed));
    }

    #[test]
    fn gemmas_texts_have_quotes_of_their_own() {
        let text = r#"a:<|"|>say "hi", {b}<|"|>,n:-1,l:[<|"|>x<|"|>],o:{k:true}}"#;
        let expected = r#"{"a": "say \"hi\", {b}", "n": -1, "l": ["x"], "o": {"k": true}}"#;
        assert_eq!(json(Notation::Gemma, text), (expected.to_owned(), End::Closed));
    }

    #[test]
    fn what_is_no_value_breaks_the_arguments() {
        let deep = format!("a={}", "[".repeat(100_000));
        for text in ["a=b)", "a=1]", "1)", "a=[1)", "a=1 2)", "a=01)", &deep] {
            assert_eq!(
                json(Notation::Python, text).1,
                End::Broken,
                "{}",
                &text[..text.len().min(9)]
            );
        }
    }

    #[test]
    fn the_head_of_a_call_ends_behind_its_bracket() {
        for (notation, in_list, text) in [
            (Notation::Python, false, "[a.b(x="),
            (Notation::Python, true, " f ( )"),
            (Notation::Gemma, false, "call:f{<|\"|>a b<|\"|>:"),
        ] {
            let Head::Call { name, arguments_at } = read_head(notation, in_list, text) else {
                panic!("{text}");
            };
            assert!(text[..arguments_at].ends_with(['(', '{']) && text.contains(&name), "{text}");
            for end in 0..text.len() {
                assert_eq!(read_head(notation, in_list, &text[..end]), Head::Incomplete, "{text}");
            }
        }
    }
}
