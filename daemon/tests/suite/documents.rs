//! Documents through the built hobd: read once, shared by every chat about them, removed with all KV
//! that contains them.
//!
//! Runs on the bundled model; without llama.cpp on the fake one.

pub(crate) mod pdf;
mod removal;
mod views;

use hob_testkit::{Answer, Client, Stream, wait};
use serde_json::{Value, json};

use crate::common::home::{HOUR, Home, MINUTE};

/// More than a prompt about a document has beside the document and the question's letters.
const FRAME_TOKENS: u64 = 24;

fn home() -> Home {
    Home::new().with(&["--slots", "3"])
}

/// A text that begins like no other.
fn text(of: &str) -> String {
    let line = |n: usize| format!("In year {n} the {of} had {} doors.\n", n * 7);
    (1..=24).map(line).collect()
}

fn send(client: &Client, text: &str, query: &str) -> Answer {
    client.call("POST", &format!("/v1/documents?{query}")).body(text).send()
}

/// Adds a document. Returns its description.
fn add(client: &Client, text: &str, query: &str) -> Value {
    let answer = send(client, text, query);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

/// Computes a document. Returns the events.
fn read(client: &Client, id: &str) -> Vec<Value> {
    let stream: Stream = client.call("POST", &format!("/v1/documents/{id}/read")).stream();
    assert_eq!(stream.status, 200);
    stream.collect()
}

fn view(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/documents/{id}"))
}

/// Asks about documents. Returns the answer's `hob` object, and in it `prompt_tokens`.
fn ask(client: &Client, conversation: &str, text: &str, documents: &[&str]) -> Value {
    let answer = client.chat(&json!({
        "conversation": conversation, "hob": {"append": true}, "max_tokens": 8, "temperature": 0,
        "messages": [{"role": "user", "content": text, "hob": {"documents": documents}}],
    }));
    let mut hob = answer["hob"].clone();
    hob["prompt_tokens"] = answer["usage"]["prompt_tokens"].clone();
    hob
}

fn computed(hob: &Value) -> u64 {
    hob["tokens"]["computed"].as_u64().unwrap()
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name}: {value}"))
}

fn until_saved(client: &Client, id: &str) -> Value {
    wait::until("the document is on disk", || {
        let view = view(client, id);
        let list = client.get("/v1/slots");
        let is_saved = list["data"].as_array().unwrap().iter().any(|row| {
            row["conversation"].as_str().unwrap().contains("seg:") && row["place"] != "none"
        });
        (is_saved && view["ready_tokens"] == view["tokens"]).then_some(view)
    })
}

#[test]
fn a_picture_is_refused_as_one() {
    let hobd = Home::on_fake().start();
    let call = hobd.client.call("POST", "/v1/documents?name=cat%2Epng");
    let refused = call.body(&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..]).send();
    assert_eq!(refused.error()["code"], "document_unreadable");
    assert!(refused.text().contains("Hob reads no images"), "{}", refused.text());
}

#[test]
fn a_document_for_an_unknown_profile_is_not_stored() {
    let hobd = Home::on_fake().start();
    let refused = send(&hobd.client, &text("castle"), "name=castle.txt&profile=nobody");
    assert_eq!(refused.error()["code"], "profile_not_found");
    assert_eq!(hobd.client.get("/v1/documents")["data"], json!([]));
}

#[test]
fn a_document_is_read_once_and_every_chat_about_it_computes_only_its_question() {
    let home = home();
    let hobd = home.start();
    let client = &hobd.client;
    let document = add(client, &text("castle"), "name=castle.txt");
    let id = document["id"].as_str().unwrap();
    let tokens = count(&document, "tokens");
    assert_eq!((&document["ready_tokens"], &document["name"]), (&json!(0), &json!("castle.txt")));

    let events = read(client, id);
    let (last, progress) = events.split_last().unwrap();
    assert_eq!(last["object"], "document.ready");
    assert!(computed(&last["hob"]) >= tokens, "{last}");
    assert!(progress.iter().all(|event| event["object"] == "document.progress"), "{events:?}");
    assert_eq!(progress[0]["hob"]["progress"]["tokens_total"], last["hob"]["tokens"]["computed"]);
    until_saved(client, id);
    assert_eq!(client.get("/v1/documents")["data"][0]["id"], id);

    let question = "How many doors?";
    let few = FRAME_TOKENS + question.len() as u64;
    for chat in ["one", "two"] {
        let hob = ask(client, chat, question, &[id]);
        assert!(computed(&hob) <= few, "hot: {hob}");
    }
    let again = read(client, id);
    assert!(computed(&again.last().unwrap()["hob"]) <= FRAME_TOKENS, "{again:?}");

    home.stop(hobd);
    home.pass(3 * 24 * HOUR);
    let hobd = home.start();
    let client = &hobd.client;
    let after = view(client, id);
    assert_eq!(after["disk_tokens"], after["tokens"], "{after}");
    let hob = ask(client, "three", "Which year had the fewest?", &[id]);
    assert_eq!(count(&hob["tokens"], "disk"), tokens, "{hob}");
    assert_eq!(computed(&hob), count(&hob, "prompt_tokens") - tokens, "only what is new: {hob}");
    let on = ask(client, "one", "And the year?", &[]);
    assert!(computed(&on) <= few, "the first chat goes on: {on}");
    assert_eq!(view(client, id)["conversations"], 3);
}

#[test]
fn a_document_that_comes_later_recomputes_nothing_before_it() {
    let home = home();
    let hobd = home.start();
    let client = &hobd.client;
    let id = add(client, &text("castle"), "")["id"].as_str().unwrap().to_owned();
    ask(client, "talk", &"My locker code is 48213. ".repeat(8), &[]);
    let messages = || client.get("/v1/conversations/talk")["messages"].clone();
    let hob = ask(client, "talk", "How many doors?", &[&id]);
    assert!(computed(&hob) >= count(&view(client, &id), "tokens") / 2, "{hob}");
    assert!(count(&hob["tokens"], "shared") > 100, "the talk before stays: {hob}");
    let named = json!({"documents": [{"id": id, "name": "Document"}]});
    assert_eq!(messages()[2]["hob"], named);
    assert!(messages()[0].get("hob").is_none());
}

#[test]
fn a_document_of_a_chat_goes_with_it_and_one_of_the_library_stays() {
    let home = home();
    let hobd = home.start();
    let client = &hobd.client;
    let pasted = add(client, &text("mill"), "keep=chat")["id"].as_str().unwrap().to_owned();
    let kept = add(client, &text("castle"), "")["id"].as_str().unwrap().to_owned();
    read(client, &pasted);
    ask(client, "talk", "How many doors?", &[&pasted, &kept]);
    ask(client, "other", "How many doors?", &[&pasted]);
    let listed = client.get("/v1/documents");
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    let status = |id: &str| client.call("GET", &format!("/v1/documents/{id}")).send().status;

    client.call("DELETE", "/v1/conversations/talk").send();
    assert_eq!((status(&pasted), status(&kept)), (200, 200), "another chat names it");
    let unused = client.call("DELETE", &format!("/v1/documents/{pasted}?unused=true")).send();
    assert_eq!(unused.json()["deleted"], false);
    client.call("DELETE", "/v1/conversations/other").send();
    assert_eq!((status(&pasted), status(&kept)), (404, 200));
    let left = client.get("/v1/slots");
    assert_eq!(left["data"], json!([]), "{left}");

    let unsent = add(client, &text("tower"), "keep=chat")["id"].as_str().unwrap().to_owned();
    let unused = client.call("DELETE", &format!("/v1/documents/{unsent}?unused=true")).send();
    assert_eq!(unused.json()["deleted"], true);
    add(client, &text("tower"), "keep=chat");
    home.pass(2 * HOUR);
    wait::until("a document that was not sent is gone", || (status(&unsent) == 404).then_some(()));
}

#[test]
fn a_document_that_was_not_sent_outlives_a_sleep_of_the_machine() {
    let home = Home::on_fake();
    let hobd = home.start();
    let client = &hobd.client;
    let add = |of: &str| add(client, &text(of), "keep=chat")["id"].as_str().unwrap().to_owned();
    let status = |id: &str| client.call("GET", &format!("/v1/documents/{id}")).send().status;
    let until_deleted = |id: &str| {
        wait::until("the document is gone", || (status(id) == 404).then_some(()));
    };
    let first = add("castle");
    home.pass(2 * HOUR);
    until_deleted(&first); // From here on the loop of the trash has read the clocks.

    let old = add("mill");
    home.pass(59 * MINUTE);
    let young = add("tower");
    home.pass_with_sleep(2 * MINUTE, 8 * HOUR);
    until_deleted(&old);
    assert_eq!(status(&young), 200, "it was there for two minutes");
}

#[test]
fn a_document_that_only_a_private_chat_names_stays_with_it() {
    let home = home();
    let hobd = home.start();
    let client = &hobd.client;
    let add = |of: &str| add(client, &text(of), "keep=chat")["id"].as_str().unwrap().to_owned();
    let [named, shared, unsent] = ["castle", "mill", "tower"].map(add);
    let status = |id: &str| client.call("GET", &format!("/v1/documents/{id}")).send().status;
    client.chat(&json!({
        "conversation": "secret", "hob": {"append": true, "private": true}, "max_tokens": 8,
        "messages": [{"role": "user", "content": "How many doors?",
            "hob": {"documents": [named, shared]}}],
    }));
    ask(client, "talk", "How many doors?", &[&shared]);
    client.call("DELETE", "/v1/conversations/talk").send();
    assert_eq!(status(&shared), 200, "the private chat names it");
    let unused = client.call("DELETE", &format!("/v1/documents/{named}?unused=true")).send();
    assert_eq!(unused.json()["deleted"], false);

    home.pass(2 * HOUR);
    wait::until("a document that was not sent is gone", || (status(&unsent) == 404).then_some(()));
    assert_eq!((status(&named), status(&shared)), (200, 200));
    client.call("DELETE", "/v1/conversations/secret").send();
    home.pass(HOUR);
    wait::until("nothing names them", || {
        ([status(&named), status(&shared)] == [404, 404]).then_some(())
    });
}

#[test]
fn a_document_of_a_message_that_can_be_restored_is_not_unused() {
    let home = home();
    let hobd = home.start();
    let client = &hobd.client;
    let id = add(client, &text("castle"), "keep=chat")["id"].as_str().unwrap().to_owned();
    ask(client, "talk", "How many doors?", &[&id]);
    let message = client.get("/v1/conversations/talk")["messages"][0]["id"].clone();
    let path = format!("/v1/conversations/talk/messages/{message}");
    let deleted = client.call("DELETE", &path).send().json();
    assert_eq!(deleted["deleted"], 2, "{deleted}");

    let unused = || {
        let answer = client.call("DELETE", &format!("/v1/documents/{id}?unused=true")).send();
        answer.json()["deleted"].clone()
    };
    assert_eq!(unused(), false);
    assert_eq!(client.call("POST", &format!("{path}/restore")).send().status, 200);
    ask(client, "talk", "And the year?", &[]);
    assert_eq!(view(client, &id)["conversations"], 1);

    let other = add(client, &text("bridge"), "keep=chat")["id"].as_str().unwrap().to_owned();
    let answer = client.call("DELETE", &format!("/v1/documents/{other}?unused=true")).send();
    assert_eq!(answer.json()["deleted"], true);
    assert_eq!(client.call("GET", &format!("/v1/documents/{other}")).send().status, 404);
}

#[test]
fn a_document_of_a_message_that_can_be_restored_goes_with_its_own_chat_alone() {
    let home = Home::on_fake();
    let hobd = home.start();
    let client = &hobd.client;
    let id = add(client, &text("castle"), "keep=chat")["id"].as_str().unwrap().to_owned();
    for chat in ["one", "two"] {
        ask(client, chat, "How many doors?", &[&id]);
    }
    let status = || client.call("GET", &format!("/v1/documents/{id}")).send().status;
    let message = client.get("/v1/conversations/two")["messages"][0]["id"].clone();
    let path = format!("/v1/conversations/two/messages/{message}");
    client.call("DELETE", &path).send();
    client.call("DELETE", "/v1/conversations/one").send();
    assert_eq!(status(), 200, "the message may come back");
    assert_eq!(client.call("POST", &format!("{path}/restore")).send().status, 200);
    assert_eq!(view(client, &id)["conversations"], 1);

    client.call("DELETE", &path).send();
    client.call("DELETE", "/v1/conversations/two").send();
    assert_eq!(status(), 404, "with its last chat, although no message named it");
}

#[test]
fn a_private_document_never_reaches_the_disk() {
    let home = home();
    let hobd = home.start();
    let client = &hobd.client;
    let secret = text("secret chamber");
    let id = add(client, &secret, "keep=private")["id"].as_str().unwrap().to_owned();
    let asked = |private: bool| {
        let body = json!({
            "conversation": "hidden", "max_tokens": 4, "hob": {"append": true, "private": private},
            "messages": [{"role": "user", "content": "Hm?", "hob": {"documents": [id]}}],
        });
        client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    assert_eq!(asked(false).error()["code"], "document_not_found");
    assert_eq!(asked(true).status, 200);
    assert_eq!(client.get("/v1/documents")["data"], json!([]));
    home.stop(hobd);
    for file in hob_testkit::files::below(home.path()) {
        let bytes = std::fs::read(&file).unwrap();
        let is_there = bytes.windows(14).any(|window| window == b"secret chamber");
        assert!(!is_there, "{}", file.display());
    }
    let hobd = home.start();
    let status = hobd.client.call("GET", &format!("/v1/documents/{id}")).send().status;
    assert_eq!(status, 404);
}

#[test]
fn an_export_keeps_its_documents() {
    let home = home();
    let hobd = home.start();
    let client = &hobd.client;
    let text = text("mill");
    let id = add(client, &text, "name=mill.txt&keep=chat")["id"].as_str().unwrap().to_owned();
    ask(client, "talk", "How many doors?", &[&id]);
    for (format, kind) in [("json", "application/json"), ("markdown", "text/markdown")] {
        let file = client.get_text(&format!("/v1/conversations/talk/export?format={format}"));
        client.call("DELETE", "/v1/conversations/talk").send();
        assert_eq!(client.call("GET", &format!("/v1/documents/{id}")).send().status, 404);
        let import = client.call("POST", "/v1/conversations/import").header("content-type", kind);
        assert_eq!(import.body(file).send().status, 200, "{format}");
        let stored = client.get_text(&format!("/v1/documents/{id}/text"));
        assert_eq!(stored, text.trim_end(), "{format}");
        let talk = client.get("/v1/conversations/talk");
        assert_eq!(talk["messages"][0]["hob"]["documents"][0]["name"], "mill.txt", "{format}");
    }
}

#[test]
fn an_export_whose_document_was_edited_is_imported_beside_the_chat_that_it_is_of() {
    let home = Home::on_fake();
    let hobd = home.start();
    let client = &hobd.client;
    let id = add(client, &text("mill"), "keep=chat")["id"].as_str().unwrap().to_owned();
    ask(client, "talk", "How many doors?", &[&id]);
    let import = |file: &str| {
        let call = client.call("POST", "/v1/conversations/import");
        let answer = call.header("content-type", "text/markdown").body(file).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let file = client.get_text("/v1/conversations/talk/export?format=markdown");
    assert_eq!(import(&file)["was_here"], true);

    let edited = import(&file.replace("the mill had", "the tower had"));
    assert_eq!((&edited["was_here"], &edited["id"]), (&json!(false), &json!("talk-2")), "{edited}");
    let named = |chat: &str| {
        let chat = client.get(&format!("/v1/conversations/{chat}"));
        chat["messages"][0]["hob"]["documents"][0]["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(named("talk"), id);
    let other = client.get_text(&format!("/v1/documents/{}/text", named("talk-2")));
    assert_eq!(other, text("tower").trim_end());
}

#[test]
fn a_document_stays_when_its_chat_goes_on_with_its_newest_part() {
    let home = Home::on_fake().with(&["--slots", "1", "--ctx", "2048", "--eviction", "off"]);
    let hobd = home.start();
    let client = &hobd.client;
    let id = add(client, &text("castle"), "")["id"].as_str().unwrap().to_owned();
    ask(client, "talk", &"x".repeat(300), &[&id]);
    let tokens = count(&view(client, &id), "tokens");
    let more = |newest: bool| {
        let body = json!({
            "conversation": "talk", "hob": {"append": true, "newest": newest}, "max_tokens": 8,
            "messages": [{"role": "user", "content": "y".repeat(300)}],
        });
        client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    while more(false).status == 200 {}
    let answer = more(true).json();
    assert!(count(&answer["hob"], "left_out") > 0, "{answer}");
    assert!(count(&answer["hob"]["tokens"], "shared") >= tokens, "the document stays: {answer}");
    let next = more(true).json();
    assert!(count(&next["hob"]["tokens"], "shared") >= tokens, "and later, too: {next}");
}
