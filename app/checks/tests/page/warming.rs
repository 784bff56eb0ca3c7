//! Prewarming a chat before its next question.

use hob_checks::{Hobd, Model, Page};
use serde_json::Value;

#[test]
fn hovering_over_a_chat_prewarms_it_and_passing_over_it_does_not() {
    let hobd = with_cold_chats(&["garden", "locker"]);
    let page = Page::open(&hobd);
    page.reads("@chat @state", "cold");

    page.brush(&row("garden"));
    page.hover(&row("locker"));
    page.reads(&format!("{} @state", row("locker")), "hot");

    // Prewarms run one after the other: an earlier one would be complete by now.
    assert_eq!(place(&hobd, "locker"), "slot");
    assert_eq!(place(&hobd, "garden"), "disk");
    page.reads(&format!("{} @state", row("garden")), "cold");
    assert_eq!(messages(&hobd, "locker"), 2, "nobody asked anything");
}

#[test]
fn focusing_the_composer_prewarms_the_chat() {
    let hobd = with_cold_chats(&["locker"]);
    let page = Page::open(&hobd);
    page.reads("@chat @state", "cold");

    // With keys: the pointer is not over the list.
    page.press("Alt+Down");
    page.reads("@title", "My locker");
    page.reads("header @state", "hot");
    assert_eq!(place(&hobd, "locker"), "slot");
    assert_eq!(messages(&hobd, "locker"), 2, "nobody asked anything");
}

#[test]
fn the_chat_that_the_page_opens_with_is_prewarmed() {
    let hobd = with_cold_chats(&["locker"]);
    let page = Page::open(&hobd);
    page.reads("@chat @state", "cold");

    page.go(&format!("{}/?#/chat/locker", hobd.origin()));
    page.reads("header @state", "hot");
    assert_eq!(place(&hobd, "locker"), "slot");
}

#[test]
fn the_first_letter_prewarms_the_chat() {
    let mut hobd = Hobd::start(Model::Bundled);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.ask("My locker code is 48213.");
    hobd.stop();
    page.reads("@banner", "Hob cannot be reached");
    hobd.start_again();
    page.hides("@banner");
    page.reads("header @state", "cold");

    page.write("W");
    page.reads("header @state", "hot");
    assert_eq!(page.count("@answer"), 1, "nobody asked anything");
}

/// A restarted hobd with a chat for each of these texts.
fn with_cold_chats(things: &[&str]) -> Hobd {
    let mut hobd = Hobd::start(Model::Bundled);
    for thing in things {
        hobd.client.say(thing, &format!("My {thing}"));
    }
    hobd.restart();
    hobd
}

fn row(conversation: &str) -> String {
    format!("@chat:has([href$={conversation:?}])")
}

/// The place of a chat's KV in the daemon's status.
fn place(hobd: &Hobd, conversation: &str) -> Value {
    let chats = hobd.client.get("/v1/conversations");
    let chats = chats["data"].as_array().expect("a list");
    let chat = chats.iter().find(|chat| chat["id"] == conversation);
    chat.expect("it is listed")["place"].clone()
}

fn messages(hobd: &Hobd, conversation: &str) -> usize {
    let chat = hobd.client.get(&format!("/v1/conversations/{conversation}"));
    chat["messages"].as_array().expect("what was said").len()
}
