//! The words for where KV is: one vocabulary of lists, status and page.

/// The daemon's word for a tier or a place, in a person's words.
pub fn state(word: &str) -> &str {
    match word {
        "hot" | "slot" => "hot",
        "warm" | "memory" | "parked" => "in memory",
        "cold" | "disk" => "on disk",
        "none" => "text only",
        other => other,
    }
}
