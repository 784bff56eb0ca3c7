//! The items of conversations and of responses: listed, added, deleted, and named in place of being sent again.

use serde_json::{Value, json};

use super::{ROUTE, cached, count, listed, respond, say, texts};
use crate::common::{World, user};

/// As the sessions of openai-agents keep a conversation.
#[test]
fn items_of_a_conversation_are_added_listed_and_deleted() {
    let world = World::new();
    let said = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    let called =
        json!({"type": "function_call", "call_id": "c1", "name": "light", "arguments": "{}"});
    let result = json!({"type": "function_call_output", "call_id": "c1", "output": "on"});
    let begun =
        json!({"items": [said("user", "Light?"), called, result, said("assistant", "It is on.")]});
    let created = world.post("/v1/conversations", begun).json();
    let id = created["id"].as_str().unwrap();
    let route = format!("/v1/conversations/{id}/items");
    let list = |query: &str| {
        let page = world.get(&format!("{route}{query}"));
        assert_eq!(page.status, 200, "{}", page.text());
        page.json()
    };
    let kinds = |page: &Value| {
        let items = page["data"].as_array().unwrap().iter();
        items.map(|item| item["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = list("?order=asc");
    assert_eq!(kinds(&all), ["message", "function_call", "function_call_output", "message"]);
    assert_eq!(all["data"][3]["content"][0]["text"], "It is on.");
    let last = list("?limit=1");
    assert_eq!((&last["data"][0], &last["has_more"]), (&all["data"][3], &json!(true)));

    // A response follows them.
    let response = respond(&world, json!({"input": say("Good."), "conversation": id}));
    assert_eq!(texts(&world, &response)[3..], ["It is on.", &say("Good."), "Good."]);
    let added =
        world.post(&route, json!({"items": [said("user", "Bye"), said("assistant", "Bye!")]}));
    assert_eq!(added.status, 200, "{}", added.text());
    let added = added.json();
    assert_eq!(
        (added["data"].as_array().map(Vec::len), &added["has_more"]),
        (Some(2), &json!(false))
    );
    let newest = list("?limit=1")["data"][0].clone();
    assert_eq!(newest, added["data"][1]);
    let item = format!("{route}/{}", newest["id"].as_str().unwrap());
    assert_eq!(world.get(&item).json(), newest);
    let deleted = world.call("DELETE", &item).send();
    assert_eq!((deleted.status, &deleted.json()["id"]), (200, &json!(id)));
    assert_eq!(world.get(&item).status, 404);
    assert_eq!(list("?limit=1")["data"][0], added["data"][0]);

    let empty = world.post("/v1/conversations", json!({})).json();
    let path = format!("/v1/conversations/{}/items", empty["id"].as_str().unwrap());
    assert_eq!(world.get(&path).json()["data"], json!([]));
    assert_eq!(world.post(&path, json!({"items": [said("user", "Hi")]})).status, 200);
    assert_eq!(world.get(&path).json()["data"][0]["content"][0]["text"], "Hi");
    let answered = respond(&world, json!({"conversation": empty["id"]}));
    assert_eq!(texts(&world, &answered).len(), 2, "an item may be the question");
    assert_eq!(world.post(&path, json!({"items": [said("user", "And now?")]})).status, 200);
    let by_header = world.call("POST", ROUTE).header("X-Session-Id", empty["id"].as_str().unwrap());
    let by_header = by_header.json(&json!({"temperature": 0})).send();
    assert_eq!(by_header.status, 200, "{}", by_header.text());
    assert_eq!(texts(&world, &by_header.json()).len(), 4, "whichever field names its conversation");
    for (body, param) in [
        (json!({}), "items"),
        (json!({"items": []}), "items"),
        (json!({"items": [said("pope", "x")]}), "items[0].role"),
        (json!({"items": [{"type": "item_reference", "id": "x"}]}), "items[0].type"),
    ] {
        let refused = world.post(&path, body.clone());
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(param)), "{body}");
    }
}

#[test]
fn a_client_that_sends_the_history_stays_in_its_conversation() {
    let world = World::new();
    let question = json!({"role": "user", "content": say("One.")});
    let first = respond(&world, json!({"input": [question]}));
    let mut history = vec![question];
    history.extend(first["output"].as_array().unwrap().iter().cloned());
    history.push(json!({"role": "user", "content": say("Two.")}));
    let next = respond(&world, json!({"input": history}));
    assert_eq!(next["conversation"], first["conversation"]);
    assert_eq!(texts(&world, &next), [&say("One."), "One.", &say("Two."), "Two."]);
    assert!(cached(&next) + 1 >= count(&first, "/usage/total_tokens"));

    let reference = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    history[1] = reference;
    history[2]["content"] = say("Three.").into();
    let third = respond(&world, json!({"input": history}));
    assert_eq!(texts(&world, &third), [&say("One."), "One.", &say("Three."), "Three."]);
    assert_eq!(listed(&world).len(), 1);

    // The stored item of an answer has all its texts, also those that a stream numbers.
    let id = first["output"][0]["id"].as_str().unwrap();
    let (kind, place) = id.split_once('_').unwrap();
    let (row, name) = place.split_once('_').unwrap();
    let further =
        |row: &str| json!({"type": "item_reference", "id": format!("{kind}_{row}.1_{name}")});
    history.insert(2, further(row));
    history[3]["content"] = say("Four.").into();
    let fourth = respond(&world, json!({"input": history}));
    assert_eq!(texts(&world, &fourth), [&say("One."), "One.", &say("Four."), "Four."]);
    let mut mistaken = history.clone();
    mistaken.push(json!({"role": "pope", "content": "x"}));
    let error = world.post(ROUTE, json!({"input": mistaken})).error();
    assert_eq!(error["param"], "input[4].role", "{error}");
    history[2] = further("999");
    assert_eq!(world.post(ROUTE, json!({"input": history})).error()["code"], "item_not_found");
}

#[test]
fn a_referenced_question_has_its_documents() {
    let world = World::new();
    let document = world.call("POST", "/v1/documents?name=code.txt").body("The code is 7.").send();
    let documents = json!({"documents": [document.json()["id"]]});
    let question = json!({"role": "user", "content": say("One."), "hob": documents});
    let first = respond(&world, json!({"input": [question]}));
    let conversation = first["conversation"]["id"].as_str().unwrap();
    let reference = |id: &str| json!({"type": "item_reference", "id": id});
    let asked = reference(&format!("msg_{}_{conversation}", first["hob"]["parent"]));
    let answered = reference(first["output"][0]["id"].as_str().unwrap());
    let next = respond(&world, json!({"input": [asked, answered, user(&say("Two."))]}));
    assert_eq!(texts(&world, &next), [&say("One."), "One.", &say("Two."), "Two."]);
    let stored = world.conversation(conversation)["messages"].as_array().unwrap().len();
    assert_eq!(stored, 4, "the question is the stored one");
}

#[test]
fn the_items_of_the_input_are_all_that_the_model_read() {
    let world = World::new();
    let first = respond(&world, json!({"input": say("One."), "instructions": "Be brief."}));
    let next = json!({"input": say("Two."), "previous_response_id": first["id"]});
    let next = respond(&world, next);
    let path = format!("{ROUTE}/{}/input_items", next["id"].as_str().unwrap());
    let page = world.get(&path).json();
    let texts: Vec<_> = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["content"][0]["text"].clone())
        .collect();
    assert_eq!(texts, [say("Two."), "One.".to_owned(), say("One.")]);
    assert_eq!(page["data"][1], first["output"][0]);
    assert_eq!((&page["has_more"], &page["object"]), (&json!(false), &json!("list")));
    let after = page["data"][0]["id"].as_str().unwrap();
    let rest = world.get(&format!("{path}?limit=1&after={after}")).json();
    assert_eq!((&rest["data"], &rest["has_more"]), (&json!([first["output"][0]]), &json!(true)));
    let ascending = world.get(&format!("{path}?order=asc&limit=1")).json();
    assert_eq!(ascending["data"][0], page["data"][2]);
    for (query, param) in
        [("order=up", "order"), ("limit=0", "limit"), ("limit=x", "limit"), ("after=a", "after")]
    {
        let refused = world.get(&format!("{path}?{query}"));
        assert_eq!((refused.status, &refused.error()["param"]), (400, &json!(param)));
    }
}
