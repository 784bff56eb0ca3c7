//! Ollama's API: chats and prompts, as lines and as one object. The fake model writes what it is asked to say.

use std::io::Read;

use serde_json::{Value, json};

use crate::common::{Answer, Plan, World, merged, user};

const CHAT: &str = "/api/chat";
const GENERATE: &str = "/api/generate";

/// Tools in Hermes' form, and reasoning where `enable_thinking` asks for it.
const TEMPLATE: &str = "{# <tool_call> #}{% if tools %}{{ tools | tojson }}{% endif %}\
    {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}\
    {% for call in message.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ call.function.name }}\", \
    \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}\
    <|im_start|>assistant\n{% if enable_thinking %}<think>\n{% endif %}";

const CALL: &str =
    "<tool_call>\n{\"name\": \"light\", \"arguments\": {\"room\": \"hall\"}}\n</tool_call>";

fn world() -> World {
    Plan::new().chat_template(TEMPLATE).start()
}

/// A greedy request for a model of any name.
fn request(extra: Value) -> Value {
    merged(json!({"model": "any", "options": {"temperature": 0}}), &extra)
}

fn say(text: &str, extra: Value) -> Value {
    let mut body = request(extra);
    body["messages"] = json!([user(&format!("Say this: {text}"))]);
    body
}

fn tool() -> Value {
    let parameters = json!({
        "type": "object", "properties": {"room": {"enum": ["hall", "attic"]}}, "required": ["room"],
    });
    json!({"type": "function", "function": {"name": "light", "parameters": parameters}})
}

/// The lines of a streamed answer.
fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let text = answer.text();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn whole(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn joined(lines: &[Value], pointer: &str) -> String {
    lines.iter().filter_map(|line| line.pointer(pointer)?.as_str()).collect()
}

/// What clients compute speeds from.
fn assert_has_figures(last: &Value) {
    let figure = |name: &str| last[name].as_u64().unwrap_or_else(|| panic!("{name}: {last}"));
    let (total, prompt) = (figure("total_duration"), figure("prompt_eval_duration"));
    assert!(total >= prompt && prompt > 0 && figure("eval_duration") > 0, "{last}");
    assert_eq!(figure("load_duration"), 0, "the weights were there");
    assert!(figure("prompt_eval_count") > 0 && figure("eval_count") > 0, "{last}");
}

#[test]
fn a_chat_is_lines_unless_it_asks_for_one_object() {
    let world = world();
    let lines = lines(&world.post(CHAT, say("Grüße aus der Küche", json!({}))));
    let (last, before) = lines.split_last().unwrap();
    assert!(before.len() > 3, "the text comes as the model writes it");
    for line in before {
        let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["model", "created_at", "message", "done"]);
        assert_eq!((&line["done"], &line["message"]["role"]), (&json!(false), &json!("assistant")));
    }
    assert_eq!(joined(before, "/message/content"), "Grüße aus der Küche");
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
    assert_eq!(last["message"], json!({"role": "assistant", "content": ""}));
    assert_has_figures(last);

    let whole = whole(&world.post(CHAT, say("Grüße aus der Küche", json!({"stream": false}))));
    assert_eq!(whole["message"]["content"], "Grüße aus der Küche");
    assert_eq!((&whole["model"], &whole["done"]), (&json!("fake:latest"), &json!(true)));
    assert!(whole["created_at"].as_str().unwrap().ends_with('Z'));
    assert_has_figures(&whole);
}

#[test]
fn options_are_those_of_the_chat() {
    let world = world();
    let with = |options: Value| {
        let body = say("one two three", json!({"stream": false, "options": options}));
        let whole = whole(&world.post(CHAT, body));
        let text = whole["message"]["content"].as_str().unwrap().to_owned();
        (text, whole["done_reason"].as_str().unwrap().to_owned(), whole["eval_count"].clone())
    };
    let (text, reason, count) = with(json!({"num_predict": 3, "temperature": 0}));
    assert_eq!((&*text, &*reason, count), ("one", "length", json!(3)));
    for everything in [-1, -2, 0] {
        let (text, reason, _) = with(json!({"num_predict": everything, "num_ctx": 1 << 20}));
        assert_eq!((&*text, &*reason), ("one two three", "stop"));
    }
    assert_eq!(with(json!({"stop": [" three"]})).0, "one two");
    let noise = |seed: i64| {
        let body = request(json!({
            "messages": [user("Hello")], "stream": false,
            "options": {"num_predict": 12, "temperature": 1.0, "top_k": 40, "top_p": 0.9,
                        "min_p": 0.01, "repeat_penalty": 1.1, "presence_penalty": 0.1,
                        "frequency_penalty": 0.1, "seed": seed},
        }));
        whole(&world.post(CHAT, body))["message"]["content"].clone()
    };
    assert_eq!(noise(7), noise(7));
    assert_ne!(noise(7), noise(8));
}

#[test]
fn a_call_is_one_line_with_its_arguments_as_an_object() {
    let world = world();
    let lines = lines(&world.post(CHAT, say(&format!("So. {CALL}"), json!({"tools": [tool()]}))));
    let calls: Vec<usize> =
        (0..lines.len()).filter(|&n| lines[n]["message"].get("tool_calls").is_some()).collect();
    assert_eq!(calls, [lines.len() - 2], "the text comes first, and the end last");
    let [call] = lines[calls[0]]["message"]["tool_calls"].as_array().unwrap().as_slice() else {
        panic!("{lines:?}")
    };
    let function = json!({"index": 0, "name": "light", "arguments": {"room": "hall"}});
    assert_eq!(call["function"], function);
    assert_eq!(joined(&lines, "/message/content").trim_end(), "So.");
    assert_eq!(lines.last().unwrap()["done_reason"], "stop");

    let extra = json!({"tools": [tool()], "stream": false});
    let two = whole(&world.post(CHAT, say(&format!("{CALL}\n{CALL}"), extra)));
    let calls = two["message"]["tool_calls"].as_array().unwrap();
    let indices: Vec<&Value> = calls.iter().map(|call| &call["function"]["index"]).collect();
    assert_eq!(indices, [&json!(0), &json!(1)]);

    let forced = json!({"tools": [tool()], "stream": false, "tool_choice": "required",
        "options": {"num_predict": 300, "seed": 1}});
    let forced = whole(&world.post(CHAT, say("Hello", forced)));
    let room = &forced["message"]["tool_calls"][0]["function"]["arguments"]["room"];
    assert!(["hall", "attic"].contains(&room.as_str().unwrap()), "{forced}");
}

#[test]
fn a_call_that_the_limit_cuts_is_left_out() {
    let world = world();
    let limit = CALL.len() - 25;
    let extra = json!({"tools": [tool()], "options": {"num_predict": limit, "temperature": 0}});
    let lines = lines(&world.post(CHAT, say(CALL, extra)));
    assert!(lines.iter().all(|line| line["message"].get("tool_calls").is_none()), "{lines:?}");
    assert_eq!(lines.last().unwrap()["done_reason"], "length");
}

#[test]
fn a_history_with_calls_and_results_reuses_the_kv_of_the_answers() {
    let world = world();
    let question = user(&format!("Say this: {CALL}"));
    let ask = |messages: &[Value]| {
        let extra = json!({"messages": messages, "tools": [tool()], "stream": false});
        whole(&world.post(CHAT, request(extra)))
    };
    let called = ask(std::slice::from_ref(&question));
    // As Ollama's client sends it: without the id.
    let mut message = called["message"].clone();
    message["tool_calls"][0].as_object_mut().unwrap().shift_remove("id");
    let result = json!({"role": "tool", "tool_name": "light", "content": "It is on."});
    let history = [question, message, result, user("Say this: It is on.")];
    let answered = ask(&history);
    assert_eq!(answered["message"]["content"], "It is on.");
    let (before, now) =
        (called["prompt_eval_count"].as_u64(), answered["prompt_eval_count"].as_u64());
    let new = now.unwrap() - before.unwrap() - called["eval_count"].as_u64().unwrap();
    let computed = answered["hob"]["tokens"]["computed"].as_u64().unwrap();
    assert!(computed <= new + 1, "{computed} of {new} new tokens: {answered}");
}

/// What a conversation has stored: role, and ids of calls.
fn roles_and_ids(stored: &Value) -> Vec<(String, Value)> {
    let messages = stored["messages"].as_array().unwrap().iter();
    let role_and_id = |message: &Value| {
        let id = match message["role"].as_str() {
            Some("tool") => &message["tool_call_id"],
            _ => &message["tool_calls"][0]["id"],
        };
        (message["role"].as_str().unwrap().to_owned(), id.clone())
    };
    messages.map(role_and_id).collect()
}

#[test]
fn an_answer_with_a_call_that_comes_back_without_its_id_is_stored_once() {
    let world = world();
    let question = user(&format!("Say this: {CALL}"));
    let result = json!({"role": "tool", "tool_name": "light", "content": "It is on."});
    for appends in [false, true] {
        let id = if appends { "appended" } else { "whole" };
        let ask = |messages: &[Value], appends: bool| {
            let extra = json!({"messages": messages, "tools": [tool()], "stream": false,
                "conversation": id, "hob": {"append": appends}});
            whole(&world.post(CHAT, request(extra)))
        };
        let called = ask(std::slice::from_ref(&question), false);
        let mut message = called["message"].clone();
        let call = message["tool_calls"][0].as_object_mut().unwrap();
        let given = call.shift_remove("id").unwrap();
        if appends {
            ask(&[result.clone(), user("Say this: On.")], true);
        } else {
            let mut history = vec![question.clone(), message, result.clone()];
            history.push(user("Say this: On."));
            ask(&history, false);
            history.extend([json!({"role": "assistant", "content": "On."}), user("Thanks")]);
            ask(&history, false);
        }
        let stored = roles_and_ids(&world.conversation(id));
        let roles: Vec<&str> = stored.iter().map(|(role, _)| role.as_str()).collect();
        let mut expected = vec!["user", "assistant", "tool", "user", "assistant"];
        if !appends {
            expected.extend(["user", "assistant"]);
        }
        assert_eq!(roles, expected, "{id}: each is stored once");
        assert_eq!((&stored[1].1, &stored[2].1), (&given, &given), "{id}");
    }
}

#[test]
fn thinking_is_asked_for_and_comes_apart() {
    let world = world();
    let text = "<think>\nhm</think>Yes";
    let thinks = |think: Value| {
        let lines = lines(&world.post(CHAT, say(text, json!({"think": think}))));
        let thinking = lines.iter().position(|line| line["message"]["content"] != "");
        let is_thinking = |line: &Value| line["message"].get("thinking").is_some();
        let until = lines.iter().rposition(is_thinking).map(|last| last + 1);
        assert_eq!(until, thinking, "thinking comes first: {lines:?}");
        (joined(&lines, "/message/thinking"), joined(&lines, "/message/content"))
    };
    for think in [json!(true), json!("high")] {
        assert_eq!(thinks(think), ("hm".to_owned(), "Yes".to_owned()));
    }
    let whole_of = |path: &str, body: Value| whole(&world.post(path, body));
    let chat = whole_of(CHAT, say(text, json!({"think": true, "stream": false})));
    assert_eq!(chat["message"]["thinking"], "hm");
    let prompt = json!({"prompt": format!("Say this: {text}"), "think": true, "stream": false});
    let generated = whole_of(GENERATE, request(prompt));
    assert_eq!((&generated["thinking"], &generated["response"]), (&json!("hm"), &json!("Yes")));
    // The template opens no reasoning, so the mark is what the model writes.
    let plain = whole_of(CHAT, say("Yes", json!({"think": false, "stream": false})));
    assert_eq!(plain["message"].get("thinking"), None);

    // It comes back in the history.
    let answer = json!({"role": "assistant", "content": "Yes", "thinking": "hm"});
    let messages = json!([user("Hi"), answer, user("Say this: No")]);
    let again = whole_of(CHAT, request(json!({"messages": messages, "stream": false})));
    assert_eq!(again["message"]["content"], "No");
}

#[test]
fn a_format_is_json_or_a_schema() {
    let world = world();
    let schema = json!({
        "type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"],
    });
    let answer = |format: Value| {
        let options = json!({"num_predict": 400, "seed": 3, "temperature": 0});
        let extra = json!({"format": format, "stream": false, "options": options});
        whole(&world.post(CHAT, say("{\"mood\": \"fine\"}", extra)))["message"]["content"].clone()
    };
    let mood: Value = serde_json::from_str(answer(schema).as_str().unwrap()).unwrap();
    assert!(["good", "bad"].contains(&mood["mood"].as_str().unwrap()));
    assert_eq!(answer(json!("json")), "{\"mood\": \"fine\"}");
    assert_eq!(answer(json!("")), "{\"mood\": \"fine\"}");
}

#[test]
fn log_probabilities_are_a_list() {
    let world = world();
    let extra = json!({"stream": false, "logprobs": true, "top_logprobs": 2});
    let chat = whole(&world.post(CHAT, say("ab", extra.clone())));
    let tokens = chat["logprobs"].as_array().unwrap();
    assert_eq!((tokens.len(), &tokens[0]["token"]), (2, &json!("a")));
    assert_eq!(tokens[1]["top_logprobs"].as_array().unwrap().len(), 2);
    let mut raw = request(extra);
    raw["raw"] = true.into();
    raw["prompt"] = "one".into();
    raw["options"]["num_predict"] = 3.into();
    let raw = whole(&world.post(GENERATE, raw));
    assert_eq!(raw["logprobs"].as_array().unwrap().len(), 3);
}

#[test]
fn an_answer_goes_on_with_the_assistants_last_message() {
    let world = world();
    let begun = json!({"role": "assistant", "content": "one "});
    let messages = json!([user("Say this: one two"), begun]);
    let extra = json!({"messages": messages, "stream": false});
    assert_eq!(whole(&world.post(CHAT, request(extra)))["message"]["content"], "two");
}

#[test]
fn a_prompt_is_answered_and_a_raw_one_is_continued() {
    let world = world();
    let generate = |extra: Value| world.post(GENERATE, request(extra));
    let lines = lines(&generate(json!({"prompt": "Say this: Good evening"})));
    let (last, before) = lines.split_last().unwrap();
    assert_eq!(joined(before, "/response"), "Good evening");
    assert!(before.iter().all(|line| line["done"] == false && line.get("message").is_none()));
    assert_eq!((&last["response"], &last["done_reason"]), (&json!(""), &json!("stop")));
    assert_has_figures(last);

    let count = |extra: Value| whole(&generate(extra))["prompt_eval_count"].as_u64().unwrap();
    let plain = count(json!({"prompt": "Say this: Hi", "stream": false}));
    let system = json!({"prompt": "Say this: Hi", "system": "Be kind.", "stream": false});
    let turn =
        "<|im_start|>system\nBe kind.<|im_end|>\n".len() - "<|im_start|><|im_end|>".len() + 2;
    assert_eq!(count(system), plain + turn as u64);

    let raw = "<|im_start|>user\nSay this: Hi<|im_end|>\n<|im_start|>assistant\n";
    let raw = whole(&generate(json!({"prompt": raw, "raw": true, "stream": false})));
    assert_eq!((&raw["response"], &raw["done_reason"]), (&json!("Hi"), &json!("stop")));
    assert_eq!(raw["prompt_eval_count"], plain);
    assert_has_figures(&raw);
}

#[test]
fn lines_come_while_the_model_writes_and_a_client_that_leaves_ends_the_answer() {
    let world = world();
    let slow = user(&format!("Say this slowly: {}", "tea ".repeat(400)));
    let body = request(json!({"messages": [slow]}));
    let mut socket = world.call("POST", CHAT).json(&body).open();
    let mut read = String::new();
    while !read.contains("\"content\":\"") {
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).unwrap();
        assert!(count > 0, "{read}");
        read.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    assert!(!read.contains("\"done\":true"), "the answer takes seconds: {read}");
    drop(socket);
    world.until("the answer is cancelled", |world| world.status().counters.cancelled == 1);
}

#[test]
fn a_conversation_of_hobs_goes_on_over_either_api() {
    let world = world();
    let extra = json!({"conversation": "kettle", "stream": true});
    let lines = lines(&world.post(CHAT, say("Hello there", extra)));
    let address = json!({"conversation": "kettle", "message": 2, "parent": 1});
    assert_eq!(lines[0]["hob"], address);
    assert_eq!(lines.last().unwrap()["hob"]["conversation"], "kettle");
    let stored = world.conversation("kettle");
    assert_eq!(crate::common::roles_and_texts(&stored)[1].1, "Hello there");

    let mut body = say("And again", json!({"conversation": "kettle", "stream": false}));
    body["hob"] = json!({"append": true});
    let whole = whole(&world.post(CHAT, body));
    assert!(whole["hob"]["tokens"]["shared"].as_u64() > Some(20), "{whole}");
    assert_eq!(crate::common::roles_and_texts(&world.conversation("kettle")).len(), 4);
}
