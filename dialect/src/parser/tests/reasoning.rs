//! Reasoning before the content.

use super::*;
use crate::{opens_reasoning, written};

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
fn reasoning_that_the_prompt_has_opened_may_end_as_that_of_other_models() {
    for close in ["[/THINK]", "</think>"] {
        let parser = Parser::new(Dialect::Mistral, None, true);
        let answer = format!("Hm.{close}Yes.");
        let expected = [reasoning("Hm."), content("Yes.")];
        assert_eq!(read(parser, answer.split_inclusive(|_| true)), expected);
    }
    let own = "[THINK]a </think> b[/THINK]Yes.";
    assert_eq!(parts(Dialect::Mistral, own), [reasoning("a </think> b"), content("Yes.")]);
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
