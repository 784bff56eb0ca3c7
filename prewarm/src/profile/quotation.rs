//! Errors of serde without the texts that they quote: a profile's are parts of prompts, and errors go into logs.

/// The error without a string that has a wrong type or value. Names of fields and of variants stay.
pub fn unquoted(error: &str) -> String {
    let without = |kind: &str| {
        let quoted = error.strip_prefix(kind)?.strip_prefix(" \"")?;
        let (_, expected) = quoted.rsplit_once("\", expected ")?;
        Some(format!("{kind}, expected {expected}"))
    };
    let kinds = ["invalid type: string", "invalid value: string"];
    kinds.into_iter().find_map(without).unwrap_or_else(|| error.to_owned())
}
