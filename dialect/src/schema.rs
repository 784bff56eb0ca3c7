//! JSON schemas with references, to read what a model writes without quotes.
//!
//! - A schema is borrowed from the request, with the one around it that has the definitions.
//! - Members, items and alternatives are those that a reference names. An `allOf` with one entry refers to it:
//!   Pydantic 1 writes a reference so where it has a description.
//! - A walk ends: it follows [`MAX_REFERENCES`] references in a row and [`MAX_ALTERNATIVES`] alternatives, and visits
//!   each schema once. A reference that it does not follow takes anything.

use std::collections::BTreeSet;

use serde_json::Value;

/// References that lead to one another: some lead round in a circle.
const MAX_REFERENCES: usize = 8;

/// A longer one takes its time at each place that names it.
const MAX_REFERENCE_BYTES: usize = 1024;

/// Alternatives of alternatives: definitions that name each other make many of few.
const MAX_ALTERNATIVES: usize = 4096;

/// What a schema may say beside such an `allOf`: it changes no value that the schema takes.
const REMARKS: [&str; 8] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// A schema that says nothing.
static ANYTHING: Value = Value::Null;

/// The schema that a reference names.
pub fn referred<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let next = |&schema: &&'a Value| named(root, schema).or_else(|| only_part(schema));
    let all = std::iter::successors(Some(schema), next).take(MAX_REFERENCES);
    all.last().unwrap_or(schema)
}

fn named<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let path = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    if path.len() > MAX_REFERENCE_BYTES { None } else { root.pointer(path) }
}

/// The one entry of `allOf`, where the schema says nothing else of its values.
fn only_part(schema: &Value) -> Option<&Value> {
    let fields = schema.as_object()?;
    let [part] = fields.get("allOf")?.as_array()?.as_slice() else { return None };
    let says_more = |key: &String| key != "allOf" && !REMARKS.contains(&key.as_str());
    (!fields.keys().any(says_more)).then_some(part)
}

/// A schema that is no reference to another one.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'a> {
    root: &'a Value,
    schema: &'a Value,
}

impl<'a> Schema<'a> {
    /// A schema with its own definitions.
    pub fn new(root: &'a Value) -> Self {
        Self::within(root, root)
    }

    /// The schema, or the one of `root` to which it refers.
    pub fn within(root: &'a Value, schema: &'a Value) -> Self {
        Self { root, schema: referred(root, schema) }
    }

    pub fn get(self, key: &str) -> Option<&'a Value> {
        self.schema.get(key)
    }

    pub fn value(self) -> &'a Value {
        self.schema
    }

    /// The schemas that name a type or list values: itself, or those that it is one of, at any depth. Empty where they
    /// lead round in a circle.
    pub fn choices(self) -> Vec<Self> {
        choices(&[self])
    }

    pub(crate) fn member(self, key: &str) -> Option<Self> {
        let member = self.get("properties")?.get(key)?;
        Some(Self::within(self.root, member))
    }

    pub(crate) fn items(self) -> Option<Self> {
        Some(Self::within(self.root, self.get("items")?))
    }

    /// The schema of the members that have none of their own.
    pub(crate) fn others(self) -> Option<Self> {
        let others = self.get("additionalProperties").filter(|others| others.is_object())?;
        Some(Self::within(self.root, others))
    }

    /// Those that it is one of.
    fn one_of(self) -> impl Iterator<Item = Self> {
        let lists = ["anyOf", "oneOf"].into_iter().filter_map(move |key| self.get(key)?.as_array());
        lists.flatten().map(move |one| Self::within(self.root, one))
    }

    /// Whether it says itself what it takes; else those say it that it is one of.
    fn is_choice(self) -> bool {
        let names = self.get("type").is_some_and(|name| name.is_string() || name.is_array());
        let lists = self.get("enum").is_some_and(Value::is_array) || self.get("const").is_some();
        names || lists || self.one_of().next().is_none()
    }
}

/// [`Schema::choices`] of any of these.
pub(crate) fn choices<'a>(schemas: &[Schema<'a>]) -> Vec<Schema<'a>> {
    let mut found = walk(schemas, |one| !one.is_choice());
    found.retain(|one| one.is_choice());
    found
}

/// The schemas, and all that they are one of, at any depth.
pub(crate) fn alternatives<'a>(schemas: &[Schema<'a>]) -> Vec<Schema<'a>> {
    walk(schemas, |_| true)
}

/// The schemas, and those that a followed one is one of, each once.
fn walk<'a>(schemas: &[Schema<'a>], follows: impl Fn(Schema<'a>) -> bool) -> Vec<Schema<'a>> {
    let mut seen = BTreeSet::new();
    let mut is_new = |one: &Schema<'a>| seen.insert(std::ptr::from_ref(one.schema));
    let mut found: Vec<Schema<'a>> = schemas.iter().copied().filter(&mut is_new).collect();
    let (mut next, mut visited) = (0, 0);
    while let Some(one) = found.get(next).copied() {
        next += 1;
        if !follows(one) {
            continue;
        }
        for more in one.one_of() {
            visited += 1;
            if visited > MAX_ALTERNATIVES {
                found.push(Schema { schema: &ANYTHING, ..more });
                return found;
            }
            if is_new(&more) {
                found.push(more);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn types(schemas: &[Schema<'_>]) -> Vec<String> {
        let name = |one: &Schema<'_>| one.get("type").map_or("any".to_owned(), Value::to_string);
        schemas.iter().map(name).collect()
    }

    #[test]
    fn members_items_and_alternatives_are_those_that_references_name() {
        let root = json!({
            "$ref": "#/$defs/order",
            "$defs": {
                "order": {"properties": {"to": {"$ref": "#/$defs/to"}}},
                "to": {"type": "array", "items": {"$ref": "#/$defs/either"}},
                "either": {"oneOf": [{"$ref": "#/$defs/name"}, {"$ref": "#/$defs/nullable"}]},
                "nullable": {"anyOf": [{"$ref": "#/$defs/name"}, {"type": "null"}]},
                "name": {"type": "string"},
            },
        });
        let to = Schema::new(&root).member("to").unwrap();
        let either = to.items().unwrap();
        assert_eq!(types(&[to]), [r#""array""#]);
        assert_eq!(types(&either.choices()), [r#""string""#, r#""null""#]);
        assert_eq!(alternatives(&[either, to]).len(), 5);
        assert!(to.member("to").is_none() && either.items().is_none());
    }

    #[test]
    fn an_all_of_with_one_entry_and_remarks_refers_to_it() {
        let name = json!({"$ref": "#/definitions/name"});
        let number = json!({"type": "number"});
        let root = json!({
            "definitions": {"name": {"type": "string"}, "round": {"allOf": [{"$ref": "#/definitions/round"}]}},
            "described": {"title": "Name", "description": "A name.", "default": "a", "allOf": [name]},
            "optional": {"anyOf": [{"allOf": [name], "title": "Name"}, {"type": "null"}]},
            "limited": {"allOf": [name], "maxLength": 3},
            "both": {"allOf": [name, number]},
            "dict": {"additionalProperties": {"allOf": [name]}},
        });
        let of = |path: &str| Schema::within(&root, root.pointer(path).unwrap());
        assert_eq!(types(&of("/described").choices()), [r#""string""#]);
        assert_eq!(types(&of("/optional").choices()), [r#""string""#, r#""null""#]);
        for path in ["/limited", "/both", "/definitions/round"] {
            assert_eq!(types(&of(path).choices()), ["any"], "{path}");
        }
        assert_eq!(types(&[of("/dict").others().unwrap()]), [r#""string""#]);
        assert!(of("/dict").member("a").is_none() && of("/both").others().is_none());
    }

    #[test]
    fn what_a_schema_says_itself_is_no_alternative() {
        let root = json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "null"}}}]});
        let schema = Schema::new(&root);
        assert_eq!(types(&schema.choices()), [r#""object""#]);
        assert!(alternatives(&[schema]).iter().any(|one| one.member("a").is_some()));
    }

    #[test]
    fn circles_and_many_alternatives_end() {
        let root = json!({"$defs": {
            "round": {"anyOf": [{"$ref": "#/$defs/round"}]},
            "many": {"anyOf": vec![json!({"$ref": "#/$defs/many"}); 100_000]},
            "texts": {"anyOf": vec![json!({"const": "a"}); MAX_ALTERNATIVES + 1]},
            "chain": {"$ref": "#/$defs/chain"},
        }});
        let of = |name: &str| Schema::within(&root, &root["$defs"][name]);
        assert!(of("round").choices().is_empty());
        assert_eq!(types(&of("many").choices()), ["any"]);
        assert_eq!(of("texts").choices().len(), MAX_ALTERNATIVES + 1);
        assert_eq!(of("texts").choices().last().map(|one| one.get("const")), Some(None));
        assert_eq!(types(&of("chain").choices()), ["any"]);
    }

    #[test]
    fn a_long_reference_is_not_followed() {
        let key = "a".repeat(MAX_REFERENCE_BYTES);
        let schema = json!({"$ref": format!("#/{key}")});
        let root = json!({key: {"type": "string"}});
        assert_eq!(types(&[Schema::within(&root, &schema)]), ["any"]);
    }
}
