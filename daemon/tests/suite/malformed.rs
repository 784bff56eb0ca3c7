//! Malformed input gets an error that names the wrong field, and affects no other request.

use serde_json::{Value, json};

use crate::common::{World, assistant, user};

#[test]
fn invalid_json_is_refused_without_being_quoted() {
    let world = World::new();
    for body in ["", "{", "secret-words", "[1,", "\"\\ud800\"", "{\"messages\": \u{1}}"] {
        let call = world.call("POST", "/v1/chat/completions");
        let answer = call.header("content-type", "application/json").body(body).send();
        assert_eq!((answer.status, answer.error()["code"].as_str()), (400, Some("invalid_json")));
        assert!(!answer.text().contains("secret-words"));
    }
    let deep = "[".repeat(10_000);
    assert_eq!(world.call("POST", "/tokenize").body(deep).send().status, 400);
    assert_eq!(world.call("POST", "/tokenize").body([0xff, 0xfe]).send().status, 400);
}

#[test]
fn each_endpoint_names_the_field_that_is_wrong() {
    let world = World::new();
    let hi = || json!([user("Hi")]);
    for (path, body, param) in [
        ("/v1/chat/completions", json!([]), Value::Null),
        ("/v1/chat/completions", json!({}), json!("messages")),
        ("/v1/chat/completions", json!({"messages": []}), json!("messages")),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user"}]}),
            json!("messages[0].content"),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            json!("messages[0].content[0].type"),
        ),
        ("/v1/chat/completions", json!({"messages": hi(), "temperature": 9}), json!("temperature")),
        (
            "/v1/chat/completions",
            json!({"messages": hi(), "logit_bias": {"9999": 1}}),
            json!("logit_bias.9999"),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": hi(), "conversation": "a\u{7}"}),
            json!("conversation"),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": hi(), "hob": {"append": true}}),
            json!("hob.append"),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [], "hob": {"append": true}, "conversation": "nothing-yet"}),
            json!("messages"),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": hi(), "tool_choice": "required"}),
            json!("tool_choice"),
        ),
        ("/v1/completions", json!({"prompt": 5}), json!("prompt")),
        ("/v1/completions", json!({"prompt": "a", "echo": true}), json!("echo")),
        ("/v1/embeddings", json!({}), json!("input")),
        ("/tokenize", json!({"content": 1}), json!("content")),
        ("/tokenize", json!({"content": "a", "add_special": "x"}), json!("add_special")),
        ("/detokenize", json!({"tokens": "x"}), json!("tokens")),
        ("/detokenize", json!({"tokens": [1, 100_000]}), json!("tokens[1]")),
    ] {
        let answer = world.post(path, body.clone());
        assert_eq!(answer.status, 400, "{path} {body}");
        let error = answer.error();
        assert_eq!(error["param"], param, "{path} {body}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    assert_eq!(world.conversation("nothing-yet")["error"]["code"], "conversation_not_found");
}

#[test]
fn an_image_is_refused_with_the_remedy() {
    let world = World::new();
    let content = |kind: &str| json!([{"role": "user", "content": [{"type": kind}]}]);
    for (path, body) in [
        ("/v1/chat/completions", json!({"messages": content("image_url")})),
        ("/v1/responses", json!({"input": content("input_image")})),
    ] {
        let answer = world.post(path, body);
        let message = answer.error()["message"].to_string();
        assert_eq!(answer.status, 400, "{message}");
        assert!(message.contains("Hob reads no images; leave the part out, or say"), "{message}");
    }
}

/// A model that reads pictures has answered it.
#[test]
fn a_picture_before_the_last_answer_becomes_words() {
    let world = World::new();
    let url = "data:image/png;base64,AA==";
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AA=="});
    let named = |name: &str| json!({"conversation": name, "max_tokens": 4});
    for (path, list, picture, mut body) in [
        (
            "/v1/chat/completions",
            "messages",
            json!({"type": "image_url", "image_url": {"url": url}}),
            named("chat"),
        ),
        ("/v1/messages", "messages", json!({"type": "image", "source": source}), named("claude")),
        ("/v1/responses", "input", json!({"type": "input_image", "image_url": url}), json!({})),
    ] {
        let look = json!({"role": "user", "content": [{"type": "text", "text": "Look"}, picture]});
        body[list] = json!([look, assistant("A cat."), user("Say this: one")]);
        let answer = world.post(path, body.clone());
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        // Of a response, which names its own.
        let its = answer.json()["conversation"]["id"].as_str().map(str::to_owned);
        let name = its.unwrap_or_else(|| body["conversation"].as_str().unwrap().to_owned());
        let stored = world.conversation(&name)["messages"][0]["content"].clone();
        assert_eq!(
            stored, "Look\n(The user sent a picture. This model reads text alone.)",
            "{path}"
        );
    }
}

/// A client has kept the message in its history.
#[test]
fn a_picture_that_was_refused_does_not_refuse_the_next_message() {
    let world = World::new();
    let url = "data:image/png;base64,AA==";
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AA=="});
    let look = |picture: Value| json!({"role": "user", "content": [{"type": "text", "text": "Look"}, picture]});
    for (path, list, look) in [
        (
            "/v1/chat/completions",
            "messages",
            look(json!({"type": "image_url", "image_url": {"url": url}})),
        ),
        ("/v1/messages", "messages", look(json!({"type": "image", "source": source}))),
        ("/v1/responses", "input", look(json!({"type": "input_image", "image_url": url}))),
        ("/api/chat", "messages", json!({"role": "user", "content": "Look", "images": ["AA=="]})),
    ] {
        let ask = |messages: Value| {
            let mut body = json!({});
            body[list] = messages;
            match path {
                "/v1/responses" => body["max_output_tokens"] = 16.into(),
                "/api/chat" => body["stream"] = false.into(),
                _ => body["max_tokens"] = 4.into(),
            }
            world.post(path, body)
        };
        let refused = ask(json!([look]));
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        let answer = ask(json!([look, user("Say this: one")]));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

/// No model has seen it.
#[test]
fn a_picture_in_front_of_a_begun_answer_is_refused() {
    let world = World::new();
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AA=="});
    let parts = |picture: Value| json!({"role": "user", "content": [picture]});
    for (path, look, more) in [
        (
            "/v1/chat/completions",
            parts(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}})),
            json!({"continue_final_message": true}),
        ),
        (
            "/v1/messages",
            parts(json!({"type": "image", "source": source})),
            json!({"max_tokens": 4}),
        ),
        ("/v1/messages/count_tokens", parts(json!({"type": "image", "source": source})), json!({})),
        (
            "/api/chat",
            json!({"role": "user", "content": "Look", "images": ["AA=="]}),
            json!({"stream": false}),
        ),
    ] {
        let mut body = more;
        body["messages"] = json!([look, assistant("It is")]);
        let answer = world.post(path, body);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.text().contains("Hob reads"), "{path}: {}", answer.text());
    }
    // Nothing is continued: the prompt of a history that ends with the answer.
    let source = json!({"type": "image", "source": source});
    let history = json!([parts(source), assistant("A cat.")]);
    let ahead = json!({"messages": history, "max_tokens": 0});
    let answer = world.post("/v1/messages", ahead);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_prompt_that_does_not_fit_says_how_long_it_is() {
    let world = crate::common::Plan::new().context_tokens(64).start();
    let body = json!({"messages": [user(&"long ".repeat(50))]});
    let answer = world.post("/v1/chat/completions", body);
    assert_eq!(
        (answer.status, answer.error()["code"].as_str()),
        (400, Some("context_length_exceeded"))
    );
    assert!(answer.text().contains("64"));
}

#[test]
fn a_schema_that_cannot_be_followed_is_refused_by_name() {
    let world = World::new();
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "strange"}}});
    let body = json!({"messages": [user("Hi")], "response_format": format});
    let answer = world.post("/v1/chat/completions", body);
    let (error, schema) = (answer.error(), "response_format.json_schema.schema");
    assert_eq!(
        (answer.status, &error["code"], &error["param"]),
        (400, &json!("grammar"), &json!(schema))
    );
}

#[test]
fn a_model_that_makes_no_embeddings_says_so() {
    let answer = World::new().post("/v1/embeddings", json!({"input": "a"}));
    assert_eq!((answer.status, answer.error()["code"].as_str()), (400, Some("unsupported_model")));
}

#[test]
fn malformed_requests_do_not_affect_other_requests() {
    let world = World::new();
    let mut stream =
        world.stream(json!([user("Hi")]), json!({"max_tokens": 400, "ignore_eos": true}));
    stream.next().unwrap();
    for _ in 0..20 {
        world.call("POST", "/v1/chat/completions").body("{").send();
        world.post("/v1/chat/completions", json!({"messages": [{"role": 1}]}));
    }
    let last = stream.collect().pop().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "length");
}
