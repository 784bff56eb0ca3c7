//! JSON in one form: equal meaning, equal text.
//!
//! - Keys of objects are sorted by their bytes, at every depth.
//! - The order of arrays carries meaning and stays, as do numbers and texts.

use serde_json::Value;

/// The same value with sorted keys.
pub fn canonical(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<(String, Value)> = object.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries.into_iter().map(|(name, value)| (name, canonical(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(canonical).collect(),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, json};

    use super::*;

    fn text(json: &str) -> String {
        canonical(from_str(json).unwrap()).to_string()
    }

    #[test]
    fn the_order_of_keys_does_not_show_at_any_depth() {
        let one = r#"[{"b": {"y": 1, "x": [{"q": 2, "p": 3}]}, "a": null}]"#;
        let other = r#"[{"a": null, "b": {"x": [{"p": 3, "q": 2}], "y": 1}}]"#;
        assert_eq!(text(one), text(other));
        assert_eq!(text(one), r#"[{"a":null,"b":{"x":[{"p":3,"q":2}],"y":1}}]"#);
    }

    #[test]
    fn the_order_of_arrays_stays() {
        assert_eq!(text(r#"{"enum": ["off", "dim", "on"]}"#), r#"{"enum":["off","dim","on"]}"#);
        assert_eq!(canonical(json!(1.50)), json!(1.5));
    }
}
