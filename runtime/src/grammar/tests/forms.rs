//! Schemas as clients send them, and forms beside JSON.

use super::*;

fn lenient(schema: Value) -> Grammar {
    Grammar::json_schema(&schema, Strictness::Lenient).unwrap()
}

fn walked(grammar: &Grammar, seed: u64) -> String {
    let (vocabulary, factory) = plain();
    walk(vocabulary, factory, grammar, seed)
}

/// Whether the whole text is an answer.
pub(super) fn takes(grammar: &Grammar, text: &str) -> bool {
    let mut constraint = plain().1.start(grammar).unwrap();
    let bytes = text.bytes().map(|byte| Token(i32::from(byte)));
    bytes.into_iter().all(|byte| constraint.accept(byte).is_ok()) && constraint.may_stop()
}

#[test]
fn an_object_has_the_keys_that_its_schema_declares_at_every_depth() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/inner"}, "n": {"type": "integer"}},
        "required": ["a"],
        "$defs": {"inner": {"type": "object", "properties": {"b": {"type": "boolean"}}}},
    });
    for seed in 0..10 {
        let value: Value = serde_json::from_str(&walked(&lenient(schema.clone()), seed)).unwrap();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert!(keys(&value).iter().all(|key| ["a", "n"].contains(&key.as_str())), "{value}");
        assert!(keys(&value["a"]).iter().all(|key| key == "b"), "{value}");
    }
    let open = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true});
    assert!(takes(&lenient(open), r#"{"a": 1, "b": 2}"#));
    let base =
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let more =
        json!({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]});
    let both = json!({"allOf": [{"$ref": "#/$defs/base"}, more], "$defs": {"base": base}});
    let both = lenient(both);
    assert!(takes(&both, r#"{"a": 1, "b": 2}"#));
    assert!(!takes(&both, r#"{"a": 1, "b": 2, "c": 3}"#));
    let kind = |name: &str| {
        json!({"type": "object", "properties": {"kind": {"const": name}, name: {"type": "integer"}},
            "required": ["kind", name]})
    };
    let kinds = lenient(json!({
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "oneOf": [kind("x"), kind("y")],
    }));
    for (text, is_taken) in [
        (r#"{"a": 1, "kind": "x", "x": 2}"#, true),
        (r#"{"a": 1, "kind": "y", "y": 2}"#, true),
        (r#"{"a": 1, "kind": "x", "x": 2, "y": 2}"#, false),
        (r#"{"a": 1, "kind": "x", "x": 2, "z": 2}"#, false),
    ] {
        assert_eq!(takes(&kinds, text), is_taken, "{text}");
    }
}

#[test]
fn what_cannot_be_followed_of_a_schema_is_ignored_unless_it_is_strict() {
    for (schema, text) in [
        (json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}), "[1, 1]"),
        (json!({"type": "string", "format": "password"}), r#""x""#),
        (json!({"type": "string", "pattern": r"^(?!\.)(?!.*\.\.)[a-z.]+@[a-z]+$"}), r#""a@b""#),
        (
            json!({"type": "object", "additionalProperties": false, "patternProperties": {
                "^(?!x-)[a-z]+$": {"type": "integer"}, "^x-": {"type": "null"},
            }}),
            r#"{"a": 1, "x-b": null}"#,
        ),
        (json!({"type": "integer", "not": {"const": 3}}), "3"),
        (json!({"type": "integer", "if": {"const": 3}, "then": {"const": 4}}), "3"),
        (json!({"type": "object", "propertyNames": {"pattern": "a"}}), r#"{"b": 1}"#),
        (json!({"type": "array", "contains": {"const": 1}, "items": {"type": "integer"}}), "[]"),
        (
            json!({"type": "object", "properties": {"a": {"type": "null"}},
                "dependentRequired": {"a": ["b"]}, "unevaluatedProperties": false}),
            r#"{"a": null}"#,
        ),
    ] {
        assert!(takes(&lenient(schema.clone()), text), "{schema}");
        let strict = Grammar::json_schema(&schema, Strictness::Strict).unwrap();
        let refused = plain().1.start(&strict).unwrap_err().to_string();
        assert!(refused.starts_with("the JSON schema cannot be followed"), "{schema}: {refused}");
    }
    let tool = |strictness| {
        let parameters = json!({"type": "object", "properties": {
            "names": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
        }});
        let tool = ToolSignature { name: "f".to_owned(), parameters: Some(parameters), strictness };
        let grammar =
            |dialect| Grammar::tool_call(dialect, std::slice::from_ref(&tool), Calls::One).unwrap();
        Dialect::ALL.map(|dialect| plain().1.start(&grammar(dialect)).is_ok())
    };
    assert!(tool(Strictness::Lenient).into_iter().all(|is_followed| is_followed));
    assert!(!tool(Strictness::Strict)[0]);
}

#[test]
fn a_whole_pattern_is_that_of_the_text_and_not_of_its_json() {
    for (expression, text, is_taken) in [
        ("[0-9]{3}", "042", true),
        ("[0-9]{3}", "0421", false),
        ("^a|b$", "b", true),
        ("^a|b$", "ab", false),
        (r"(.+\n)+", "one \"two\"\n\\é/\n", true),
        (r"(.+\n)+", "one\n\n", false),
    ] {
        let pattern = json!({"type": "string", "pattern": whole_pattern(expression).unwrap()});
        let json = Value::from(text).to_string();
        assert_eq!(takes(&schema(pattern), &json), is_taken, "{expression} {json}");
    }
}

#[test]
fn a_regular_lark_grammar_is_a_pattern() {
    let patch = "start: begin line+ end\nbegin: \"*** Begin\" LF\nline: \"+\" /(.*)/ LF -> added\n  \
                 | \"-\" /(.*)/ LF\nend: \"*** End\" LF?\n\n%import common.LF\n";
    let pattern = json!({"type": "string", "pattern": lark_pattern(patch).unwrap()});
    for (text, is_taken) in [
        ("*** Begin\n+a \"b\"\n-\n*** End", true),
        ("*** Begin\n+a\n*** End\n", true),
        ("*** Begin\n*** End\n", false),
        ("*** Begin\n+a\n b\n*** End\n", false),
        ("+a\n", false),
    ] {
        let json = Value::from(text).to_string();
        assert_eq!(takes(&schema(pattern.clone()), &json), is_taken, "{json}");
    }
}

#[test]
fn a_gbnf_grammar_is_followed() {
    let chess = "root ::= move (\" \" move)* # a game\nmove ::= [a-h] [1-8]{1,2} | castle\n\
                 castle ::= \"O-O\" \"-O\"?\n";
    let json = "root ::= value\nvalue ::= object | array | string | number\n\
                object ::= \"{\" ws (pair (\",\" ws pair)*)? \"}\"\npair ::= string \":\" ws value\n\
                array ::= \"[\" ws (\n value\n (\",\" ws value)* )? \"]\"\n\
                string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\/bfnrt])* \"\\\"\"\n\
                number ::= \"-\"? (\"0\" | [1-9] [0-9]*)\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";
    for (grammar, text, is_taken) in [
        (r#"root ::= "yes""#, "yes", true),
        (r#"root ::= "yes""#, "no", false),
        (chess, "e4 O-O-O", true),
        (chess, "e44 e444", false),
        ("root ::= .+ \"\\u00e9\"\n", "ab\u{e9}", true),
        ("root ::= [^a-c\\]] [-x]\n\n", "d-", true),
        ("root ::= [^a-c\\]] [-x]", "]-", false),
        ("root ::=\n  \"a\"\n  | \"b\"", "b", true),
        (json, r#"{"a": [1, -2, "x\n"], "b": {}}"#, true),
        (json, r#"{"a": [1,,2]}"#, false),
    ] {
        assert_eq!(takes(&Grammar::gbnf(grammar).unwrap(), text), is_taken, "{grammar} {text}");
    }
    for seed in 0..5 {
        let answer = walked(&Grammar::gbnf(json).unwrap(), seed);
        assert!(serde_json::from_str::<Value>(&answer).is_ok(), "{answer}");
    }
}

#[test]
fn an_unusable_gbnf_is_refused_with_its_reason() {
    let chain = |rules: usize| {
        let rule = |n| format!("r{n} ::= \"a\" r{} | \"b\" root\n", n + 1);
        let text: String = (0..rules).map(rule).collect();
        format!("root ::= r0\n{text}r{rules} ::= \"c\"")
    };
    for (grammar, reason) in [
        ("", "no rule `root`"),
        ("root ::= other", "no rule `other`"),
        ("root = \"a\"", "`::=` is missing"),
        ("root ::= \"a", "no end"),
        ("root ::= [a", "no end"),
        ("root ::= (\"a\"", "no end"),
        ("root ::= []", "empty"),
        ("root ::= \"a\"{3,2}", "no count"),
        ("root ::= \"a\"{1000000}", "no count"),
        ("root ::= \"a\"**", "two marks"),
        ("root ::= <[1]>", "not supported"),
        ("root ::= \"\\q\"", "escape"),
        (&"(".repeat(100_000).replacen('(', "root ::= (", 1), "groups"),
        (&chain(2_000), "1000 rules"),
        (&chain(900), "100 rules inside"),
    ] {
        let refused = Grammar::gbnf(grammar).unwrap_err().to_string();
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
    // Every rule of the longest chain is within another one.
    let long = Grammar::gbnf(&chain(97)).unwrap();
    assert!(takes(&long, &format!("ab{}c", "a".repeat(97))));
}

#[test]
fn a_regular_expression_and_a_choice_are_followed() {
    let regex = |expression: &str| Grammar::regex(expression).unwrap();
    for (expression, text, is_taken) in [
        (r"^\d{2}/\d{2}$", "12/34", true),
        (r"^\d{2}/\d{2}$", "12/345", false),
        ("a|b\n", "b\n", true),
        (r"\$", "$", true),
        (r"^C:\\$", r"C:\", true),
        (r"^C:\\$", r"C:\$", false),
    ] {
        assert_eq!(takes(&regex(expression), text), is_taken, "{expression} {text}");
    }
    assert!(Grammar::regex("^$").is_err());
    assert!(plain().1.start(&regex("(")).is_err());
    let texts = ["yes".to_owned(), "a \"b\"\n/".to_owned()];
    let choice = Grammar::choice(&texts).unwrap();
    assert!(texts.iter().all(|text| takes(&choice, text)) && !takes(&choice, "no"));
    assert!(Grammar::choice(&[]).is_err());
}

#[test]
fn the_first_character_of_a_text_may_be_forbidden() {
    for first in ['<', '[', '\\', '｜'] {
        let grammar = Grammar::not_beginning_with(first);
        for text in ["", "a", "\n a\n<x>", &format!("é{first}{first}")] {
            assert!(takes(&grammar, text), "{first} {text:?}");
        }
        for text in [format!("{first}a"), format!("\n{first}"), "\n\n\n".to_owned()] {
            assert!(!takes(&grammar, &text), "{first} {text:?}");
        }
    }
}

#[test]
fn a_form_of_gpt_oss_is_the_text_of_a_message_that_reasoning_may_precede() {
    let form = || lenient(json!({"type": "integer"})).of_message(Dialect::Harmony);
    let called = Grammar::tool_call(Dialect::Harmony, &add_and_greet(), Calls::One).unwrap();
    let thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
    let call = "<|channel|>commentary to=functions.greet <|constrain|>json<|message|>{}";
    for (text, is_taken) in [
        ("<|channel|>final<|message|>5".to_owned(), [true, true]),
        (format!("{thought}<|channel|>final<|message|>5"), [true, true]),
        (format!("{thought}{call}"), [false, true]),
        ("5".to_owned(), [false, false]),
        (format!("{thought}<|channel|>final<|message|>x"), [false, false]),
    ] {
        let grammars = [form(), called.clone().or(form())];
        assert_eq!(grammars.map(|grammar| takes(&grammar, &text)), is_taken, "{text}");
    }
    let lark = Grammar::lark("start: \"yes\"").of_message(Dialect::Harmony);
    assert!(takes(&lark, "<|channel|>final<|message|>yes"));
    assert!(takes(&lenient(json!({"type": "integer"})).of_message(Dialect::Hermes), "5"));
}

#[test]
fn an_answer_calls_a_tool_or_has_the_form() {
    for controls in [&[][..], &MARKS] {
        let vocabulary = vocabulary(controls);
        let factory = GrammarFactory::new(&vocabulary);
        for dialect in Dialect::ALL {
            let calls = Grammar::tool_call(dialect, &add_and_greet(), Calls::Several).unwrap();
            let grammar = calls.or(schema(person()));
            let (mut called, mut formed) = (0, 0);
            for seed in 0..6 {
                let answer = walk(&vocabulary, &factory, &grammar, seed);
                match serde_json::from_str::<Value>(&answer) {
                    Ok(value) if value.get("age").is_some() => {
                        assert_person(&value);
                        formed += 1;
                    }
                    _ => called += assert_calls_fit(dialect, &answer),
                }
            }
            assert!(called + formed > 0, "{dialect:?}");
        }
    }
    let grammar = Grammar::tool_call(Dialect::Hermes, &add_and_greet(), Calls::One).unwrap();
    let either = grammar.or(Grammar::json_object());
    assert!(takes(&either, r#"{"x": 1}"#));
    let call =
        "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>";
    assert!(takes(&either, call) && !takes(&either, "Hello"));
}
