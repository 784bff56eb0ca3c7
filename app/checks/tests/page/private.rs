//! A private chat: marked, in memory only, and ended from its menu.

use std::fs;
use std::path::Path;

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

const CANARY: &str = "a-canary-at-midnight";

#[test]
fn a_private_chat_is_marked_and_leaves_nothing() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.click("@new-private");
    page.reads("@private", "private");
    page.ask(&format!("Say this: {CANARY}"));

    page.reads("@title", CANARY);
    assert_eq!(page.script("return document.title"), "A private chat – Hob");

    page.reload();
    page.reads("@title", CANARY);
    page.reads("@private", "private");
    page.answered(1);
    page.ask("Say this: again");
    page.until("the list marks it", "all('@chat .chat-title .icon').length === 1");
    let list = hobd.client.get("/v1/conversations");
    assert_eq!(list["data"][0]["private"], true, "{list}");

    page.choose("@chat-menu", "End private chat");
    page.shows("@question");
    page.click("@yes");
    page.until("it is gone", "all('@chat').length === 0");
    let list = hobd.client.get("/v1/conversations");
    assert_eq!(list["data"].as_array().map(Vec::len), Some(0));
    hobd.stop();
    page.expect_it_away();
    assert!(!is_in_a_file(hobd.directory()));
}

#[test]
fn the_way_back_shows_nothing_of_a_private_chat_that_has_ended() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("404");
    page.click("@new-private");
    page.ask(&format!("Say this: {CANARY}"));
    page.choose("@chat-menu", "End private chat");
    page.click("@yes");
    page.reads("h2", "What can I remember for you?");
    page.until("it is gone", "all('@chat').length === 0");

    page.script("history.back()");
    page.reads("h2", "A private chat");
    let shown = page.script("return document.body.innerText");
    assert!(!shown.as_str().unwrap_or_default().contains(CANARY), "{shown}");
}

#[test]
fn a_private_chat_that_another_window_has_ended_leaves_the_screen() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("404");
    page.click("@new-private");
    page.ask(&format!("Say this: {CANARY}"));
    page.reads("@title", CANARY);
    let id = hobd.client.get("/v1/conversations")["data"][0]["id"].clone();
    let path = format!("/v1/conversations/{}", id.as_str().expect("it is listed"));
    assert_eq!(hobd.client.call("DELETE", &path).send().status, 200);
    page.reads("h2", "A private chat");
    page.until("it has left the list", "all('@chat').length === 0");
    let shown = page.script("return document.body.innerText");
    assert!(!shown.as_str().unwrap_or_default().contains(CANARY), "{shown}");
    assert_eq!(page.ask("Say this: once more"), "once more");
    page.reads("@private", "private");
}

#[test]
fn no_words_of_a_private_chat_become_a_chat_that_is_stored() {
    let hobd = Hobd::start_with(Model::Fake, &["--eviction", "off", "--ctx", "640"]);
    let page = Page::open(&hobd);
    page.click("@new-private");
    page.ask(&format!("Say this: {CANARY}"));
    page.click("@context");
    page.shows("@go-on");
    assert_eq!(page.count("@branch-last"), 0);
    page.hover("@answer");
    page.click("@answer @message-menu");
    page.shows("[role=menu]");
    assert!(!page.texts("[role=menuitem]").iter().any(|item| item.contains("New chat")));
}

#[test]
fn chats_of_other_clients_are_private_as_they_have_asked_and_not_by_their_names() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.chat(&json!({
        "conversation": "diary", "hob": {"append": true, "private": true},
        "messages": [{"role": "user", "content": "Say this: dear diary"}],
    }));
    hobd.client.say("private-notes", "Say this: bread");
    let page = Page::open(&hobd);
    page.open_chat("Say this: dear diary");
    page.reads("@private", "private");
    page.focus("@composer");
    page.write("A secret");
    assert_eq!(page.script("return JSON.stringify(sessionStorage)"), "{}");
    page.choose("@chat-menu", "End private chat");
    page.click("@yes");
    page.until("it is gone", "all('@chat').length === 1");

    page.open_chat("Say this: bread");
    assert_eq!(page.count("@private"), 0);
    assert_eq!(page.ask("Say this: and butter"), "and butter");
}

/// Whether a file below `directory` has the canary.
fn is_in_a_file(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().flatten().any(|entry| {
        let path = entry.path();
        let has =
            |bytes: Vec<u8>| bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        if path.is_dir() { is_in_a_file(&path) } else { fs::read(path).is_ok_and(has) }
    })
}
