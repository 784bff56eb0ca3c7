//! Answers in each dialect, and the parts that the parser makes of them.
//!
//! This file has the helpers and what holds for every form of calls.

use super::*;

mod channels;
mod json;
mod literal;
mod random;
mod reasoning;
mod tagged;

fn tools() -> Option<Signatures> {
    Some(Signatures::default())
}

/// The parts of an answer in these chunks, with adjacent parts of one kind joined.
fn read<'a>(parser: Parser, pieces: impl IntoIterator<Item = &'a str>) -> Vec<Part> {
    let mut parser = parser;
    let mut joined: Vec<Part> = Vec::new();
    let mut add = |parts: Vec<Part>| {
        for part in parts {
            match (joined.last_mut(), part) {
                (Some(Part::Content(all)), Part::Content(more)) => all.push_str(&more),
                (Some(Part::Reasoning(all)), Part::Reasoning(more)) => all.push_str(&more),
                (
                    Some(Part::ToolCallArguments { json_fragment: all, .. }),
                    Part::ToolCallArguments { json_fragment: more, .. },
                ) => all.push_str(&more),
                (_, part) => joined.push(part),
            }
        }
    };
    for piece in pieces {
        add(parser.push(piece));
    }
    add(parser.finish());
    joined
}

/// Parses the answer whole and letter by letter; both must give the same parts.
fn parts(dialect: Dialect, answer: &str) -> Vec<Part> {
    let parser = Parser::new(dialect, tools(), false);
    let whole = read(parser.clone(), [answer]);
    let letters = read(parser, answer.split_inclusive(|_| true));
    assert_eq!(whole, letters, "{answer}");
    whole
}

/// The parts of an answer to which a tool `f` is offered, whose parameter `text` takes texts.
fn parts_of_tool(dialect: Dialect, answer: &str) -> Vec<Part> {
    let schema = serde_json::json!({"properties": {"text": {"type": "string"}}});
    let tools = Signatures::new([("f".to_owned(), schema)]);
    let parser = Parser::new(dialect, Some(tools), false);
    let whole = read(parser.clone(), [answer]);
    assert_eq!(whole, read(parser, answer.split_inclusive(|_| true)), "{answer}");
    whole
}

fn content(text: &str) -> Part {
    Part::Content(text.to_owned())
}

fn reasoning(text: &str) -> Part {
    Part::Reasoning(text.to_owned())
}

fn call(index: usize, name: &str, arguments: &str) -> [Part; 3] {
    [
        Part::ToolCallStart { index, name: name.to_owned() },
        Part::ToolCallArguments { index, json_fragment: arguments.to_owned() },
        Part::ToolCallEnd { index },
    ]
}

#[test]
fn content_is_returned_as_soon_as_it_cannot_be_a_mark() {
    let mut parser = Parser::new(Dialect::Hermes, tools(), false);
    assert_eq!(parser.push("Hello"), [content("Hello")]);
    assert_eq!(parser.push(" wor"), [content(" wor")]);
    assert_eq!(parser.push("ld <tool"), [content("ld")]);
    assert_eq!(parser.push("box>"), [content(" <toolbox>")]);
}

#[test]
fn arguments_are_returned_as_they_come() {
    let start = |name: &str| Part::ToolCallStart { index: 0, name: name.to_owned() };
    let fragment =
        |json: &str| Part::ToolCallArguments { index: 0, json_fragment: json.to_owned() };
    let end = Part::ToolCallEnd { index: 0 };
    for (dialect, opened, closed) in [
        (Dialect::Hermes, r#"<tool_call>{"name": "f", "arguments": "#, "}\n</tool_call>"),
        (Dialect::Llama3, r#"{"name": "f", "parameters": "#, "}"),
        (Dialect::Mistral, r#"[TOOL_CALLS] [{"name": "f", "arguments": "#, "}]"),
        (Dialect::Mistral, "[TOOL_CALLS]f[ARGS]", ""),
        (Dialect::Apertus, "<|tools_prefix|>[{\"f\": ", "}]<|tools_suffix|>"),
        (
            Dialect::Command,
            "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": ",
            "}\n]<|END_ACTION|>",
        ),
    ] {
        let mut parser = Parser::new(dialect, tools(), false);
        assert_eq!(parser.push(opened), [], "{opened}");
        assert_eq!(parser.push("{"), [start("f"), fragment("{")], "{opened}");
        assert_eq!(parser.push(r#""a": "é"#), [fragment(r#""a": "é"#)], "{opened}");
        assert_eq!(parser.push("}\\"), [fragment("}\\")], "{opened}");
        assert_eq!(parser.push("\"\"}"), [fragment("\"\"}"), end.clone()], "{opened}");
        assert_eq!([parser.push(closed), parser.finish()], [[], []], "{opened}");
    }
}

#[test]
fn a_call_is_opened_where_its_name_follows() {
    for (dialect, text, opened) in [
        (Dialect::Hermes, "So <tool_call>\n{\"name\"", None),
        (Dialect::Hermes, "<tool_call>\n{\"id\": \"1\", \"name\": \"f", Some(" \"f")),
        (Dialect::Hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {", None),
        (Dialect::Llama3, "{\"name\": \"", None),
        (Dialect::Apertus, "<|tools_prefix|>[{\"f", Some("\"f")),
        (Dialect::Mistral, "[TOOL_CALLS]", Some("")),
        (Dialect::QwenCoder, "So <tool_call>\n<function", Some("")),
        (Dialect::QwenCoder, "So <function", None),
        (Dialect::QwenCoder, "<think>Hm <function=f", Some("=f")),
        (Dialect::QwenCoder, "<function=f>", None),
        (Dialect::Glm, "<tool_call>", Some(">")),
        (Dialect::Harmony, "<|channel|>commentary to=functions", Some("")),
        (Dialect::Harmony, "<|channel|>commentary to=functions.f", Some(".f")),
        (Dialect::Harmony, "<|channel|>commentary to=", None),
        (Dialect::Lfm2, "<|tool_call_start|>[f", Some(">[f")),
        (Dialect::Lfm2, "<|tool_call_start|>[f(), g", None),
    ] {
        let mut parser = Parser::new(dialect, tools(), false);
        parser.push(text);
        assert_eq!(parser.opened_call(), opened, "{text}");
        let mut parser = Parser::new(dialect, None, false);
        parser.push(text);
        assert_eq!(parser.opened_call(), None, "{text}");
    }
}

#[test]
fn marks_are_content_when_no_tools_are_offered() {
    let answer = "<tool_call>\n{\"name\": \"f\"}\n</tool_call>";
    let parser = Parser::new(Dialect::Hermes, None, false);
    assert_eq!(read(parser, [answer]), [content(answer)]);
}

/// Cuts answers after each letter: the text before the call is all their content, with at most the call's
/// name and a part of its arguments.
#[test]
fn marks_of_a_call_that_was_cut_are_no_content() {
    for (dialect, answer, before) in [
        (
            Dialect::Hermes,
            "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\
             <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
            "Let me see.",
        ),
        (
            Dialect::Mistral,
            "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"f\", \
             \"arguments\": {}}]",
            "",
        ),
    ] {
        for (at, _) in answer.char_indices().skip(before.len()) {
            let mut parser = Parser::new(dialect, tools(), false);
            let mut parts = parser.push(&answer[..at]);
            let was_at_call = parser.is_at_call();
            parts.extend(parser.cut());
            let text = read_text(&parts);
            assert_eq!(text.trim_end(), before, "{was_at_call}: {}", &answer[..at]);
        }
    }
    for (answer, rest) in [("a < b <to", false), ("a < b <to c", true)] {
        let mut parser = Parser::new(Dialect::Hermes, tools(), false);
        let mut parts = parser.push(answer);
        assert_eq!(parser.is_at_call(), !rest);
        parts.extend(parser.cut());
        let expected = if rest { answer } else { "a < b" };
        assert_eq!(read_text(&parts), expected);
    }
}

fn read_text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Content(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn the_name_of_a_tool_may_have_a_colon() {
    let json = r#"{"text": "x"}"#;
    for (dialect, answer) in [
        (Dialect::Mistral, format!("[TOOL_CALLS]a:b[ARGS]{json}")),
        (
            Dialect::DeepSeek,
            format!(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>a:b\n```json\n{json}\n```\
                 <｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            ),
        ),
        (
            Dialect::KimiK2,
            format!(
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.a:b:0\
                 <|tool_call_argument_begin|>{json}<|tool_call_end|><|tool_calls_section_end|>"
            ),
        ),
        (Dialect::Functionary, format!("<function=a:b>{json}</function>")),
        (Dialect::Functionary32, format!("a:b\n{json}")),
        (Dialect::Lfm2, "<|tool_call_start|>[a:b(text=\"x\")]<|tool_call_end|>".to_owned()),
        (Dialect::Gemma4, "<|tool_call>call:a:b{text:<|\"|>x<|\"|>}<tool_call|>".to_owned()),
    ] {
        let schema = serde_json::json!({"properties": {"text": {"type": "string"}}});
        let tools = Signatures::new([("a:b".to_owned(), schema)]);
        let parser = Parser::new(dialect, Some(tools), false);
        let read = read(parser, answer.split_inclusive(|_| true));
        assert_eq!(read, call(0, "a:b", json), "{answer}");
    }
}
