//! A JSON schema as a rule in llguidance's notation.
//!
//! - A lenient schema is followed as far as llguidance can: keywords and formats that it does not know, and
//!   assertions in patterns of texts and of keys, are ignored. A strict one is refused for them.

use serde_json::{Map, Value, json};

use super::pattern::without_assertions;

/// White space between JSON tokens: a space, or a new line and its indentation. Unbounded, a model
/// that was not trained on JSON would generate white space up to its token limit.
pub(super) const JSON_SPACE: &str = r" |\r?\n[ \t]{0,16}";

/// llguidance's options, within the schema.
pub(super) const OPTIONS: &str = "x-guidance";

/// What becomes of the parts of a schema that cannot be followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// Parts that cannot be followed are ignored.
    #[default]
    Lenient,
    /// The schema is refused.
    Strict,
}

/// Whether both are equal, with their members in the same order: answers have that of the schema.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.all(|(one, other)| one.0 == other.0 && is_same(one.1, other.1))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (one, other) => one == other,
    }
}

/// Marks a schema, for [`json_rule`].
pub(super) fn with_strictness(mut schema: Value, strictness: Strictness) -> Value {
    if let Value::Object(schema) = &mut schema {
        schema.insert(OPTIONS.to_owned(), json!({"lenient": strictness == Strictness::Lenient}));
    }
    schema
}

/// The body of a rule that matches JSON of a schema.
pub(super) fn json_rule(schema: &Value) -> String {
    let mut schema = schema.clone();
    let is_lenient = schema[OPTIONS]["lenient"] != false;
    if is_lenient {
        simplify_patterns(&mut schema);
    }
    // Replaces options that the client may have set: they are not the client's to choose.
    schema[OPTIONS] = json!({
        "whitespace_flexible": true,
        "whitespace_pattern": JSON_SPACE,
        "coerce_one_of": true,
        "lenient": is_lenient,
    });
    format!("%json {schema}")
}

fn simplify_patterns(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(pattern)) = members.get_mut("pattern") {
                *pattern = without_assertions(pattern);
            }
            simplify_keys(members);
            members.values_mut().for_each(simplify_patterns);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify_patterns),
        _ => {}
    }
}

/// Keys whose pattern has assertions are among the other keys of the object: without the assertions it might match
/// those of another pattern, which llguidance refuses.
fn simplify_keys(schema: &mut Map<String, Value>) {
    let Some(Value::Object(patterns)) = schema.get_mut("patternProperties") else { return };
    let has_assertion = |pattern: &&String| without_assertions(pattern) != **pattern;
    let left_out: Vec<String> = patterns.keys().filter(has_assertion).cloned().collect();
    let mut allowed: Vec<Value> =
        left_out.iter().filter_map(|pattern| patterns.shift_remove(pattern)).collect();
    if !allowed.is_empty()
        && let Some(others) = schema.get_mut("additionalProperties")
    {
        allowed.push(others.take());
        *others = json!({ "anyOf": allowed });
    }
}
