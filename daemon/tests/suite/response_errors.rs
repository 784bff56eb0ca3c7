//! OpenAI's Responses API: the errors of requests.

use serde_json::json;

use crate::common::{Plan, World};
use crate::responses::{ROUTE, light, respond, say};

#[test]
fn what_is_wrong_is_named_as_the_client_wrote_it() {
    let world = World::new();
    for (body, param, code) in [
        (json!({}), "input", "missing"),
        (json!({"input": 1}), "input", "invalid_type"),
        (json!({"input": []}), "input", "invalid_value"),
        (json!({"input": [{"role": "pope", "content": "x"}]}), "input[0].role", "invalid_value"),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
            "input[0].content[0].type",
            "unsupported",
        ),
        (json!({"input": [{"type": "web_search_call"}]}), "input", "invalid_value"),
        (
            json!({"input": [{"type": "functon_call", "call_id": "c", "name": "f", "arguments": "{}"}]}),
            "input[0].type",
            "invalid_value",
        ),
        (
            json!({"input": [{"type": "item_reference", "id": "msg_1"}]}),
            "input[0].id",
            "item_not_found",
        ),
        (json!({"input": "x", "max_output_tokens": 0}), "max_output_tokens", "invalid_value"),
        (json!({"input": "x", "temperature": 3}), "temperature", "invalid_value"),
        (json!({"input": "x", "background": true}), "background", "unsupported"),
        (json!({"input": "x", "tools": [{"type": "shell"}]}), "tools[0].type", "unsupported"),
        (
            json!({"input": "x", "tools": [{"type": "web_search"}, {"type": "function", "name": "a b"}]}),
            "tools[1].name",
            "invalid_value",
        ),
        (
            json!({"input": "x", "tools": [{"type": "namespace", "name": "home", "tools": [
                   {"type": "function", "name": "a b"}]}]}),
            "tools[0].tools[0].name",
            "invalid_value",
        ),
        (
            json!({"input": "x", "tools": [{"type": "custom", "name": "c", "format": {
                   "type": "grammar", "syntax": "regex", "definition": "a(?=b)"}}]}),
            "tools[0].format.definition",
            "grammar",
        ),
        (
            json!({"input": "x", "tools": [{"type": "custom", "name": "c", "format": {
                   "type": "grammar", "syntax": "lark", "definition": "start: \"a\" start?"}}]}),
            "tools[0].format.definition",
            "grammar",
        ),
        (
            json!({"input": [{"type": "custom_tool_call", "call_id": "c", "name": "f"}]}),
            "input[0].input",
            "missing",
        ),
        (json!({"input": "x", "tool_choice": "required"}), "tool_choice", "invalid_value"),
        (
            json!({"input": "x", "tools": [light()], "tool_choice": {"type": "function", "name": "g"}}),
            "tool_choice.name",
            "invalid_value",
        ),
        (
            json!({"input": "x", "tools": [light()], "tool_choice": {"type": "allowed_tools",
                   "mode": "auto", "tools": [{"type": "function", "name": "g"}]}}),
            "tool_choice.tools[0].name",
            "invalid_value",
        ),
        (
            json!({"input": "x", "tools": [light()], "tool_choice": {"type": "allowed_tools",
                   "mode": "all", "tools": [{"type": "function", "name": "light"}]}}),
            "tool_choice.mode",
            "invalid_value",
        ),
        (
            json!({"input": "x", "text": {"format": {"type": "xml"}}}),
            "text.format.type",
            "invalid_value",
        ),
        (
            json!({"input": "x", "text": {"format": {"type": "json_schema", "name": "n"}}}),
            "text.format.schema",
            "missing",
        ),
        (
            json!({"input": "x", "previous_response_id": "resp_missing"}),
            "previous_response_id",
            "previous_response_not_found",
        ),
        (json!({"input": "x", "conversation": "a\nb"}), "conversation", "invalid_value"),
        (json!({"input": "x", "hob": {"append": true}}), "hob.append", "unsupported"),
    ] {
        let answer = world.post(ROUTE, body.clone());
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        let error = answer.error();
        assert_eq!(
            (error["param"].as_str(), error["code"].as_str()),
            (Some(param), Some(code)),
            "{body}"
        );
        assert_eq!(error["type"], "invalid_request_error");
        assert!(!error["message"].as_str().unwrap().contains("messages["), "{error}");
    }
    assert_eq!(world.get("/v1/conversations").json()["data"], json!([]), "nothing is stored");
}

#[test]
fn a_response_without_a_question_is_refused_in_words_of_its_api() {
    let world = World::new();
    let response = respond(&world, json!({"input": say("Hi")}));
    let empty = json!({"input": [], "previous_response_id": response["id"]});
    let refused = world.post(ROUTE, empty).error();
    assert_eq!((&refused["param"], &refused["code"]), (&json!("input"), &json!("invalid_value")));
    assert!(!refused["message"].as_str().unwrap().contains("hob."), "{refused}");
}

#[test]
fn a_prompt_that_does_not_fit_is_an_error_of_the_input() {
    let world = Plan::new().context_tokens(64).start();
    let error = world.post(ROUTE, json!({"input": "long ".repeat(50)})).error();
    assert_eq!(
        (&error["param"], &error["code"]),
        (&json!("input"), &json!("context_length_exceeded"))
    );
    let mut body = json!({"input": "long ".repeat(50)});
    body["stream"] = true.into();
    let answer = world.post(ROUTE, body);
    assert!(answer.text().contains("context_length_exceeded"), "{}", answer.text());
}

#[test]
fn unknown_ids_and_what_is_not_there_are_answered_with_404_and_a_reason() {
    let world = World::new();
    for (method, path) in [
        ("GET", "/v1/responses/resp_missing"),
        ("GET", "/v1/responses/resp_7_nowhere"),
        ("GET", "/v1/responses/resp_7_nowhere/input_items"),
        ("DELETE", "/v1/responses/resp_missing"),
        ("POST", "/v1/responses/resp_missing/cancel"),
    ] {
        let answer = world.call(method, path).send();
        assert_eq!(
            (answer.status, answer.error()["code"].as_str()),
            (404, Some("response_not_found")),
            "{path}"
        );
    }
    let response = respond(&world, json!({"input": say("Hi")}));
    let path = format!("{ROUTE}/{}", response["id"].as_str().unwrap());
    let cancelled = world.post(&format!("{path}/cancel"), json!({}));
    assert_eq!((cancelled.status, cancelled.error()["code"].as_str()), (400, Some("unsupported")));
    let streamed = world.get(&format!("{path}?stream=true"));
    assert_eq!((streamed.status, &streamed.error()["param"]), (400, &json!("stream")));
    assert_eq!(world.get("/responses/resp_missing").status, 404);
    assert_eq!(world.post("/responses/", json!({"input": say("Hi")})).status, 200);
    assert_eq!(world.get(ROUTE).status, 405);
}

#[test]
fn stored_items_of_an_input_have_a_bound_together() {
    let world = Plan::new().body_bytes(2 << 20).start();
    let item = json!({"role": "user", "content": "a".repeat(1 << 20)});
    let conversation = world.post("/v1/conversations", json!({"items": [item]})).json();
    let route = format!("/v1/conversations/{}/items", conversation["id"].as_str().unwrap());
    let stored = world.get(&route).json()["data"][0]["id"].clone();
    let reference = json!({"type": "item_reference", "id": stored});
    let refused = world.post(ROUTE, json!({"input": vec![reference; 16]}));
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("input[15]")));
}
