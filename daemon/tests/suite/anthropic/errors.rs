//! Refusals, in Anthropic's form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hob_testkit::Call;
use serde_json::{Value, json};

use super::{COUNT, MESSAGES, World, refused, say, user, with};

#[test]
fn a_wrong_field_is_named_as_the_client_sent_it() {
    let world = World::new();
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let message = |content: Value| json!({"messages": [user(content)]});
    let answered = |block: Value| json!({"messages": [user(json!("Hi")), {"role": "assistant", "content": [block]}, user(json!("Hi"))]});
    for (extra, param) in [
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"max_tokens": "x"}), "max_tokens"),
        (json!({"messages": null}), "messages"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": "Hi"}), "messages"),
        (json!({"messages": [{"role": "tool", "content": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
        (message(json!(7)), "messages[0].content"),
        (message(json!([{"type": "text"}])), "messages[0].content[0].text"),
        (
            message(json!([{"type": "tool_use", "id": "a", "name": "f", "input": {}}])),
            "messages[0].content[0].type",
        ),
        (
            message(json!([{"type": "tool_result", "content": "x"}])),
            "messages[0].content[0].tool_use_id",
        ),
        (
            answered(json!({"type": "tool_use", "id": "a", "name": "f", "input": "x"})),
            "messages[1].content[0].input",
        ),
        (answered(json!({"type": "thinking"})), "messages[1].content[0].thinking"),
        (json!({"system": 7}), "system"),
        (json!({"system": [{"type": "image"}]}), "system[0].type"),
        (
            json!({"system": "Be brief.", "messages": [{"role": "user", "content": "x", "hob": {"key": ""}}]}),
            "messages[0].hob.key",
        ),
        (json!({"tools": [{"name": "f"}]}), "tools[0].input_schema"),
        (json!({"tools": [tool("a b")]}), "tools[0].name"),
        (json!({"tools": [tool("f"), tool("f")]}), "tools[1].name"),
        (json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}), "tools[0].type"),
        (
            json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}, tool("a b")]}),
            "tools[1].name",
        ),
        (
            json!({"tools": [tool("f")], "tool_choice": {"type": "tool", "name": "g"}}),
            "tool_choice.name",
        ),
        (json!({"tools": [tool("f")], "tool_choice": {"type": "required"}}), "tool_choice.type"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice"),
        (json!({"stop_sequences": [1, "x"]}), "stop_sequences[0]"),
        (json!({"temperature": 9}), "temperature"),
        (json!({"thinking": {"type": "on"}}), "thinking.type"),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 0}}), "thinking.budget_tokens"),
        (json!({"output_config": {"effort": "huge"}}), "output_config.effort"),
        (json!({"output_config": {"format": {"type": "text"}}}), "output_config.format.type"),
        (json!({"cache_control": {"type": "ephemeral", "ttl": "2h"}}), "cache_control.ttl"),
        (
            json!({"system": [{"type": "text", "text": "x", "cache_control": {"type": "x"}}]}),
            "system[0].cache_control.type",
        ),
        (json!({"metadata": {"user_id": 7}}), "metadata.user_id"),
        (json!({"mcp_servers": [{}]}), "mcp_servers"),
        (json!({"hob": {"unknown": 1}}), "hob.unknown"),
        (json!({"hob": {"detached": true}, "stream": true}), "hob.detached"),
    ] {
        let answer = world.ask(&say("x", extra.clone()));
        let error = refused(&answer, 400, "invalid_request_error");
        assert_eq!(error["param"], param, "{extra}: {error}");
        assert!(error["message"].as_str().unwrap().contains(param), "{extra}: {error}");
    }
}

#[test]
fn images_of_the_user_are_refused_by_name() {
    let world = World::new();
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}});
    let elsewhere = json!({"type": "document", "source": {"type": "url", "url": "http://a/b.pdf"}});
    let asked = |block: Value| {
        let body = with(json!([user(json!([{"type": "text", "text": "Look"}, block]))]), json!({}));
        refused(&world.ask(&body), 400, "invalid_request_error")
    };
    for (block, param) in
        [(image, "messages[0].content[1].type"), (elsewhere, "messages[0].content[1].source.type")]
    {
        let error = asked(block);
        assert_eq!((&error["param"], &error["code"]), (&json!(param), &json!("unsupported")));
        assert!(error["message"].as_str().unwrap().contains("not supported"), "{error}");
    }
    let pdf = |data: &str| json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}});
    let broken = BASE64.encode("%PDF-1.4\n");
    for (data, param) in [
        ("a", "messages[0].content[1].source.data"),
        (broken.as_str(), "messages[0].content[1].source"),
    ] {
        let error = asked(pdf(data));
        assert_eq!(error["param"], param, "{error}");
        assert!(error["message"].as_str().unwrap().contains(param), "{error}");
    }
}

#[test]
fn every_layer_answers_in_this_form() {
    let world = World::with(&["--max-body-bytes", "4096"]);
    let body = say("x", json!({}));
    let bare = |path: &str| Call::new(world.hobd.client.address, "POST", path).json(&body);
    refused(&bare(MESSAGES).send(), 401, "authentication_error");
    let wrong = bare(MESSAGES).header("x-api-key", "other").send();
    assert_eq!(refused(&wrong, 401, "authentication_error")["code"], "invalid_api_key");
    refused(
        &bare(MESSAGES).header("origin", "http://evil.example").send(),
        403,
        "permission_error",
    );
    refused(&world.call("/v1/messages/batches").json(&body).send(), 404, "not_found_error");
    let compressed = world.hobd.client.call("GET", "/v1/messages/batches");
    refused(&compressed.header("accept-encoding", "gzip").send(), 404, "not_found_error");
    refused(&world.hobd.client.call("GET", MESSAGES).send(), 405, "invalid_request_error");
    refused(&world.ask(&say(&"x".repeat(5_000), json!({}))), 413, "request_too_large");
    let torn = world.call(COUNT).body("{").send();
    assert_eq!(refused(&torn, 400, "invalid_request_error")["code"], "invalid_json");
    // On other paths it is the client that says so.
    let client = || world.hobd.client.call("GET", "/v1/models/claude");
    refused(&client().header("anthropic-version", "2023-06-01").send(), 404, "not_found_error");
    assert_eq!(client().send().error()["code"], "model_not_found");
}

#[test]
fn the_key_of_anthropics_clients_is_the_token_on_every_route() {
    let world = World::new();
    let client = &world.hobd.client;
    for (method, path, body) in [
        ("POST", MESSAGES, say("x", json!({}))),
        ("POST", "/messages", say("x", json!({}))),
        ("POST", "/v1/v1/messages/", say("x", json!({}))),
        ("GET", "/v1/models", Value::Null),
        ("POST", "/v1/chat/completions", say("x", json!({}))),
    ] {
        let call = Call::new(client.address, method, path).header("X-Api-Key", &client.token);
        let answer = call.json(&body).send();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

#[test]
fn a_prompt_that_is_too_long_is_refused_in_the_words_that_clients_know() {
    let world = World::with(&["--ctx", "256", "--slots", "1", "--eviction", "off"]);
    let error =
        refused(&world.ask(&say(&"x".repeat(300), json!({}))), 400, "invalid_request_error");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("prompt is too long: 3"), "{message}");
    assert!(message.contains(" tokens > 256 maximum"), "{message}");
    assert_eq!(error["code"], "context_length_exceeded");
}

#[test]
fn a_full_queue_is_an_overload() {
    let world = World::with(&["--slots", "1", "--queue", "1"]);
    let slow = with(
        json!([user(json!(format!("Say this slowly: {}", "a".repeat(1_000))))]),
        json!({"max_tokens": 1_000, "stream": true}),
    );
    let mut running = world.call(MESSAGES).json(&slow).stream();
    running.next_named().unwrap();
    let _waiting = world.call(MESSAGES).json(&slow).open();
    hob_testkit::wait::until("one request waits", || {
        (world.hobd.client.get("/v1/status")["queue"] == 1).then_some(())
    });
    let answer = world.ask(&say("x", json!({})));
    assert_eq!(refused(&answer, 529, "overloaded_error")["code"], "queue_full");
    assert_eq!(answer.header("retry-after"), Some("1"));
}
