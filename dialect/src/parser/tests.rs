//! Answers in each dialect, and the parts that the parser makes of them.

use proptest::prelude::*;

use super::*;
use crate::{opens_reasoning, written};

mod literal;

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
fn a_hermes_call_is_read() {
    let answer =
        "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    let mut expected = vec![content("Let me see.")];
    expected.extend(call(0, "add", r#"{"a": 1}"#));
    assert_eq!(parts(Dialect::Hermes, answer), expected);
}

#[test]
fn several_hermes_calls_are_numbered_and_leave_no_white_space() {
    let one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    let answer = format!("\n{one}\n{one}\n");
    assert_eq!(parts(Dialect::Hermes, &answer), [call(0, "f", "{}"), call(1, "f", "{}")].concat());
}

#[test]
fn a_closing_mark_inside_a_string_closes_nothing() {
    let arguments = r#"{"html": "</tool_call> \" }"}"#;
    let answer = format!("<tool_call>{{\"name\":\"f\",\"arguments\":{arguments}}}</tool_call>");
    assert_eq!(parts(Dialect::Hermes, &answer), call(0, "f", arguments));
}

#[test]
fn a_call_without_its_closing_mark_is_still_a_call() {
    for end in ["", "\n", "\n</tool_"] {
        let answer = format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {{}}}}{end}");
        assert_eq!(parts(Dialect::Hermes, &answer), call(0, "f", "{}"));
    }
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
fn a_call_with_its_name_last_is_returned_when_it_is_complete() {
    let answer = r#"<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>"#;
    assert_eq!(parts(Dialect::Hermes, answer), call(0, "f", r#"{"a": 1}"#));
    let answer = r#"[TOOL_CALLS] [{"arguments": {}, "name": "f"}, {"name": "g"}] so"#;
    let mut expected = [call(0, "f", "{}"), call(1, "g", "{}")].concat();
    expected.push(content("so"));
    assert_eq!(parts(Dialect::Mistral, answer), expected);
}

#[test]
fn a_malformed_call_is_content_and_later_calls_are_still_read() {
    let broken = "a\n<tool_call>\n{\"name\": \"f\", \"arguments\": 5\n</tool_call>\nb";
    assert_eq!(parts(Dialect::Hermes, broken), [content(broken)]);
    let answer = format!("{broken}<tool_call>{{\"name\": \"g\"}}</tool_call>");
    let mut expected = vec![content(broken)];
    expected.extend(call(0, "g", "{}"));
    assert_eq!(parts(Dialect::Hermes, &answer), expected);
}

#[test]
fn a_call_that_is_malformed_behind_the_beginning_of_its_arguments_is_a_call() {
    for (arguments, rest) in [("{}", "\n"), ("{}", ", x\n"), (r#"{"a": "#, ""), ("{\"a\": [", "}")]
    {
        let json = format!("{{\"name\": \"f\", \"arguments\": {arguments}{rest}");
        let answer = format!("<tool_call>\n{json}</tool_call>\nb");
        let read = parts(Dialect::Hermes, &answer);
        assert_eq!(read[..3], call(0, "f", arguments), "{answer}");
        let Part::Content(behind) = &read[3] else { panic!("{read:?}") };
        assert!(behind.ends_with('b'), "{behind}");
    }
}

#[test]
fn a_call_that_ends_before_its_arguments_is_content() {
    let answer = " <tool_call>\n{\"name\": \"f\", \"arguments\": ";
    assert_eq!(parts(Dialect::Hermes, answer), [content(answer)]);
}

#[test]
fn a_call_that_ends_within_its_arguments_has_no_end() {
    let answer = " <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"";
    let expected = &call(0, "f", "{\"a\": \"")[..2];
    assert_eq!(parts(Dialect::Hermes, answer), expected);
}

#[test]
fn a_llama_call_replaces_the_text() {
    let json = r#"{"name": "f", "parameters": {"city": "Zürich"}}"#;
    let arguments = r#"{"city": "Zürich"}"#;
    for answer in [json.to_owned(), format!("\n{json}"), format!("<|python_tag|>{json}")] {
        assert_eq!(parts(Dialect::Llama3, &answer), call(0, "f", arguments), "{answer}");
    }
}

#[test]
fn several_llama_calls_are_separated_by_semicolons_or_lines() {
    let json = r#"{"name": "f", "parameters": {}}"#;
    for between in ["; ", "\n", ""] {
        let answer = format!("{json}{between}{json}");
        let expected = [call(0, "f", "{}"), call(1, "f", "{}")].concat();
        assert_eq!(parts(Dialect::Llama3, &answer), expected);
    }
}

#[test]
fn json_that_is_no_llama_call_is_content() {
    for answer in [
        r#"{"name": "Bob", "age": 7}"#,
        r#"The form is {"name": "f", "parameters": {}}."#,
        r#"<|python_tag|>brave_search.call(query="weather")"#,
        "{",
    ] {
        assert_eq!(parts(Dialect::Llama3, answer), [content(answer)]);
    }
}

#[test]
fn mistral_calls_come_as_a_list() {
    let answer =
        r#"[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]"#;
    let expected = [call(0, "f", r#"{"a": 1}"#), call(1, "g", "{}")].concat();
    assert_eq!(parts(Dialect::Mistral, answer), expected);
}

#[test]
fn newer_mistral_calls_have_their_name_in_front() {
    let answer = r#"[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]abc123xyz[ARGS]{}"#;
    let expected = [call(0, "f", r#"{"a": 1}"#), call(1, "g", "{}")].concat();
    assert_eq!(parts(Dialect::Mistral, answer), expected);
}

#[test]
fn text_after_a_mistral_mark_may_be_content() {
    let long = format!("[TOOL_CALLS] {}{{}}", "a".repeat(300));
    for answer in ["[TOOL_CALLS] [1]", "[TOOL_CALLS]", "[TOOL_CALLS] not a call {}", &long] {
        assert_eq!(parts(Dialect::Mistral, answer), [content(answer)]);
    }
}

#[test]
fn reasoning_is_separated_and_trimmed() {
    let answer = "<think>\nTwo and two.\n\nFour.\n</think>\n\nIt is 4.\n";
    let expected = [reasoning("Two and two.\n\nFour."), content("It is 4.\n")];
    assert_eq!(parts(Dialect::Plain, answer), expected);
    let mistral = "[THINK]Hm.[/THINK]It is 4.";
    assert_eq!(parts(Dialect::Mistral, mistral), [reasoning("Hm."), content("It is 4.")]);
}

#[test]
fn reasoning_may_be_opened_by_the_prompt() {
    assert!(opens_reasoning("<|im_start|>assistant\n<think>\n"));
    assert!(!opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
    let parser = Parser::new(Dialect::Hermes, None, true);
    let expected = [reasoning("Hm."), content("Yes.")];
    assert_eq!(read(parser, ["Hm.\n</thi", "nk>\n\nYes."]), expected);
}

#[test]
fn reasoning_may_be_empty_or_never_end() {
    assert_eq!(parts(Dialect::Plain, "<think>\n\n</think>\n\nYes."), [content("Yes.")]);
    assert_eq!(parts(Dialect::Plain, "<think>Hm. </thi"), [reasoning("Hm. </thi")]);
}

#[test]
fn marks_inside_reasoning_and_think_marks_inside_content_are_text() {
    let answer = "<think>a <tool_call> b</think>c <think> d";
    let expected = [reasoning("a <tool_call> b"), content("c <think> d")];
    assert_eq!(parts(Dialect::Hermes, answer), expected);
}

#[test]
fn a_call_may_follow_reasoning() {
    let answer = "<think>\nI need it.\n</think>\n\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>";
    let mut expected = vec![reasoning("I need it.")];
    expected.extend(call(0, "f", "{}"));
    assert_eq!(parts(Dialect::Hermes, answer), expected);
}

#[test]
fn marks_are_content_when_no_tools_are_offered() {
    let answer = "<tool_call>\n{\"name\": \"f\"}\n</tool_call>";
    let parser = Parser::new(Dialect::Hermes, None, false);
    assert_eq!(read(parser, [answer]), [content(answer)]);
}

/// Fragments of answers in random order.
fn any_answer() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<think>",
        "</think>",
        "<thi",
        "[THINK]",
        "[/THINK]",
        "<tool_call>",
        "</tool_call>",
        "<tool",
        "<|python_tag|>",
        "<function=f>",
        "<parameter=a>",
        "</parameter>",
        "</function>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "f<｜tool▁sep｜>",
        "<|START_ACTION|>",
        "<|END_TEXT|>",
        "<|tool_call_start|>",
        "[f(a=1)]",
        "[f(a=\"",
        "[f(",
        "b='",
        ")",
        "<|tool_call_end|>",
        "<|tool_call>",
        "call:f{a:1}",
        "call:f{a:",
        "<|\"|>",
        "<tool_call|>",
        "<channel|>",
        "<|channel|>analysis",
        " to=functions.f",
        "<|message|>",
        "<|end|>",
        "<|eom|>",
        " to=f",
        "<atem:function_calls>",
        "<atem:invoke name=\"f\">",
        ">>>",
        ">>>all\n",
        "<|open|>response<|sep|>",
        "<|open|>call tool=\"f\" index=\"1\"<|sep|>",
        "<|open|>argument key=\"a\" type=\"string\"<|sep|>",
        "<|close|>argument<|sep|>",
        "]<]minimax[>[<invoke name=\"f\">",
        "]<]minimax[>[<a>",
        "]<]minimax[>[</a>",
        "]<]minimax[>[</invoke>",
        "<|start|>assistant",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "\\",
        ",",
        ";",
        " ",
        "\n",
        "é",
        "name",
        "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
        "{\"name\": \"f\", \"parameters\": {}}",
        "[{\"name\": \"f\", \"arguments\": {}}]",
        "{\"name\": \"f\", \"arguments\": ",
        "[{\"name\": \"f\"",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn any_dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select([&Dialect::ALL[..], &[Dialect::Plain]].concat())
}

fn has_plain_content(dialect: &Dialect) -> bool {
    let form = dialect.form();
    form.silent.is_empty() && !matches!(form.call, Call::Channel(_))
}

proptest! {
    #[test]
    fn chunks_do_not_change_the_parts(
        answer in any_answer(),
        dialect in any_dialect(),
        offers in any::<bool>(),
        in_reasoning in any::<bool>(),
        splits in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut at: Vec<usize> = splits.iter().map(|split| split.index(answer.len() + 1)).collect();
        at.retain(|&at| answer.is_char_boundary(at));
        at.extend([0, answer.len()]);
        at.sort_unstable();
        let pieces = at.windows(2).map(|range| &answer[range[0]..range[1]]);
        let parser = Parser::new(dialect, offers.then(Signatures::default), in_reasoning);
        prop_assert_eq!(read(parser.clone(), pieces), read(parser, [answer.as_str()]));
    }

    #[test]
    fn plain_text_is_returned_unchanged(answer in "[a-z \n\u{e9}<>{}]{0,40}") {
        let parts = read(Parser::new(Dialect::Plain, tools(), false), [answer.as_str()]);
        let expected = if answer.is_empty() { vec![] } else { vec![content(&answer)] };
        prop_assert_eq!(parts, expected);
    }

    #[test]
    fn content_loses_no_letter(
        answer in any_answer(),
        dialect in any_dialect().prop_filter("marks around content are dropped", has_plain_content),
    ) {
        let parts = read(Parser::new(dialect, tools(), false), [answer.as_str()]);
        if let [Part::Content(content)] = parts.as_slice()
            && !answer.trim_start().starts_with(['<', '['])
        {
            prop_assert_eq!(content, &answer);
        }
    }
}

#[test]
fn an_answer_is_written_as_the_parser_reads_it() {
    for (reasoning, content) in [("", "Yes."), ("Hm.", ""), ("Hm.\nSo.", "Yes.\n\n- a"), ("", "")] {
        for dialect in
            [Dialect::Plain, Dialect::Mistral, Dialect::Gemma4, Dialect::Harmony, Dialect::Muse]
        {
            for opened in [false, true] {
                let text = written(dialect, opened, reasoning, content);
                let mut parser = Parser::new(dialect, None, opened);
                let parts = [parser.push(&text), parser.finish()].concat();
                let of = |wanted: bool| {
                    let text = parts.iter().filter_map(|part| match part {
                        Part::Reasoning(text) if wanted => Some(text.as_str()),
                        Part::Content(text) if !wanted => Some(text.as_str()),
                        _ => None,
                    });
                    text.collect::<String>()
                };
                assert_eq!((of(true).as_str(), of(false).as_str()), (reasoning, content), "{text}");
            }
        }
    }
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

#[test]
fn a_text_in_a_tag_is_streamed_and_quoted() {
    let schema = serde_json::json!({"properties": {"text": {"type": "string"}}});
    let tools = Signatures::new([("f".to_owned(), schema)]);
    let mut parser = Parser::new(Dialect::QwenCoder, Some(tools), false);
    parser.push("<tool_call>\n<function=f>\n<parameter=text>\nsay \"hi\"");
    let more = Part::ToolCallArguments { index: 0, json_fragment: " to".to_owned() };
    assert_eq!(parser.push(" to"), [more]);
}

#[test]
fn tags_are_read_as_json() {
    let answer = "Let me see.\n<tool_call>\n<function=f>\n<parameter=text>\n1 \"2\"\n3\n\
                  </parameter>\n<parameter=n>\n4\n</parameter>\n</function>\n</tool_call>";
    let mut expected = vec![content("Let me see.")];
    expected.extend(call(0, "f", r#"{"text": "1 \"2\"\n3", "n": 4}"#));
    assert_eq!(parts_of_tool(Dialect::QwenCoder, answer), expected);
    let answer = "<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>4</arg_value>\n</tool_call>";
    assert_eq!(parts_of_tool(Dialect::Glm, answer), call(0, "f", r#"{"text": "4"}"#));
}

#[test]
fn a_section_mark_without_a_call_is_content() {
    let answer = "The mark <tool_call> opens a call.";
    assert_eq!(parts_of_tool(Dialect::QwenCoder, answer), [content(answer)]);
}

#[test]
fn channels_are_reasoning_calls_and_text() {
    let answer = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary \
                  to=functions.f <|constrain|>json<|message|>{\"text\": \"a\"}<|call|>";
    let mut expected = vec![reasoning("Hm.")];
    expected.extend(call(0, "f", r#"{"text": "a"}"#));
    assert_eq!(parts_of_tool(Dialect::Harmony, answer), expected);
    let answer = "<|channel|>final<|message|>Yes.<|return|>";
    assert_eq!(parts_of_tool(Dialect::Harmony, answer), [content("Yes.")]);
}

#[test]
fn a_mark_that_begins_no_message_is_text() {
    let long = "a".repeat(600);
    let answer = format!("<|start|>{long}");
    assert_eq!(parts_of_tool(Dialect::Harmony, &answer), [content(&answer)]);
    let answer = format!("<|channel|>analysis<|message|>Hm.<|end|><|start|>{long}");
    let expected = [reasoning("Hm."), content(&format!("<|start|>{long}"))];
    assert_eq!(parts_of_tool(Dialect::Harmony, &answer), expected);
}

#[test]
fn a_recipient_alone_may_begin_a_message() {
    let mut expected = vec![content("I ask >>> f.")];
    expected.extend(call(0, "f", r#"{"text": "a"}"#));
    let answer = "all\nI ask >>> f.>>>f\n{\"text\": \"a\"}";
    assert_eq!(parts_of_tool(Dialect::Functionary32, answer), expected);
    for answer in ["g\n{}", "Hello\nthere", "all of it", "f"] {
        assert_eq!(parts_of_tool(Dialect::Functionary32, answer), [content(answer)]);
    }
    let answer = " to=self<|message|>Hm.<|eom|><|start|>assistant to=f<|message|>\
                  <atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"text\">1\
                  </atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eot|>";
    let mut expected = vec![reasoning("Hm.")];
    expected.extend(call(0, "f", r#"{"text": "1"}"#));
    assert_eq!(parts_of_tool(Dialect::Muse, answer), expected);
}

#[test]
fn tags_within_tags_are_lists_and_objects() {
    let mark = "]<]minimax[>[";
    let value = format!(
        "{mark}<o>{mark}<l>{mark}<item>a{mark}</item>{mark}</l>{mark}<o>1{mark}</o>{mark}</o>"
    );
    let answer = format!("{mark}<invoke name=\"f\">{value}{mark}</invoke>");
    let expected = call(0, "f", r#"{"o": {"l":["a"],"o":1}}"#);
    assert_eq!(parts_of_tool(Dialect::MiniMax3, &answer), expected);
    // Deeper than any value: a text.
    let deep = format!("{mark}<o>").repeat(1000) + &format!("{mark}</o>").repeat(1000);
    let answer = format!("{mark}<invoke name=\"f\">{deep}{mark}</invoke>");
    assert_eq!(parts_of_tool(Dialect::MiniMax3, &answer).len(), 3);
}

#[test]
fn attributes_may_follow_a_name() {
    let answer = "<|open|>think<|sep|>Hm.<|open|>response<|sep|>On it.<|close|>response<|sep|>\
                  <|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument \
                  key=\"text\" type=\"string\"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>\
                  <|close|>tools<|sep|><|close|>message<|sep|>";
    let mut expected = vec![reasoning("Hm."), content("On it.")];
    expected.extend(call(0, "f", r#"{"text": "1"}"#));
    assert_eq!(parts_of_tool(Dialect::KimiK3, answer), expected);
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
