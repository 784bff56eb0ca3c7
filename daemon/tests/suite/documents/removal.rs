//! Documents that are removed: their text, and all KV that contains it.

use std::time::Duration;

use hob_testkit::wait;
use serde_json::json;

use super::{add, ask, count, home, read, text, until_saved};
use crate::common::home::Home;

#[test]
fn a_removed_document_leaves_no_text_and_no_kv() {
    let home = home();
    let hobd = home.start();
    let client = &hobd.client;
    let id = add(client, &text("castle"), "")["id"].as_str().unwrap().to_owned();
    read(client, &id);
    ask(client, "talk", "How many doors?", &[&id]);
    until_saved(client, &id);

    let path = format!("/v1/documents/{id}");
    assert_eq!(client.call("DELETE", &path).send().json()["deleted"], true);
    assert_eq!(client.call("GET", &path).send().status, 404);
    assert_eq!(client.get("/v1/documents")["data"], json!([]));
    let left = client.get("/v1/slots");
    assert_eq!(left["data"], json!([]), "{left}");
    let again = add(client, &text("castle"), "");
    assert_eq!(again["ready_tokens"], 0, "{again}");
    client.call("DELETE", &path).send();

    let hob = ask(client, "talk", "Are you still there?", &[]);
    assert!(count(&hob["tokens"], "computed") < count(&again, "tokens"), "a line is left: {hob}");
    let unknown = client.call("POST", "/v1/chat/completions").json(&json!({
        "messages": [{"role": "user", "content": "x", "hob": {"documents": [id]}}],
    }));
    let error = unknown.send().error();
    assert_eq!(error["code"], "document_not_found");
    assert_eq!(error["param"], "messages[0].hob.documents[0]");
}

#[test]
fn a_conversation_goes_on_whose_document_is_removed_while_it_is_answered() {
    let home = Home::on_fake();
    let hobd = home.start();
    let client = &hobd.client;
    let id = add(client, &text("castle"), "")["id"].as_str().unwrap().to_owned();
    let question = format!("Say this slowly: {}", "word ".repeat(400)); // 20 s.
    let asked = client.call("POST", "/v1/chat/completions").json(&json!({
        "conversation": "talk", "stream": true, "temperature": 0,
        "messages": [{"role": "user", "content": question, "hob": {"documents": [id]}}],
    }));
    let mut answer = asked.stream();
    answer.next().expect("it has begun");
    let removed = client.call("DELETE", &format!("/v1/documents/{id}")).send();
    assert_eq!(removed.json()["deleted"], true);
    wait::until("the answer has ended", || {
        let talk = client.get("/v1/conversations/talk");
        (talk["messages"][1]["status"] == "interrupted").then_some(())
    });
    ask(client, "talk", "Are you still there?", &[]);
}

#[test]
fn a_document_that_is_removed_while_its_prompt_is_tokenized_leaves_no_kv() {
    let home = Home::on_fake();
    let hobd = home.start();
    let client = &hobd.client;
    // Where the removal cancelled no read, five of 21 reads left KV that had begun up to 38 ms before.
    for delay in (0..40).step_by(2).chain([60, 80]) {
        let part = |n: usize| text(&format!("castle of {delay} and {n}"));
        let text: String = (0..16).map(part).collect();
        let id = add(client, &text, "")["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/documents/{id}");
        std::thread::scope(|scope| {
            scope.spawn(|| client.call("POST", &format!("{path}/read")).send());
            std::thread::sleep(Duration::from_millis(delay));
            assert_eq!(client.call("DELETE", &path).send().json()["deleted"], true);
        });
        let again = add(client, &text, "");
        assert_eq!(again["ready_tokens"], 0, "after {delay} ms: {again}");
        client.call("DELETE", &path).send();
    }
    assert_eq!(client.get("/v1/slots")["data"], json!([]));
}

#[test]
fn a_removed_document_leaves_no_kv_of_a_chat_whose_message_about_it_was_deleted() {
    let home = Home::on_fake();
    let hobd = home.start();
    let client = &hobd.client;
    let id = add(client, &text("castle"), "")["id"].as_str().unwrap().to_owned();
    ask(client, "talk", "Hello", &[]);
    ask(client, "talk", "How many doors?", &[&id]);
    let message = client.get("/v1/conversations/talk")["messages"][2]["id"].clone();
    let path = format!("/v1/conversations/talk/messages/{message}");
    assert_eq!(client.call("DELETE", &path).send().status, 200);
    let rows = || client.get("/v1/slots")["data"].as_array().unwrap().clone();
    wait::until("the chat has KV", || {
        rows().iter().any(|row| row["conversation"] == "talk").then_some(())
    });

    client.call("DELETE", &format!("/v1/documents/{id}")).send();
    let left = rows();
    assert!(left.iter().all(|row| row["conversation"] != "talk"), "{left:?}");
}
