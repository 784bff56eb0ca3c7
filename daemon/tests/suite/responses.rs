//! OpenAI's Responses API: answers and their events.

use serde_json::{Value, json};

use crate::common::World;

pub(crate) const ROUTE: &str = "/v1/responses";

/// A greedy response that must succeed.
pub(crate) fn respond(world: &World, body: Value) -> Value {
    let answer = world.post(ROUTE, greedy(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn greedy(mut body: Value) -> Value {
    if body["temperature"].is_null() {
        body["temperature"] = 0.into();
    }
    body
}

/// The events of a streamed response: each is named as its type, and they are counted.
pub(crate) fn events(world: &World, mut body: Value) -> Vec<Value> {
    body["stream"] = true.into();
    let answer = world.post(ROUTE, greedy(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let text = answer.text();
    let events: Vec<Value> = text
        .strip_suffix("\n\n")
        .expect("the last event is complete")
        .split("\n\n")
        .map(|event| {
            let (name, data) = event.split_once('\n').expect("a name and data");
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
            data
        })
        .collect();
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], n, "{event}");
    }
    events
}

/// The types of events, with runs of one type as one.
pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds.into_iter().map(|kind| kind.strip_prefix("response.").unwrap_or(kind)).collect()
}

/// The deltas of one type, joined.
pub(crate) fn joined(events: &[Value], kind: &str) -> String {
    let of_kind = events.iter().filter(|event| event["type"] == kind);
    of_kind.map(|event| event["delta"].as_str().unwrap()).collect()
}

pub(crate) fn text(response: &Value) -> &str {
    let message =
        response["output"].as_array().unwrap().iter().find(|item| item["type"] == "message");
    message.unwrap()["content"][0]["text"].as_str().unwrap()
}

pub(crate) fn say(text: &str) -> String {
    format!("Say this: {text}")
}

pub(crate) fn light() -> Value {
    json!({"type": "function", "name": "light", "description": "Turns a light on or off.",
           "parameters": {"type": "object", "properties": {"room": {"type": "string"}},
                          "required": ["room"]}})
}

const CALL: &str = "Say this: <tool_call>\n{\"name\": \"light\", \"arguments\": {\"room\":\"hall\"}}\n</tool_call>";

#[test]
fn a_response_has_one_message_and_repeats_its_request() {
    let world = World::new();
    let response = respond(
        &world,
        json!({
            "model": "any", "input": say("Hello."), "instructions": "Be brief.", "temperature": 0.7,
            "seed": 1, "metadata": {"topic": "greeting"}, "user": "u1", "max_output_tokens": 50,
        }),
    );
    let id = response["id"].as_str().unwrap();
    assert!(id.starts_with("resp_"), "{id}");
    let item = &response["output"][0];
    assert!(item["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!((&item["role"], &item["status"]), (&json!("assistant"), &json!("completed")));
    let part = json!({"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []});
    assert_eq!(item["content"], json!([part]));
    for (name, expected) in [
        ("object", json!("response")),
        ("status", json!("completed")),
        ("model", json!("fake")),
        ("error", Value::Null),
        ("incomplete_details", Value::Null),
        ("instructions", json!("Be brief.")),
        ("max_output_tokens", json!(50)),
        ("metadata", json!({"topic": "greeting"})),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("store", json!(true)),
        ("temperature", json!(0.7)),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_p", json!(1.0)),
        ("truncation", json!("disabled")),
        ("background", json!(false)),
        ("user", json!("u1")),
    ] {
        assert_eq!(response[name], expected, "{name}");
    }
    let usage = &response["usage"];
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap();
    assert_eq!(count("/output_tokens"), 7, "six letters and the end");
    assert_eq!(count("/total_tokens"), count("/input_tokens") + 7);
    assert_eq!(count("/input_tokens_details/cached_tokens"), 0);
    assert_eq!(count("/output_tokens_details/reasoning_tokens"), 0);
    assert!(response["created_at"].is_u64() && response["completed_at"].is_u64());
    assert_eq!(response["conversation"]["id"], response["hob"]["conversation"]);

    let stored = world.get(&format!("{ROUTE}/{id}")).json();
    for (name, value) in response.as_object().unwrap() {
        if !["created_at", "completed_at", "hob"].contains(&name.as_str()) {
            assert_eq!(stored[name], *value, "{name}");
        }
    }
}

#[test]
fn instructions_and_messages_are_what_the_model_reads() {
    let world = World::new();
    let long = |extra: &str| {
        json!([
            {"role": "developer", "content": [{"type": "input_text", "text": extra}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Say this: one"}, {"type": "input_text", "text": "two"}]},
        ])
    };
    let response = respond(&world, json!({"instructions": "Be kind.", "input": long("Be brief.")}));
    assert_eq!(text(&response), "one\ntwo");
    let id = response["conversation"]["id"].as_str().unwrap();
    let chat = json!({"conversation": id, "hob": {"append": true, "after": 2}, "messages": []});
    let prompt = world.post("/apply-template", chat).json()["prompt"].clone();
    let prompt = prompt.as_str().unwrap();
    assert!(prompt.contains("<|im_start|>system\nBe kind.\n\nBe brief.<|im_end|>"), "{prompt}");
    assert_eq!(prompt.matches("Be brief.").count(), 1, "{prompt}");
    assert_eq!(
        response["usage"]["input_tokens"],
        world.post("/tokenize", json!({"content": prompt})).json()["tokens"]
            .as_array()
            .unwrap()
            .len()
    );
}

const TEXT: &[&str] =
    &["content_part.added", "output_text.delta", "output_text.done", "content_part.done"];
const REASONING: &[&str] =
    &["content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"];
const SUMMARY: &[&str] = &[
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
];
pub(crate) const CALLED: &[&str] =
    &["function_call_arguments.delta", "function_call_arguments.done"];

/// The [`kinds`] of a whole stream: those of each item in its frame.
pub(crate) fn stream_of(items: &[&[&'static str]]) -> Vec<&'static str> {
    let mut kinds = vec!["created", "in_progress"];
    for item in items {
        kinds.push("output_item.added");
        kinds.extend(*item);
        kinds.push("output_item.done");
    }
    kinds.push("completed");
    kinds
}

#[test]
fn a_stream_has_openais_events_in_their_order() {
    let world = World::new();
    let events = events(&world, json!({"input": say("Hello.")}));
    assert_eq!(kinds(&events), stream_of(&[TEXT]));
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    let created = &of("response.created")["response"];
    assert_eq!((&created["status"], &created["output"]), (&json!("in_progress"), &json!([])));
    assert_eq!(created["usage"], Value::Null);
    assert_eq!(of("response.output_item.added")["item"]["content"], json!([]));
    assert_eq!(joined(&events, "response.output_text.delta"), "Hello.");
    let done = of("response.output_text.done");
    assert_eq!((&done["text"], &done["content_index"]), (&json!("Hello."), &json!(0)));
    let response = &of("response.completed")["response"];
    assert_eq!(response["id"], created["id"]);
    assert_eq!(text(response), "Hello.");
    assert_eq!(of("response.output_item.done")["item"], response["output"][0]);
    assert_eq!(response["usage"]["output_tokens"], 7);
    for event in &events[2..8] {
        assert_eq!(event["output_index"], 0);
        let id = event.get("item_id").unwrap_or_else(|| &event["item"]["id"]);
        assert_eq!(*id, response["output"][0]["id"]);
    }
    let stored = world.get(&format!("{ROUTE}/{}", response["id"].as_str().unwrap())).json();
    assert_eq!(stored["output"], response["output"]);
}

#[test]
fn a_stream_says_its_id_before_the_prompt_is_computed() {
    let world = World::new();
    let body = json!({"input": "Hello", "stream": true,
                      "max_output_tokens": 2});
    let _none_is_computed = world.pause();
    let mut socket = std::io::BufReader::new(world.call("POST", ROUTE).json(&body).open());
    let mut line = String::new();
    while !line.starts_with("event: response.created") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut socket, &mut line).unwrap() > 0);
    }
}

#[test]
fn reasoning_is_an_item_of_its_own_in_front() {
    let world = World::new();
    let input = say("<think>So it is.</think>Yes.");
    let response = respond(&world, json!({"input": input}));
    let output = response["output"].as_array().unwrap();
    assert_eq!(output.len(), 2, "{output:?}");
    let content = json!([{"type": "reasoning_text", "text": "So it is."}]);
    assert_eq!((&output[0]["content"], &output[0]["summary"]), (&content, &json!([])));
    assert!(output[0]["id"].as_str().unwrap().starts_with("rs_"));
    assert_eq!(text(&response), "Yes.");
    assert!(response["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0);

    let events = events(&world, json!({"input": input}));
    assert_eq!(kinds(&events), stream_of(&[REASONING, TEXT]));
    assert_eq!(joined(&events, "response.reasoning_text.delta"), "So it is.");
    assert_eq!(events.last().unwrap()["response"]["output"][0]["content"], content);
}

#[test]
fn a_client_that_wants_a_summary_gets_the_reasoning_as_one() {
    let world = World::new();
    let body =
        json!({"input": say("<think>So it is.</think>Yes."), "reasoning": {"summary": "auto"}});
    let events = events(&world, body.clone());
    assert_eq!(kinds(&events), stream_of(&[SUMMARY, TEXT]));
    assert_eq!(joined(&events, "response.reasoning_summary_text.delta"), "So it is.");
    let part = json!([{"type": "summary_text", "text": "So it is."}]);
    let response = respond(&world, body);
    assert_eq!(response["output"][0]["summary"], part);
    let stored = world.get(&format!("{ROUTE}/{}", response["id"].as_str().unwrap())).json();
    assert_eq!(stored["output"], response["output"]);
}

#[test]
fn a_call_is_made_streamed_and_answered() {
    let world = World::new();
    let body = json!({"input": CALL, "tools": [light()], "tool_choice": "required",
                      "parallel_tool_calls": false});
    let response = respond(&world, body.clone());
    let [call] = response["output"].as_array().unwrap().as_slice() else { panic!("{response}") };
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("light")));
    assert_eq!(
        (&call["arguments"], &call["status"]),
        (&json!(r#"{"room":"hall"}"#), &json!("completed"))
    );
    assert!(call["id"].as_str().unwrap().starts_with("fc_"));
    assert!(call["call_id"].as_str().unwrap().starts_with("call_"));
    assert_eq!((&response["status"], &response["tools"]), (&json!("completed"), &json!([light()])));

    let events = events(&world, body);
    assert_eq!(kinds(&events), stream_of(&[CALLED]));
    let added = &events[2]["item"];
    assert_eq!((&added["name"], &added["arguments"]), (&json!("light"), &json!("")));
    assert_eq!(joined(&events, "response.function_call_arguments.delta"), r#"{"room":"hall"}"#);
    let deltas = events.iter().filter(|it| it["type"] == "response.function_call_arguments.delta");
    assert!(deltas.count() > 1, "they come as the model writes them");

    let output =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "on"});
    let id = &response["id"];
    let next = respond(
        &world,
        json!({"previous_response_id": id, "tools": [light()], "input": [
        output, {"role": "user", "content": say("Done.")}]}),
    );
    assert_eq!(text(&next), "Done.");
    let conversation = world.conversation(next["conversation"]["id"].as_str().unwrap());
    let roles = crate::common::roles_and_texts(&conversation);
    let roles: Vec<_> = roles.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    assert_eq!(conversation["messages"][2]["tool_call_id"], call["call_id"]);
}

#[test]
fn a_call_can_be_forced_and_forbidden() {
    let world = World::new();
    let other = json!({"type": "function", "name": "other", "parameters": null, "strict": false});
    let tools = json!([light(), {"type": "web_search"}, other]);
    let forced = |choice: Value| {
        let body = json!({"input": "Hello", "tools": tools, "tool_choice": choice, "seed": 4,
                          "parallel_tool_calls": false, "max_output_tokens": 400});
        respond(&world, body)["output"].clone()
    };
    let named = forced(json!({"type": "function", "name": "light"}));
    assert_eq!((&named[0]["type"], &named[0]["name"]), (&json!("function_call"), &json!("light")));
    let allowed = json!({"type": "allowed_tools", "mode": "required",
                         "tools": [{"type": "function", "name": "other"}]});
    assert_eq!(forced(allowed.clone())[0]["name"], "other");
    let tokens = |choice: Value| {
        let body = json!({"input": "Hello", "tools": tools, "tool_choice": choice});
        world.post(&format!("{ROUTE}/input_tokens"), body).json()
    };
    assert_eq!(tokens(allowed), tokens(json!("auto")), "the prompt offers all tools");
    assert_eq!(forced(json!("required"))[0]["type"], "function_call");
    let body = json!({"input": CALL, "tools": tools, "tool_choice": "none"});
    let kinds = respond(&world, body)["output"].clone();
    assert!(kinds.as_array().unwrap().iter().all(|item| item["type"] == "message"), "{kinds}");
}

#[test]
fn a_hosted_tool_is_left_out_of_the_prompt_and_of_the_response() {
    let world = World::new();
    let tokens = |tools: &Value| {
        let body = json!({"input": "Hello", "tools": tools});
        world.post(&format!("{ROUTE}/input_tokens"), body).json()["input_tokens"].clone()
    };
    let hosted = [
        json!({"type": "web_search"}),
        json!({"type": "web_search_preview"}),
        json!({"type": "file_search", "vector_store_ids": ["vs_1"]}),
        json!({"type": "code_interpreter", "container": {"type": "auto"}}),
        json!({"type": "image_generation"}),
        json!({"type": "computer_use_preview", "display_width": 8, "display_height": 8, "environment": "linux"}),
        json!({"type": "tool_search"}),
        json!({"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1:1"}),
    ];
    for tool in hosted {
        let tools = json!([tool, light()]);
        assert_eq!(tokens(&tools), tokens(&json!([light()])), "{tool}");
        let response = respond(&world, json!({"input": say("Hello."), "tools": tools}));
        assert_eq!((text(&response), &response["tools"]), ("Hello.", &json!([light()])), "{tool}");

        let refused = |choice: Value, tools: Value| {
            let body = json!({"input": "Hello", "tools": tools, "tool_choice": choice});
            let answer = world.post(ROUTE, body);
            assert_eq!(answer.status, 400, "{tool}: {}", answer.text());
            answer.error()["param"].clone()
        };
        assert_eq!(refused(json!({"type": tool["type"]}), tools), "tool_choice.type");
        assert_eq!(refused(json!("required"), json!([tool])), "tool_choice");
    }
}

#[test]
fn an_answer_of_a_schema_follows_it() {
    let world = World::new();
    let schema = json!({"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"],
                        "additionalProperties": false});
    let format = json!({"type": "json_schema", "name": "number", "schema": schema, "strict": true});
    let response = respond(
        &world,
        json!({"input": "Hello", "text": {"format": format}, "seed": 1,
                                          "max_output_tokens": 300}),
    );
    let value: Value = serde_json::from_str(text(&response)).unwrap();
    assert!(value["n"] == 1 || value["n"] == 2, "{value}");
    assert_eq!(response["text"]["format"], format);
}

#[test]
fn a_cut_answer_is_incomplete() {
    let world = World::new();
    let body = json!({"input": say("abcdefgh"), "max_output_tokens": 3});
    let response = respond(&world, body.clone());
    assert_eq!((&response["status"], text(&response)), (&json!("incomplete"), "abc"));
    assert_eq!(response["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(
        (&response["output"][0]["status"], &response["completed_at"]),
        (&json!("incomplete"), &Value::Null)
    );
    let events = events(&world, body);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["incomplete_details"], response["incomplete_details"]);
    let stored = world.get(&format!("{ROUTE}/{}", response["id"].as_str().unwrap())).json();
    assert_eq!(stored["status"], "incomplete");
}

#[test]
fn logprobs_are_those_of_a_chat() {
    let world = World::new();
    let body =
        json!({"input": say("ab"), "top_logprobs": 2, "include": ["message.output_text.logprobs"]});
    let response = respond(&world, body.clone());
    let logprobs = response["output"][0]["content"][0]["logprobs"].as_array().unwrap();
    assert_eq!((logprobs.len(), &logprobs[0]["token"]), (2, &json!("a")));
    assert_eq!(logprobs[0]["top_logprobs"].as_array().unwrap().len(), 2);
    let events = events(&world, body);
    let streamed = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    let streamed: Vec<&Value> =
        streamed.flat_map(|event| event["logprobs"].as_array().unwrap()).collect();
    assert_eq!(streamed, logprobs.iter().collect::<Vec<_>>());
}

#[test]
fn a_text_has_no_logprobs_of_its_reasoning_streamed_or_whole() {
    let world = World::new();
    let body = json!({"input": say("<think>hmmm</think>Yes"),
                      "include": ["message.output_text.logprobs"]});
    let whole = respond(&world, body.clone())["output"][1]["content"][0]["logprobs"].clone();
    let of_tokens = whole.as_array().unwrap().iter();
    let tokens: String = of_tokens.map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!(tokens, "Yes", "nor of its marks");
    let events = events(&world, body);
    let done = events.iter().find(|event| event["type"] == "response.output_text.done");
    assert_eq!(done.unwrap()["logprobs"], whole);
}

#[test]
fn the_tokens_of_an_input_are_counted_and_nothing_is_stored() {
    let world = World::new();
    let body = json!({"input": say("Hello."), "instructions": "Be brief.", "tools": [light()]});
    let counted = world.post(&format!("{ROUTE}/input_tokens"), body.clone()).json();
    assert_eq!(counted["object"], "response.input_tokens");
    assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
    let first = respond(&world, body);
    assert_eq!(counted["input_tokens"], first["usage"]["input_tokens"]);
    let next = json!({"input": say("Bye."), "previous_response_id": first["id"]});
    let counted = world.post(&format!("{ROUTE}/input_tokens"), next.clone()).json();
    assert_eq!(counted["input_tokens"], respond(&world, next)["usage"]["input_tokens"]);
}
