//! Calls in JSON: of Hermes, Llama 3 and Mistral.

use super::*;

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
