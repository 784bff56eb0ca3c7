//! The context of a model, and why it is not larger.

use hob_api::Status;

use super::count;

/// What a conversation holds at most, such as `8,192`. An older daemon says the cells of the cache only.
pub fn context_tokens(status: &Status) -> String {
    let told = Some(status.conversation_tokens).filter(|tokens| *tokens > 0);
    count(told.unwrap_or(status.context_tokens) as u64)
}

/// `context of 8,192 tokens (set by ctx; the model was trained with 131,072)`; where conversations are longer
/// than their cells, `context of 131,072 tokens in 8,192 cells (set by ctx)`.
pub fn context(status: &Status) -> String {
    let of = format!("context of {} tokens", context_tokens(status));
    if status.conversation_tokens > status.context_tokens {
        let cells = count(status.context_tokens as u64);
        return format!("{of} in {cells} cells{}", context_limit(&status.context_limit, None));
    }
    let trained = status.trained_tokens.map(|tokens| tokens as u64);
    of + &context_limit(&status.context_limit, trained)
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
        let shorter = Status { conversation_tokens: 4096, ..status.clone() };
        assert_eq!(context_tokens(&shorter), "4,096");
        let (context_limit, trained_tokens) = ("set".into(), Some(131_072));
        let longer =
            Status { conversation_tokens: 131_072, context_limit, trained_tokens, ..status };
        assert_eq!(context(&longer), "context of 131,072 tokens in 8,192 cells (set by ctx)");
    }
}
