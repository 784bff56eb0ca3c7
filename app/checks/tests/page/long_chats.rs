//! A chat of many messages: the newest are drawn at once, the older ones while the browser is idle.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

/// What the page leaves for an idle browser waits for `act()`.
const BY_HAND: &str = "
    const later = [];
    window.requestIdleCallback = (act) => later.push(act);
    window.act = () => later.splice(0).forEach((one) => one());";

const ALL: &str = "all('@user').length === 101";

#[test]
fn a_long_chat_opens_with_its_newest_messages_and_gets_the_others_later() {
    let (_hobd, page) = open("chat/long");
    page.until("the newest three batches are drawn", "all('@user').length === 21");
    page.reads("@user", "And number 200?");
    assert_eq!(page.count(".message-batch.coming"), 8);

    page.until("all are drawn", &format!("(act(), {ALL})"));
    assert_eq!(page.count(".message-batch.coming"), 0);
    page.until(
        "its end is still shown",
        "(talk => talk.scrollHeight - talk.scrollTop - talk.clientHeight < 1)(one('@talk'))",
    );
    // What was drawn stays while the chat grows.
    page.ask("Say this: more");
    assert_eq!(page.count("@user"), 102);
}

#[test]
fn a_search_in_a_long_chat_and_an_old_message_wait_for_no_idle_browser() {
    let (_hobd, page) = open("chat/long");
    page.shows("@user");
    page.press("Control+f");
    page.until("the search sees all", ALL);

    let (_hobd, page) = open("chat/long/1");
    page.until("the first message is drawn with all that follow", ALL);
    page.shows("@hit + @user");
}

#[test]
fn a_long_chat_is_printed_whole() {
    let (_hobd, page) = open("chat/long");
    page.until("the newest three batches are drawn", "all('@user').length === 21");
    page.script("window.dispatchEvent(new Event('beforeprint'))");
    page.until("all are drawn", ALL);
}

/// Opens the page at an address, in front of the chat `long` of 202 messages.
fn open(place: &str) -> (Hobd, Page) {
    let hobd = Hobd::start_with(Model::Fake, &["--ctx", "49152"]);
    let message = |n: usize| match n % 2 {
        0 => json!({"role": "user", "content": format!("And number {n}?")}),
        _ => json!({"role": "assistant", "content": "Of lines and words."}),
    };
    let messages: Vec<_> = (0..201).map(message).collect();
    hobd.client
        .post("/v1/chat/completions", &json!({"conversation": "long", "messages": messages}));
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": BY_HAND}));
    page.go(&format!("{}/?#/{place}", hobd.origin()));
    (hobd, page)
}
