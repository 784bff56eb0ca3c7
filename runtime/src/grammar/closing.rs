//! Closes the objects of a schema: an answer has the keys that its schema declares, and no others. Left open,
//! small models add keys until the token limit.
//!
//! - An object that says `additionalProperties` itself stays as it is, and so does one that declares no keys, or
//!   requires one that it does not declare.
//! - Where several schemas describe one object together, none of them is closed: each would forbid the keys
//!   of the others.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Beside each other, these describe one object together.
const DESCRIBE_KEYS: [&str; 7] =
    ["properties", "patternProperties", "additionalProperties", "$ref", "allOf", "anyOf", "oneOf"];

/// Schemas of the same value.
const IN_PLACE: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Schemas of values within it, by name, and one or several.
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
const WITHIN: [&str; 4] = ["items", "prefixItems", "additionalItems", "additionalProperties"];

/// Passes over the schema. A reference that is found later than that is not followed.
const MAX_PASSES: usize = 8;

/// The schema with closed objects, at every depth.
pub(super) fn closed(schema: &Value) -> Value {
    let mut shared = BTreeSet::new();
    for _ in 0..MAX_PASSES {
        let mut walk = Walk { found: shared.clone(), shared: &shared, closes: false };
        walk.schema(&mut schema.clone(), "#", false);
        let found = walk.found;
        if found == shared {
            break;
        }
        shared = found;
    }
    let mut schema = schema.clone();
    Walk { found: BTreeSet::new(), shared: &shared, closes: true }.schema(&mut schema, "#", false);
    schema
}

/// One pass over a schema.
struct Walk<'s> {
    /// References to schemas that describe an object together with others.
    shared: &'s BTreeSet<String>,
    /// The same, of this pass.
    found: BTreeSet<String>,
    closes: bool,
}

impl Walk<'_> {
    /// `path`: as references name it.
    fn schema(&mut self, schema: &mut Value, path: &str, is_shared: bool) {
        let Value::Object(members) = schema else { return };
        let is_shared = is_shared || self.shared.contains(path) || describes_together(members);
        if is_shared && let Some(Value::String(reference)) = members.get("$ref") {
            self.found.insert(reference.clone());
        }
        for (key, value) in members.iter_mut() {
            let path = || format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            match value {
                Value::Array(list) if IN_PLACE.contains(&key.as_str()) => {
                    for (n, entry) in list.iter_mut().enumerate() {
                        self.schema(entry, &format!("{}/{n}", path()), is_shared);
                    }
                }
                Value::Object(named) if NAMED.contains(&key.as_str()) => {
                    for (name, entry) in named.iter_mut() {
                        let name = name.replace('~', "~0").replace('/', "~1");
                        self.schema(entry, &format!("{}/{name}", path()), false);
                    }
                }
                Value::Array(list) if WITHIN.contains(&key.as_str()) => {
                    for (n, entry) in list.iter_mut().enumerate() {
                        self.schema(entry, &format!("{}/{n}", path()), false);
                    }
                }
                value if WITHIN.contains(&key.as_str()) => self.schema(value, &path(), false),
                _ => {}
            }
        }
        if self.closes && !is_shared && declares_all_keys(members) {
            members.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    }
}

/// Whether the object's keys are `properties`: it allows no others, and requires none that is not among them.
fn declares_all_keys(schema: &Map<String, Value>) -> bool {
    let Some(properties) = schema.get("properties") else { return false };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut required = required.filter_map(Value::as_str);
    !schema.contains_key("additionalProperties")
        && required.all(|key| properties.get(key).is_some())
}

/// Whether more than one part of a schema says which keys its object has.
fn describes_together(schema: &Map<String, Value>) -> bool {
    let own = usize::from(schema.contains_key("properties"));
    let reference = usize::from(schema.contains_key("$ref"));
    let entries = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    let all = entries("allOf").filter(|entry| describes_keys(entry)).count();
    let choices = ["anyOf", "oneOf"].into_iter();
    let choices = choices.filter(|key| entries(key).any(describes_keys)).count();
    own + reference + all + choices > 1
}

fn describes_keys(schema: &Value) -> bool {
    DESCRIBE_KEYS.iter().any(|key| schema.get(key).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The paths of the closed objects.
    fn paths(schema: &Value, path: &str, into: &mut Vec<String>) {
        if schema["additionalProperties"] == false {
            into.push(path.to_owned());
        }
        let members: Vec<(String, &Value)> = match schema {
            Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), v)).collect(),
            Value::Array(list) => {
                list.iter().enumerate().map(|(n, v)| (n.to_string(), v)).collect()
            }
            _ => Vec::new(),
        };
        for (key, value) in members {
            paths(value, &format!("{path}/{key}"), into);
        }
    }

    fn closed_paths(schema: &Value) -> Vec<String> {
        let mut found = Vec::new();
        paths(&closed(schema), "", &mut found);
        found
    }

    fn keys(names: &[&str]) -> Value {
        let keys = names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
        json!({"type": "object", "properties": keys.collect::<Map<_, _>>()})
    }

    #[test]
    fn objects_are_closed_at_every_depth() {
        let schema = json!({
            "properties": {
                "a": keys(&["x"]),
                "b": {"items": {"anyOf": [keys(&["y"]), {"$ref": "#/$defs/c"}]}},
                "open": {"properties": {"z": {}}, "additionalProperties": {"type": "integer"}},
                "any": {"type": "object"},
                "more": {"properties": {"z": {}}, "required": ["z", "undeclared"]},
            },
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            "$defs": {"c": keys(&["c"])},
        });
        let expected = ["", "/properties/a", "/properties/b/items/anyOf/0", "/$defs/c"];
        let mut found = closed_paths(&schema);
        found.sort();
        let mut expected = expected.map(str::to_owned);
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn schemas_that_describe_an_object_together_stay_open() {
        let base =
            json!({"$defs": {"base": keys(&["a"]), "far": {"allOf": [{"$ref": "#/$defs/base"}]}}});
        for together in [
            json!({"allOf": [{"$ref": "#/$defs/base"}, keys(&["b"])]}),
            json!({"$ref": "#/$defs/far", "properties": {"b": {}}}),
            json!({"properties": {"a": {}}, "anyOf": [keys(&["b"]), keys(&["c"])]}),
        ] {
            let mut schema = together.clone();
            schema["$defs"] = base["$defs"].clone();
            let mut found = closed_paths(&schema);
            found.retain(|path| {
                !path.starts_with("/$defs") || together.to_string().contains("$ref")
            });
            assert_eq!(found, Vec::<String>::new(), "{together}");
        }
        let alone = json!({"allOf": [{"$ref": "#/$defs/base"}], "description": "one"});
        let mut schema = alone.clone();
        schema["$defs"] = base["$defs"].clone();
        assert_eq!(closed_paths(&schema), ["/$defs/base"]);
    }

    #[test]
    fn what_is_no_schema_stays_as_it_is() {
        for schema in [json!(true), json!({"properties": 1}), json!({"allOf": {"properties": {}}})]
        {
            let mut expected = schema.clone();
            if schema.get("properties").is_some() {
                expected["additionalProperties"] = false.into();
            }
            assert_eq!(closed(&schema), expected);
        }
    }
}
