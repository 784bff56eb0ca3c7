//! The order of arguments that are not JSON, and of the members of JSON.

use super::*;

/// Whether the grammar lets a model write this.
fn writes(factory: &GrammarFactory, grammar: &Grammar, answer: &str) -> bool {
    let mut constraint = factory.start(grammar).unwrap();
    let accepted = answer.bytes().all(|byte| constraint.accept(Token(byte.into())).is_ok());
    accepted && constraint.may_stop()
}

/// A call of `f` with these arguments.
fn call(dialect: Dialect, keys: &[&str]) -> String {
    let arguments = |write: fn(&str) -> String, between: &str| {
        keys.iter().map(|key| write(key)).collect::<Vec<_>>().join(between)
    };
    match dialect {
        Dialect::Lfm2 => {
            let arguments = arguments(|key| format!("{key}=1"), ", ");
            format!("<|tool_call_start|>[f({arguments})]<|tool_call_end|>")
        }
        Dialect::Gemma4 => {
            let arguments = arguments(|key| format!("{key}:1"), ",");
            format!("<|tool_call>call:f{{{arguments}}}<tool_call|>")
        }
        Dialect::Glm => {
            let write = |key: &str| format!("<arg_key>{key}</arg_key>\n<arg_value>1</arg_value>\n");
            format!("<tool_call>f\n{}</tool_call>", arguments(write, ""))
        }
        _ => {
            let write = |key: &str| format!("<parameter={key}>\n1\n</parameter>\n");
            let arguments = arguments(write, "");
            format!("<tool_call>\n<function=f>\n{arguments}</function>\n</tool_call>")
        }
    }
}

fn tool(keys: impl IntoIterator<Item = String>, required: &[&str]) -> ToolSignature {
    let properties: Value = keys.into_iter().map(|key| (key, json!({"type": "integer"}))).collect();
    let parameters = json!({"type": "object", "properties": properties, "required": required});
    ToolSignature {
        name: "f".to_owned(),
        parameters: Some(parameters),
        strictness: Strictness::Lenient,
    }
}

const FORMS: [Dialect; 4] = [Dialect::QwenCoder, Dialect::Glm, Dialect::Lfm2, Dialect::Gemma4];

#[test]
fn arguments_come_in_any_order_and_each_once() {
    let (_, factory) = plain();
    let tool = tool(["a", "b", "c"].map(str::to_owned), &["a", "b"]);
    for dialect in FORMS {
        let grammar = Grammar::tool_call(dialect, std::slice::from_ref(&tool), Calls::One).unwrap();
        for keys in [&["a", "b"][..], &["b", "a"], &["c", "b", "a"], &["b", "c", "a"]] {
            let answer = call(dialect, keys);
            assert!(writes(factory, &grammar, &answer), "{answer}");
        }
        for keys in [&["a"][..], &["c", "b"], &[], &["a", "b", "a"], &["a", "b", "d"]] {
            let answer = call(dialect, keys);
            assert!(!writes(factory, &grammar, &answer), "{answer}");
        }
    }
}

#[test]
fn a_tool_may_have_more_parameters_than_are_kept_in_mind() {
    let (_, factory) = plain();
    let keys: Vec<String> = (0..100).map(|n| format!("p{n}")).collect();
    let tool = tool(keys, &["p0", "p99"]);
    for dialect in FORMS {
        let grammar = Grammar::tool_call(dialect, std::slice::from_ref(&tool), Calls::One).unwrap();
        for (keys, is_written) in [
            (&["p99", "p3", "p0", "p98"][..], true),
            (&["p0", "p99"], true),
            (&["p0", "p3"], false),
            (&["p0", "p99", "p98", "p98"], false),
        ] {
            let answer = call(dialect, keys);
            assert_eq!(writes(factory, &grammar, &answer), is_written, "{answer}");
        }
    }
}

#[test]
fn a_tool_without_parameters_is_called_without_arguments() {
    let (_, factory) = plain();
    let tool = tool([], &[]);
    for dialect in FORMS {
        let grammar = Grammar::tool_call(dialect, std::slice::from_ref(&tool), Calls::One).unwrap();
        assert!(writes(factory, &grammar, &call(dialect, &[])));
        assert!(!writes(factory, &grammar, &call(dialect, &["a"])));
    }
}

/// The first schema is still compiled when the second one comes.
#[test]
fn schemas_that_differ_in_order_alone_are_followed_each_in_its_own() {
    let factory = GrammarFactory::new(&vocabulary(&[]));
    for keys in [["a", "b"], ["b", "a"]] {
        let tool = tool(keys.map(str::to_owned), &["a", "b"]);
        let parameters = tool.parameters.clone().unwrap();
        let form = Grammar::json_schema(&parameters, Strictness::Lenient).unwrap();
        let called = Grammar::tool_call(Dialect::Hermes, &[tool], Calls::One).unwrap();
        let [first, second] = keys;
        let written = format!("{{\"{first}\": 1, \"{second}\": 1}}");
        let call =
            format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {written}}}\n</tool_call>");
        assert!(writes(&factory, &form, &written), "{written}");
        assert!(writes(&factory, &called, &call), "{call}");
        let turned = format!("{{\"{second}\": 1, \"{first}\": 1}}");
        assert!(!writes(&factory, &form, &turned), "{turned}");
    }
}
