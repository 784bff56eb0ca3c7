//! Random walks: the answer keeps its form under any logits.

use std::sync::LazyLock;

use serde_json::json;

use super::*;
use crate::sample::{Sampler, Sampling};
use crate::vocabulary::{TokenKind, Vocabulary};
use hob_dialect::Signatures;
use hob_slots::Token;

mod calls;
mod forms;
mod measure;
mod order;
mod refusals;
mod values;
mod vocabularies;

const END: &str = "<|im_end|>";

/// What ends a value in a tag.
const ENDS: [&str; 12] = [
    "</",
    "</parameter>",
    "\n</parameter>",
    "</param>",
    "</atem:parameter>",
    "</arg_value>",
    "</｜DSML｜parameter>",
    "<|close|>argument<|sep|>",
    "<|\"|>",
    "<|end|>",
    "<|eom|>",
    "]<]minimax[>[</name>",
];

/// Every byte, some longer pieces, and control tokens.
fn vocabulary(controls: &[&str]) -> Vocabulary {
    let text = |bytes: &[u8]| (bytes.to_vec(), TokenKind::default());
    let mut pieces: Vec<(Vec<u8>, TokenKind)> = (0..=255).map(|byte| text(&[byte])).collect();
    pieces.extend(
        ["{\"", "\": ", "\": \"", "\"}", ", \"", "}}", "\n\n", "    "].map(|p| text(p.as_bytes())),
    );
    let is_text = |mark: &&str| !controls.iter().any(|control| mark.contains(control));
    pieces.extend(ENDS.into_iter().filter(is_text).map(|mark| text(mark.as_bytes())));
    let control = TokenKind { control: true, end_of_generation: false };
    pieces.extend(controls.iter().map(|mark| (mark.as_bytes().to_vec(), control)));
    let end = TokenKind { control: true, end_of_generation: true };
    pieces.push((END.into(), end));
    let last = Token(i32::try_from(pieces.len()).unwrap() - 1);
    Vocabulary::new(pieces, None, Some(last), false)
}

/// A vocabulary without marks, and its factory.
fn plain() -> &'static (Vocabulary, GrammarFactory) {
    static PLAIN: LazyLock<(Vocabulary, GrammarFactory)> = LazyLock::new(|| {
        let vocabulary = vocabulary(&[]);
        let factory = GrammarFactory::new(&vocabulary);
        (vocabulary, factory)
    });
    &PLAIN
}

/// What a model wants next: after 40 tokens it prefers to close things.
fn logits(vocabulary: &Vocabulary, step: usize) -> Vec<f32> {
    (0..vocabulary.len() as i32)
        .map(|id| match vocabulary.piece(Token(id)) {
            [b'"' | b'}' | b']' | b')' | b','] if step > 40 => 20.0,
            _ if step > 40 && vocabulary.is_control(Token(id)) => 20.0,
            [b'<' | b'\n' | b']', .., b'>'] if step > 40 => 20.0,
            [b'<', b'/'] if step > 40 => 20.0,
            [b'<'] if step > 40 => 12.0,
            [b'0'..=b'9'] if step > 40 => 10.0,
            [b'a'..=b'z'] => 2.0,
            _ if vocabulary.is_eog(Token(id)) => 8.0,
            _ => 0.0,
        })
        .collect()
}

/// Draws allowed tokens until the answer ends.
fn walk(vocabulary: &Vocabulary, factory: &GrammarFactory, grammar: &Grammar, seed: u64) -> String {
    let answer = vocabulary.bytes(&walk_tokens(vocabulary, factory, grammar, seed));
    String::from_utf8(answer).expect("an answer is UTF-8")
}

fn walk_tokens(
    vocabulary: &Vocabulary,
    factory: &GrammarFactory,
    grammar: &Grammar,
    seed: u64,
) -> Vec<Token> {
    let mut constraint = factory.start(grammar).unwrap();
    let mut sampler = Sampler::new(&Sampling { seed: Some(seed), ..Sampling::default() });
    let mut answer = Vec::new();
    for step in 0.. {
        let so_far = || String::from_utf8_lossy(&vocabulary.bytes(&answer)).into_owned();
        assert!(step < 20_000, "no end: {}", so_far());
        let mut logits = logits(vocabulary, step);
        constraint.mask(&mut logits).unwrap();
        let token = sampler.choose(&mut logits).expect("some token is always possible");
        let may_stop = constraint.may_stop();
        constraint.accept(token).unwrap();
        if vocabulary.is_eog(token) {
            assert!(may_stop && constraint.must_stop());
            break;
        }
        answer.push(token);
    }
    answer
}

fn schema(schema: Value) -> Grammar {
    Grammar::json_schema(&schema, Strictness::Strict).unwrap()
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 8},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "mood": {"enum": ["good", "bad", null]},
            "friends": {"type": "array", "items": {"$ref": "#/$defs/friend"}, "maxItems": 3},
        },
        "required": ["name", "age", "mood", "friends"],
        "additionalProperties": false,
        "$defs": {"friend": {"type": "object", "properties": {"id": {"type": "integer"}},
            "required": ["id"], "additionalProperties": false}},
    })
}

fn assert_person(value: &Value) {
    assert_eq!(value.as_object().unwrap().len(), 4, "{value}");
    assert!(value["name"].as_str().unwrap().chars().count() <= 8);
    assert!(value["age"].as_u64().unwrap() <= 120);
    assert!(value["mood"].is_null() || ["good", "bad"].contains(&value["mood"].as_str().unwrap()));
    let friends = value["friends"].as_array().unwrap();
    assert!(friends.len() <= 3 && friends.iter().all(|friend| friend["id"].is_number()));
}

fn add_and_greet() -> Vec<ToolSignature> {
    let number = json!({"type": "integer"});
    let parameters =
        json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]});
    let name = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    vec![
        ToolSignature {
            name: "add".to_owned(),
            parameters: Some(parameters),
            strictness: Strictness::Lenient,
        },
        ToolSignature {
            name: "greet".to_owned(),
            parameters: Some(name),
            strictness: Strictness::Lenient,
        },
    ]
}

/// Reads an answer as the daemon would, and returns names and arguments.
fn calls(dialect: Dialect, answer: &str) -> Vec<(String, Value)> {
    let tools = add_and_greet().into_iter();
    let tools = tools.map(|tool| (tool.name, tool.parameters.unwrap_or_default()));
    let mut parser = Parser::new(dialect, Some(Signatures::new(tools)), false);
    let mut parts = parser.push(answer);
    parts.extend(parser.finish());
    let mut calls = Vec::new();
    for part in parts {
        match part {
            hob_dialect::Part::ToolCallStart { name, .. } => calls.push((name, String::new())),
            hob_dialect::Part::ToolCallArguments { json_fragment, .. } => {
                calls.last_mut().unwrap().1.push_str(&json_fragment);
            }
            hob_dialect::Part::ToolCallEnd { .. } | hob_dialect::Part::Reasoning(_) => {}
            other => panic!("{other:?} in {answer:?}"),
        }
    }
    let read = |json: String| serde_json::from_str(&json).unwrap_or_else(|_| panic!("{answer:?}"));
    calls.into_iter().map(|(name, json)| (name, read(json))).collect()
}

fn assert_calls_fit(dialect: Dialect, answer: &str) -> usize {
    let calls = calls(dialect, answer);
    for (name, arguments) in &calls {
        match name.as_str() {
            "add" => {
                assert!(arguments["a"].is_number() && arguments["b"].is_number(), "{answer}");
                assert_eq!(arguments.as_object().unwrap().len(), 2, "{answer}");
            }
            "greet" => assert!(arguments.is_object(), "{answer}"),
            other => panic!("{other} was not offered: {answer}"),
        }
    }
    calls.len()
}

#[test]
fn a_json_object_is_one_json_object() {
    let (vocabulary, factory) = plain();
    for seed in 0..30 {
        let answer = walk(vocabulary, factory, &Grammar::json_object(), seed);
        let value: Value = serde_json::from_str(&answer).unwrap();
        assert!(value.is_object(), "{answer}");
    }
}

#[test]
fn a_schema_is_kept() {
    let (vocabulary, factory) = plain();
    for seed in 0..30 {
        let answer = walk(vocabulary, factory, &schema(person()), seed);
        assert_person(&serde_json::from_str(&answer).unwrap());
    }
}

#[test]
fn a_recursive_schema_and_one_of_are_followed() {
    let tree = json!({
        "type": "object",
        "properties": {
            "value": {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]},
            "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        },
        "required": ["value"],
        "additionalProperties": false,
    });
    let (vocabulary, factory) = plain();
    for seed in 0..10 {
        let answer = walk(vocabulary, factory, &schema(tree.clone()), seed);
        let value: Value = serde_json::from_str(&answer).unwrap();
        assert!(value["value"].is_number(), "{answer}");
    }
}

#[test]
fn white_space_cannot_go_on_forever() {
    let (vocabulary, factory) = plain();
    let mut constraint = factory.start(&Grammar::json_object()).unwrap();
    let mut spaces = 0;
    constraint.accept(Token(i32::from(b'{'))).unwrap();
    loop {
        let mut logits = vec![0.0; vocabulary.len()];
        constraint.mask(&mut logits).unwrap();
        if logits[usize::from(b'\n')] < 0.0 {
            break;
        }
        constraint.accept(Token(i32::from(b'\n'))).unwrap();
        spaces += 1;
        assert!(spaces <= 20);
    }
    assert!(spaces > 0);
}

/// Marks of several forms.
const MARKS: [&str; 18] = [
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|START_ACTION|>",
    "｜DSML｜",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|end|>",
    "<|open|>",
    "<|close|>",
    "<|sep|>",
    "<|\"|>",
    "<arg_key>",
    "</arg_key>",
    "</arg_value>",
    "]<]minimax[>[",
];

#[test]
fn a_required_call_is_written_in_each_dialect() {
    let tools = add_and_greet();
    for controls in [&[][..], &MARKS, &MARKS[..3]] {
        let vocabulary = vocabulary(controls);
        let factory = GrammarFactory::new(&vocabulary);
        for dialect in Dialect::ALL {
            for how_many in [Calls::One, Calls::Several] {
                let grammar = Grammar::tool_call(dialect, &tools, how_many).unwrap();
                for seed in 0..2 {
                    let answer = walk(&vocabulary, &factory, &grammar, seed);
                    let count = assert_calls_fit(dialect, &answer);
                    assert!(count == 1 || how_many == Calls::Several && count > 1, "{answer:?}");
                }
            }
        }
    }
}

#[test]
fn a_mark_that_is_a_control_token_is_written_as_one() {
    let vocabulary = vocabulary(&["<tool_call>", "</tool_call>"]);
    let factory = GrammarFactory::new(&vocabulary);
    let grammar = Grammar::tool_call(Dialect::Hermes, &add_and_greet(), Calls::One).unwrap();
    let mut constraint = factory.start(&grammar).unwrap();
    let mut logits = vec![0.0; vocabulary.len()];
    constraint.mask(&mut logits).unwrap();
    let allowed: Vec<_> = (0..vocabulary.len() as i32)
        .map(Token)
        .filter(|token| logits[token.0 as usize] == 0.0)
        .map(|token| vocabulary.piece(token))
        .collect();
    assert_eq!(allowed, [b"<tool_call>"]);
}

#[test]
fn a_strange_tool_name_is_written_as_json() {
    let name = "a \"b\"\n\\é/";
    let tool =
        ToolSignature { name: name.to_owned(), parameters: None, strictness: Strictness::Lenient };
    let grammar = Grammar::tool_call(Dialect::Hermes, &[tool], Calls::One).unwrap();
    let (vocabulary, factory) = plain();
    let answer = walk(vocabulary, factory, &grammar, 1);
    assert_eq!(calls(Dialect::Hermes, &answer)[0].0, name);
}

#[test]
fn a_form_may_follow_reasoning() {
    for controls in [&[][..], &["</think>"]] {
        let vocabulary = vocabulary(controls);
        let factory = GrammarFactory::new(&vocabulary);
        let grammar = schema(person()).after_reasoning(Dialect::Hermes);
        let mut constraint = factory.start(&grammar).unwrap();
        let mut tokens: Vec<i32> = b"Free < text {\n".iter().map(|&byte| byte.into()).collect();
        match controls {
            [] => tokens.extend(b"</think>".iter().map(|&byte| i32::from(byte))),
            _ => tokens.push(vocabulary.len() as i32 - 2),
        }
        for token in tokens {
            assert!(!constraint.may_stop());
            constraint.accept(Token(token)).unwrap();
        }
        let mut logits = vec![0.0; vocabulary.len()];
        constraint.mask(&mut logits).unwrap();
        assert_eq!(logits[usize::from(b'{')], 0.0);
        assert!(logits[usize::from(b'a')] < 0.0);
    }
}

#[test]
fn a_regular_expression_and_a_grammar_are_followed() {
    let (vocabulary, factory) = plain();
    let date = walk(vocabulary, factory, &Grammar::lark(r"start: /[0-9]{2}\/[0-9]{2}/"), 3);
    assert!(date.len() == 5 && date.as_bytes()[2] == b'/', "{date}");
    let yes = walk(vocabulary, factory, &Grammar::lark("start: \"yes\" | \"no\""), 3);
    assert!(["yes", "no"].contains(&yes.as_str()));
}

#[test]
fn a_token_that_was_not_allowed_ends_the_constraint() {
    let mut constraint = plain().1.start(&Grammar::json_object()).unwrap();
    assert!(constraint.accept(Token(i32::from(b'x'))).is_err());
    assert!(constraint.accept(Token(-1)).is_err());
    assert!(constraint.must_stop());
}

#[test]
fn constraints_of_one_grammar_share_nothing() {
    let (_, factory) = plain();
    let mut first = factory.start(&Grammar::json_object()).unwrap();
    first.accept(Token(i32::from(b'{'))).unwrap();
    first.accept(Token(i32::from(b'}'))).unwrap();
    let mut second = factory.start(&Grammar::json_object()).unwrap();
    assert!(first.may_stop() && !second.may_stop());
}

#[test]
fn logits_beyond_the_vocabulary_are_never_allowed() {
    let (vocabulary, factory) = plain();
    let mut constraint = factory.start(&Grammar::lark("start: /(?s:.*)/")).unwrap();
    let mut logits = vec![0.0; vocabulary.len() + 100];
    constraint.mask(&mut logits).unwrap();
    assert!(logits[vocabulary.len()..].iter().all(|&logit| logit == f32::NEG_INFINITY));
    assert_eq!(logits[usize::from(b'a')], 0.0);
}

#[test]
fn a_vocabulary_without_an_end_still_gets_to_the_end() {
    let pieces = (0..=255_u8).map(|byte| ([byte], TokenKind::default()));
    let vocabulary = Vocabulary::new(pieces, None, None, false);
    let mut constraint =
        GrammarFactory::new(&vocabulary).start(&Grammar::lark("start: /a/")).unwrap();
    constraint.accept(Token(i32::from(b'a'))).unwrap();
    assert!(constraint.may_stop());
}
