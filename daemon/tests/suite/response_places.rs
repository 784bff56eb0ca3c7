//! Responses as places in stored conversations: what goes on where, with which KV, and what is deleted.

mod items;

use hob_testkit::{Client, wait};
use serde_json::{Value, json};

use crate::common::home::Home;
use crate::common::{World, computed, merged, roles_and_texts, text as chat_text, user};

const ROUTE: &str = "/v1/responses";

fn respond(world: &World, mut body: Value) -> Value {
    body["temperature"] = 0.into();
    let answer = world.post(ROUTE, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn say(text: &str) -> String {
    format!("Say this: {text}")
}

fn text(response: &Value) -> &str {
    response["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap()
}

fn count(response: &Value, pointer: &str) -> u64 {
    response.pointer(pointer).and_then(Value::as_u64).unwrap()
}

fn cached(response: &Value) -> u64 {
    count(response, "/usage/input_tokens_details/cached_tokens")
}

/// The conversations that clients see in the list.
fn listed(world: &World) -> Vec<String> {
    let list = world.get("/v1/conversations").json();
    let ids =
        list["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned());
    ids.collect()
}

fn texts(world: &World, response: &Value) -> Vec<String> {
    let id = response["conversation"]["id"].as_str().unwrap();
    let conversation = world.get(&format!("/v1/conversations/{id}")).json();
    roles_and_texts(&conversation).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_response_goes_on_where_its_predecessor_ended_and_computes_only_what_is_new() {
    let world = World::new();
    let first = respond(&world, json!({"input": say("One."), "instructions": "Be brief."}));
    let next = respond(
        &world,
        json!({
        "input": say("Two."), "instructions": "Be brief.", "previous_response_id": first["id"]}),
    );
    assert_eq!((text(&next), &next["previous_response_id"]), ("Two.", &first["id"]));
    assert_eq!(next["conversation"], first["conversation"]);
    assert_eq!(texts(&world, &next), [&say("One."), "One.", &say("Two."), "Two."]);
    // The tokens of the first prompt and of its answer, the end of which is sampled and not computed.
    assert!(cached(&next) + 1 >= count(&first, "/usage/total_tokens"), "{}", next["usage"]);
    assert_eq!(computed(&next), count(&next, "/usage/input_tokens") - cached(&next));
    assert_eq!(listed(&world).len(), 1);
}

#[test]
fn a_response_behind_an_older_one_is_a_branch() {
    let world = World::new();
    let first = respond(&world, json!({"input": say("One.")}));
    let after = |text: &str| {
        respond(&world, json!({"input": say(text), "previous_response_id": first["id"]}))
    };
    let (two, other) = (after("Two."), after("Other."));
    assert_ne!(two["id"], other["id"]);
    assert_eq!(texts(&world, &other), [&say("One."), "One.", &say("Other."), "Other."]);
    let three = respond(&world, json!({"input": say("Three."), "previous_response_id": two["id"]}));
    assert_eq!(texts(&world, &three)[2..], [&say("Two."), "Two.", &say("Three."), "Three."]);
    let conversation = world.conversation(three["conversation"]["id"].as_str().unwrap());
    assert_eq!(conversation["messages"].as_array().unwrap().len(), 8);
    let parent = |response: &Value| response["hob"]["parent"].clone();
    assert_ne!(parent(&two), parent(&other));
}

#[test]
fn instructions_are_not_inherited_and_system_messages_of_the_input_are() {
    let world = World::new();
    let prompt = |response: &Value| {
        let id = response["conversation"]["id"].as_str().unwrap();
        let body = json!({"conversation": id, "messages": [],
                          "hob": {"append": true, "after": response["hob"]["parent"]}});
        let answer = world.post("/apply-template", body);
        answer.json()["prompt"].as_str().unwrap().to_owned()
    };
    let system = json!({"role": "system", "content": "You are Ember."});
    let input = json!([system, {"role": "user", "content": say("One.")}]);
    let first = respond(&world, json!({"input": input, "instructions": "In English."}));
    assert!(
        prompt(&first).starts_with("<|im_start|>system\nIn English.\n\nYou are Ember.<|im_end|>")
    );
    let next = |previous: &Value, extra: Value| {
        let body = json!({"input": say("Two."), "previous_response_id": previous["id"]});
        respond(&world, merged(body, &extra))
    };
    let second = next(&first, json!({"instructions": "In French."}));
    assert!(
        prompt(&second).starts_with("<|im_start|>system\nIn French.\n\nYou are Ember.<|im_end|>")
    );
    let third = next(&second, json!({}));
    assert!(prompt(&third).starts_with("<|im_start|>system\nYou are Ember.<|im_end|>"));
    assert_eq!(third["instructions"], Value::Null);
    let stored = world.get(&format!("{ROUTE}/{}", first["id"].as_str().unwrap())).json();
    assert_eq!(stored["instructions"], "In English.");
}

#[test]
fn instructions_that_the_user_has_set_stay_behind_a_response_without_any() {
    let world = World::new();
    let first = respond(&world, json!({"input": say("One."), "instructions": "In English."}));
    let path = format!("/v1/conversations/{}", first["conversation"]["id"].as_str().unwrap());
    let next = |previous: &Value| {
        let body = json!({"input": say("Two."), "previous_response_id": previous["id"]});
        let response = respond(&world, body);
        (response, world.get(&path).json()["instructions"].clone())
    };
    let (second, instructions) = next(&first);
    assert_eq!(instructions, "", "those of a response are not inherited");
    let set = json!({"instructions": "In German."});
    assert_eq!(world.call("PATCH", &path).json(&set).send().status, 200);
    let (third, instructions) = next(&second);
    assert_eq!(instructions, "In German.");
    assert_eq!(next(&third).1, "In German.");
}

#[test]
fn a_conversation_is_named_by_the_client_and_is_that_of_chats() {
    let world = World::new();
    let chat = world.chat(json!([user(&say("One."))]), json!({"conversation": "locker"}));
    assert_eq!(chat_text(&chat), "One.");
    for conversation in [json!("locker"), json!({"id": "locker"})] {
        let response = respond(&world, json!({"input": say("Two."), "conversation": conversation}));
        assert_eq!(response["conversation"], json!({"id": "locker"}));
    }
    let response = world.call("POST", ROUTE).header("X-Session-Id", "locker");
    let response = response.json(&json!({"input": say("Three."), "temperature": 0})).send().json();
    assert_eq!(texts(&world, &response).len(), 8);
    assert!(cached(&response) > 0);
    // The answer of a chat is a response, too.
    let id = format!("resp_{}_locker", chat["hob"]["message"]);
    let stored = world.get(&format!("{ROUTE}/{id}")).json();
    assert_eq!((text(&stored), &stored["metadata"]), ("One.", &json!({})));
    let next = respond(&world, json!({"input": say("Other."), "previous_response_id": id}));
    assert_eq!(texts(&world, &next), [&say("One."), "One.", &say("Other."), "Other."]);
    let shown = world.get("/v1/conversations/locker").json();
    assert_eq!(shown["messages"][3]["finish"]["response"], Value::Null, "only responses repeat it");

    let created = world.post("/v1/conversations", json!({"metadata": {"a": "b"}})).json();
    let id = created["id"].as_str().unwrap();
    assert!(id.starts_with("conv_") && created["object"] == "conversation", "{created}");
    let response = respond(&world, json!({"input": say("Hi."), "conversation": id}));
    assert_eq!(response["conversation"]["id"], id);
    assert_eq!(world.get(&format!("/v1/conversations/{id}")).status, 200);
}

#[test]
fn what_is_not_stored_is_not_there_afterwards_and_is_still_reused() {
    let world = World::new();
    let input = say("One.");
    let body = json!({"input": input, "store": false, "instructions": "x".repeat(100)});
    let first = respond(&world, body.clone());
    assert_eq!((text(&first), &first["store"]), ("One.", &json!(false)));
    assert_eq!((&first["conversation"], &first["hob"]["message"]), (&Value::Null, &Value::Null));
    let id = first["id"].as_str().unwrap();
    assert_eq!(world.get(&format!("{ROUTE}/{id}")).status, 404);
    let next = json!({"input": "x", "previous_response_id": id});
    assert_eq!(world.post(ROUTE, next).error()["code"], "previous_response_not_found");
    assert!(listed(&world).is_empty());
    let mut history = vec![json!({"role": "user", "content": input})];
    history.extend(first["output"].as_array().unwrap().iter().cloned());
    history.push(json!({"role": "user", "content": say("Two.")}));
    let mut whole = body;
    whole["input"] = history.into();
    let second = respond(&world, whole);
    assert!(cached(&second) + 1 >= count(&first, "/usage/total_tokens"), "{}", second["usage"]);
    world.settle();
    let slots = world.get("/v1/slots").json();
    assert_eq!(slots["data"], json!([]), "no KV on disk");

    let input =
        json!([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "x"}]);
    let tokens = |store: bool| {
        let body = json!({"input": input, "instructions": "Be brief.", "store": store});
        let counted = world.post(&format!("{ROUTE}/input_tokens"), body).json();
        counted["input_tokens"].as_u64().unwrap()
    };
    assert_eq!(tokens(false), tokens(true), "the same prompt, with one system message");

    let private = json!({"input": say("One."), "hob": {"private": true}});
    assert_eq!(respond(&world, private)["hob"]["message"], Value::Null);
    assert!(listed(&world).is_empty());
}

#[test]
fn an_answer_that_is_not_stored_may_follow_one_that_is() {
    let world = World::new();
    let first = respond(&world, json!({"input": say("One.")}));
    let next = json!({"input": say("Two."), "previous_response_id": first["id"], "store": false});
    let next = respond(&world, next);
    assert_eq!((text(&next), &next["conversation"]), ("Two.", &Value::Null));
    assert!(cached(&next) > 0, "{}", next["usage"]);
    assert_eq!(texts(&world, &first), [&say("One."), "One."]);
}

#[test]
fn an_answer_that_is_not_stored_has_the_instructions_that_the_user_has_set() {
    let world = World::new();
    let first = respond(&world, json!({"input": say("One."), "conversation": "talk"}));
    let tokens = |store: bool| {
        let next =
            json!({"input": say("Two."), "previous_response_id": first["id"], "store": store});
        let counted = world.post(&format!("{ROUTE}/input_tokens"), next).json();
        count(&counted, "/input_tokens")
    };
    let without = tokens(false);
    let set = json!({"instructions": "Answer like a pirate."});
    world.call("PATCH", "/v1/conversations/talk").json(&set).send();
    assert!(tokens(false) > without);
    assert_eq!(tokens(false), tokens(true));
}

#[test]
fn an_answer_that_is_not_stored_is_none_of_the_session_that_asks() {
    let world = World::new();
    let ask = |body: Value| {
        let answer = world.call("POST", ROUTE).header("X-Session-Id", "talk").json(&body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let first = ask(json!({"input": say("One."), "temperature": 0}));
    let next = json!({"input": say("Two."), "previous_response_id": first["id"], "store": false,
        "temperature": 0});
    let next = ask(next);
    assert_eq!((text(&next), &next["conversation"]), ("Two.", &Value::Null));
    assert_eq!(texts(&world, &first), [&say("One."), "One."]);
}

#[test]
fn a_deleted_response_takes_what_only_it_needs_along() {
    let world = World::new();
    let first = respond(&world, json!({"input": say("One.")}));
    let after = |text: &str| {
        respond(&world, json!({"input": say(text), "previous_response_id": first["id"]}))
    };
    let (two, other) = (after("Two."), after("Other."));
    let path = |response: &Value| format!("{ROUTE}/{}", response["id"].as_str().unwrap());
    let deleted = world.call("DELETE", &path(&two)).send().json();
    assert_eq!(deleted, json!({"id": two["id"], "object": "response.deleted", "deleted": true}));
    assert_eq!((world.get(&path(&two)).status, world.get(&path(&other)).status), (404, 200));
    let next = json!({"input": "x", "previous_response_id": two["id"]});
    assert_eq!(world.post(ROUTE, next).error()["code"], "previous_response_not_found");
    assert_eq!(texts(&world, &other), [&say("One."), "One.", &say("Other."), "Other."]);
    let all = world.conversation(first["conversation"]["id"].as_str().unwrap());
    assert_eq!(all["messages"].as_array().unwrap().len(), 4, "the question went with its answer");

    assert_eq!(world.call("DELETE", &path(&first)).send().status, 200);
    assert!(listed(&world).is_empty());
    assert_eq!(world.get(&path(&other)).status, 404);
}

#[test]
fn a_response_whose_answer_goes_on_keeps_what_was_stored_with_it() {
    let world = World::new();
    let body = json!({"input": say("One, two."), "conversation": "room", "max_output_tokens": 5,
        "instructions": "Be brief.", "metadata": {"ticket": "7"}});
    let cut = respond(&world, body);
    assert_eq!(cut["status"], "incomplete");
    let hob = json!({"append": true, "continue": true});
    world.chat(json!([]), json!({"conversation": "room", "hob": hob, "max_tokens": 900}));
    let whole = world.get(&format!("{ROUTE}/{}", cut["id"].as_str().unwrap())).json();
    assert_eq!((&whole["status"], text(&whole)), (&json!("completed"), "One, two."), "{whole}");
    let kept = ["metadata", "instructions"].map(|name| &whole[name]);
    assert_eq!(kept, [&json!({"ticket": "7"}), &json!("Be brief.")]);
}

#[test]
fn an_answer_that_broke_off_is_a_cancelled_response_and_can_be_followed() {
    let world = World::new();
    let tool = json!({"type": "function", "name": "look", "parameters": {"type": "object"}});
    let slow = json!({"input": format!("Say this slowly: {}", "a".repeat(500)), "stream": true,
        "tools": [tool], "metadata": {"ticket": "7"}});
    let mut socket = std::io::BufReader::new(world.call("POST", ROUTE).json(&slow).open());
    let mut line = String::new();
    let id = loop {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut socket, &mut line).unwrap() > 0);
        if let Some(data) = line.strip_prefix("data: ") {
            let event: Value = serde_json::from_str(data).unwrap();
            if event["type"] == "response.created" {
                break event["response"]["id"].as_str().unwrap().to_owned();
            }
        }
    };
    drop(socket);
    let path = format!("{ROUTE}/{id}");
    world.until("the answer has ended", |world| world.get(&path).json()["status"] == "cancelled");
    let cancelled = world.get(&path).json();
    assert_eq!(cancelled["tools"][0]["name"], "look", "{cancelled}");
    assert_eq!(cancelled["metadata"], json!({"ticket": "7"}));
    let next = respond(&world, json!({"input": say("Two."), "previous_response_id": id}));
    assert_eq!(text(&next), "Two.");
    // It has no figures, and is none of the turns that have.
    let conversation = next["conversation"]["id"].as_str().unwrap();
    let stored = world.get(&format!("/v1/conversations/{conversation}")).json();
    assert_eq!(stored["messages"][1]["finish"], json!({"model": cancelled["model"]}), "{stored}");
    assert_eq!(world.get("/v1/turns").json()["data"].as_array().unwrap().len(), 1);
}

#[test]
fn a_private_conversation_has_responses_in_memory() {
    let world = World::new();
    let body = json!({"input": say("One."), "conversation": "secret", "store": false});
    let first = respond(&world, body);
    assert_eq!(first["conversation"]["id"], "secret");
    let next = respond(&world, json!({"input": say("Two."), "previous_response_id": first["id"]}));
    assert_eq!(texts(&world, &next).len(), 4);
    world.settle();
    assert_eq!(world.get("/v1/slots").json()["data"], json!([]));
    let stored = json!({"input": say("One."), "conversation": "open"});
    respond(&world, stored.clone());
    let mut private = stored;
    private["store"] = false.into();
    let refused = world.post(ROUTE, private);
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("not_private")));
}

fn until_saved(client: &Client, response: &Value) {
    let id = response["conversation"]["id"].as_str().unwrap().to_owned();
    let tokens = count(response, "/usage/total_tokens");
    wait::until("the answer is saved", || {
        let saved = crate::common::home::saved(client, &id)?;
        (count(&saved, "/tokens") + 1 >= tokens).then_some(())
    });
}

#[test]
fn a_response_is_followed_after_a_restart_from_its_kv_on_disk() {
    let home = Home::on_fake();
    let mut hobd = home.start();
    let body =
        json!({"input": say(&"one ".repeat(60)), "temperature": 0, "max_output_tokens": 400});
    let first = hobd.client.post(ROUTE, &body);
    until_saved(&hobd.client, &first);
    let other =
        json!({"input": say("Other."), "temperature": 0, "previous_response_id": first["id"]});
    let newer = hobd.client.post(ROUTE, &other);
    until_saved(&hobd.client, &newer);
    hobd.process.kill();

    let hobd = home.start();
    let id = first["id"].as_str().unwrap();
    assert_eq!(hobd.client.get(&format!("{ROUTE}/{id}"))["output"], first["output"]);
    let next = json!({"input": say("Two."), "temperature": 0, "previous_response_id": id});
    let next = hobd.client.post(ROUTE, &next);
    assert_eq!(text(&next), "Two.");
    let total = count(&first, "/usage/total_tokens");
    assert!(cached(&next) + 1 >= total, "{} of {total}", next["usage"]);
    assert!(count(&next, "/hob/tokens/disk") + 1 >= total, "{}", next["hob"]["tokens"]);
    let id = next["conversation"]["id"].as_str().unwrap();
    let all = hobd.client.get(&format!("/v1/conversations/{id}?branches=true"));
    assert_eq!(all["messages"].as_array().unwrap().len(), 6);
    home.stop(hobd);
}

#[test]
fn a_response_may_leave_out_the_oldest_messages_of_a_full_context() {
    let home = Home::on_fake().with(&["--ctx", "640", "--slots", "1", "--eviction", "off"]);
    let hobd = home.start();
    let ask = |previous: &Value, truncation: &str| {
        let body = json!({"input": say(&"x".repeat(120)), "previous_response_id": previous["id"],
                          "temperature": 0, "truncation": truncation});
        hobd.client.call("POST", ROUTE).json(&body).send()
    };
    let mut last = json!({"id": null});
    let refused = loop {
        let answer = ask(&last, "disabled");
        if answer.status != 200 {
            break answer;
        }
        last = answer.json();
        assert_ne!(last["id"], Value::Null);
    };
    let error = refused.error();
    assert_eq!(error["code"], "context_length_exceeded");
    assert_eq!(error["param"], "input");
    let answer = ask(&last, "auto").json();
    assert_eq!((text(&answer), &answer["truncation"]), ("x".repeat(120).as_str(), &json!("auto")));
    assert!(count(&answer, "/hob/left_out") >= 2, "{}", answer["hob"]);
    home.stop(hobd);
}
