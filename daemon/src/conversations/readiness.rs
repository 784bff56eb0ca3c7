//! Whether the next answer of a conversation begins at once, or its text is computed again first.
//!
//! - Looked up, never guessed: the tokens whose KV exists against the length of the timeline.

/// Computing less than a block of the prompt again is not worth a word.
const MAX_UNREAD_TOKENS: usize = 63;

/// What the next answer of a conversation waits for, beside its new message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The KV of the text exists, in any tier.
    pub ready: bool,
    /// The time to compute the missing KV at the measured speed; `None` if none is missing, or
    /// length or speed are unknown.
    pub read_ms: Option<u64>,
}

impl Readiness {
    /// `tokens`: of the text, if known. `kept_tokens`: those whose KV exists. `speed`: tokens a
    /// second.
    pub fn of(tokens: Option<usize>, kept_tokens: usize, speed: Option<f64>) -> Self {
        let unread = tokens.map(|tokens| tokens.saturating_sub(kept_tokens));
        if kept_tokens > 0 && unread.is_none_or(|unread| unread <= MAX_UNREAD_TOKENS) {
            return Self { ready: true, read_ms: None };
        }
        let speed = speed.filter(|&speed| speed > 0.0);
        let read_ms = unread.zip(speed).map(|(unread, speed)| (unread as f64 / speed * 1e3) as u64);
        Self { ready: false, read_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_ready_once_all_but_a_part_of_a_block_has_kv() {
        let ready = Readiness { ready: true, read_ms: None };
        assert_eq!(Readiness::of(Some(1000), 1000, Some(100.0)), ready);
        assert_eq!(Readiness::of(Some(1000), 937, Some(100.0)), ready);
        let unread = |read_ms| Readiness { ready: false, read_ms };
        assert_eq!(Readiness::of(Some(1000), 104, Some(100.0)), unread(Some(8960)));
        assert_eq!(Readiness::of(Some(1000), 0, Some(100.0)), unread(Some(10_000)));
        assert_eq!(Readiness::of(Some(40), 0, Some(100.0)), unread(Some(400)));
        assert_eq!(Readiness::of(Some(1000), 0, None), unread(None));
        assert_eq!(Readiness::of(None, 0, Some(100.0)), unread(None));
        assert_eq!(Readiness::of(None, 50, None), ready);
    }
}
