//! Forms of answers under each name that clients give them, on every route: JSON of a schema, grammars, expressions
//! and choices.

use serde_json::{Value, json};

use crate::common::{World, merged, user};

const CHAT: &str = "/v1/chat/completions";

/// Routes whose answer may have a form; each has a field for JSON of a schema that takes the place of
/// `response_format`, or `None` where that is its name.
const FORMED: [(&str, Option<&str>); 7] = [
    (CHAT, None),
    ("/v1/completions", None),
    ("/completion", None),
    ("/v1/responses", Some("text.format")),
    ("/v1/messages", Some("output_config.format")),
    ("/api/chat", Some("format")),
    ("/api/generate", Some("format")),
];

/// A request of the route with these fields.
fn formed_body(path: &str, extra: &Value) -> Value {
    let messages = json!([user("Tell me something.")]);
    let prompt = "Something: ";
    let body = match path {
        "/v1/completions" => json!({"prompt": prompt, "max_tokens": 200, "seed": 3}),
        "/completion" => json!({"prompt": prompt, "n_predict": 200, "seed": 3}),
        "/v1/responses" => json!({"input": messages, "max_output_tokens": 200, "seed": 3}),
        "/api/chat" => json!({"messages": messages, "stream": false, "options": {"seed": 3}}),
        "/api/generate" => json!({"prompt": prompt, "stream": false, "options": {"seed": 3}}),
        _ => json!({"messages": messages, "max_tokens": 200, "seed": 3}),
    };
    merged(body, extra)
}

/// The text of an answer, as its route has it.
fn formed_text(path: &str, answer: &Value) -> String {
    let place = match path {
        CHAT => "/choices/0/message/content",
        "/v1/completions" => "/choices/0/text",
        "/completion" => "/content",
        "/v1/responses" => "/output/0/content/0/text",
        "/v1/messages" => "/content/0/text",
        "/api/chat" => "/message/content",
        _ => "/response",
    };
    let text = answer.pointer(place).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("{path}: {answer}")).to_owned()
}

/// The texts of the answers of each route that has the fields.
fn formed(world: &World, extra: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for (path, own) in FORMED {
        let answer = world.post(path, formed_body(path, extra));
        if let Some(own) = own.filter(|_| extra.get("response_format").is_some()) {
            let text = answer.text();
            assert_eq!(answer.status, 400, "{path} {extra}: {text}");
            assert!(text.contains("`response_format`") && text.contains(own), "{path}: {text}");
            continue;
        }
        assert_eq!(answer.status, 200, "{path} {extra}: {}", answer.text());
        texts.push(formed_text(path, &answer.json()));
    }
    texts
}

#[test]
fn a_form_is_followed_under_each_name() {
    let world = World::new();
    let schema = json!({
        "type": "object", "required": ["a"],
        "properties": {"a": {"type": "object", "properties": {"b": {"enum": [1, 2]}}, "required": ["b"]}},
    });
    for extra in [
        json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}),
        json!({"response_format": {"type": "json_object", "schema": schema}}),
        json!({"json_schema": schema}),
        json!({"guided_json": schema}),
        json!({"structured_outputs": {"json": schema}}),
    ] {
        for text in formed(&world, &extra) {
            let value: Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{extra}: {text}"));
            assert!(
                ["{\"a\":{\"b\":1}}", "{\"a\":{\"b\":2}}"].contains(&value.to_string().as_str())
            );
        }
    }
    for extra in [
        json!({"grammar": "root ::= \"yes\" | \"no\""}),
        json!({"guided_grammar": "root ::= word\nword ::= \"yes\" | \"no\""}),
        json!({"guided_choice": ["yes", "no"]}),
        json!({"guided_regex": "(yes|no)"}),
        json!({"regex": "(yes|no)"}),
        json!({"ebnf": "root ::= \"yes\" | \"no\""}),
        json!({"structured_outputs": {"choice": ["yes", "no"]}}),
    ] {
        let texts = formed(&world, &extra);
        assert!(texts.iter().all(|text| text == "yes" || text == "no"), "{extra}: {texts:?}");
    }
}

#[test]
fn an_object_of_several_schemas_has_their_keys_alone() {
    let world = World::new();
    let part = |key: &str| json!({"type": "object", "properties": {key: {"enum": [1, 2]}}, "required": [key]});
    let schema = json!({"allOf": [part("a"), part("b")]});
    for text in formed(&world, &json!({"json_schema": schema})) {
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["a", "b"], "{text}");
    }
}

#[test]
fn a_form_that_cannot_be_followed_is_refused_by_name() {
    let world = World::new();
    let sets = json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true});
    let strict = json!({"type": "json_schema", "json_schema": {"schema": sets, "strict": true}});
    for (extra, param) in [
        (json!({"grammar": "root ::= missing"}), "grammar"),
        (json!({"grammar": "start: \"a\""}), "grammar"),
        (json!({"grammar": "root ::= \"a\"", "grammar_lazy": true}), "grammar_lazy"),
        (
            json!({"structured_outputs": {"json": {}, "whitespace_pattern": " "}}),
            "structured_outputs.whitespace_pattern",
        ),
        (json!({"guided_regex": "("}), "guided_regex"),
        (json!({"guided_choice": []}), "guided_choice"),
        (json!({"json_schema": {"type": "strange"}}), "json_schema"),
        (
            json!({"structured_outputs": {"structural_tag": "x"}}),
            "structured_outputs.structural_tag",
        ),
        (json!({"structural_tag": {"begin": "<a>"}}), "structural_tag"),
        (json!({"response_format": strict}), "response_format.json_schema.schema"),
        (json!({"response_format": {"type": "json_object"}, "guided_regex": "a"}), "guided_regex"),
    ] {
        for (path, own) in FORMED {
            let answer = world.post(path, formed_body(path, &extra));
            let text = answer.text();
            assert_eq!(answer.status, 400, "{path} {extra}: {text}");
            let is_of_chats = own.is_some() && extra.get("response_format").is_some();
            let param = if is_of_chats { "response_format" } else { param };
            match path {
                // Their errors have nothing but a message.
                "/v1/messages" | "/api/chat" | "/api/generate" => {
                    assert!(text.contains(&format!("`{param}`")), "{path} {extra}: {text}");
                }
                _ => assert_eq!(answer.error()["param"], param, "{path} {extra}"),
            }
        }
    }
    let lenient =
        json!({"response_format": {"type": "json_schema", "json_schema": {"schema": sets}}});
    for text in formed(&world, &lenient) {
        assert!(serde_json::from_str::<Vec<i64>>(&text).is_ok(), "{text}");
    }
}

#[test]
fn parts_of_a_schema_that_cannot_be_followed_are_ignored_unless_it_is_strict() {
    let world = World::new();
    for (schema, expected) in [
        (json!({"type": "string", "format": "password", "pattern": "^[ab]$"}), json!(["a", "b"])),
        (json!({"type": "string", "pattern": r"^(?!\.)[ab]$"}), json!(["a", "b"])),
        (
            json!({"type": "array", "items": {"enum": [1]}, "minItems": 2, "maxItems": 2,
                "uniqueItems": true}),
            json!([[1, 1]]),
        ),
        (json!({"enum": [3], "type": "integer", "not": {"const": 3}}), json!([3])),
        (
            json!({"enum": [3], "type": "integer", "if": {"const": 3}, "then": {"const": 4}}),
            json!([3]),
        ),
        (
            json!({"type": "array", "items": {"enum": [2]}, "minItems": 1, "maxItems": 1,
                "contains": {"const": 1}}),
            json!([[2]]),
        ),
        (
            json!({"type": "object", "properties": {"b": {"enum": [1]}}, "required": ["b"],
                "propertyNames": {"pattern": "a"}}),
            json!([{"b": 1}]),
        ),
        (
            json!({"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"],
                "dependentRequired": {"a": ["b"]}}),
            json!([{"a": 1}]),
        ),
    ] {
        let expected = expected.as_array().unwrap();
        for text in formed(&world, &json!({"json_schema": schema})) {
            let value: Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{schema}: {text}"));
            assert!(expected.contains(&value), "{schema}: {text}");
        }
        let strict =
            json!({"type": "json_schema", "json_schema": {"schema": schema, "strict": true}});
        for (path, _) in FORMED.iter().filter(|(_, own)| own.is_none()) {
            let answer = world.post(path, formed_body(path, &json!({"response_format": strict})));
            assert_eq!(answer.status, 400, "{path} {schema}: {}", answer.text());
            assert_eq!(answer.error()["code"], "grammar", "{path} {schema}");
        }
    }
}

#[test]
fn a_protocols_own_form_is_the_only_one() {
    let world = World::new();
    let schema = json!({"enum": [1, 2]});
    let format = json!({"type": "json_schema", "name": "n", "schema": schema});
    for (path, own) in [
        ("/v1/responses", json!({"text": {"format": format}})),
        ("/v1/messages", json!({"output_config": {"format": format}})),
        ("/v1/messages", json!({"output_format": format})),
        ("/api/chat", json!({"format": {"type": "integer", "enum": [1, 2]}})),
        ("/api/generate", json!({"format": {"type": "integer", "enum": [1, 2]}})),
    ] {
        let answer = world.post(path, formed_body(path, &own));
        assert_eq!(answer.status, 200, "{own}: {}", answer.text());
        let text = formed_text(path, &answer.json());
        assert!(["1", "2"].contains(&text.as_str()), "{path} {own}: {text}");
        let both = merged(own, &json!({"guided_regex": "a"}));
        let answer = world.post(path, formed_body(path, &both));
        assert_eq!(answer.status, 400, "{both}: {}", answer.text());
        assert!(answer.text().contains("`guided_regex`"), "{}", answer.text());
        let text_of_any_form = json!({"response_format": {"type": "text"}, "grammar": ""});
        assert_eq!(world.post(path, formed_body(path, &text_of_any_form)).status, 200);
    }
    let both = json!({"output_config": {"format": format}, "output_format": format});
    let answer = world.post("/v1/messages", formed_body("/v1/messages", &both));
    assert_eq!(answer.status, 400, "{}", answer.text());
    let of_an_object = json!({"text": {"format": {"type": "json_object", "schema": schema}}});
    let answer = world.post("/v1/responses", formed_body("/v1/responses", &of_an_object));
    let text = formed_text("/v1/responses", &answer.json());
    assert!(["1", "2"].contains(&text.as_str()), "{text}");
}
