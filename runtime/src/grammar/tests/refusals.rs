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

#[test]
fn a_hostile_schema_is_refused_or_followed_quickly() {
    let (vocabulary, factory) = plain();
    let deep = (0..100).fold(json!({}), |inner, _| json!({"type": "array", "items": inner}));
    let wide: Value = (0..20_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let wide = json!({"type": "object", "properties": wide});
    let nested = json!({"type": "string", "pattern": "^(((a?){60}){60}){60}$"});
    let choices = json!({"type": "string", "pattern": "^([a-z]*x[a-z]{20}|[a-z]*y[a-z]{30}){50}$"});
    let start = std::time::Instant::now();
    for hostile in [deep, wide, nested, choices] {
        let Ok(mut constraint) = factory.start(&schema(hostile)) else { continue };
        for byte in b"\"xxyyxyxyxyxyxyxxxyyxyxyxyxyx" {
            let followed = constraint.mask(&mut vec![0.0; vocabulary.len()]);
            if followed.and(constraint.accept(Token(i32::from(*byte)))).is_err() {
                break;
            }
        }
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
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
