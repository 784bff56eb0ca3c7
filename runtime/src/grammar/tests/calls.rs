//! Answers that are free until they call a tool.

use super::*;

/// A grammar of an answer that may call `add` and `greet`.
pub(super) fn when_called(dialect: Dialect) -> Grammar {
    let tools = add_and_greet();
    let schema = |tool: &ToolSignature| (tool.name.clone(), tool.parameters.clone().unwrap());
    let signatures = Signatures::new(tools.iter().map(schema));
    let parser = Parser::new(dialect, Some(signatures), false);
    Grammar::when_called(dialect, &tools, parser).unwrap()
}

/// Whether every token may come next.
fn is_free(constraint: &mut Constraint, vocabulary: &Vocabulary) -> bool {
    let mut logits = vec![0.0; vocabulary.len()];
    constraint.mask(&mut logits).unwrap();
    logits.iter().all(|&logit| logit == 0.0)
}

fn accept_text(constraint: &mut Constraint, text: &str) {
    for byte in text.bytes() {
        constraint.accept(Token(byte.into())).unwrap();
    }
}

#[test]
fn a_call_follows_the_schema_from_its_beginning_to_its_end() {
    let (vocabulary, factory) = plain();
    for dialect in Dialect::ALL.into_iter().filter(|&dialect| dialect != Dialect::Apertus) {
        let forced = Grammar::tool_call(dialect, &add_and_greet(), Calls::One).unwrap();
        for seed in 0..2 {
            let call = walk(vocabulary, factory, &forced, seed);
            let mut constraint = factory.start(&when_called(dialect)).unwrap();
            // The beginning of a call that fits, up to where the grammar takes over.
            let mut answer = Vec::new();
            for byte in call.bytes() {
                if !is_free(&mut constraint, vocabulary) {
                    break;
                }
                constraint.accept(Token(byte.into())).unwrap();
                answer.push(byte);
            }
            assert!(answer.len() < call.len(), "{dialect:?} is never constrained: {call:?}");
            let mut sampler = Sampler::new(&Sampling { seed: Some(seed), ..Sampling::default() });
            for step in 0.. {
                assert!(step < 20_000, "{}", String::from_utf8_lossy(&answer));
                if is_free(&mut constraint, vocabulary) {
                    break;
                }
                let mut logits = logits(vocabulary, step);
                constraint.mask(&mut logits).unwrap();
                let token = sampler.choose(&mut logits).unwrap();
                constraint.accept(token).unwrap();
                answer.extend_from_slice(vocabulary.piece(token));
            }
            let answer = String::from_utf8(answer).unwrap();
            assert!(assert_calls_fit(dialect, &answer) > 0, "{answer:?}");
        }
    }
}

#[test]
fn text_and_reasoning_are_free_and_several_calls_are_not() {
    let (vocabulary, factory) = plain();
    let mut constraint = factory.start(&when_called(Dialect::Hermes)).unwrap();
    let call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {";
    accept_text(&mut constraint, &format!("<think>{call}</think>So {{ <tool"));
    assert!(is_free(&mut constraint, vocabulary));
    for _ in 0..2 {
        accept_text(&mut constraint, &format!("\n{call}"));
        assert!(!is_free(&mut constraint, vocabulary));
        assert!(!constraint.may_stop());
        accept_text(&mut constraint, "\"a\": 1, \"b\": 2}");
        assert!(is_free(&mut constraint, vocabulary));
        accept_text(&mut constraint, "}\n</tool_call>");
        assert!(is_free(&mut constraint, vocabulary) && !constraint.must_stop());
    }
}

#[test]
fn a_call_of_another_tool_is_free() {
    let (vocabulary, factory) = plain();
    let mut constraint = factory.start(&when_called(Dialect::Hermes)).unwrap();
    accept_text(&mut constraint, "<tool_call>\n{\"name\": \"sing\", \"arguments\": {\"x\"");
    assert!(is_free(&mut constraint, vocabulary));
}
