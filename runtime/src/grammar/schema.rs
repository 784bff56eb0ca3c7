//! A JSON schema as a rule in llguidance's notation.

use serde_json::{Value, json};

/// White space between JSON tokens: a space, or a new line and its indentation. Unbounded, a model
/// that was not trained on JSON would generate white space up to its token limit.
pub(super) const JSON_SPACE: &str = r" |\r?\n[ \t]{0,16}";

/// The body of a rule that matches JSON of a schema.
pub(super) fn json_rule(schema: &Value) -> String {
    let mut schema = schema.clone();
    // Replaces options that the client may have set: they are not the client's to choose.
    schema["x-guidance"] = json!({
        "whitespace_flexible": true,
        "whitespace_pattern": JSON_SPACE,
        "coerce_one_of": true,
    });
    format!("%json {schema}")
}
