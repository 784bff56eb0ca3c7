//! Tokenizes a prompt so that the part that the model has already computed keeps its tokens.
//!
//! - The tokens that a model generated are not always those that the tokenizer makes of the same
//!   text. Tokenizing the answer again would discard its KV, so known tokens are kept as long as
//!   their bytes match the text.
//! - The text is split at a control token. The tokenizer treats the text between control tokens
//!   independently of its surroundings, so both sides are tokenized as they would be in one piece.

use hob_runtime::backend::Model;
use hob_slots::{Token, common_prefix};

/// The tokens of `text`, with the begin token if the model adds one. `known`: the timeline that
/// `text` probably continues.
pub fn continue_tokens(model: &dyn Model, known: &[Token], text: &str) -> Vec<Token> {
    let steps = agreement(model, known, text.as_bytes());
    let vocabulary = model.vocabulary();
    // The template ends an answer that was cut short with a control token that was not generated.
    let end = steps.last().map_or(0, |step| step.end);
    if end > 0
        && let Some(rest) = text.get(end..)
    {
        let tail = model.tokenize(rest, false, true);
        if tail.first().is_some_and(|&token| vocabulary.is_control(token)) {
            return [&known[..steps.len()], &tail].concat();
        }
    }
    // Split before the last control token, so that its rule for the space behind it applies.
    let is_mark = |step: &Step| vocabulary.is_control(step.token) && step.begin < step.end;
    if let Some(cut) = steps.iter().rposition(is_mark)
        && let Some(rest) = text.get(steps[cut].begin..)
    {
        let tail = model.tokenize(rest, false, true);
        if tail.first() == Some(&known[cut]) {
            return [&known[..cut], &tail].concat();
        }
    }
    with_begin(model, model.tokenize(text, false, true))
}

/// The timeline that `text` continues the furthest; among equals the first.
pub fn likeliest<'k>(model: &dyn Model, known: &'k [Vec<Token>], text: &str) -> &'k [Token] {
    let Some((mut best, others)) = known.split_first() else { return &[] };
    if others.is_empty() {
        return best;
    }
    let text = text.as_bytes();
    let end = |steps: &[Step]| steps.last().map_or(0, |step| step.end);
    let mut steps = agreement(model, best, text);
    for other in others {
        // Most of a branch is that of the next one: it is compared with the text once.
        let shared = common_prefix(best, other);
        if shared > steps.len() {
            continue; // Both have the token that differs from the text.
        }
        let behind = agreement_behind(model, &steps[..shared], other, text);
        if end(&behind) > end(&steps) {
            best = other;
            steps.truncate(shared);
            steps.extend(behind);
        }
    }
    best
}

/// The byte of `text` where each token ends, up to the first token that does not match.
pub fn ends_in(model: &dyn Model, tokens: &[Token], text: &str) -> Vec<usize> {
    agreement(model, tokens, text.as_bytes()).iter().map(|step| step.end).collect()
}

/// Adds the begin token where the model adds one and the template did not write it.
pub fn with_begin(model: &dyn Model, mut tokens: Vec<Token>) -> Vec<Token> {
    let vocabulary = model.vocabulary();
    if let Some(bos) = vocabulary.bos()
        && vocabulary.adds_bos()
        && tokens.first() != Some(&bos)
    {
        tokens.insert(0, bos);
    }
    tokens
}

/// A known token that matches the text, and its bytes in the text.
struct Step {
    token: Token,
    begin: usize,
    /// Equals `begin` for a begin token that the text does not contain.
    end: usize,
}

/// The longest run of known tokens whose bytes are a prefix of the text.
fn agreement(model: &dyn Model, known: &[Token], text: &[u8]) -> Vec<Step> {
    agreement_behind(model, &[], known, text)
}

/// What follows in that run behind its first steps, `before`.
fn agreement_behind(model: &dyn Model, before: &[Step], known: &[Token], text: &[u8]) -> Vec<Step> {
    let vocabulary = model.vocabulary();
    let mut steps = Vec::with_capacity(known.len() - before.len());
    let mut begin = before.last().map_or(0, |step| step.end);
    let mut after_control = before.last().is_none_or(|step| vocabulary.is_control(step.token));
    for (index, &token) in known.iter().enumerate().skip(before.len()) {
        let is_begin = index == 0 && vocabulary.bos() == Some(token);
        let length = match written_length(vocabulary.piece(token), &text[begin..], after_control) {
            Some(length) => length,
            None if is_begin => 0,
            None => break,
        };
        let end = begin + length;
        steps.push(Step { token, begin, end });
        begin = end;
        after_control = vocabulary.is_control(token);
    }
    steps
}

/// How many bytes of `rest` the piece matches. Some tokenizers add a space at the start of the text
/// and after control tokens.
fn written_length(piece: &[u8], rest: &[u8], after_control: bool) -> Option<usize> {
    if !piece.is_empty() && rest.starts_with(piece) {
        return Some(piece.len());
    }
    match piece {
        [b' ', word @ ..] if after_control && !word.is_empty() && rest.starts_with(word) => {
            Some(word.len())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use hob_runtime::backend::fake::FakeModel;

    fn cut(text: &str) -> Vec<Token> {
        FakeModel::new().tokenize(text, false, true)
    }

    #[test]
    fn without_known_tokens_the_tokenizer_decides() {
        let text = "<|im_start|>user\nHi<|im_end|>\n";
        assert_eq!(continue_tokens(&FakeModel::new(), &[], text), cut(text));
    }

    #[test]
    fn a_follow_up_begins_with_the_whole_timeline() {
        let past = cut("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>");
        let text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n\
                    <|im_start|>user\nAgain<|im_end|>\n<|im_start|>assistant\n";
        let tokens = continue_tokens(&FakeModel::new(), &past, text);
        assert_eq!(tokens, cut(text));
        assert!(tokens.starts_with(&past));
    }

    #[test]
    fn of_several_timelines_the_one_that_goes_on_furthest_is_continued() {
        let model = FakeModel::new();
        let [hi, yes, no] = ["Hi", "Hi<|im_end|>yes", "Hi<|im_end|>no"].map(cut);
        let known = [no.clone(), hi, yes.clone()];
        assert_eq!(likeliest(&model, &known, "Hi<|im_end|>yes, but"), yes);
        assert_eq!(likeliest(&model, &known, "Hi<|im_end|>"), no, "the newest");
        assert_eq!(likeliest(&model, &[], "Hi"), []);
    }

    #[test]
    fn tokens_that_a_tokenizer_would_not_choose_are_kept() {
        // A control token spelled out in bytes, as a model may generate it.
        let model = FakeModel::new();
        let mut past = cut("<|im_start|>assistant\n");
        past.extend(model.tokenize("<|im_start|>", false, false));
        past.extend(cut("<|im_end|>"));
        let text = "<|im_start|>assistant\n<|im_start|><|im_end|>\n<|im_start|>user\n";
        let tokens = continue_tokens(&model, &past, text);
        assert!(tokens.starts_with(&past));
        assert_ne!(tokens, cut(text));
    }

    #[test]
    fn an_answer_that_was_cut_short_keeps_its_tokens() {
        let model = FakeModel::new();
        let mut past = cut("<|im_start|>assistant\n");
        past.extend(model.tokenize("a<|im_start|>", false, false));
        let text = "<|im_start|>assistant\na<|im_start|><|im_end|>\n<|im_start|>user\n";
        let tokens = continue_tokens(&model, &past, text);
        assert!(tokens.starts_with(&past));
        assert_eq!(model.vocabulary().bytes(&tokens), text.as_bytes());
    }

    #[test]
    fn an_edited_message_is_tokenized_anew_from_the_control_token_before_it() {
        let past = cut("<|im_start|>user\nHello there<|im_end|>\n");
        let text = "<|im_start|>user\nHelp<|im_end|>\n";
        assert_eq!(continue_tokens(&FakeModel::new(), &past, text), cut(text));
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let past = cut("<|im_start|>user\né<|im_end|>");
        let text = "<|im_start|>user\nè<|im_end|>";
        assert_eq!(continue_tokens(&FakeModel::new(), &past, text), cut(text));
    }

    /// Few letters and all marks, so that beginnings agree often.
    fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
        let all = vec!["a", "b", "é", " ", "\n", "<|im_start|>", "<|im_end|>"];
        prop::collection::vec(prop::sample::select(all), 0..12)
    }

    proptest! {
        #[test]
        fn the_tokens_spell_the_text_whatever_is_known(
            known in pieces(),
            text in pieces(),
            written in any::<bool>(),
        ) {
            let model = FakeModel::new();
            let known = model.tokenize(&known.concat(), false, written);
            let text = text.concat();
            let tokens = continue_tokens(&model, &known, &text);
            prop_assert_eq!(model.vocabulary().bytes(&tokens), text.as_bytes());
        }

        #[test]
        fn the_likeliest_timeline_is_the_first_of_those_that_agree_the_furthest(
            known in prop::collection::vec((pieces(), any::<bool>()), 1..6),
            text in pieces(),
        ) {
            let model = FakeModel::new();
            let cut = |(text, written): (Vec<&str>, bool)| {
                model.tokenize(&text.concat(), false, written)
            };
            let known: Vec<Vec<Token>> = known.into_iter().map(cut).collect();
            let text = text.concat();
            let end = |known: &Vec<Token>| {
                agreement(&model, known, text.as_bytes()).last().map_or(0, |step| step.end)
            };
            let furthest = known.iter().map(end).max().unwrap();
            let first = known.iter().find(|&known| end(known) == furthest).unwrap();
            prop_assert_eq!(likeliest(&model, &known, &text), first.as_slice());
        }

        #[test]
        fn an_answer_keeps_its_tokens_whatever_follows_it(known in pieces(), after in pieces()) {
            let model = FakeModel::new();
            let text = known.concat();
            let known = model.tokenize(&text, false, false); // Unlike the tokenizer's own choice.
            prop_assume!(!known.is_empty());
            let text = format!("{text}<|im_end|>{}", after.concat());
            prop_assert!(continue_tokens(&model, &known, &text).starts_with(&known));
        }
    }

    #[test]
    fn a_space_of_the_tokenizer_s_own_agrees_with_none() {
        assert_eq!(written_length(b" Hello", b"Hello you", true), Some(5));
        assert_eq!(written_length(b" Hello", b"Hello you", false), None);
        assert_eq!(written_length(b" Hello", b" Hello you", true), Some(6));
        assert_eq!(written_length(b"", b"Hello", true), None);
    }
}
