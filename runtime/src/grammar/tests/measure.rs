//! What a vocabulary of 151,000 tokens costs.

use super::*;

#[test]
#[ignore = "a measurement: cargo test --release -- --ignored --nocapture grammar_time"]
fn grammar_time() {
    let mut words: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let mut state = 1_u64;
    while words.len() < 151_000 {
        let mut word = Vec::new();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length = 2 + state % 7;
        for _ in 0..length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.push(b" etaoinshrdlucmfwypvbgkjqxz\",:{}0123456789"[(state >> 33) as usize % 42]);
        }
        words.push(word);
    }
    let pieces = words.into_iter().map(|word| (word, TokenKind::default()));
    let end = (END.into(), TokenKind { control: true, end_of_generation: true });
    let vocabulary = Vocabulary::new(pieces.chain([end]), None, None, false);
    let time = |name: &str, start: std::time::Instant| println!("{name:10} {:?}", start.elapsed());

    let start = std::time::Instant::now();
    let factory = GrammarFactory::new(&vocabulary);
    time("factory", start);
    let start = std::time::Instant::now();
    let mut constraint = factory.start(&schema(person())).unwrap();
    time("compile", start);
    let start = std::time::Instant::now();
    factory.start(&schema(person())).unwrap();
    time("again", start);
    let text = "It is the 5 of them {that} <b>count</b>. ".repeat(250);
    let start = std::time::Instant::now();
    let mut watched = factory.start(&calls::when_called(Dialect::QwenCoder)).unwrap();
    time("may call", start);
    let mut logits = vec![0.0; vocabulary.len()];
    let start = std::time::Instant::now();
    for byte in text.bytes() {
        watched.mask(&mut logits).unwrap();
        watched.accept(Token(byte.into())).unwrap();
    }
    println!("no call    {:?} a token", start.elapsed() / text.len() as u32);
    for byte in br#"{"name": "Ada Lov", "age": 36, "mood": null, "friends": [{"id": 1}]}"# {
        let start = std::time::Instant::now();
        constraint.mask(&mut logits).unwrap();
        time(&format!("mask {:?}", char::from(*byte)), start);
        constraint.accept(Token(i32::from(*byte))).unwrap();
    }
}
