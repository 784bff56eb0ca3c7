//! The words of people for whether a chat is ready, and for where KV is: the same as on the page.

/// Whether the next answer of a conversation begins at once, in a person's words.
pub fn readiness(ready: bool, read_ms: Option<u64>) -> String {
    match read_ms {
        _ if ready => "ready".to_owned(),
        None => "will read again".to_owned(),
        Some(0..1000) => "will read again, under 1 s".to_owned(),
        Some(millis @ 1000..100_000) => {
            format!("will read again, about {} s", (millis + 500) / 1000)
        }
        Some(millis) => format!("will read again, about {} min", (millis + 30_000) / 60_000),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_is_ready_or_will_be_read_again() {
        assert_eq!(readiness(true, None), "ready");
        assert_eq!(readiness(false, None), "will read again");
        assert_eq!(readiness(false, Some(200)), "will read again, under 1 s");
        assert_eq!(readiness(false, Some(12_400)), "will read again, about 12 s");
        assert_eq!(readiness(false, Some(120_000)), "will read again, about 2 min");
    }
}
