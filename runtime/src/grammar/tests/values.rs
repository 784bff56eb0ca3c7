//! Values of arguments that are not JSON.

use super::forms::takes;
use super::*;

fn call_of(dialect: Dialect, properties: &Value) -> Grammar {
    let place =
        json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
    let parameters = json!({
        "type": "object", "properties": properties,
        "$defs": {
            "size": {"enum": ["s", "m"]},
            "place": place,
            "places": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "boolean"}]},
        },
    });
    let strictness = Strictness::Lenient;
    let tool = ToolSignature { name: "f".to_owned(), parameters: Some(parameters), strictness };
    Grammar::tool_call(dialect, &[tool], Calls::One).unwrap()
}

#[test]
fn a_value_in_a_tag_is_a_text_or_follows_the_schemas_that_its_own_refers_to() {
    let grammar = call_of(
        Dialect::QwenCoder,
        &json!({
            "size": {"$ref": "#/$defs/size"},
            "place": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
            "places": {"anyOf": [{"$ref": "#/$defs/places"}, {"type": "null"}]},
            "fit": {"anyOf": [{"$ref": "#/$defs/size"}, {"const": "xl"}]},
            "mood": {"enum": ["good", null]},
            "text": {"type": "string"},
        }),
    );
    for (key, value, is_taken) in [
        ("text", "<a>\n  <parameter>1</parameter>\n</a>", true),
        ("size", "s", true),
        ("size", "xl", false),
        ("place", "{\"x\": 1}", true),
        ("place", "null", true),
        ("place", "{\"x\": \"here\"}", false),
        ("place", "here", false),
        ("places", "{\"x\": 1}", true),
        ("places", "null", true),
        ("places", "here", false),
        ("fit", "m", true),
        ("fit", "xl", true),
        ("fit", "xs", false),
        ("mood", "good", true),
        ("mood", "null", true),
        ("mood", "bad", false),
    ] {
        let argument = format!("<parameter={key}>\n{value}\n</parameter>");
        let call = format!("<tool_call>\n<function=f>\n{argument}\n</function>\n</tool_call>");
        assert_eq!(takes(&grammar, &call), is_taken, "{call}");
    }
}

#[test]
fn a_value_of_gemma_follows_its_schema_or_has_any_depth() {
    let item = json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "tags": {"type": ["array", "null"], "items": {"type": "string"}},
    }});
    let grammar = call_of(
        Dialect::Gemma4,
        &json!({
            "items": {"anyOf": [{"type": "array", "items": item}, {"type": "null"}]},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "fit": {"anyOf": [{"$ref": "#/$defs/size"}, {"const": "xl"}]},
            "name": {"oneOf": [{"enum": ["a"]}, {"const": "b"}]},
            "mood": {"enum": ["good", null]},
            "any": {},
        }),
    );
    for (arguments, is_taken) in [
        ("items:[{n:1,tags:[@a@]},{tags:null}]", true),
        ("items:null", true),
        ("items:[1]", false),
        ("items:[{n:@a@}]", false),
        ("items:@a@", false),
        ("headers:{Content-Type:@a@,x:@b@}", true),
        ("headers:{x:1}", false),
        ("fit:@m@", true),
        ("fit:@xl@", true),
        ("fit:@xs@", false),
        ("name:@b@", true),
        ("name:@c@", false),
        ("mood:@good@", true),
        ("mood:null", true),
        ("mood:@bad@", false),
        ("any:{a b:[{c:[{d:[1,{e:@f@}]},[]]}],g:{}}", true),
        ("any:@a@", true),
        ("any:a", false),
    ] {
        let arguments = arguments.replace('@', "<|\"|>");
        let call = format!("<|tool_call>call:f{{{arguments}}}<tool_call|>");
        assert_eq!(takes(&grammar, &call), is_taken, "{call}");
    }
}

fn lark_of(dialect: Dialect, parameters: Value) -> String {
    let strictness = Strictness::Lenient;
    let tool = ToolSignature { name: "f".to_owned(), parameters: Some(parameters), strictness };
    let grammar = Grammar::tool_call(dialect, &[tool], Calls::One).unwrap();
    grammar.to_lark(&|_| None)
}

#[test]
fn parameters_do_not_multiply_definitions() {
    let definitions = json!({"a": {"type": "object", "description": "a ".repeat(50_000)}});
    for dialect in [Dialect::QwenCoder, Dialect::Gemma4, Dialect::Lfm2] {
        let length = |schema: &dyn Fn(usize) -> Value| {
            let properties = (0..400).map(|n| (format!("p{n}"), schema(n)));
            let properties: serde_json::Map<String, Value> = properties.collect();
            lark_of(dialect, json!({"properties": properties, "$defs": definitions})).len()
        };
        let alone = length(&|_| json!({"type": "integer"}));
        assert!(alone < 1 << 20, "{dialect:?}: {alone} bytes");
        let referring =
            length(&|n| json!({"type": "integer", "not": {"$ref": "#/$defs/a"}, "maximum": n}));
        assert!(referring < 17 << 20, "{dialect:?}: {referring} bytes");
    }
}

#[test]
fn alternatives_of_gemma_that_lead_to_themselves_are_any_value() {
    let itself = vec![json!({"$ref": "#/$defs/m"}); 1000];
    let parameters = json!({
        "properties": {"a": {"$ref": "#/$defs/m"}}, "$defs": {"m": {"anyOf": itself}},
    });
    let lark = lark_of(Dialect::Gemma4, parameters);
    assert!(lark.lines().count() < 50, "{lark}");
}
