//! The parameters of the tools that are offered: where a model writes values without quotes, only
//! the schema says which of them are texts.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::{Schema, choices};

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

    /// `None`: the tool does not declare it.
    pub(crate) fn parameter(&self, tool: &str, key: &str) -> Option<Parameter> {
        let tool = self.tools.iter().position(|(name, _)| name == tool)?;
        Schema::new(&self.tools[tool].1).member(key)?;
        Some(Parameter { signatures: self.clone(), tool, key: key.to_owned() })
    }
}

/// A parameter that a tool declares.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    signatures: Signatures,
    tool: usize,
    key: String,
}

impl Parameter {
    pub fn schema(&self) -> Schema<'_> {
        let (_, parameters) = &self.signatures.tools[self.tool];
        Schema::new(parameters).member(&self.key).expect("the tool declares the parameter")
    }

    pub fn kind(&self) -> Kind {
        Kind::of(self.schema())
    }
}

impl Kind {
    /// The kind of the values that match a JSON schema.
    pub fn of(schema: Schema<'_>) -> Self {
        Self::of_any(&[schema])
    }

    /// The kind of the values that match one of these.
    pub(crate) fn of_any(schemas: &[Schema<'_>]) -> Self {
        let kinds = choices(schemas).into_iter().map(Self::of_choice);
        kinds.reduce(Self::or).unwrap_or(Self::Any)
    }

    fn of_choice(schema: Schema<'_>) -> Self {
        if let Some(name) = schema.get("type").filter(|name| name.is_string()) {
            return Self::of_type(name);
        }
        let of_all = |key: &str, of: fn(&Value) -> Self| {
            schema.get(key)?.as_array()?.iter().map(of).reduce(Self::or)
        };
        of_all("type", Self::of_type)
            .or_else(|| of_all("enum", Self::of_value))
            .or_else(|| schema.get("const").map(Self::of_value))
            .unwrap_or(Self::Any)
    }

    fn or(self, other: Self) -> Self {
        if self == other { self } else { Self::Any }
    }

    fn of_type(name: &Value) -> Self {
        if name == "string" { Self::Text } else { Self::Json }
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
    pub(crate) fn to_json_of(self, written: &str, schemas: &[Schema<'_>]) -> String {
        let json = self.to_json(written);
        let is_allowed = |value: Value| {
            let choices = choices(schemas);
            choices.is_empty() || choices.iter().any(|one| allows(*one, &value))
        };
        if self != Self::Any
            || schemas.is_empty()
            || serde_json::from_str::<Value>(&json).is_ok_and(is_allowed)
        {
            return json;
        }
        Value::from(written).to_string()
    }
}

/// Whether the value has a type that the choice names, or is among those that it lists. True where it does neither.
fn allows(choice: Schema<'_>, value: &Value) -> bool {
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
        choice.get(key).and_then(Value::as_array).map(|all| all.iter().any(allowed))
    };
    let of_one = || choice.get("type").filter(|name| name.is_string()).map(is_of);
    of_one()
        .or_else(|| any("type", &is_of))
        .or_else(|| any("enum", &|one| one == value))
        .or_else(|| choice.get("const").map(|one| one == value))
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
            assert_eq!(Kind::of(Schema::new(&schema)), kind, "{schema}");
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
        let kind = |key: &str| tools.parameter("f", key).map(|one| one.kind());
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
            let one = Schema::new(schema);
            let kind = Kind::of(one);
            assert_eq!(kind.to_json_of(written, &[one]), expected, "{written} of {schema}");
        }
        let both = [&nullable, &counted].map(Schema::new);
        assert_eq!(Kind::Any.to_json_of("1", &both), "1");
        assert_eq!(Kind::Any.to_json_of("1", &[]), "1");
        let integer = json!({"type": "integer"});
        assert_eq!(Kind::Json.to_json_of("true", &[Schema::new(&integer)]), "true");
    }

    #[test]
    fn a_value_is_read_by_the_schemas_to_which_alternatives_refer() {
        let root = json!({"$defs": {
            "name": {"type": "string"},
            "alias": {"$ref": "#/$defs/name"},
            "nullable": {"anyOf": [{"$ref": "#/$defs/alias"}, {"type": "null"}]},
            "count": {"type": "integer"},
            "list": {"anyOf": [{"$ref": "#/$defs/count"}, {"type": "array"}]},
            "round": {"anyOf": [{"$ref": "#/$defs/round"}, {"$ref": "#/$defs/nullable"}]},
            "circle": {"oneOf": [{"$ref": "#/$defs/circle"}]},
            "lost": {"anyOf": [{"$ref": "#/$defs/none"}, {"type": "null"}]},
        }});
        for (names, kind, written, expected) in [
            (&["name", "alias"][..], Kind::Text, "12345", r#""12345""#),
            (&["nullable"][..], Kind::Any, "12345", r#""12345""#),
            (&["nullable"][..], Kind::Any, "null", "null"),
            (&["nullable", "count"][..], Kind::Any, "12345", "12345"),
            (&["nullable", "count"][..], Kind::Any, "1.5", r#""1.5""#),
            (&["list", "count"][..], Kind::Json, "[1]", "[1]"),
            (&["round"][..], Kind::Any, "true", r#""true""#),
            (&["circle"][..], Kind::Any, "1", "1"),
            (&["lost"][..], Kind::Any, "1", "1"),
        ] {
            let refer = |name: &&str| json!({"$ref": format!("#/$defs/{name}")});
            let schema = json!({"anyOf": names.iter().map(refer).collect::<Vec<_>>()});
            let one = Schema::within(&root, &schema);
            assert_eq!(Kind::of(one), kind, "{schema}");
            assert_eq!(kind.to_json_of(written, &[one]), expected, "{written} of {schema}");
        }
    }
}
