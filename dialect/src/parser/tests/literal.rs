//! Calls in Python's notation, and in Gemma's.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

fn start(index: usize, name: &str) -> Part {
    Part::ToolCallStart { index, name: name.to_owned() }
}

fn fragment(index: usize, json: &str) -> Part {
    Part::ToolCallArguments { index, json_fragment: json.to_owned() }
}

#[test]
fn arguments_in_another_notation_are_returned_as_they_come() {
    let end = |index| Part::ToolCallEnd { index };
    let mut parser = Parser::new(Dialect::Lfm2, tools(), false);
    assert_eq!(parser.push("<|tool_call_start|>[f(te"), []);
    assert_eq!(parser.push("xt=\""), [start(0, "f"), fragment(0, "{\"text\": \"")]);
    assert_eq!(parser.push("say 'hi'"), [fragment(0, "say 'hi'")]);
    assert_eq!(parser.push(" \\\"to\\"), [fragment(0, " \\\"to")]);
    assert_eq!(parser.push("n\", l=[Tr"), [fragment(0, "\\n\", \"l\": [")]);
    assert_eq!(parser.push("ue, 1"), [fragment(0, "true, ")]);
    assert_eq!(parser.push("])"), [fragment(0, "1]}"), end(0)]);
    assert_eq!(parser.push(", g("), []);
    assert_eq!(parser.push(")"), [start(1, "g"), fragment(1, "{}"), end(1)]);
    assert_eq!([parser.push("]<|tool_call_end|>"), parser.finish()], [[], []]);

    let mut parser = Parser::new(Dialect::Gemma4, tools(), false);
    assert_eq!(parser.push("<|tool_call>call:f{te"), []);
    assert_eq!(parser.push("xt:<|\"|>"), [start(0, "f"), fragment(0, "{\"text\": \"")]);
    assert_eq!(parser.push("say \"hi\" <|"), [fragment(0, "say \\\"hi\\\" ")]);
    assert_eq!(parser.push("\"|>,n:-1"), [fragment(0, "\", \"n\": ")]);
    assert_eq!(parser.push("}"), [fragment(0, "-1}"), end(0)]);
    assert_eq!([parser.push("<tool_call|>"), parser.finish()], [[], []]);
}

#[test]
fn several_calls_stand_in_one_list() {
    let answer = "So. <|tool_call_start|>[a.b(x=1, o={\"k\": 'v'}), c()]<|tool_call_end|> Done.";
    let mut expected = vec![content("So.")];
    expected.extend(call(0, "a.b", r#"{"x": 1, "o": {"k": "v"}}"#));
    expected.extend(call(1, "c", "{}"));
    expected.push(content("Done."));
    assert_eq!(parts(Dialect::Lfm2, answer), expected);
}

#[test]
fn a_closing_mark_inside_a_text_of_another_notation_closes_nothing() {
    let answer = "<|tool_call_start|>[f(a=\"<|tool_call_end|>\")]<|tool_call_end|>";
    assert_eq!(parts(Dialect::Lfm2, answer), call(0, "f", r#"{"a": "<|tool_call_end|>"}"#));
}

#[test]
fn the_name_of_a_parameter_may_be_no_word() {
    let arguments = r#"{"$top": 1, "filter[first name]": "x"}"#;
    for (dialect, answer) in [
        (
            Dialect::Lfm2,
            "<|tool_call_start|>[f($top=1, filter[first name]=\"x\")]<|tool_call_end|>",
        ),
        (
            Dialect::Gemma4,
            "<|tool_call>call:f{$top:1,filter[first name]:<|\"|>x<|\"|>}<tool_call|>",
        ),
    ] {
        assert_eq!(parts(dialect, answer), call(0, "f", arguments), "{answer}");
    }
    let broken = "<|tool_call_start|>[f(a=1, ]<|tool_call_end|>";
    assert_eq!(parts(Dialect::Lfm2, broken)[..2], call(0, "f", r#"{"a": 1"#)[..2]);
}

#[test]
fn a_call_without_a_key_or_an_end_is_no_call() {
    for call in ["[link](url)", "[f(\"Paris\")]", "[f]", "f(a=1)", "[f(a", "", "["] {
        let answer = format!("<|tool_call_start|>{call}");
        assert_eq!(parts(Dialect::Lfm2, &answer), [content(&answer)], "{answer}");
    }
    let long = format!("<|tool_call>call:{}", "a".repeat(600));
    for answer in ["<|tool_call>f{a:1}", "<|tool_call>call:f{1, 2}", &long] {
        assert_eq!(parts(Dialect::Gemma4, answer), [content(answer)], "{answer}");
    }
}

#[test]
fn a_call_that_breaks_within_its_arguments_is_a_call() {
    for (dialect, answer, arguments, rest) in [
        (Dialect::Lfm2, "<|tool_call_start|>[f(a=b)]", "{\"a\": ", "b)]"),
        (Dialect::Lfm2, "<|tool_call_start|>[f(a=1]", "{\"a\": 1", "]"),
        (
            Dialect::Gemma4,
            "<|tool_call>call:f{a:{b:1)<tool_call|>",
            "{\"a\": {\"b\": 1",
            ")<tool_call|>",
        ),
    ] {
        let mut expected = call(0, "f", arguments).to_vec();
        expected.push(content(rest));
        assert_eq!(parts(dialect, answer), expected, "{answer}");
    }
    let deep = format!("<|tool_call_start|>[f(a={}", "[".repeat(100_000));
    assert_eq!(parts(Dialect::Lfm2, &deep)[0], start(0, "f"));
}

#[test]
fn an_answer_that_ends_within_a_text_has_the_text_so_far() {
    for (dialect, answer) in [
        (Dialect::Lfm2, "<|tool_call_start|>[f(a=\"so\\"),
        (Dialect::Lfm2, "<|tool_call_start|>[f(a='so\\u00"),
        (Dialect::Gemma4, "<|tool_call>call:f{a:<|\"|>so"),
    ] {
        assert_eq!(parts(dialect, answer), call(0, "f", "{\"a\": \"so")[..2], "{answer}");
    }
}

/// A value as the model writes it.
fn write(dialect: Dialect, value: &Value) -> String {
    let members = |members: &Map<String, Value>| {
        let member = |(key, value): (&String, &Value)| match dialect {
            Dialect::Lfm2 => format!("'{key}': {}", write(dialect, value)),
            _ => format!("{key}:{}", write(dialect, value)),
        };
        members.iter().map(member).collect::<Vec<_>>().join(",")
    };
    match (dialect, value) {
        (_, Value::Object(object)) => format!("{{{}}}", members(object)),
        (_, Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(|item| write(dialect, item)).collect();
            format!("[{}]", items.join(", "))
        }
        (Dialect::Gemma4, Value::String(text)) => format!("<|\"|>{text}<|\"|>"),
        (Dialect::Lfm2, Value::Bool(true)) => "True".to_owned(),
        (Dialect::Lfm2, Value::Null) => "None".to_owned(),
        (_, scalar) => scalar.to_string(),
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        "[a-z\"'\\\\\n\u{e9}\u{1f600}<|,:=(){}\\[\\] ]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let members = prop::collection::btree_map("[a-z]{1,3}", inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_pieces_of_any_arguments_are_their_json(
        arguments in prop::collection::btree_map("[a-z_]{1,4}", any_value(), 0..4),
        is_python in any::<bool>(),
        splits in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let dialect = if is_python { Dialect::Lfm2 } else { Dialect::Gemma4 };
        let between = if is_python { "=" } else { ":" };
        let written: Vec<String> = arguments
            .iter()
            .map(|(key, value)| format!("{key}{between}{}", write(dialect, value)))
            .collect();
        let written = written.join(", ");
        let answer = if is_python {
            format!("<|tool_call_start|>[f({written})]<|tool_call_end|>")
        } else {
            format!("<|tool_call>call:f{{{written}}}<tool_call|>")
        };
        let mut at: Vec<usize> = splits.iter().map(|split| split.index(answer.len() + 1)).collect();
        at.retain(|&at| answer.is_char_boundary(at));
        at.extend([0, answer.len()]);
        at.sort_unstable();
        let pieces = at.windows(2).map(|range| &answer[range[0]..range[1]]);
        let read = read(Parser::new(dialect, tools(), false), pieces);
        prop_assert_eq!(read.len(), 3, "{}: {:?}", answer, read);
        let Part::ToolCallArguments { json_fragment, .. } = &read[1] else { panic!("{read:?}") };
        let json: Value = serde_json::from_str(json_fragment).unwrap();
        prop_assert_eq!(json, Value::Object(arguments.into_iter().collect()), "{}", answer);
    }
}
