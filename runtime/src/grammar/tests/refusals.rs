//! Refusals, and the cost of hostile requests.

use proptest::prelude::*;

use super::*;

fn refusal(grammar: &Grammar) -> String {
    plain().1.start(grammar).unwrap_err().to_string()
}

#[test]
fn an_unusable_grammar_is_refused_in_readable_words() {
    let unsupported = refusal(&schema(json!({"type": "object", "not": {"required": ["a"]}})));
    assert_eq!(unsupported, "the JSON schema cannot be followed: Unimplemented keys: [\"not\"]");
    for (broken, hint) in [
        (json!({"type": "strnig"}), "strnig"),
        (json!({"type": "string", "pattern": "("}), "("),
        (json!({"$ref": "#/$defs/none"}), "none"),
        (json!({"$ref": "http://example.com/schema"}), "example.com"),
        (json!({"type": "integer", "minimum": 3, "maximum": 1}), "minimum"),
    ] {
        let text = refusal(&schema(broken));
        assert!(text.contains(hint) && !text.contains('\n') && !text.contains("%json"), "{text}");
    }
    assert!(Grammar::json_schema(&json!("text"), Strictness::Lenient).is_err());
    assert!(Grammar::json_schema(&json!(false), Strictness::Lenient).is_err());
    assert!(refusal(&Grammar::lark("start: /(/")).starts_with("the grammar cannot"));
    let hermes = |tools: &[_]| Grammar::tool_call(Dialect::Hermes, tools, Calls::One);
    assert_eq!(hermes(&[]).unwrap_err(), GrammarError::NoTools);
    let plain = Grammar::tool_call(Dialect::Plain, &add_and_greet(), Calls::One);
    assert_eq!(plain.unwrap_err(), GrammarError::NoToolForm);
}

#[test]
fn a_tool_that_cannot_be_followed_is_refused_by_the_keyword_alone() {
    for (parameter, expected) in [
        (json!({"not": {"const": "secret"}}), "look at `not`"),
        (json!({"type": "secret"}), "look at `type`"),
        (json!({"type": "string", "pattern": "(secret"}), "simplify their schema"),
        (json!({"$ref": "#/$defs/secret"}), "look at `$defs`"),
    ] {
        let parameters = json!({"type": "object", "properties": {"secret": parameter}});
        let name = "secret".to_owned();
        let tool =
            ToolSignature { name, parameters: Some(parameters), strictness: Strictness::Strict };
        let grammar = Grammar::tool_call(Dialect::Hermes, &[tool], Calls::One).unwrap();
        assert_eq!(
            refusal(&grammar),
            format!("a tool's parameters cannot be followed: {expected}")
        );
    }
}

#[test]
fn a_schema_that_makes_llguidance_panic_is_refused() {
    // It cuts the pattern after 100 bytes, here in the middle of a letter.
    let text = refusal(&schema(json!({"type": "string", "pattern": {"xy": "é".repeat(200)}})));
    assert_eq!(text, "the JSON schema cannot be followed: its parser failed");
}

/// Alternatives that `allOf` multiplies: 2^`count` objects.
fn multiplied(count: usize) -> Value {
    let one =
        |name: String, of: &str| json!({"type": "object", "properties": {name: {"type": of}}});
    let both = |at: usize| [one(format!("p{at}"), "string"), one(format!("q{at}"), "number")];
    json!({"allOf": (0..count).map(|at| json!({"anyOf": both(at)})).collect::<Vec<_>>()})
}

/// Made to take gigabytes or minutes.
fn hostile() -> Vec<(&'static str, Grammar)> {
    let lists =
        |depth: usize, around: fn(Value) -> Value| (0..depth).fold(json!({}), |it, _| around(it));
    let wide: Value = (0..20_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let text = |pattern: &str| json!({"type": "string", "pattern": pattern});
    vec![
        ("100 lists", schema(lists(100, |it| json!({"type": "array", "items": it})))),
        (
            "50 long lists",
            schema(lists(
                50,
                |it| json!({"type": "array", "items": it, "minItems": 40, "maxItems": 900}),
            )),
        ),
        ("20,000 properties", schema(json!({"type": "object", "properties": wide}))),
        ("1,024 objects", schema(multiplied(10))),
        ("2^25 objects", schema(multiplied(25))),
        ("optional letters", schema(text("^(((a?){60}){60}){60}$"))),
        ("choices", schema(text("^([a-z]*x[a-z]{20}|[a-z]*y[a-z]{30}){50}$"))),
        ("repetitions", schema(text("^((a{1,900}){1,900}){1,900}$"))),
        ("states of a search", schema(text("^(.*a.{900}){30}$"))),
        ("an ambiguous rule", Grammar::gbnf("root ::= root root | root | [a-z]").unwrap()),
        (
            "20,000 alternatives",
            Grammar::gbnf(&format!("root ::= \"a\"{}", " | \"b\"".repeat(20_000))).unwrap(),
        ),
    ]
}

#[test]
fn a_schema_whose_answers_would_end_in_too_long_a_row_is_refused_before_the_first() {
    assert_eq!(
        refusal(&schema(multiplied(10))),
        "the JSON schema cannot be followed: 48128 alternatives at one place; at most 2000 are allowed"
    );
    assert!(plain().1.start(&schema(multiplied(4))).is_ok());
}

#[test]
fn a_hostile_schema_takes_a_bounded_number_of_steps() {
    let (vocabulary, factory) = plain();
    let limits = factory::limits();
    let mut followed = 0;
    for (what, grammar) in hostile() {
        // The lexer's expressions, which of them match anything, and the longest of them in advance: a limit each.
        if let Some(work) = factory.compiling(&grammar) {
            println!("{what}: compiled with {work:?}");
            assert!(work.fuel <= 3 * limits.initial_lexer_fuel, "{what}: {work:?}");
            assert!(work.items <= limits.step_max_items, "{what}: {work:?}");
        }
        let Ok(mut constraint) = factory.start(&grammar) else { continue };
        for byte in b"\"xxyyxyxyxyxyxyxxxyyxyxyxyxyx" {
            let is_followed = constraint.mask(&mut vec![0.0; vocabulary.len()]).is_ok();
            let Some(work) = constraint.masking().filter(|_| is_followed) else { break };
            assert!(work.fuel <= limits.step_lexer_fuel, "{what}: {work:?}");
            assert!(work.items <= limits.step_max_items, "{what}: {work:?}");
            followed += 1;
            if constraint.accept(Token(i32::from(*byte))).is_err() {
                break;
            }
        }
    }
    assert!(followed > 10, "{followed} masks");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_schema_makes_the_factory_panic(
        keys in prop::collection::vec(prop::sample::select(vec![
            "type", "enum", "const", "minimum", "maxLength", "pattern", "required", "items", "anyOf",
            "allOf", "properties", "additionalProperties", "$ref", "format", "x-guidance", "minItems",
        ]), 0..4),
        values in prop::collection::vec(prop::sample::select(vec![
            json!("string"), json!("object"), json!(["string", 1]), json!(-1), json!(1e300), json!(null),
            json!({}), json!([]), json!([{"type": "integer"}]), json!({"a": {"type": "array"}}), json!("#"),
            json!({"lenient": true}), json!("["),
        ]), 4),
    ) {
        let members = keys.into_iter().map(str::to_owned).zip(values);
        let _ = plain().1.start(&schema(members.collect()));
    }
}
