//! Random answers: where they are cut changes nothing, and content loses no letter.

use proptest::prelude::*;

use super::*;

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
