//! Synthetic text and messages.

use serde_json::{Value, json};

/// Each is a token of its own, with the space before it, in vocabularies of 100,000 tokens.
const WORDS: [&str; 16] = [
    "river", "stone", "lamp", "north", "paper", "cloud", "seven", "garden", "engine", "salt",
    "window", "copper", "letter", "winter", "bridge", "field",
];

/// This many words, which begin otherwise for each seed.
pub fn text(words: usize, seed: &str) -> String {
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3) // FNV-1a.
    });
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        WORDS[(state >> 60) as usize]
    };
    (0..words).map(|_| word()).collect::<Vec<_>>().join(" ")
}

pub fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_two_seeds_differ_and_those_of_one_do_not() {
        assert_eq!(text(50, "a"), text(50, "a"));
        assert_ne!(text(50, "a 1"), text(50, "a 2"));
        assert_eq!(text(50, "a").split(' ').count(), 50);
    }
}
