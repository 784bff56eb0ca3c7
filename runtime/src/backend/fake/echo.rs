//! Prompts that the fake answers with their own text, so that clients can be tested with any
//! answer.
//!
//! - Pure: takes the tokens of a ChatML prompt and of the answer so far, returns the next token.
//! - The answer is the text behind [`ECHO`], byte for byte, up to the end of the message.

use std::time::Duration;

use hob_slots::Token;

use super::{IM_END, IM_START};

/// A question that begins with this is answered with its rest.
pub const ECHO: &str = "Say this: ";
/// The same, one token per [`PACE`].
pub const SLOW_ECHO: &str = "Say this slowly: ";
pub const PACE: Duration = Duration::from_millis(10);

/// A question that begins with this is computed slowly: each token of its micro-batches takes
/// [`READING_PACE`].
pub const SLOW_READING: &str = "Read this slowly: ";
pub const READING_PACE: Duration = Duration::from_millis(4);

/// Whether `tokens` end in a question that is to be computed slowly, or in the beginning of its mark.
pub fn reads_slowly(tokens: &[Token]) -> bool {
    let Some((_, question)) = last_turn(tokens, "user\n") else { return false };
    let compared = question.len().min(SLOW_READING.len());
    compared > 0 && without_prefix(question, &SLOW_READING[..compared]).is_some()
}

#[derive(Debug, PartialEq, Eq)]
pub struct Next {
    pub token: Token,
    pub pace: Duration,
}

/// `None` when the last question asks for no echo.
pub fn next(tokens: &[Token]) -> Option<Next> {
    let (before, answer) = last_turn(tokens, "assistant\n")?;
    let (_, question) = last_turn(before, "user\n")?;
    let question = question.split(|&token| token == Token(IM_END)).next()?;
    let fast = without_prefix(question, ECHO).map(|text| (text, Duration::ZERO));
    let (text, pace) = fast.or_else(|| Some((without_prefix(question, SLOW_ECHO)?, PACE)))?;
    Some(Next { token: text.get(answer.len()).copied().unwrap_or(Token(IM_END)), pace })
}

/// The tokens before the last turn, and the text of that turn, if it is `role`'s.
fn last_turn<'t>(tokens: &'t [Token], role: &str) -> Option<(&'t [Token], &'t [Token])> {
    let start = tokens.iter().rposition(|&token| token == Token(IM_START))?;
    Some((&tokens[..start], without_prefix(&tokens[start + 1..], role)?))
}

fn without_prefix<'t>(tokens: &'t [Token], prefix: &str) -> Option<&'t [Token]> {
    let (start, rest) = tokens.split_at_checked(prefix.len())?;
    start.iter().copied().eq(prefix.bytes().map(|byte| Token(i32::from(byte)))).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::super::FakeModel;
    use super::*;
    use crate::Model;

    #[test]
    fn an_echo_repeats_the_text_behind_the_mark_and_ends() {
        assert_eq!(echoed("Say this: <b>Grüße</b>\n"), "<b>Grüße</b>\n");
    }

    #[test]
    fn a_slow_echo_has_a_pace_and_other_questions_get_none() {
        let next = |text: &str| next(&prompt(text));
        let first = Token(i32::from(b'h'));
        assert_eq!(next("Say this slowly: ho"), Some(Next { token: first, pace: PACE }));
        assert_eq!(next("Say this: ho"), Some(Next { token: first, pace: Duration::ZERO }));
        assert_eq!(next("Do not say this: ho"), None);
        assert_eq!(super::next(&[]), None);
    }

    #[test]
    fn a_question_is_read_slowly_from_its_first_letter_if_it_asks_for_that() {
        let slowly = |text: &str| {
            let question = format!("<|im_start|>user\n{text}");
            reads_slowly(&FakeModel::new().tokenize(&question, false, true))
        };
        assert!(slowly("Read th") && slowly("Read this slowly: so"));
        assert!(!slowly("") && !slowly("Read this: so"));
    }

    fn echoed(question: &str) -> String {
        let (mut tokens, mut bytes) = (prompt(question), Vec::new());
        loop {
            let token = next(&tokens).expect("it asks for an echo").token;
            if token.0 == IM_END {
                return String::from_utf8(bytes).expect("the question was text");
            }
            bytes.push(u8::try_from(token.0).expect("a byte"));
            tokens.push(token);
        }
    }

    fn prompt(question: &str) -> Vec<Token> {
        let text = format!("<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n");
        FakeModel::new().tokenize(&text, false, true)
    }
}
