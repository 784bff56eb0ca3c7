//! Calls in Python's notation, and in Gemma's, as JSON.

use serde_json::{Map, Value};

use crate::forms::Notation;

/// Values inside one another: a model that repeats itself must not overflow the stack.
const MAX_DEPTH: usize = 64;

/// The quotes of Gemma's texts.
const GEMMA_QUOTE: &str = "<|\"|>";

/// A call's name, and its arguments as JSON.
pub(crate) type Call = (String, String);

/// Reads the text between the marks. `None`: it is no call.
pub(crate) fn read(notation: Notation, text: &str) -> Option<Vec<Call>> {
    let mut reader = Reader { notation, rest: text, depth: 0 };
    let calls = match notation {
        Notation::Python => reader.python_calls()?,
        Notation::Gemma => vec![reader.gemma_call()?],
    };
    reader.rest.trim().is_empty().then_some(calls)
}

struct Reader<'a> {
    notation: Notation,
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// `[name(key=value, …), …]`
    fn python_calls(&mut self) -> Option<Vec<Call>> {
        self.mark("[")?;
        let mut calls = Vec::new();
        loop {
            let name = self.name()?.to_owned();
            self.mark("(")?;
            let arguments = self.members("=", ")")?;
            calls.push((name, Value::Object(arguments).to_string()));
            if self.mark("]").is_some() {
                return Some(calls);
            }
            self.mark(",")?;
        }
    }

    /// `call:name{key:value, …}`
    fn gemma_call(&mut self) -> Option<Call> {
        self.mark("call:")?;
        let name = self.name()?.to_owned();
        self.mark("{")?;
        Some((name, Value::Object(self.members(":", "}")?).to_string()))
    }

    fn members(&mut self, between: &str, close: &str) -> Option<Map<String, Value>> {
        let mut members = Map::new();
        while self.mark(close).is_none() {
            let quoted = self.quoted();
            let key = quoted.or_else(|| self.name().map(str::to_owned))?;
            self.mark(between)?;
            members.insert(key, self.value()?);
            if self.mark(",").is_none() {
                self.mark(close)?;
                break;
            }
        }
        Some(members)
    }

    fn value(&mut self) -> Option<Value> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = self.value_inside();
        self.depth -= 1;
        value
    }

    fn value_inside(&mut self) -> Option<Value> {
        if let Some(text) = self.quoted() {
            return Some(Value::from(text));
        }
        if self.mark("{").is_some() {
            return self.members(":", "}").map(Value::Object);
        }
        if self.mark("[").is_some() {
            let mut items = Vec::new();
            while self.mark("]").is_none() {
                items.push(self.value()?);
                if self.mark(",").is_none() {
                    self.mark("]")?;
                    break;
                }
            }
            return Some(Value::Array(items));
        }
        let ends = |c: char| c.is_whitespace() || ",)]}".contains(c);
        let word = &self.rest[..self.rest.find(ends).unwrap_or(self.rest.len())];
        let value = match word {
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            "None" | "null" => Value::Null,
            _ => serde_json::from_str::<serde_json::Number>(word).ok()?.into(),
        };
        self.rest = &self.rest[word.len()..];
        Some(value)
    }

    /// A text in the quotes of the notation.
    fn quoted(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        if self.notation == Notation::Gemma
            && let Some(inner) = self.rest.strip_prefix(GEMMA_QUOTE)
        {
            let (text, rest) = inner.split_once(GEMMA_QUOTE)?;
            self.rest = rest;
            return Some(text.to_owned());
        }
        let quote = self.rest.chars().next().filter(|c| ['"', '\''].contains(c))?;
        let mut text = String::new();
        let mut chars = self.rest[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                _ if c == quote => {
                    self.rest = &self.rest[at + 2..];
                    return Some(text);
                }
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'u' => {
                        let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                    }
                    c @ ('\\' | '"' | '\'' | '/') => text.push(c),
                    other => text.extend(['\\', other]),
                },
                _ => text.push(c),
            }
        }
        None
    }

    fn name(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let allowed = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        let end = self.rest.find(|c| !allowed(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then_some(name)
    }

    fn mark(&mut self, mark: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(mark).or_else(|| {
            self.rest = self.rest.trim_start();
            None
        })?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_values_are_json() {
        let text = r#"[a.b(x=1, y="it's", z=[True, None, 1.5], o={"k": 'v\n'}), none()]"#;
        let calls = read(Notation::Python, text).unwrap();
        let json = r#"{"o":{"k":"v\n"},"x":1,"y":"it's","z":[true,null,1.5]}"#;
        let sorted = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!((calls[0].0.as_str(), sorted(&calls[0].1)), ("a.b", sorted(json)));
        assert_eq!(calls[1], ("none".to_owned(), "{}".to_owned()));
    }

    #[test]
    fn text_that_is_no_call_is_none() {
        let deep = format!("[f(a={})]", "[".repeat(100_000));
        for text in ["", "[link](url)", "[f(a=1]", "[f(a=b)]", "[f(a=1)] more", "[f(a=\"", &deep] {
            assert_eq!(read(Notation::Python, text), None, "{}", &text[..text.len().min(40)]);
        }
    }

    #[test]
    fn gemmas_texts_have_quotes_of_their_own() {
        let text = r#"call:f{a:<|"|>say "hi", {b}<|"|>,n:-1,l:[<|"|>x<|"|>],o:{k:true}}"#;
        let (name, arguments) = read(Notation::Gemma, text).unwrap().remove(0);
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        let expected =
            serde_json::json!({"a": "say \"hi\", {b}", "n": -1, "l": ["x"], "o": {"k": true}});
        assert_eq!((name.as_str(), arguments), ("f", expected));
    }
}
