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
    let answers = [("", "Yes."), ("Hm.", ""), ("Hm.\nSo.", "Yes.\n\n- a"), ("", "")];
    for dialect in Dialect::ALL.into_iter().chain([Dialect::Plain]) {
        // Apriel 1.6 opens reasoning with words, which only a prompt may have; the others have none.
        let reasons_unopened = !matches!(
            dialect,
            Dialect::Apriel16 | Dialect::GigaChat3 | Dialect::GigaChat31 | Dialect::Functionary32
        );
        for (reasoning, content) in answers {
            for opened in [false, true] {
                if !(opened || reasoning.is_empty() || reasons_unopened) {
                    continue;
                }
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
                let read = (of(true), of(false));
                assert_eq!((read.0.as_str(), read.1.as_str()), (reasoning, content), "{text}");
            }
        }
    }
}

/// The checks of llama.cpp's `test_template_generation_prompt` in which an answer goes on: the end of
/// the prompt, and how the answer goes on behind it.
#[test]
fn an_answer_is_written_as_llama_cpp_writes_it() {
    const THINK: [&str; 2] = ["<think>I'm thinking</think>Hello, ", "<think>I'm"];
    const OPENED: [&str; 2] = ["I'm thinking</think>Hello, ", "I'm"];
    const LINES: [&str; 2] = ["I'm thinking\n</think>\n\nHello, ", "I'm"];
    for (dialect, prompt, [content, reasoning]) in [
        (Dialect::QwenCoder, "<|im_start|>assistant\n<think>\n", LINES), // Qwen 3.5
        (
            Dialect::Harmony,
            "<|start|>assistant",
            [
                "<|channel|>analysis<|message|>I'm thinking<|end|><|start|>assistant\
                 <|channel|>final<|message|>Hello, ",
                "<|channel|>analysis<|message|>I'm",
            ],
        ),
        (Dialect::Mistral, "[/INST]", ["[THINK]I'm thinking[/THINK]Hello, ", "[THINK]I'm"]),
        (
            Dialect::Gemma4,
            "<|turn>model\n",
            ["<|channel>thought\nI'm thinking<channel|>Hello, ", "<|channel>thought\nI'm"],
        ),
        // llama.cpp writes "all\n" also before text that is empty: here the model may still call.
        (Dialect::Functionary32, "<|end_header_id|>\n\n>>>", ["all\nHello, ", ""]),
        (Dialect::Hermes, "assistant: <think>\n", LINES), // Reka
        (Dialect::KimiK2, "<|im_assistant|>assistant<|im_middle|>", THINK),
        (Dialect::Lfm2, "<|im_start|>assistant\n", THINK),
        (Dialect::GigaChat3, "assistant<|role_sep|>\n", ["Hello, ", ""]),
        (Dialect::Dsml, "<｜Assistant｜><think>", OPENED),
        (Dialect::Dsml4, "<｜Assistant｜><think>", OPENED),
        (Dialect::MiniCpm5, "<|im_start|>assistant\n<think>\n", LINES),
    ] {
        let opened = opens_reasoning(prompt);
        assert_eq!(written(dialect, opened, "I'm thinking", "Hello, "), content, "{dialect:?}");
        assert_eq!(written(dialect, opened, "I'm", ""), reasoning, "{dialect:?}");
    }
    // Behind the result of a call, Gemma's prompt begins no other turn.
    let gemma = written(Dialect::Gemma4, opens_reasoning("<tool_response|>"), "I'm", "");
    assert_eq!(gemma, "<|channel>thought\nI'm");
    // Where DeepSeek V4 does not think, its prompt ends reasoning.
    let opened = opens_reasoning("<｜Assistant｜></think>");
    assert_eq!(written(Dialect::Dsml4, opened, "", "Hello, "), "Hello, ");
}
