//! Goes on with an answer that was cut short: its prompt ends within the assistant's turn.
//!
//! - The tokens that the model has generated are used as they are, so that their KV is found and only
//!   the last one is computed. Where no timeline has them, the stored text is tokenized: after an
//!   edit, a crash, an import, or a change of the model.
//! - The answer is parsed from its first token on, so that a block of reasoning or a call that was cut
//!   goes on as one.

use hob_dialect::{opens_reasoning, written};
use hob_runtime::backend::Model;
use hob_slots::Token;

use super::assembly::{Assembly, Reading};
use crate::error::ApiError;
use crate::prompt::Rendered;
use crate::prompt::retokenize::{continue_tokens, likeliest};
use crate::wire::message::Message;

/// Puts the answer behind its prompt. Returns the text of it that the model has written.
///
/// # Errors
/// When the answer ends within a tool call whose tokens are not known.
pub fn extend(
    model: &dyn Model,
    rendered: &mut Rendered,
    answer: &Message,
    known: &[Vec<Token>],
    reading: &Reading,
) -> Result<String, ApiError> {
    let thinks = opens_reasoning(&rendered.text);
    let generated = known.iter().find_map(|timeline| {
        let (tokens, text) = generated(model, timeline.strip_prefix(rendered.tokens.as_slice())?)?;
        is_text_of(&text, answer, thinks, reading).then_some((tokens, text))
    });
    if let Some((tokens, text)) = generated {
        rendered.tokens.extend(tokens);
        return Ok(text);
    }
    if answer.has_calls() {
        let message = "the tokens of this answer's tool call are gone: answer again instead";
        return Err(ApiError::field("hob.continue", message));
    }
    let text = text_of(&rendered.text, answer, reading);
    let whole = format!("{}{text}", rendered.text);
    rendered.tokens = continue_tokens(model, likeliest(model, known, &whole), &whole);
    Ok(text)
}

/// The answer as the model writes it behind its prompt.
pub fn text_of(prompt: &str, answer: &Message, reading: &Reading) -> String {
    written(reading.dialect, opens_reasoning(prompt), answer.reasoning(), answer.text())
}

/// The tokens of the answer with which a timeline goes on, and their text. An end of it that is a
/// part of a character is left out: the model writes it again.
fn generated(model: &dyn Model, rest: &[Token]) -> Option<(Vec<Token>, String)> {
    let vocabulary = model.vocabulary();
    let is_own = |token: &&Token| !vocabulary.is_eog(**token);
    let mut tokens: Vec<Token> = rest.iter().take_while(is_own).copied().collect();
    loop {
        match String::from_utf8(vocabulary.bytes(&tokens)) {
            Ok(text) => return Some((tokens, text)),
            Err(error) if error.utf8_error().error_len().is_none() => drop(tokens.pop()),
            Err(_) => return None,
        }
    }
}

fn is_text_of(text: &str, answer: &Message, thinks: bool, reading: &Reading) -> bool {
    // An answer that was cut is stored without the marks of a call that it does not reach.
    [Assembly::finish, Assembly::cut].into_iter().any(|end| {
        let mut assembly = Assembly::new(reading, thinks);
        assembly.push(text);
        end(&mut assembly);
        let read = assembly.message();
        read.text() == answer.text()
            && read.reasoning() == answer.reasoning()
            && read.has_calls() == answer.has_calls()
    })
}

#[cfg(test)]
mod tests {
    use hob_dialect::{Dialect, Signatures};
    use hob_runtime::backend::fake::FakeModel;

    use super::*;

    const PROMPT: &str = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    fn hermes() -> Reading {
        Reading {
            dialect: Dialect::Hermes,
            tools: Some(Signatures::default()),
            ..Reading::default()
        }
    }

    fn cut(text: &str) -> Vec<Token> {
        FakeModel::new().tokenize(text, false, true)
    }

    fn extended(prompt: &str, answer: &Message, known: &[Vec<Token>]) -> (Vec<Token>, String) {
        let (text, tokens) = (prompt.to_owned(), cut(prompt));
        let mut rendered = Rendered { text, tokens, segments: Vec::new() };
        let text = extend(&FakeModel::new(), &mut rendered, answer, known, &hermes()).unwrap();
        (rendered.tokens, text)
    }

    #[test]
    fn the_tokens_that_were_generated_go_on() {
        // Bytes of a mark, which the tokenizer would make one token.
        let mut timeline = cut(PROMPT);
        timeline.extend(FakeModel::new().tokenize("<|im_end|> is", false, false));
        let answer = Message::answer("<|im_end|> is", "", &[]);
        let (tokens, text) = extended(PROMPT, &answer, &[cut("x"), timeline.clone()]);
        assert_eq!((tokens, text.as_str()), (timeline, "<|im_end|> is"));
    }

    #[test]
    fn later_turns_and_the_end_of_a_broken_character_are_left_out() {
        let answer = Message::answer("caf", "", &[]);
        let mut timeline = cut(&format!("{PROMPT}café"));
        timeline.pop();
        timeline.extend(cut("<|im_end|>\n<|im_start|>user\n"));
        let (tokens, _) = extended(PROMPT, &answer, &[timeline]);
        assert_eq!(tokens, cut(&format!("{PROMPT}caf")));
    }

    #[test]
    fn reasoning_that_was_cut_goes_on_as_reasoning() {
        for (prompt, text) in
            [(PROMPT.to_owned(), "<think>\nHm"), (format!("{PROMPT}<think>\n"), "Hm")]
        {
            let answer = Message::answer("", "Hm", &[]);
            let known = [cut(&format!("{prompt}{text}"))];
            for known in [&known[..], &[]] {
                assert_eq!(extended(&prompt, &answer, known).1, text);
            }
        }
    }

    #[test]
    fn an_answer_of_another_text_is_tokenized() {
        let timeline = cut(&format!("{PROMPT}One two three"));
        let answer = Message::answer("One four", "", &[]);
        let (tokens, text) = extended(PROMPT, &answer, &[timeline]);
        assert_eq!((tokens, text.as_str()), (cut(&format!("{PROMPT}One four")), "One four"));
    }

    #[test]
    fn a_call_goes_on_from_its_tokens_alone() {
        let call = crate::wire::message::tool_call("a", "look", "{\"at\"");
        let answer = Message::answer("", "", &[call]);
        let text = "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\"";
        let known = [cut(&format!("{PROMPT}{text}"))];
        assert_eq!(extended(PROMPT, &answer, &known).1, text);
        let mut rendered =
            Rendered { text: PROMPT.into(), tokens: cut(PROMPT), segments: Vec::new() };
        assert!(extend(&FakeModel::new(), &mut rendered, &answer, &[], &hermes()).is_err());
    }
}
