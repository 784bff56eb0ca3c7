//! The context of a model, and why it is not larger.

use hob_api::Status;

use super::count;

/// What a conversation holds at most, such as `8,192`. An older daemon says the cells of the cache only.
pub fn context_tokens(status: &Status) -> String {
    let told = Some(status.conversation_tokens).filter(|tokens| *tokens > 0);
    count(told.unwrap_or(status.context_tokens) as u64)
}

/// In brackets, behind the tokens; empty where the daemon does not say. `limit`: its word.
pub fn context_limit(limit: &str, trained: Option<u64>) -> String {
    let reason = match limit {
        "set" => "set by ctx",
        "trained" => return " (the model was trained with no more)".to_owned(),
        "memory" => "memory allows no more",
        "micro_batch" => "a text is embedded at once",
        "unknown" => return " (the model does not say what it was trained with)".to_owned(),
        _ => return String::new(),
    };
    let trained = trained.map(|tokens| format!("; the model was trained with {}", count(tokens)));
    format!(" ({reason}{})", trained.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_says_why_it_is_not_larger() {
        let words = |limit| context_limit(limit, Some(131_072));
        assert_eq!(words("memory"), " (memory allows no more; the model was trained with 131,072)");
        assert_eq!(words("set"), " (set by ctx; the model was trained with 131,072)");
        assert_eq!(words("trained"), " (the model was trained with no more)");
        assert_eq!(context_limit("set", None), " (set by ctx)");
        assert_eq!(words(""), "", "an older daemon");
    }

    #[test]
    fn the_tokens_are_those_of_a_conversation() {
        let status = Status { context_tokens: 8192, ..Status::default() };
        assert_eq!(context_tokens(&status), "8,192");
        assert_eq!(context_tokens(&Status { conversation_tokens: 4096, ..status }), "4,096");
    }
}
