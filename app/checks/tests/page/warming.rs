//! A chat is brought back before anybody asks: whoever seems to want it finds it hot.

use hob_checks::{Hobd, Model, Page};
use serde_json::Value;

#[test]
fn a_chat_comes_back_while_one_points_at_it_and_not_when_one_brushes_over_it() {
    let hobd = with_cold_chats(&["garden", "locker"]);
    let page = Page::open(&hobd);
    page.reads("@chat @state", "cold");

    page.brush(&row("garden"));
    page.hover(&row("locker"));
    page.reads(&format!("{} @state", row("locker")), "hot");

    // What was begun before it would be there by now: they come back one after the other.
    assert_eq!(place(&hobd, "locker"), "slot");
    assert_eq!(place(&hobd, "garden"), "disk");
    page.reads(&format!("{} @state", row("garden")), "cold");
    assert_eq!(messages(&hobd, "locker"), 2, "nobody asked anything");
}

#[test]
fn a_chat_comes_back_when_the_field_that_one_writes_into_has_the_focus() {
    let hobd = with_cold_chats(&["locker"]);
    let page = Page::open(&hobd);
    page.reads("@chat @state", "cold");

    // With keys: the mouse is nowhere near the list.
    page.press("Alt+Down");
    page.reads("@title", "My locker");
    page.reads("header @state", "hot");
    assert_eq!(place(&hobd, "locker"), "slot");
    assert_eq!(messages(&hobd, "locker"), 2, "nobody asked anything");
}

#[test]
fn a_chat_that_the_page_begins_with_comes_back_as_well() {
    let hobd = with_cold_chats(&["locker"]);
    let page = Page::open(&hobd);
    page.reads("@chat @state", "cold");

    page.go(&format!("{}/?#/chat/locker", hobd.origin()));
    page.reads("header @state", "hot");
    assert_eq!(place(&hobd, "locker"), "slot");
}

#[test]
fn a_chat_comes_back_with_the_first_letter() {
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

/// A hobd that was started over, and has a chat for each of these things.
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

/// Where the daemon says that a chat's KV is.
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
