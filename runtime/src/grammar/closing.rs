//! Closes the objects of a schema: an answer has the keys that its schema declares, and no others. Left open,
//! small models add keys until the token limit.
//!
//! - An object that says `additionalProperties` itself stays as it is, and so does one that declares no keys, or
//!   requires one that it does not declare.
//! - Where several schemas describe one object together, none of them is closed: each would forbid the keys
//!   of the others. A further schema allows the keys of all, unless one of them allows more, or has alternatives of
//!   its own.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Beside each other, these describe one object together.
const DESCRIBE_KEYS: [&str; 7] =
    ["properties", "patternProperties", "additionalProperties", "$ref", "allOf", "anyOf", "oneOf"];

/// Schemas of the same value.
const IN_PLACE: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Schemas of values within it, by name, and one or several.
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
const WITHIN: [&str; 4] = ["items", "prefixItems", "additionalItems", "additionalProperties"];

/// A list of schemas, of which a value matches at least one, or one.
const CHOICES: [&str; 2] = ["anyOf", "oneOf"];

/// Schemas, their members and keys that are read to close objects of several schemas, because references multiply
/// them; further objects stay open.
const MAX_STEPS: usize = 20_000;
/// Schemas inside one another, of one such object.
const MAX_DEPTH: usize = 32;

/// Passes over the schema. A reference that is found later than that is not followed.
const MAX_PASSES: usize = 8;

/// The schema with closed objects, at every depth.
pub(super) fn closed(root: &Value) -> Value {
    let mut shared = BTreeSet::new();
    for _ in 0..MAX_PASSES {
        let found = shared.clone();
        let mut walk = Walk { root, found, shared: &shared, closes: false, steps: 0 };
        walk.schema(&mut root.clone(), "#", false);
        let found = walk.found;
        if found == shared {
            break;
        }
        shared = found;
    }
    let mut schema = root.clone();
    let found = BTreeSet::new();
    let mut walk = Walk { root, found, shared: &shared, closes: true, steps: MAX_STEPS };
    walk.schema(&mut schema, "#", false);
    schema
}

/// One pass over a schema.
struct Walk<'s> {
    /// The schema as the client wrote it.
    root: &'s Value,
    /// References to schemas that describe an object together with others.
    shared: &'s BTreeSet<String>,
    /// Such references that this pass has found.
    found: BTreeSet<String>,
    closes: bool,
    /// The rest of [`MAX_STEPS`].
    steps: usize,
}

impl Walk<'_> {
    /// `path`: as references name it.
    fn schema(&mut self, schema: &mut Value, path: &str, is_shared: bool) {
        let Value::Object(members) = schema else { return };
        let is_part = is_shared || self.shared.contains(path);
        let is_together = describes_together(members);
        let is_shared = is_part || is_together;
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
        if self.closes && !is_part && is_together {
            self.close_together(members);
        }
    }

    /// Closes an object that several schemas describe together.
    fn close_together(&mut self, members: &mut Map<String, Value>) {
        let is_choice = |key: &&str| entries(members, key).any(describes_keys);
        let choices: Vec<&str> = CHOICES.into_iter().filter(is_choice).collect();
        match choices.as_slice() {
            [] => {
                if let Some(closing) = self.closing(members, None) {
                    add_part(members, closing);
                }
            }
            [key] => {
                let closing = |entry| self.closing(members, Some(entry));
                let closings: Vec<Option<Value>> = entries(members, key).map(closing).collect();
                let alternatives = members.get_mut(*key).and_then(Value::as_array_mut);
                for (entry, closing) in alternatives.into_iter().flatten().zip(closings) {
                    if let (Value::Object(entry), Some(closing)) = (entry, closing) {
                        add_part(entry, closing);
                    }
                }
            }
            _ => {}
        }
    }

    /// A schema that allows the keys of these, and no others; `None` where one of them allows more.
    /// `chosen`: the alternative that counts.
    fn closing(&mut self, members: &Map<String, Value>, chosen: Option<&Value>) -> Option<Value> {
        let mut together = Together {
            root: self.root,
            steps: &mut self.steps,
            keys: Map::new(),
            required: Vec::new(),
            lists: 0,
        };
        let is_known = together.reads_members(members, chosen, 0);
        let Together { keys, required, .. } = together;
        let declares_all = required.iter().all(|key| keys.contains_key(key));
        (is_known && declares_all)
            .then(|| json!({"properties": keys, "additionalProperties": false}))
    }
}

/// What the schemas of one object declare.
struct Together<'s, 'w> {
    root: &'s Value,
    steps: &'w mut usize,
    /// In the order in which an answer has them.
    keys: Map<String, Value>,
    required: Vec<String>,
    /// The `properties` that were read.
    lists: usize,
}

impl Together<'_, '_> {
    /// Whether the object has no keys but those that it reads.
    fn reads(&mut self, schema: &Value, depth: usize) -> bool {
        let Value::Object(members) = schema else { return false };
        depth < MAX_DEPTH && self.reads_members(members, None, depth)
    }

    fn reads_members(
        &mut self,
        members: &Map<String, Value>,
        chosen: Option<&Value>,
        depth: usize,
    ) -> bool {
        if *self.steps == 0 || says_others(members) {
            return false;
        }
        self.count(1 + members.len());
        let root = self.root;
        members.iter().all(|(key, value)| match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                self.declare(properties);
                true
            }
            ("required", Value::Array(names)) => {
                self.count(names.len());
                self.required.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
                true
            }
            ("$ref", Value::String(reference)) => {
                let target = reference.strip_prefix('#').and_then(|path| root.pointer(path));
                target.is_some_and(|target| self.reads(target, depth + 1))
            }
            ("allOf", Value::Array(parts)) => parts.iter().all(|part| self.reads(part, depth + 1)),
            ("anyOf" | "oneOf", Value::Array(entries)) => {
                self.count(entries.len());
                !entries.iter().any(describes_keys)
                    || chosen.is_some_and(|entry| self.reads_alternative(entry, depth + 1))
            }
            ("properties" | "required" | "$ref" | "allOf" | "anyOf" | "oneOf", _) => false,
            _ => true,
        })
    }

    /// An alternative without keys is any object, or none.
    fn reads_alternative(&mut self, entry: &Value, depth: usize) -> bool {
        let lists = self.lists;
        self.reads(entry, depth) && (self.lists > lists || entry.get("required").is_some())
    }

    fn declare(&mut self, properties: &Map<String, Value>) {
        self.count(properties.len());
        self.lists += 1;
        for key in properties.keys() {
            self.keys.entry(key.clone()).or_insert(Value::Bool(true));
        }
    }

    fn count(&mut self, steps: usize) {
        *self.steps = self.steps.saturating_sub(steps);
    }
}

/// Whether the schema itself says what keys its object has beside its `properties`.
fn says_others(schema: &Map<String, Value>) -> bool {
    let unevaluated = schema.get("unevaluatedProperties");
    schema.contains_key("additionalProperties")
        || schema.contains_key("patternProperties")
        || unevaluated.is_some_and(|others| *others != Value::Bool(false))
}

/// The parts that are there keep their places, which references may name.
fn add_part(schema: &mut Map<String, Value>, part: Value) {
    let parts = schema.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(parts) = parts {
        parts.push(part);
    }
}

fn entries<'m>(schema: &'m Map<String, Value>, key: &str) -> impl Iterator<Item = &'m Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
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
    let all = entries(schema, "allOf").filter(|entry| describes_keys(entry)).count();
    let is_choice = |key: &&str| entries(schema, key).any(describes_keys);
    let choices = CHOICES.into_iter().filter(is_choice).count();
    own + reference + all + choices > 1
}

fn describes_keys(schema: &Value) -> bool {
    DESCRIBE_KEYS.iter().any(|key| schema.get(key).is_some())
}

#[cfg(test)]
mod tests {
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

    /// With definitions that the schema may name.
    fn with_definitions(schema: &Value) -> Value {
        let mut schema = schema.clone();
        schema["$defs"] = json!({
            "base": keys(&["a"]),
            "far": {"allOf": [{"$ref": "#/$defs/base"}]},
            "circle": {"properties": {"b": {}}, "allOf": [{"$ref": "#/$defs/circle"}]},
        });
        schema
    }

    /// The closed objects and their keys, without those that are only defined.
    fn closed_together(schema: &Value) -> Value {
        let closed = closed(&with_definitions(schema));
        let mut found = Vec::new();
        paths(&closed, "", &mut found);
        found.retain(|path| !path.starts_with("/$defs"));
        let with_keys = |path: &String| {
            let keys = closed.pointer(path).unwrap()["properties"].as_object().unwrap().keys();
            json!([path, keys.collect::<Vec<_>>()])
        };
        found.iter().map(with_keys).collect()
    }

    #[test]
    fn schemas_that_describe_an_object_together_are_closed_by_a_further_one() {
        for (together, expected) in [
            (
                json!({"allOf": [{"$ref": "#/$defs/base"}, keys(&["b"])]}),
                json!([["/allOf/2", ["a", "b"]]]),
            ),
            (
                json!({"$ref": "#/$defs/far", "properties": {"b": {}}, "required": ["a"]}),
                json!([["/allOf/0", ["a", "b"]]]),
            ),
            (
                json!({"allOf": [keys(&["b"]), keys(&["a"])], "unevaluatedProperties": false}),
                json!([["/allOf/2", ["b", "a"]]]),
            ),
            (
                json!({"properties": {"a": {}}, "anyOf": [
                    keys(&["b"]), {"type": "null"}, {"$ref": "#/$defs/base"}, {"required": ["a"]},
                ]}),
                json!([
                    ["/anyOf/0/allOf/0", ["a", "b"]],
                    ["/anyOf/2/allOf/0", ["a"]],
                    ["/anyOf/3/allOf/0", ["a"]],
                ]),
            ),
        ] {
            assert_eq!(closed_together(&together), expected, "{together}");
        }
        let alone = json!({"allOf": [{"$ref": "#/$defs/base"}], "description": "one"});
        let schema = with_definitions(&alone);
        assert_eq!(closed(&schema)["$defs"]["base"]["additionalProperties"], false);
        assert_eq!(closed_together(&alone), json!([]));
    }

    #[test]
    fn an_object_of_several_schemas_stays_open_where_one_of_them_allows_more() {
        let own = |more: Value| json!({"properties": {"a": {}}, "allOf": [more]});
        for open in [
            own(json!({"properties": {"b": {}}, "additionalProperties": true})),
            own(json!({"properties": {"b": {}}, "unevaluatedProperties": true})),
            own(json!({"patternProperties": {"^b": {}}})),
            own(json!({"properties": {"b": {}}, "required": ["c"]})),
            own(json!({"anyOf": [keys(&["b"]), keys(&["c"])]})),
            own(json!({"$ref": "#/$defs/circle"})),
            own(json!({"$ref": "#/$defs/none"})),
            json!({"properties": {"a": {}}, "anyOf": [keys(&["b"])], "oneOf": [keys(&["c"])]}),
        ] {
            assert_eq!(closed_together(&open), json!([]), "{open}");
        }
        let any = json!({"properties": {"a": {}}, "anyOf": [{"type": "object"}, keys(&["b"])]});
        assert_eq!(closed_together(&any), json!([["/anyOf/1/allOf/0", ["a", "b"]]]));
    }

    #[test]
    fn references_that_multiply_schemas_are_read_within_bounds() {
        // 2^14 schemas, at a depth that is read.
        let definition = |at: usize| {
            let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
            (format!("d{at}"), json!({"allOf": [next, next, keys(&["a"])]}))
        };
        let mut definitions: Map<String, Value> = (0..14).map(definition).collect();
        definitions.insert("d14".to_owned(), keys(&["b"]));
        let schema = json!({"$ref": "#/$defs/d0", "properties": {}, "$defs": definitions});
        assert_eq!(closed(&schema).get("allOf"), None);
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
