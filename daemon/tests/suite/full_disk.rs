//! A full disk: what cannot be stored is refused with the directory and the remedy, in the form of each protocol.
//! What was stored before stays whole, and the same request succeeds once there is room.

use hob_testkit::{Answer, Client, wait};
use serde_json::{Value, json};

use crate::common::home::Home;
use crate::common::{assistant, roles_and_texts, user};

const CHAT: &str = "/v1/chat/completions";

fn home() -> Home {
    let home = Home::on_fake();
    Home { launch: home.launch.clone().with_faults(), ..home }
}

/// A stored conversation, of which the database needs several pages.
fn request() -> Value {
    let said = user(&"kettle ".repeat(1000));
    json!({"conversation": "during", "stream": false, "max_tokens": 4, "messages": [said]})
}

fn post(client: &Client, path: &str, body: &Value) -> Answer {
    client.call("POST", path).json(body).send()
}

fn texts(client: &Client, conversation: &str) -> Vec<(String, String)> {
    roles_and_texts(&client.get(&format!("/v1/conversations/{conversation}")))
}

fn names(client: &Client) -> Vec<Value> {
    let list = client.get("/v1/conversations")["data"].clone();
    list.as_array().unwrap().iter().map(|row| row["id"].clone()).collect()
}

/// Asserts that the message says where there is no room, and what to do.
fn assert_names_the_remedy(home: &Home, message: &Value) {
    let message = message.as_str().unwrap();
    let directory = home.path().join("data");
    for words in [directory.to_str().unwrap(), "free space", "hob slots prune"] {
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn a_text_without_room_is_refused_in_each_protocols_form_and_stored_once_there_is_room() {
    let home = home();
    let hobd = home.start();
    hobd.client.say("before", "Say this: I am here");
    let before = texts(&hobd.client, "before");

    let full = home.launch.inject("disk", "full");
    let refused = post(&hobd.client, CHAT, &request());
    let error = refused.error();
    let expected = (507, &json!("disk_full"), &json!("server_error"));
    assert_eq!((refused.status, &error["code"], &error["type"]), expected);
    assert_names_the_remedy(&home, &error["message"]);

    let refused = post(&hobd.client, "/v1/messages", &request());
    let error = refused.json()["error"].clone();
    let expected = (507, &json!("disk_full"), &json!("api_error"));
    assert_eq!((refused.status, &error["code"], &error["type"]), expected);
    assert_names_the_remedy(&home, &error["message"]);

    let refused = post(&hobd.client, "/api/chat", &request());
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert_names_the_remedy(&home, &refused.json()["error"]);

    assert_eq!(names(&hobd.client), ["before"], "nothing is stored in part");
    assert_eq!(texts(&hobd.client, "before"), before);

    full.end();
    let answer = post(&hobd.client, CHAT, &request());
    assert_eq!(answer.status, 200, "{}", answer.text());
    home.stop(hobd);
    let hobd = home.start();
    let said = request()["messages"][0]["content"].as_str().unwrap().to_owned();
    let during = texts(&hobd.client, "during");
    assert_eq!((&during[0], during.len()), (&("user".to_owned(), said), 2));
    assert_eq!(texts(&hobd.client, "before"), before);
}

#[test]
fn an_answer_that_found_no_room_is_stored_whole_once_there_is_room() {
    let home = home();
    let hobd = home.start();
    let words = ["kettle"; 90].join(" "); // 6.3 s.
    let question = user(&format!("Say this slowly: {words}"));
    let messages = json!([user(&"Listen. ".repeat(500)), assistant("Yes."), question]);
    let body = json!({"conversation": "during", "stream": true, "temperature": 0,
        "max_tokens": 700, "messages": messages});
    let mut stream = hobd.client.call("POST", CHAT).json(&body).stream();
    stream.next_data().unwrap(); // What was asked is stored.
    let full = home.launch.inject("disk", "full");
    let last = stream.collect().pop().unwrap();
    assert_eq!(last["error"]["code"], "disk_full", "{last}");
    assert_names_the_remedy(&home, &last["error"]["message"]);

    full.end();
    hobd.client.say("next", "Say this: there is room");
    let stored = hobd.client.get("/v1/conversations/during");
    assert_eq!(roles_and_texts(&stored)[3], ("assistant".to_owned(), words));
    assert_eq!(stored["messages"][3]["status"], "complete");
}

#[test]
fn the_end_of_a_cut_answer_that_finds_no_room_is_logged_once_and_stored_once_there_is_room() {
    let home = home();
    let hobd = home.start();
    let question = user(&format!("Say this slowly: {}", ["kettle"; 200].join(" "))); // 14 s.
    let messages = json!([user(&"Listen. ".repeat(500)), assistant("Yes."), question]);
    let body = json!({"conversation": "during", "stream": true, "temperature": 0,
        "max_tokens": 2000, "messages": messages});
    let mut stream = hobd.client.call("POST", CHAT).json(&body).stream();
    let has_text = |data: &str| {
        let chunk: Value = serde_json::from_str(data).unwrap();
        chunk["choices"][0]["delta"]["content"].as_str().is_some_and(|text| !text.is_empty())
    };
    while !has_text(&stream.next_data().unwrap()) {}
    let full = home.launch.inject("disk", "full");
    drop(stream);
    wait::until("the answer has ended", || (!hobd.client.is_busy("during")).then_some(()));

    // Each read tries the write again.
    let failures = || home.launch.log().matches("transcript write failed").count();
    names(&hobd.client);
    let before = failures();
    assert!(before > 0, "there was room");
    for _ in 0..3 {
        names(&hobd.client);
    }
    assert_eq!(failures(), before);

    full.end();
    let stored = hobd.client.get("/v1/conversations/during");
    assert_eq!(stored["messages"][3]["status"], "interrupted", "{stored}");
}

#[test]
fn an_archive_without_room_is_refused_and_made_once_there_is_room() {
    let home = Home::on_fake();
    let hobd = home.start();
    hobd.client.say("locker", "Say this: 48213");
    home.stop(hobd);

    // Archives leave the last 256 MiB free.
    let hobd = home.launch.clone().with_free_bytes(256 << 20).start();
    let path = "/v1/conversations/locker/export?format=archive";
    let refused = hobd.client.call("GET", path).send();
    let error = refused.error();
    assert_eq!((refused.status, &error["code"]), (507, &json!("disk_full")));
    assert_names_the_remedy(&home, &error["message"]);
    home.stop(hobd);

    let hobd = home.start();
    assert_eq!(hobd.client.call("GET", path).send().status, 200);
}
