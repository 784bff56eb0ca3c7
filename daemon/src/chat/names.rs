//! Random ids of requests, answers, tool calls and conversations.

use hob_dialect::Dialect;
use hob_slots::hex_text;

/// `chatcmpl-…`, `cmpl-…`.
pub fn answer(prefix: &str) -> String {
    format!("{prefix}-{}", unique())
}

/// A random name for a conversation that its client did not name.
pub fn conversation() -> String {
    format!("conv_{}", unique())
}

/// 24 hex digits.
pub fn unique() -> String {
    random::<12>()
}

/// `req_…`, as Anthropic's clients report it.
pub fn request() -> String {
    format!("req_{}", unique())
}

/// Mistral's templates require nine letters and digits.
pub fn call(dialect: Dialect) -> String {
    match dialect {
        Dialect::Mistral => random::<5>()[..9].to_owned(),
        _ => format!("call_{}", unique()),
    }
}

fn random<const BYTES: usize>() -> String {
    let mut bytes = [0u8; BYTES];
    // Ids are not secrets: without random numbers they merely repeat.
    let _ = getrandom::fill(&mut bytes);
    hex_text(&bytes)
}
