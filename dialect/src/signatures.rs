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

    /// The schema of a parameter, and its kind. One that is not declared takes anything.
    pub(crate) fn parameter(&self, tool: &str, key: &str) -> Option<(&Value, Kind)> {
        let (_, parameters) = self.tools.iter().find(|(name, _)| name == tool)?;
        let schema = referred(parameters, parameters.get("properties")?.get(key)?);
        Some((schema, Kind::within(parameters, schema)))
    }
}

/// References that lead to one another: some lead round in a circle.
const MAX_REFERENCES: usize = 8;

/// The schema that a reference names.
pub fn referred<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let named = |schema: &&'a Value| {
        let path = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        root.pointer(path)
    };
    let all = std::iter::successors(Some(schema), named).take(MAX_REFERENCES);
    all.last().unwrap_or(schema)
}

impl Kind {
    /// The kind of the values that match a JSON schema.
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

    /// As [`Kind::of`], also where alternatives are references within `root`.
    pub fn within(root: &Value, schema: &Value) -> Self {
        let alternatives = ["anyOf", "oneOf"].into_iter().find_map(|key| schema[key].as_array());
        match (Self::of(schema), alternatives) {
            (Self::Any, Some(alternatives)) => {
                let kinds = alternatives.iter().map(|one| Self::of(referred(root, one)));
                kinds.reduce(|a, b| if a == b { a } else { Self::Any }).unwrap_or(Self::Any)
            }
            (kind, _) => kind,
        }
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

    /// The same of a value that matches one of these schemas: a text where none of them allows what it would be
    /// otherwise. `12345` is a text where a text or null is expected.
    pub(crate) fn to_json_of(self, written: &str, schemas: &[&Value]) -> String {
        let json = self.to_json(written);
        let is_allowed = |value: Value| schemas.iter().any(|schema| allows(schema, &value));
        if self != Self::Any
            || schemas.is_empty()
            || serde_json::from_str::<Value>(&json).is_ok_and(is_allowed)
        {
            return json;
        }
        Value::from(written).to_string()
    }
}

/// Whether the value has a type that the schema names, or is among those that it lists. True where it does neither.
fn allows(schema: &Value, value: &Value) -> bool {
    let is_of = |name: &Value| match name.as_str() {
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    let any = |key: &str, allowed: &dyn Fn(&Value) -> bool| {
        schema.get(key).and_then(Value::as_array).map(|all| all.iter().any(allowed))
    };
    let of_one = || schema.get("type").filter(|name| name.is_string()).map(is_of);
    of_one()
        .or_else(|| any("type", &is_of))
        .or_else(|| any("enum", &|one| one == value))
        .or_else(|| any("anyOf", &|one| allows(one, value)))
        .or_else(|| any("oneOf", &|one| allows(one, value)))
        .or_else(|| schema.get("const").map(|one| one == value))
        .unwrap_or(true)
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

    #[test]
    fn a_parameter_has_the_schema_that_it_refers_to() {
        let tools = Signatures::new([(
            "f".to_owned(),
            json!({
                "properties": {
                    "size": {"$ref": "#/$defs/size"},
                    "lost": {"$ref": "#/$defs/none"},
                    "round": {"$ref": "#/properties/round"},
                    "either": {"anyOf": [{"$ref": "#/$defs/size"}, {"type": "string"}]},
                },
                "$defs": {"size": {"$ref": "#/$defs/of_clothes"}, "of_clothes": {"enum": ["38", "40"]}},
            }),
        )]);
        let kind = |key: &str| tools.parameter("f", key).map(|(_, kind)| kind);
        assert_eq!([kind("size"), kind("either")], [Some(Kind::Text); 2]);
        assert_eq!([kind("lost"), kind("round")], [Some(Kind::Any); 2]);
        assert_eq!(kind("other"), None);
    }

    #[test]
    fn a_value_that_a_schema_does_not_allow_is_a_text() {
        let nullable = json!({"type": ["string", "null"]});
        let optional = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        let counted = json!({"oneOf": [{"type": "string"}, {"type": "integer"}]});
        let listed = json!({"enum": ["1", 2, null]});
        for (schema, written, expected) in [
            (&nullable, "12345", r#""12345""#),
            (&nullable, " true\n", r#"" true\n""#),
            (&nullable, "null", "null"),
            (&nullable, "None", "null"),
            (&optional, "[1]", r#""[1]""#),
            (&optional, "a", r#""a""#),
            (&counted, "7", "7"),
            (&counted, "7.50", r#""7.50""#),
            (&listed, "1", r#""1""#),
            (&listed, "2", "2"),
            (&json!({"$ref": "#/$defs/any"}), "1", "1"),
        ] {
            let kind = Kind::of(schema);
            assert_eq!(kind.to_json_of(written, &[schema]), expected, "{written} of {schema}");
        }
        assert_eq!(Kind::Any.to_json_of("1", &[&nullable, &counted]), "1");
        assert_eq!(Kind::Any.to_json_of("1", &[]), "1");
        assert_eq!(Kind::Json.to_json_of("true", &[&json!({"type": "integer"})]), "true");
    }
}
