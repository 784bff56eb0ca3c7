//! Answers that are free until they call a tool.

use super::*;

/// A grammar of an answer that may call `add` and `greet`.
pub(super) fn when_called(dialect: Dialect) -> Grammar {
    when_called_with(dialect, Calls::Several)
}

fn when_called_with(dialect: Dialect, calls: Calls) -> Grammar {
    let tools = add_and_greet();
    let schema = |tool: &ToolSignature| (tool.name.clone(), tool.parameters.clone().unwrap());
    let signatures = Signatures::new(tools.iter().map(schema));
    let parser = Parser::new(dialect, Some(signatures), false);
    Grammar::when_called(dialect, &tools, calls, parser).unwrap()
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
    for controls in [&[][..], &MARKS] {
        let vocabulary = vocabulary(controls);
        let factory = GrammarFactory::new(&vocabulary);
        for dialect in Dialect::ALL {
            for seed in 0..2 {
                assert_call_is_followed(&vocabulary, &factory, dialect, seed);
            }
        }
    }
}

fn assert_call_is_followed(
    vocabulary: &Vocabulary,
    factory: &GrammarFactory,
    dialect: Dialect,
    seed: u64,
) {
    let forced = Grammar::tool_call(dialect, &add_and_greet(), Calls::One).unwrap();
    let call = walk_tokens(vocabulary, factory, &forced, seed);
    let mut constraint = factory.start(&when_called(dialect)).unwrap();
    // The beginning of a call that fits, up to where the grammar takes over.
    let mut answer = Vec::new();
    for &token in &call {
        if !is_free(&mut constraint, vocabulary) {
            break;
        }
        constraint.accept(token).unwrap();
        answer.push(token);
    }
    assert!(answer.len() < call.len(), "{dialect:?} is never constrained");
    let mut sampler = Sampler::new(&Sampling { seed: Some(seed), ..Sampling::default() });
    for step in 0.. {
        assert!(step < 20_000, "{}", String::from_utf8_lossy(&vocabulary.bytes(&answer)));
        if is_free(&mut constraint, vocabulary) {
            break;
        }
        let mut logits = logits(vocabulary, step);
        constraint.mask(&mut logits).unwrap();
        let token = sampler.choose(&mut logits).unwrap();
        constraint.accept(token).unwrap();
        answer.push(token);
    }
    let answer = String::from_utf8(vocabulary.bytes(&answer)).unwrap();
    assert!(assert_calls_fit(dialect, &answer) > 0, "{answer:?}");
}

#[test]
fn behind_its_only_call_an_answer_ends() {
    for controls in [&[][..], &MARKS] {
        let vocabulary = vocabulary(controls);
        let factory = GrammarFactory::new(&vocabulary);
        for dialect in Dialect::ALL {
            assert_answer_ends(&vocabulary, &factory, dialect);
        }
    }
}

fn assert_answer_ends(vocabulary: &Vocabulary, factory: &GrammarFactory, dialect: Dialect) {
    let forced = Grammar::tool_call(dialect, &add_and_greet(), Calls::One).unwrap();
    let call = walk_tokens(vocabulary, factory, &forced, 0);
    let mut constraint = factory.start(&when_called_with(dialect, Calls::One)).unwrap();
    let mut answer = Vec::new();
    for &token in &call {
        if !is_free(&mut constraint, vocabulary) {
            break;
        }
        assert!(!constraint.must_stop());
        constraint.accept(token).unwrap();
        answer.push(token);
    }
    let mut sampler = Sampler::new(&Sampling { seed: Some(0), ..Sampling::default() });
    for step in 0.. {
        assert!(step < 20_000, "{}", String::from_utf8_lossy(&vocabulary.bytes(&answer)));
        if constraint.must_stop() {
            break;
        }
        assert!(!is_free(&mut constraint, vocabulary), "{dialect:?}: another call could follow");
        let mut logits = logits(vocabulary, step);
        constraint.mask(&mut logits).unwrap();
        let token = sampler.choose(&mut logits).unwrap();
        constraint.accept(token).unwrap();
        answer.extend((!vocabulary.is_eog(token)).then_some(token));
    }
    let answer = String::from_utf8(vocabulary.bytes(&answer)).unwrap();
    assert_eq!(assert_calls_fit(dialect, &answer), 1, "{answer:?}");
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

/// Whether the next token of an answer that has begun so may be this one.
fn may_follow(dialect: Dialect, answer: &str, next: u8) -> bool {
    let (vocabulary, factory) = plain();
    let mut constraint = factory.start(&when_called(dialect)).unwrap();
    accept_text(&mut constraint, answer);
    let mut logits = vec![0.0; vocabulary.len()];
    constraint.mask(&mut logits).unwrap();
    logits[usize::from(next)] == 0.0
}

#[test]
fn the_name_of_a_call_is_that_of_a_tool() {
    for (dialect, begun) in [
        (Dialect::Hermes, "<tool_call>\n{\"name\": \""),
        (Dialect::Hermes, "<tool_call>{\"id\": \"1\", \"name\":\n\""),
        (Dialect::Nemotron, "<TOOLCALL>[{\"name\": \"greet\", \"arguments\": {}}, {\"name\":\""),
        (Dialect::Command, "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \""),
        (Dialect::Mistral, "[TOOL_CALLS] [{\"name\": \"greet\", \"arguments\": {}}, {\"name\":\""),
        (Dialect::Mistral, "[TOOL_CALLS]"),
        (Dialect::Mistral, "[TOOL_CALLS]greet[ARGS]{}[TOOL_CALLS]"),
        (Dialect::Apertus, "<|tools_prefix|>[{\""),
        (Dialect::DeepSeek31, "<think>Hm.</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"),
        (Dialect::KimiK2, "<|tool_calls_section_begin|><|tool_call_begin|>functions."),
        (Dialect::QwenCoder, "So <tool_call>\n<function="),
        (Dialect::QwenCoder, "<function="),
        (Dialect::Glm, "<tool_call>"),
        (Dialect::MiniMax, "<minimax:tool_call>\n<invoke name=\""),
        (Dialect::Lfm2, "<|tool_call_start|>["),
        (Dialect::Gemma4, "<|tool_call>call:"),
        (Dialect::Harmony, "<|channel|>commentary to=functions."),
        (
            Dialect::Harmony,
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.",
        ),
        (Dialect::Muse, " to=f<|message|><atem:function_calls>\n<atem:invoke name=\""),
    ] {
        assert!(may_follow(dialect, begun, b'a'), "{begun}");
        assert!(may_follow(dialect, begun, b'g'), "{begun}");
        assert!(!may_follow(dialect, begun, b's'), "{begun}");
        let named = format!("{begun}add");
        assert!(!may_follow(dialect, &named, b'd'), "{named}");
    }
    // A line feed would end the name.
    assert!(!may_follow(Dialect::Glm, "<tool_call>", b'\n'));
}

#[test]
fn a_name_or_a_list_follows_the_mark_of_mistral_where_the_mark_behind_the_name_is_text() {
    let arguments = r#"{"a": 1, "b": 2}"#;
    let named = format!("[TOOL_CALLS]add[ARGS]{arguments}");
    let list = format!("[TOOL_CALLS] [{{\"name\": \"add\", \"arguments\": {arguments}}}]");
    let named_with_id = format!("[TOOL_CALLS]add[CALL_ID]a1B2c3D4e[ARGS]{arguments}");
    let own = when_called(Dialect::Mistral);
    let forced = Grammar::tool_call(Dialect::Mistral, &add_and_greet(), Calls::One).unwrap();
    let both = [&own, &forced];
    for (call, grammars) in [(named, &both[..]), (list, &both[..]), (named_with_id, &both[..1])] {
        for grammar in grammars {
            let (vocabulary, factory) = plain();
            let mut constraint = factory.start(grammar).unwrap();
            for (at, byte) in call.bytes().enumerate() {
                let mut logits = vec![0.0; vocabulary.len()];
                constraint.mask(&mut logits).unwrap();
                assert!(logits[usize::from(byte)] >= 0.0, "behind {:?}", &call[..at]);
                constraint.accept(Token(byte.into())).unwrap();
            }
            assert!(constraint.may_stop(), "{call}");
        }
    }
    assert!(!may_follow(Dialect::Mistral, "[TOOL_CALLS]add[ARGS]{\"a\": ", b'x'));
}

#[test]
fn behind_a_call_in_tags_that_ended_before_its_grammar_an_answer_is_free_or_over() {
    let call = "<tool_call>\n<function=greet>\n<parameter=name>\nAda</parameter>\n</function>";
    for calls in [Calls::Several, Calls::One] {
        let (vocabulary, factory) = plain();
        let mut constraint = factory.start(&when_called_with(Dialect::QwenCoder, calls)).unwrap();
        accept_text(&mut constraint, call);
        assert!(is_free(&mut constraint, vocabulary));
        assert_eq!(constraint.must_stop(), calls == Calls::One);
    }
}

#[test]
fn a_conversation_may_have_hundreds_of_calls() {
    let begun = "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:10";
    assert!(may_follow(Dialect::KimiK2, begun, b'2'));
    assert!(may_follow(Dialect::KimiK2, &format!("{begun}2"), b'<'));
}

#[test]
fn text_that_may_be_no_call_has_free_names() {
    for (dialect, text) in [
        (Dialect::Hermes, "The mark <tool_call> opens a call: "),
        (Dialect::Llama3, "{\"name\": \""),
        (Dialect::QwenCoder, "The tags <tool_call> and <function"),
        (Dialect::Harmony, "<|channel|>commentary to="),
        (Dialect::Functionary32, "all\nSo >>>"),
    ] {
        assert!(may_follow(dialect, text, b's'), "{text}");
    }
}

#[test]
fn a_name_may_share_a_token_with_the_mark_before_it() {
    let pieces = (0..=255_u8).map(|byte| (vec![byte], TokenKind::default()));
    let names = ["=add", "=sing", "\"sing"].map(|text| (text.into(), TokenKind::default()));
    let end = (END.into(), TokenKind { control: true, end_of_generation: true });
    let vocabulary = Vocabulary::new(pieces.chain(names).chain([end]), None, None, false);
    let factory = GrammarFactory::new(&vocabulary);
    let mut constraint = factory.start(&when_called(Dialect::QwenCoder)).unwrap();
    accept_text(&mut constraint, "<tool_call>\n<function");
    let mut logits = vec![0.0; vocabulary.len()];
    constraint.mask(&mut logits).unwrap();
    assert_eq!((logits[256], logits[257]), (0.0, f32::NEG_INFINITY));
}

#[test]
fn arguments_in_another_form_than_the_names_are_free() {
    let (vocabulary, factory) = plain();
    let mut constraint = factory.start(&when_called(Dialect::Hermes)).unwrap();
    accept_text(&mut constraint, "<tool_call>\n{\"arguments\": {\"x\"");
    assert!(is_free(&mut constraint, vocabulary));
}
