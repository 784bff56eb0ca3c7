//! What clients of OpenAI's and of other servers send: spellings of paths and fields.

use serde_json::{Value, json};

use crate::common::{Call, Plan, World, chat_body, merged, text, user};

const CHAT: &str = "/v1/chat/completions";

#[test]
fn a_path_may_lack_v1_end_with_a_slash_or_have_two() {
    let world = World::new();
    let body = json!({"messages": [user("Hi")], "max_tokens": 2});
    for path in [
        "/chat/completions",
        "/v1/chat/completions/",
        "//v1//chat/completions",
        "/v1/v1/chat/completions",
        "/v1/chat/completions/?api-version=1",
    ] {
        let answer = world.post(path, body.clone());
        assert_eq!((answer.status, &answer.json()["object"]), (200, &json!("chat.completion")));
    }
    let completion = json!({"model": "any", "prompt": "a"});
    assert_eq!(world.post("/completions", completion).json()["object"], "text_completion");
    assert_eq!(
        world.post("/embeddings", json!({"input": "a"})).error()["code"],
        "unsupported_model"
    );
    for path in ["/models", "/models/", "/models/fake", "/v1/models/", "/v1/health"] {
        assert_eq!(world.get(path).status, 200, "{path}");
    }
    // As OpenAI's client makes a conversation, and reads it.
    let made = world.post("/conversations", json!({})).json();
    let path = format!("/conversations/{}", made["id"].as_str().unwrap());
    assert_eq!(world.get(&format!("{path}/items")).json()["data"], json!([]));
    assert_eq!(world.get("/conversations").status, 200);
    let open = |path| Call::new(world.address, "GET", path).send().status;
    assert_eq!((open("//health/"), open("//v1/models/"), open("/")), (200, 401, 200));
}

#[test]
fn an_unknown_path_is_named_with_the_one_to_use() {
    let world = World::new();
    let refused = |path: &str| {
        let answer = world.post(path, json!({}));
        assert_eq!((answer.status, answer.error()["code"].as_str()), (404, Some("not_found")));
        answer.error()["message"].as_str().unwrap().to_owned()
    };
    let unknown = refused("/v1/nothing");
    assert!(unknown.contains("POST /v1/nothing") && unknown.contains("docs/HTTP.md"), "{unknown}");
    for (path, instead) in [
        ("/v1/engines/x/completions", "POST /v1/completions"),
        ("/openai/deployments/x/chat/completions", "POST /v1/chat/completions"),
        ("/llama/completion", "POST /completion"),
    ] {
        let message = refused(path);
        assert!(message.contains(path) && message.contains(instead), "{message}");
    }
    let long = refused(&format!("/{}", "x".repeat(9_000)));
    assert!(long.len() < 400, "{} bytes", long.len());
    let method = world.get(CHAT).error()["message"].clone();
    assert!(
        method.as_str().unwrap().contains("`/v1/chat/completions` does not take GET"),
        "{method}"
    );
}

#[test]
fn numbers_and_empty_fields_are_read_as_clients_write_them() {
    let world = World::new();
    let said = |extra: Value| {
        let body = json!({"messages": [user("Say this: abcdefghijkl")], "temperature": 0});
        let answer = world.post(CHAT, merged(body, &extra));
        assert_eq!(answer.status, 200, "{extra}: {}", answer.text());
        text(&answer.json())
    };
    let whole = "abcdefghijkl";
    for (extra, expected) in [
        (json!({"max_tokens": 3.0, "n": 1.0, "top_k": 0.0, "seed": 7.0}), "abc"),
        (json!({"n_predict": 3}), "abc"),
        (json!({"max_tokens": -1}), whole),
        (json!({"max_completion_tokens": -1, "n_predict": -1}), whole),
        (json!({"max_tokens": 3, "max_completion_tokens": -1}), "abc"),
        (json!({"seed": u64::MAX}), whole),
        (json!({"stop": ""}), whole),
        (json!({"stop": ["", "d"]}), "abc"),
        (json!({"logit_bias": [], "top_logprobs": 0}), whole),
        (json!({"functions": [], "function_call": "none"}), whole),
        (json!({"function_call": "auto", "tools": [], "tool_choice": "none"}), whole),
        (json!({"repetition_penalty": 1.1}), whole),
    ] {
        assert_eq!(said(extra.clone()), expected, "{extra}");
    }
    // Role-play clients send one for each name.
    let mut names: Vec<String> = (0..400).map(|n| format!("\nGuest {n}:")).collect();
    names.push("d".to_owned());
    assert_eq!(said(json!({"stop": names})), "abc");
    let wrong = world.post(CHAT, json!({"messages": [user("Hi")], "stop": vec!["a"; 513]}));
    assert_eq!((wrong.status, &wrong.error()["param"]), (400, &json!("stop")));
    let wrong = world.post(CHAT, json!({"messages": [user("Hi")], "repetition_penalty": 0}));
    assert_eq!(wrong.error()["param"], "repetition_penalty");
    let completed = world.post("/v1/completions", json!({"prompt": [97.0, 98.0], "suffix": ""}));
    assert_eq!(completed.status, 200, "{}", completed.text());
    let ids = world.post("/detokenize", json!({"tokens": [97.0, 98.0]}));
    assert_eq!(ids.json()["content"], "ab");
}

#[test]
fn calls_of_a_history_are_read_as_clients_write_them() {
    let world = World::new();
    let history = |arguments: Value| {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}});
        json!([
            {"role": "user", "content": "Look", "tool_calls": []},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "on", "tool_calls": null},
            {"role": "assistant", "content": "It is on.", "tool_calls": []},
            user("Say this: Good"),
        ])
    };
    let named = json!({"conversation": "c"});
    for arguments in [json!({"at": {"x": 1}}), json!("{\"at\": {\"x\": 1}}")] {
        assert_eq!(text(&world.chat(history(arguments), named.clone())), "Good");
    }
    let messages = world.conversation("c")["messages"].clone();
    let messages = messages.as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool").count();
    assert_eq!(results, 1, "the second request has the same history");
    let stored = &messages[1]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(stored, &json!("{\"at\":{\"x\":1}}"));
    let calls = messages.iter().filter(|message| message.get("tool_calls").is_some());
    assert_eq!(calls.count(), 1);
    let wrong = world.post(CHAT, json!({"messages": history(json!([1]))}));
    let param = "messages[1].tool_calls[0].function.arguments";
    assert_eq!((wrong.status, &wrong.error()["param"]), (400, &json!(param)));
    let called = json!([{"role": "user", "content": "x", "tool_calls": [{}]}]);
    assert_eq!(
        world.post(CHAT, json!({"messages": called})).error()["param"],
        "messages[0].tool_calls"
    );
}

#[test]
fn a_completion_without_a_limit_goes_on_to_its_end() {
    let world = Plan::new().context_tokens(256).start();
    let answer = world.post("/v1/completions", json!({"prompt": "a", "max_tokens": -1})).json();
    let (tokens, reason) =
        (&answer["usage"]["completion_tokens"], &answer["choices"][0]["finish_reason"]);
    assert!(*reason == "stop" || tokens.as_u64().unwrap() > 200, "{answer}");
    assert_eq!(answer["hob"]["context_full"], json!(*reason == "length"));
}

#[test]
fn a_body_of_json_may_have_any_content_type() {
    let world = World::new();
    let body = json!({"messages": [user("Hi")], "max_tokens": 2}).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "nonsense", ""] {
        let call = world.call("POST", CHAT).header("content-type", kind).body(body.clone());
        assert_eq!(call.send().status, 200, "{kind}");
    }
    let call = world.call("POST", CHAT).header("content-type", "text/plain").body("not JSON");
    assert_eq!(call.send().error()["code"], "unsupported_media_type");
}

#[test]
fn the_choices_of_a_seed_differ_and_repeat() {
    let world = World::new();
    let texts = || {
        let extra = json!({"n": 3, "seed": 1, "temperature": 1, "max_tokens": 12});
        let answer = world.chat(json!([user("Tell me something.")]), extra);
        let texts = answer["choices"].as_array().unwrap().iter();
        texts.map(|choice| choice["message"]["content"].clone()).collect::<Vec<_>>()
    };
    let first = texts();
    assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2], "{first:?}");
    assert_eq!(texts(), first);
}

#[test]
fn a_seed_of_minus_one_is_another_one_each_time() {
    let world = World::new();
    for (path, place) in
        [(CHAT, "/choices/0/message/content"), ("/v1/completions", "/choices/0/text")]
    {
        let texts = |seed: Value| {
            let body = json!({"messages": [user("Tell me something.")], "prompt": "Something: ",
                "seed": seed, "temperature": 2, "max_tokens": 24, "ignore_eos": true});
            let one = |_| world.post(path, body.clone()).json().pointer(place).cloned().unwrap();
            (0..2).map(one).collect::<Vec<_>>()
        };
        let (open, fixed) = (texts(json!(-1)), texts(json!(7)));
        assert_ne!(open[0], open[1], "{path}");
        assert_eq!(fixed[0], fixed[1], "{path}");
    }
}

#[test]
fn an_overflow_is_told_in_the_words_that_clients_look_for() {
    let world = Plan::new().context_tokens(64).start();
    let error = world.post(CHAT, json!({"messages": [user(&"long ".repeat(50))]})).error();
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("This model's maximum context length is 64 tokens"), "{message}");
    assert!(message.contains("(context_length_exceeded)"), "{message}");
}

#[test]
fn the_model_says_how_much_a_conversation_holds() {
    let world = Plan::new().context_tokens(512).start();
    let model = world.get("/v1/models").json()["data"][0].clone();
    let holds = world.get("/v1/status").json()["conversation_tokens"].clone();
    assert_eq!((&model["max_model_len"], &model["context_length"]), (&holds, &holds));
    assert_eq!(world.get("/v1/models/fake").json(), model);
}

#[test]
fn no_effort_switches_reasoning_off() {
    const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}\
        <|im_end|>\n{% endfor %}<|im_start|>assistant\n{% if reasoning_effort %}{{ reasoning_effort }}\n{% endif %}\
        {% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}";
    let world = Plan::new().chat_template(TEMPLATE).start();
    let ask = json!([user("Say this: Hm.</think>Yes.")]);
    for (fields, end) in [
        (json!({}), "assistant\n<think>\n"),
        (json!({"reasoning_effort": "low"}), "assistant\nlow\n<think>\n"),
        (json!({"reasoning_effort": "none"}), "assistant\n"),
        (
            json!({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": true}}),
            "assistant\n<think>\n",
        ),
    ] {
        let body = chat_body(ask.clone(), fields.clone());
        let prompt = world.post("/apply-template", body).json()["prompt"].clone();
        assert!(prompt.as_str().unwrap().ends_with(end), "{fields}: {prompt}");
    }
    for (effort, reasons) in [("low", true), ("none", false)] {
        let chat = world.chat(ask.clone(), json!({"reasoning_effort": effort}));
        let thought = &chat["choices"][0]["message"]["reasoning_content"];
        assert_eq!(thought.is_string(), reasons, "{effort}: {chat}");
        let body = json!({"input": ask, "reasoning": {"effort": effort}, "temperature": 0});
        let answer = world.post("/v1/responses", body).json();
        let items = answer["output"].as_array().unwrap();
        let thought = items.iter().any(|item| item["type"] == "reasoning");
        assert_eq!(thought, reasons, "{effort}: {answer}");
    }
}

#[test]
fn an_answer_goes_on_with_the_last_message() {
    let world = World::new();
    let ask = user("Say this: One, two, three and four.");
    let body = |begun: &str, extra: Value| {
        let messages = json!([ask, {"role": "assistant", "content": begun}]);
        let fields = json!({"continue_final_message": true, "max_tokens": 60});
        chat_body(messages, merged(fields, &extra))
    };
    let whole = world.chat(json!([ask]), json!({"max_tokens": 60}));
    let prompt = world.post("/apply-template", body("One, two", json!({}))).json();
    assert!(prompt["prompt"].as_str().unwrap().ends_with("assistant\nOne, two"), "{prompt}");
    for (begun, rest) in [("One, two", ", three and four."), ("One, ", "two, three and four.")] {
        let answer = world.post(CHAT, body(begun, json!({}))).json();
        assert_eq!(text(&answer), rest);
        let prompt = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
        assert_eq!(prompt(&answer), prompt(&whole) + begun.len() as u64);
        let streamed = body(begun, json!({"stream": true}));
        let chunks = world.call("POST", CHAT).json(&streamed).stream().collect();
        let deltas = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str());
        assert_eq!(deltas.collect::<String>(), rest);
    }
    for (extra, param) in [
        (json!({"conversation": "a"}), "continue_final_message"),
        (json!({"response_format": {"type": "json_object"}}), "response_format"),
        (json!({"messages": [ask]}), "continue_final_message"),
    ] {
        let refused = world.post(CHAT, body("One", extra.clone()));
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(param)), "{extra}");
    }
}

#[test]
fn a_suffix_needs_a_model_with_marks_for_it() {
    let refused = World::new().post("/v1/completions", json!({"prompt": "a", "suffix": "c"}));
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("suffix")));
    assert_eq!(refused.error()["code"], "unsupported_model");
}

#[test]
fn embeddings_take_many_texts_and_shorten_their_vectors() {
    let world = Plan::new().embeds().body_bytes(1 << 20).start();
    let many: Vec<String> = (0..2048).map(|n| format!("text {n}")).collect();
    let answer = world.post("/v1/embeddings", json!({"input": many}));
    assert_eq!(answer.json()["data"].as_array().map(Vec::len), Some(2048));
    let more: Vec<&str> = vec!["a"; 2049];
    let refused = world.post("/v1/embeddings", json!({"input": more})).error();
    assert_eq!(refused["param"], "input");
    assert!(refused["message"].as_str().unwrap().contains("2048"), "{refused}");

    let vector = |dimensions: Value| {
        let body = json!({"input": "several letters", "dimensions": dimensions});
        let answer = world.post("/v1/embeddings", body).json();
        let numbers = answer["data"][0]["embedding"].as_array().unwrap().clone();
        numbers.iter().map(|number| number.as_f64().unwrap()).collect::<Vec<_>>()
    };
    let (all, short) = (vector(Value::Null), vector(json!(3)));
    assert_eq!((all.len(), short.len()), (8, 3));
    assert!((short.iter().map(|n| n * n).sum::<f64>() - 1.0).abs() < 1e-5, "{short:?}");
    assert!((short[0] / short[1] - all[0] / all[1]).abs() < 1e-4, "{short:?} {all:?}");
    for wrong in [json!(9), json!(0)] {
        let refused = world.post("/v1/embeddings", json!({"input": "a", "dimensions": wrong}));
        assert_eq!(refused.error()["param"], "dimensions");
    }
}

#[test]
fn a_conversation_of_another_type_is_refused_on_every_route() {
    let world = World::new();
    for conversation in [json!(5), json!(["a"]), json!({"id": 5})] {
        for (path, mut body) in [
            (CHAT, json!({"messages": [user("Hi")]})),
            ("/v1/completions", json!({"prompt": "a"})),
            ("/v1/responses", json!({"input": "Hi"})),
            ("/v1/messages", json!({"messages": [user("Hi")], "max_tokens": 9})),
            ("/api/chat", json!({"model": "fake", "messages": [user("Hi")]})),
        ] {
            body["conversation"] = conversation.clone();
            let refused = world.post(path, body);
            assert_eq!(refused.status, 400, "{path} {conversation}");
            assert!(refused.text().contains("`conversation"), "{path}: {}", refused.text());
        }
    }
}
