//! Chats that an engine at another address answers.

use std::fs;

use hob_checks::answers::status_with;
use hob_checks::{Hobd, Model, Page};
use serde_json::json;

/// The engine with a context of so many tokens, and a hobd in front of it with its page.
fn start(context: &str) -> (Hobd, Hobd, Page) {
    let engine = Hobd::start_with(Model::Fake, &["--eviction", "off", "--ctx", context]);
    let token = engine.directory().join("its-token");
    fs::write(&token, &engine.client.token).expect("the directory can be written");
    let (url, token) = (engine.origin(), token.display().to_string());
    let upstream = ["--upstream", url.as_str(), "--upstream-token-file", token.as_str()];
    let hobd = Hobd::start_with(Model::Fake, &upstream);
    let page = Page::open(&hobd);
    // What needs an engine in this process is refused.
    page.expect_complaint("501");
    page.shows("@composer");
    (engine, hobd, page)
}

#[test]
fn an_answer_without_figures_of_its_kv_is_shown_and_answered_again() {
    let (_engine, hobd, page) = start("16384");
    assert_eq!(page.ask("Say this: seven"), "seven");
    assert!(!page.last_numbers().contains("tokens"), "{}", page.last_numbers());
    let figures = page.last_figures();
    assert!(figures.contains("Time to first token") && !figures.contains("Prompt"), "{figures}");
    assert_eq!(page.count("@answer-cold"), 0);
    page.reads("@model", "fake");
    assert_eq!(page.count("button@model"), 0, "no model of this machine can answer");
    page.shows("@chat");
    assert_eq!(page.count("@chat @state"), 0, "what the engine has is not known");

    page.tool("@answer", "Regenerate");
    page.reads("@answer @siblings", "2/2");
    page.answered(1);
    page.go(&hobd.origin());
    page.open_chat("Say this: seven");
    page.answered(1);
    assert_eq!(page.last_answer(), "seven");
}

#[test]
fn a_chat_that_another_client_begins_is_listed() {
    let (_engine, hobd, page) = start("16384");
    page.reads("@model", "fake");
    hobd.client.say("other", "Say this: bread");
    page.reads("@chat", "Say this: bread");
}

#[test]
fn the_settings_say_where_the_engine_is_and_what_it_tells() {
    let (engine, _hobd, page) = start("16384");
    page.open_page("settings");
    page.reads("@engine", &engine.origin());
    page.reads("@engine", "fake");
    page.reads("@page-settings @context", "tokens");
    assert_eq!(page.count("@page-settings .error"), 0, "no setting of this daemon is missed");
    // The engine says nothing of its context from here on.
    page.script(&status_with(&json!({"conversation_tokens": 0})));
    page.hides("@page-settings @context");
}

#[test]
fn a_document_goes_with_the_first_message_and_is_not_read_before() {
    let (engine, _hobd, page) = start("16384");
    let path = engine.directory().join("castle.md");
    fs::write(&path, "The castle has seven doors.\n".repeat(80)).expect("it can be written");
    page.script("one('@attach-file').hidden = false");
    page.choose_file("@attach-file", &path);
    page.reads("@document-chip[data-state=ready]", "KiB");
    page.send("How many doors?");
    page.answered(1);
    page.reads("@sent-document", "castle.md");
    page.open_page("library");
    page.reads("@library-row[data-state=ready]", "castle.md");
}

#[test]
fn a_message_that_is_too_long_for_the_engine_offers_no_way_that_it_has_not() {
    let (_engine, _hobd, page) = start("1024");
    page.expect_complaint("400");
    page.ask("Say this: seven");
    page.send(&"How many doors has the castle? ".repeat(60));
    page.shows("@failure @branch-last");
    assert_eq!(page.count("@go-on") + page.count("@summarise"), 0);
}

#[test]
fn a_long_name_of_the_engine_s_model_leaves_the_title_its_room() {
    let (_engine, _hobd, page) = start("16384");
    page.reads("@model", "fake");
    let name = "Meta-Llama-3.1-70B-Instruct-".repeat(4);
    page.script(&status_with(&json!({"model": name})));
    page.until("it is there in full under the pointer", "one('@model').title.length > 100");
    page.until("it is cut", "one('@model').offsetWidth < 300");
}
