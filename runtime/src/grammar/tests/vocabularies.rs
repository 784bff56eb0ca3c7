//! Vocabularies of hostile files: tokens that toktrie cannot take are left out, and the others stay.

use super::*;

/// The bytes, then these texts, then an end.
fn vocabulary_with(texts: impl Iterator<Item = Vec<u8>>) -> Vocabulary {
    let bytes = (0..=255).map(|byte| vec![byte]);
    let text = bytes.chain(texts).map(|piece| (piece, TokenKind::default()));
    let end = TokenKind { control: true, end_of_generation: true };
    let pieces: Vec<(Vec<u8>, TokenKind)> = text.chain([(END.into(), end)]).collect();
    let last = Token(i32::try_from(pieces.len()).unwrap() - 1);
    Vocabulary::new(pieces, None, Some(last), false)
}

#[test]
fn a_token_of_any_length_leaves_the_others_to_a_grammar() {
    let lengths = [2, 1024, 1025, 100_000].into_iter();
    let vocabulary = vocabulary_with(lengths.map(|length| vec![b'a'; length]));
    let factory = GrammarFactory::new(&vocabulary);
    let mut constraint = factory.start(&schema(json!({"type": "string"}))).unwrap();
    constraint.accept(Token(i32::from(b'"'))).unwrap();
    let mut logits = vec![0.0; vocabulary.len()];
    constraint.mask(&mut logits).unwrap();
    let is_allowed: Vec<bool> = logits[256..260].iter().map(|logit| *logit == 0.0).collect();
    assert_eq!(is_allowed, [true, true, false, false]);
}

#[test]
fn of_more_bytes_than_a_grammar_takes_those_tokens_stay_that_fit() {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let vocabulary = vocabulary_with(["abc", "de", "f"].map(bytes).into_iter());
    let words = factory::words(&vocabulary, 256 + 4);
    assert_eq!(words[256..], ["abc", "", "f", ""].map(bytes));
}
