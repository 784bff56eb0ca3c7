//! The parameters of the tools that are offered: where a model writes values without quotes, only
//! the schema says which of them are texts.

use std::sync::Arc;

use serde_json::Value;

/// The tools that an answer may call. Clones share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signatures {
    tools: Arc<[(String, Value)]>,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Texts only.
    Text,
    /// Texts, and other values.
    Any,
    /// Other values only.
    Json,
}

impl Signatures {
    /// Names of tools, and the JSON schemas of their parameters.
    pub fn new(tools: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self { tools: tools.into_iter().collect() }
    }

    pub(crate) fn declares(&self, tool: &str) -> bool {
        self.tools.iter().any(|(name, _)| name == tool)
    }

    /// The schema of a parameter. One that is not declared takes anything.
    pub(crate) fn parameter(&self, tool: &str, key: &str) -> Option<&Value> {
        let (_, parameters) = self.tools.iter().find(|(name, _)| name == tool)?;
        parameters.get("properties")?.get(key)
    }
}

impl Kind {
    /// Of the values that match a JSON schema.
    pub fn of(schema: &Value) -> Self {
        if let Some(name) = schema["type"].as_str() {
            return if name == "string" { Self::Text } else { Self::Json };
        }
        let of_all = |key: &str, of: fn(&Value) -> Self| {
            let kinds = schema[key].as_array()?.iter().map(of);
            kinds.reduce(|a, b| if a == b { a } else { Self::Any })
        };
        of_all("type", |name| if name == "string" { Self::Text } else { Self::Json })
            .or_else(|| of_all("enum", Self::of_value))
            .or_else(|| of_all("anyOf", Self::of))
            .or_else(|| of_all("oneOf", Self::of))
            .or_else(|| schema.get("const").map(Self::of_value))
            .unwrap_or(Self::Any)
    }

    fn of_value(value: &Value) -> Self {
        if value.is_string() { Self::Text } else { Self::Json }
    }

    /// A value that a model wrote without quotes, as JSON.
    pub(crate) fn to_json(self, written: &str) -> String {
        let text = || Value::from(written).to_string();
        if self == Self::Text {
            return text();
        }
        let value = written.trim();
        if serde_json::from_str::<&serde_json::value::RawValue>(value).is_ok() {
            return value.to_owned();
        }
        match value {
            "True" => "true".to_owned(),
            "False" => "false".to_owned(),
            "None" => "null".to_owned(),
            _ => text(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_says_which_values_are_texts() {
        for (schema, kind) in [
            (json!({"type": "string"}), Kind::Text),
            (json!({"type": "integer"}), Kind::Json),
            (json!({"type": ["string", "null"]}), Kind::Any),
            (json!({"enum": ["a", "b"]}), Kind::Text),
            (json!({"anyOf": [{"type": "string"}, {"type": "object"}]}), Kind::Any),
            (json!({"oneOf": [{"type": "integer"}, {"type": "object"}]}), Kind::Json),
            (json!({}), Kind::Any),
        ] {
            assert_eq!(Kind::of(&schema), kind, "{schema}");
        }
    }

    #[test]
    fn a_value_is_json_where_a_text_is_not_expected() {
        assert_eq!(Kind::Text.to_json("1"), "\"1\"");
        assert_eq!(Kind::Json.to_json(" 1\n"), "1");
        assert_eq!(Kind::Json.to_json("True"), "true");
        assert_eq!(Kind::Any.to_json("{\"a\": 1.50}"), "{\"a\": 1.50}");
        assert_eq!(Kind::Any.to_json("one \"two\""), r#""one \"two\"""#);
    }
}
