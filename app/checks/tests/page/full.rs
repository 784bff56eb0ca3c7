//! A chat whose context is full, or nearly: nothing ends there.

use hob_checks::{Hobd, Model, Page};
use serde_json::{Value, json};

const CTX: &str = "640";

/// A chat that fills more than four fifths of the context.
fn nearly_full() -> (Hobd, Page) {
    let arguments = ["--eviction", "off", "--ctx", CTX, "--slots", "1"];
    let hobd = Hobd::start_changed(Model::Fake, &arguments, |launch, _| launch.with_faults());
    for part in ["first", "second", "third", "fourth"] {
        hobd.client.say("long", &format!("Say this: the {part} {}", "abc ".repeat(10)));
    }
    hobd.client.rename("long", "A long chat");
    let page = Page::open(&hobd);
    page.open_chat("A long chat");
    page.answered(4);
    (hobd, page)
}

fn context(hobd: &Hobd) -> Value {
    hobd.client.get("/v1/conversations/long/context")
}

#[test]
fn from_four_fifths_on_a_chat_offers_to_make_room() {
    let (hobd, page) = nearly_full();
    let used = context(&hobd);
    let percent = used["tokens"].as_u64().unwrap() * 100 / used["max_tokens"].as_u64().unwrap();
    assert!(percent >= 80, "{used}");
    page.reads("@nearly-full", &format!("This chat fills {percent} % of the context."));
    page.click("@nearly-full [aria-label=Close]");
    page.hides("@nearly-full");
    // The ring of the head opens the same.
    page.click("@context");
    for way in ["@go-on", "@summarise", "@branch-last"] {
        page.shows(way);
    }
}

#[test]
fn the_oldest_messages_become_a_summary_that_the_model_reads() {
    let (hobd, page) = nearly_full();
    let before = context(&hobd)["tokens"].as_u64().unwrap();
    page.click("@make-room");
    page.click("@summarise");
    page.reads("@toast", "The oldest messages are summarised.");
    page.reads("@cut", "The model reads a summary of what is above");
    page.reads("@talk", "the first abc");
    page.script("one('@summary').open = true");
    let after = context(&hobd);
    assert!(after["tokens"].as_u64().unwrap() < before, "{after}");
    let stored = hobd.client.get("/v1/conversations/long");
    let summary =
        stored["messages"].as_array().unwrap().iter().find_map(|it| it["summary"].as_str());
    let summary = summary.expect("it is stored").split_whitespace().next().unwrap_or_default();
    page.reads("@summary", summary);
    page.hides("@nearly-full");
    assert_eq!(page.ask("Say this: and on"), "and on");
}

#[test]
fn a_summary_that_is_stopped_or_left_with_the_page_changes_nothing() {
    let (hobd, page) = nearly_full();
    let before = context(&hobd);
    for leave in ["one('@stop-shortening').click()", "window.isOld = true; location.reload()"] {
        page.click("@make-room");
        // The summary cannot be complete before it is left.
        let paused = hobd.pause_engine();
        page.click("@summarise");
        page.reads("@room", "The chat changes when the summary is complete.");
        page.script(leave);
        page.until("it is left", "!window.isOld && !one('@stop-shortening')");
        paused.end();
        page.answered(4);
        page.shows("@room, @nearly-full");
        page.script("one('@room [aria-label=Close]')?.click()");
    }
    // The chat is free: the next message waits for nothing.
    assert_eq!(page.ask("Say this: and on"), "and on");
    let stored = hobd.client.get("/v1/conversations/long");
    let messages = stored["messages"].as_array().unwrap();
    assert!(messages.iter().all(|it| it["summary"].is_null() && it["starts_prompt"] != true));
    assert_eq!(context(&hobd)["left_out"], before["left_out"]);
}

#[test]
fn a_message_that_does_not_fit_is_answered_after_a_summary() {
    let (_hobd, page) = nearly_full();
    page.expect_complaint("400");
    page.send(&format!("Say this: the fifth {}", "abc ".repeat(30)));
    page.reads("@failure", "longer than what the model can read");
    page.click("@failure @summarise");
    page.answered(5);
    page.hides("@failure");
    assert!(page.last_answer().starts_with("the fifth"), "{}", page.last_answer());
    page.shows("@summary");
}

#[test]
fn a_new_chat_begins_with_the_last_messages() {
    let (hobd, page) = nearly_full();
    hobd.client.patch("/v1/conversations/long", &json!({"sampling": {"top_k": 20}}));
    page.reload();
    page.click("@make-room");
    page.put("@branch-count", "2");
    page.click("@branch-last");
    page.reads("@title", "A long chat (continued)");
    page.answered(1);
    let newest = hobd.client.get("/v1/conversations")["data"][0]["id"].clone();
    let newest = hobd.client.get(&format!("/v1/conversations/{}", newest.as_str().unwrap()));
    assert_eq!(newest["sampling"], json!({"top_k": 20}));
    page.reads("@talk", "the fourth abc");
    let chats = hobd.client.get("/v1/conversations");
    assert_eq!(chats["data"].as_array().unwrap().len(), 2, "{chats}");
    assert_eq!(page.ask("Say this: and on"), "and on");
}

#[test]
fn a_message_with_a_document_that_does_not_fit_goes_into_the_branch() {
    let (hobd, page) = nearly_full();
    page.expect_complaint("400");
    let path = hobd.directory().join("castle.md");
    std::fs::write(&path, "doors ".repeat(30)).unwrap();
    page.script("one('@attach-file').hidden = false");
    page.choose_file("@attach-file", &path);
    page.shows("@document-chip[data-state=unread]");
    page.send("Say this: the fifth");
    page.reads("@failure", "longer than what the model can read");
    page.click("@failure @branch-last");
    page.reads("@title", "A long chat (continued)");
    page.reads("@document-chip", "castle.md");
    page.until("so do its words", "one('@composer').value === 'Say this: the fifth'");

    page.script("history.back()");
    page.until("the old chat is shown", "one('@title').innerText.trim() === 'A long chat'");
    assert_eq!(page.count("@document-chip"), 0);
    assert_eq!(page.script("return one('@composer').value"), "");
}

#[test]
fn the_newest_part_goes_on_before_the_context_is_full() {
    let (hobd, page) = nearly_full();
    page.click("@make-room");
    page.click("@go-on");
    page.reads("@cut", "The model reads from here on");
    assert!(context(&hobd)["left_out"].as_u64() > Some(0));
    assert_eq!(page.ask("Say this: and on"), "and on");
}

#[test]
fn a_larger_context_keeps_the_chat_and_its_kv() {
    let hobd = Hobd::start_changed(Model::Fake, &[], |launch, directory| {
        let settings = "model = \"fake\"\nctx = 640\nslots = 1\neviction = \"off\"\n";
        std::fs::write(directory.join("hob.toml"), settings).expect("it can be written");
        launch
    });
    for part in ["first", "second", "third", "fourth"] {
        hobd.client.say("long", &format!("Say this: the {part} {}", "abc ".repeat(10)));
    }
    hobd.client.rename("long", "A long chat");
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.open_chat("A long chat");
    page.click("@make-room");
    page.put("@larger-size", "1280");
    page.click("@larger");
    page.reads("@toast", "The context has 1,280 tokens now.");
    page.reads("@context", "of 1,280");
    page.until("it can be larger still", "one('@larger-size')?.options[0].value === '2560'");
    page.is_state("header @state", "ready");
    assert_eq!(page.ask("Say this: and on"), "and on");
    let numbers = page.last_figures();
    assert!(numbers.contains("from disk"), "{numbers}");
    page.hides("@nearly-full");
}

#[test]
fn a_context_that_a_flag_sets_says_so() {
    let (_hobd, page) = nearly_full();
    page.click("@make-room");
    page.reads("@room", "--ctx");
    assert_eq!(page.count("@larger"), 0);
}
