//! Prewarming a chat before its next question.

use hob_checks::{Hobd, Model, Page};
use hob_testkit::wait;
use serde_json::{Value, json};

#[test]
fn hovering_over_a_chat_prewarms_it_and_passing_over_it_does_not() {
    let hobd = with_cold_chats(&["garden", "locker"]);
    let page = Page::open(&hobd);
    page.is_state("@chat @state", "ready");

    page.brush(&row("garden"));
    page.hover(&row("locker"));
    is_at(&hobd, "locker", "slot");

    // Prewarms run one after the other: an earlier one would be complete by now.
    assert_eq!(place(&hobd, "locker"), "slot");
    assert_eq!(place(&hobd, "garden"), "disk");
    page.is_state(&format!("{} @state", row("garden")), "ready");
    assert_eq!(messages(&hobd, "locker"), 2, "nobody asked anything");
}

#[test]
fn pointing_restores_and_typing_computes() {
    let mut hobd = Hobd::start(Model::Fake);
    hobd.client.say("saved", "My garden has two apple trees.");
    let said = "My locker code is 48213, and I told nobody else of it.";
    let text = json!({"format": "hob conversation", "version": 1, "head": 1, "messages": [
        {"id": 1, "status": "complete", "message": {"role": "user", "content": said}},
    ]});
    let text = hobd.client.post("/v1/conversations/import", &text);
    let text = text["id"].as_str().expect("an id").to_owned();
    hobd.restart();
    let page = Page::open(&hobd);
    page.is_state(&format!("{} @state", row("saved")), "ready");
    page.is_state(&format!("{} @state", row(&text)), "unread");
    page.script(
        "const fetched = window.fetch;
         window.asked = [];
         window.fetch = (path, options) => {
           if (String(path).includes('/v1/prewarm')) asked.push(JSON.parse(options.body));
           return fetched(path, options);
         }",
    );

    page.hover(&row(&text));
    page.script("window.since = performance.now()");
    page.until("the pointer has rested there", "performance.now() > since + 400");
    page.hover(&row("saved"));
    is_at(&hobd, "saved", "slot");
    let asked = page.script("return asked.map(body => [body.conversation, body.compute])");
    assert_eq!(asked, json!([["saved", false]]), "there is nothing to restore of the other");

    page.click(&format!("{} .chat-link", row(&text)));
    page.until(
        "its focus computes",
        &format!("asked.some(it => it.conversation === {text:?} && it.compute)"),
    );
    page.is_state(&format!("{} @state", row(&text)), "ready");
}

#[test]
fn focusing_the_composer_prewarms_the_chat() {
    let hobd = with_cold_chats(&["locker"]);
    let page = Page::open(&hobd);
    page.is_state("@chat @state", "ready");

    // With keys: the pointer is not over the list.
    page.press("Alt+Down");
    page.reads("@title", "My locker");
    is_at(&hobd, "locker", "slot");
    page.is_state("header @state", "ready");
    assert_eq!(messages(&hobd, "locker"), 2, "nobody asked anything");
}

#[test]
fn the_chat_that_the_page_opens_with_is_prewarmed() {
    let hobd = with_cold_chats(&["locker"]);
    let page = Page::open(&hobd);
    page.is_state("@chat @state", "ready");

    page.go(&format!("{}/?#/chat/locker", hobd.origin()));
    is_at(&hobd, "locker", "slot");
    page.is_state("header @state", "ready");
}

/// Counts the lists of chats that the page gets from here on.
const COUNT_LISTS: &str = "
    window.lists = 0;
    const answer = window.fetch;
    window.fetch = async (path, ...rest) => {
        const response = await answer(path, ...rest);
        if (path !== '/v1/conversations' || !response.ok) return response;
        const list = await response.json();
        setTimeout(() => { window.lists += 1; });
        return Response.json(list);
    };";

#[test]
fn the_first_letter_prewarms_the_chat() {
    let mut hobd = Hobd::start(Model::Bundled);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.ask("My locker code is 48213.");
    hobd.stop();
    page.reads("@banner", "Hob cannot be reached");
    page.script(COUNT_LISTS);
    hobd.start_again();
    page.hides("@banner");
    page.until("it knows that the chat has left its slot", "window.lists > 0");
    let chat = hobd.client.get("/v1/conversations")["data"][0]["id"].clone();
    let chat = chat.as_str().expect("an id");
    is_at(&hobd, chat, "disk");

    page.write("W");
    is_at(&hobd, chat, "slot");
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

/// Waits until the KV of a chat is there.
fn is_at(hobd: &Hobd, conversation: &str, wanted: &str) {
    wait::until(wanted, || (place(hobd, conversation) == wanted).then_some(()));
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
