//! Reads one call, or a list of calls, from JSON text.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub name: String,
    /// The text of a JSON object, as the model wrote it.
    pub arguments: String,
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
    let name: String = serde_json::from_str(members.get("name")?.get()).ok()?;
    let given = members.get("arguments").or_else(|| members.get("parameters"));
    let arguments = match given {
        Some(value) => object_text(value.get())?,
        None if arguments == Arguments::Optional => "{}".to_owned(),
        None => return None,
    };
    (!name.is_empty()).then_some(Call { name, arguments })
}

/// Reads a call with its name outside the JSON text.
pub(crate) fn read_named_call(name: &str, arguments: &str) -> Option<Call> {
    Some(Call { name: name.to_owned(), arguments: object_text(arguments)? })
}

/// Reads one call, or an array of them.
pub(crate) fn read_calls(json: &str) -> Option<Vec<Call>> {
    if json.starts_with('{') {
        return Some(vec![read_call(json, Arguments::Optional)?]);
    }
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    let calls = items.into_iter().map(|item| read_call(item.get(), Arguments::Optional));
    calls.collect::<Option<Vec<_>>>().filter(|calls| !calls.is_empty())
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
