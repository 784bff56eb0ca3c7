//! Reads one call from JSON text: its beginning, from which on it is streamed, or all of it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub name: String,
    /// The text of a JSON object, as the model wrote it.
    pub arguments: String,
}

/// The beginning of a call, up to its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Incomplete,
    /// The members have another order or form: the call is read when it is complete.
    Other,
    Call {
        name: String,
        /// The index of the `{` that begins the arguments.
        arguments_at: usize,
    },
}

/// The members that have the name, whichever form the model knows.
const NAMES: &[&str] = &["name", "tool_name"];

/// The members that may stand before the name.
const IDS: &[&str] = &["id", "tool_call_id"];

/// The members that have the arguments.
const ARGUMENTS: &[&str] = &["arguments", "parameters"];

/// Names have at most 128 bytes here; this leaves room for members and white space.
const MAX_HEAD_BYTES: usize = 512;

/// Reads `{"name": …, "arguments": {`, or the same with an id before it or with `parameters`.
pub(crate) fn read_head(json: &str) -> Head {
    bounded(json, HeadReader { rest: json }.read(json.len()))
}

/// Reads `{"the_name": {`.
pub(crate) fn read_keyed_head(json: &str) -> Head {
    bounded(json, HeadReader { rest: json }.read_keyed(json.len()))
}

fn bounded(json: &str, read: Result<Head, Head>) -> Head {
    match read {
        Err(Head::Incomplete) if json.len() > MAX_HEAD_BYTES => Head::Other,
        Ok(Head::Call { arguments_at, .. }) if arguments_at > MAX_HEAD_BYTES => Head::Other,
        Ok(head) | Err(head) => head,
    }
}

/// The text of a call behind the `:` of its name.
pub(crate) fn at_name(json: &str) -> Option<&str> {
    let mut reader = HeadReader { rest: json };
    reader.read_to_name().ok()?;
    Some(reader.rest)
}

struct HeadReader<'a> {
    rest: &'a str,
}

impl HeadReader<'_> {
    fn read_to_name(&mut self) -> Result<(), Head> {
        self.mark('{')?;
        let mut key = self.string()?;
        if IDS.contains(&key.as_str()) {
            self.mark(':')?;
            self.string()?;
            self.mark(',')?;
            key = self.string()?;
        }
        self.member(&key, NAMES)
    }

    fn read(mut self, total_bytes: usize) -> Result<Head, Head> {
        self.read_to_name()?;
        let name = self.string()?;
        self.mark(',')?;
        let key = self.string()?;
        self.member(&key, ARGUMENTS)?;
        self.arguments(name, total_bytes)
    }

    fn read_keyed(mut self, total_bytes: usize) -> Result<Head, Head> {
        self.mark('{')?;
        let name = self.string()?;
        self.mark(':')?;
        self.arguments(name, total_bytes)
    }

    fn arguments(mut self, name: String, total_bytes: usize) -> Result<Head, Head> {
        self.mark('{')?;
        let arguments_at = total_bytes - self.rest.len() - 1;
        if name.is_empty() { Err(Head::Other) } else { Ok(Head::Call { name, arguments_at }) }
    }

    fn member(&mut self, key: &str, names: &[&str]) -> Result<(), Head> {
        if names.contains(&key) { self.mark(':') } else { Err(Head::Other) }
    }

    fn mark(&mut self, mark: char) -> Result<(), Head> {
        let rest = self.rest.trim_start();
        self.rest = rest.strip_prefix(mark).ok_or(match rest {
            "" => Head::Incomplete,
            _ => Head::Other,
        })?;
        Ok(())
    }

    fn string(&mut self) -> Result<String, Head> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<String>();
        match values.next() {
            Some(Ok(string)) => {
                self.rest = &self.rest[values.byte_offset()..];
                Ok(string)
            }
            Some(Err(error)) if !error.is_eof() => Err(Head::Other),
            _ => Err(Head::Incomplete),
        }
    }
}

/// Whether JSON without arguments is a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// A mark precedes the JSON, so the arguments may be missing.
    Optional,
    /// Only these members distinguish a call from an answer in JSON.
    Required,
}

/// Reads `{"name": …, "arguments": {…}}`, or the same with `parameters`. `None`: not a call.
pub(crate) fn read_call(json: &str, arguments: Arguments) -> Option<Call> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    let member = |names: &[&str]| names.iter().find_map(|name| members.get(*name));
    let name: String = serde_json::from_str(member(NAMES)?.get()).ok()?;
    let given = member(ARGUMENTS);
    let arguments = match given {
        Some(value) => object_text(value.get())?,
        None if arguments == Arguments::Optional => "{}".to_owned(),
        None => return None,
    };
    (!name.is_empty()).then_some(Call { name, arguments })
}

/// Reads `{"the_name": {…}}`. `None`: not a call.
pub(crate) fn read_keyed(json: &str) -> Option<Call> {
    let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    let (name, arguments) = members.pop_first().filter(|_| members.is_empty())?;
    let arguments = object_text(arguments.get())?;
    (!name.is_empty()).then_some(Call { name, arguments })
}

/// The object's text. Some models write the object as a string, and an empty one as `null`.
fn object_text(json: &str) -> Option<String> {
    match json.as_bytes().first()? {
        b'{' => is_object(json).then(|| json.to_owned()),
        b'n' => Some("{}".to_owned()),
        b'"' => serde_json::from_str(json).ok().filter(|inner: &String| is_object(inner)),
        _ => None,
    }
}

fn is_object(json: &str) -> bool {
    serde_json::from_str::<BTreeMap<String, &RawValue>>(json).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(json: &str) -> Option<String> {
        read_call(json, Arguments::Optional).map(|call| call.arguments)
    }

    #[test]
    fn arguments_stay_as_the_model_wrote_them() {
        let json = r#"{"name": "f", "arguments": {"b": 1.50, "a": 12345678901234567890123}}"#;
        let kept = r#"{"b": 1.50, "a": 12345678901234567890123}"#;
        assert_eq!(arguments(json).as_deref(), Some(kept));
    }

    #[test]
    fn the_head_of_a_call_ends_where_its_arguments_begin() {
        for json in [
            r#"{"name": "f", "arguments": {"a": 1}}"#,
            r#"{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}"#,
            r#" { "name":"f" ,"parameters":{"#,
        ] {
            let arguments_at = json.rfind(r#"{"a""#).unwrap_or(json.len() - 1);
            let head = Head::Call { name: "f".to_owned(), arguments_at };
            assert_eq!(read_head(json), head, "{json}");
            for end in 0..=arguments_at {
                assert_eq!(read_head(&json[..end]), Head::Incomplete, "{}", &json[..end]);
            }
        }
        let long = format!(r#"{{"name": "{}"#, "a".repeat(600));
        for json in [
            r#"{"arguments""#,
            r#"{"name": 5"#,
            r#"{"name": "", "arguments": {"#,
            r#"{"name": "f"}"#,
            r#"{"name": "f", "arguments": ""#,
            &long,
        ] {
            assert_eq!(read_head(json), Head::Other, "{json}");
        }
    }

    #[test]
    fn arguments_may_be_text_null_or_missing() {
        let text = r#"{"name": "f", "arguments": "{\"a\": 1}"}"#;
        assert_eq!(arguments(text).as_deref(), Some(r#"{"a": 1}"#));
        assert_eq!(arguments(r#"{"name": "f", "parameters": null}"#).as_deref(), Some("{}"));
        assert_eq!(arguments(r#"{"name": "f"}"#).as_deref(), Some("{}"));
        assert_eq!(read_call(r#"{"name": "Bob"}"#, Arguments::Required), None);
    }

    #[test]
    fn json_without_a_name_and_arguments_is_no_call() {
        for json in [
            r#"{"arguments": {}}"#,
            r#"{"name": 1, "arguments": {}}"#,
            r#"{"name": "", "arguments": {}}"#,
            r#"{"name": "f", "arguments": [1]}"#,
            r#"{"name": "f", "arguments": "text"}"#,
            r#"{"name": "f", "arguments": {},}"#,
        ] {
            assert_eq!(arguments(json), None, "{json}");
        }
    }
}
