//! Answers, drafts and pages that outlive a reload, a second page, and an absence of the daemon.

use hob_checks::chat::slowly;
use hob_checks::{Browser, Hobd, Look, Model, Page};
use hob_testkit::wait;
use serde_json::json;

#[test]
fn an_answer_goes_on_while_the_page_is_reloaded() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.send(&slowly(200));
    page.reads("@live", "word word");

    page.script("location.reload()");
    page.reads("@live", "word word");
    page.shows("@stop");
    page.answered(1);
    assert_eq!(page.last_answer(), "word ".repeat(200).trim());
    assert_eq!(page.count("@interrupted"), 0);
}

#[test]
fn a_second_page_follows_an_answer_live_and_stops_it() {
    let hobd = Hobd::start(Model::Fake);
    let first = Page::open(&hobd);
    first.ask("Say this: before");
    let second = Page::open(&hobd);
    second.open_chat("Say this: before");
    second.answered(1);

    // The second page has the chat open when the answer begins.
    first.send(&slowly(400));
    second.reads("@live", "word word");
    let length = "one('@live .text').innerText.length";
    let before = second.script(&format!("return {length}"));
    second.until("it grows", &format!("{length} > {before}"));
    second.click("@stop");
    first.shows("@interrupted");
    second.shows("@interrupted");
    assert_eq!(first.last_answer(), second.last_answer());
}

#[test]
fn a_second_page_shows_an_answer_that_ends_between_two_of_its_looks() {
    let hobd = Hobd::start(Model::Fake);
    let first = Page::open(&hobd);
    first.ask("Say this: before");
    let second = Page::open(&hobd);
    second.open_chat("Say this: before");
    second.answered(1);

    first.ask("Say this: after");
    second.answered(2);
    assert_eq!(second.last_answer(), "after");
}

#[test]
fn a_page_that_is_seen_again_shows_what_another_client_has_written() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");
    page.answered(1);
    hobd.client.say("apples", "Say this: pears");

    page.script("document.dispatchEvent(new Event('visibilitychange'))");
    page.answered(2);
    assert_eq!(page.ask("Say this: plums"), "plums");
    assert_eq!(page.texts("@answer .text"), ["apples", "pears", "plums"]);
}

#[test]
fn a_draft_outlives_a_reload_and_leaves_with_its_message() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.focus("@composer");
    page.write("Say this: half a thought");
    page.reload();
    page.until("the words are there", "one('@composer')?.value === 'Say this: half a thought'");
    page.focus("@composer");
    page.press("Enter");
    page.answered(1);

    page.write("Of this chat");
    page.reload();
    page.until("the words are there", "one('@composer')?.value === 'Of this chat'");
    page.press("Alt+n");
    page.until("a new chat has none", "one('@composer')?.value === ''");
    let stored = page.script("return Object.keys(sessionStorage).length");
    assert_eq!(stored, 1, "one draft is left");
}

#[test]
fn words_typed_during_the_first_answer_stay_in_their_chat() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.send(&slowly(60));
    page.reads("@live", "word word");
    page.write("Of this chat");
    page.answered(1);

    page.press("Alt+n");
    page.reads("@title", "New chat");
    assert_eq!(page.script("return one('@composer').value"), "");
    page.script("history.back()");
    page.answered(1);
    page.script("location.reload()");
    page.until("the words are there", "one('@composer')?.value === 'Of this chat'");
}

#[test]
fn unsaved_instructions_outlive_a_reload() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("home", &["Be brief."]);
    let page = Page::open(&hobd);
    page.open_page("profiles");
    page.click("@profile-row");
    page.fill("@content", "Be kind.");
    let reloaded = || {
        page.script("window.isOld = true; location.reload()");
        let is_kind = "!window.isOld && one('@content')?.value === 'Be kind.'";
        page.until("the text is there", is_kind);
    };
    reloaded();
    page.click("@save-profile");
    page.reads("@toast", "saved");
    assert_eq!(page.script("return JSON.stringify(sessionStorage)"), "{}");
    reloaded();
    page.until("there is nothing to save", "one('@save-profile').disabled");
}

#[test]
fn what_was_chosen_for_a_chat_without_messages_outlives_a_reload() {
    let hobd = Hobd::start(Model::Fake);
    hobd.write_rules("helper", &["Be kind."]);
    let page = Page::open(&hobd);
    page.click("@sampling");
    page.click("@preset-creative");
    page.put("[name=beyond]", "reanchor");
    page.click("@save-sampling");
    page.hides("@sampling-dialog");
    page.click("@instructions");
    page.put("@profile", "helper");
    page.fill("@instructions-text", "Be brief.");
    page.click("@instructions-save");
    page.hides("@instructions-panel");
    page.script("window.isOld = true; location.reload()");
    let is_set = "!window.isOld && one('@sampling')?.innerText.trim() === 'Creative'";
    page.until("the sampling is set", is_set);
    page.click("@instructions");
    page.until("they are there", "one('@instructions-text')?.value === 'Be brief.'");
    page.until("the profile is chosen", "one('@profile')?.value === 'helper'");
    page.click("@instructions-cancel");
    page.hides("@instructions-panel");
    page.click("@sampling");
    page.until("the KV is chosen", "one('[name=beyond]')?.value === 'reanchor'");
    page.press("Escape");
    page.hides("@sampling-dialog");

    page.ask("Say this: abc");
    let list = hobd.client.get("/v1/conversations");
    let id = list["data"][0]["id"].as_str().expect("there is a chat");
    let path = format!("/v1/conversations/{id}");
    let sampling = json!({"temperature": 1.1, "min_p": 0.08, "presence_penalty": 0.3});
    wait::until("both are stored", || {
        let chat = hobd.client.get(&path);
        (chat["sampling"] == sampling && chat["instructions"] == "Be brief.").then_some(())
    });
    page.until("nothing is left", "Object.keys(sessionStorage).length === 0");
}

#[test]
fn the_words_of_a_private_chat_are_not_stored() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.click("@new-private");
    page.focus("@composer");
    page.write("A secret");
    assert_eq!(page.script("return JSON.stringify(sessionStorage)"), "{}");
}

#[test]
fn a_page_opened_while_the_daemon_is_away_loads_when_it_is_back() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.expect_complaint("Failed to fetch dynamically imported module");
    page.shows("@composer");
    hobd.kill();
    page.click("@to-memory");
    page.reads("@banner", "Hob cannot be reached");
    hobd.start_again();
    page.hides("@banner");
    page.shows("@page-memory .page-width > *");
    assert_eq!(page.count("@page-memory p.error"), 0);
}

#[test]
fn a_page_whose_script_could_not_be_loaded_is_loaded_again() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(Browser::chromium(Look::default()));
    page.expect_complaint("Failed to fetch dynamically imported module");
    page.expect_complaint("BLOCKED");
    page.block(&["*/pages/memory/page.js*"]);
    page.go(&hobd.address_of_the_page());
    page.shows("@composer");
    page.click("@to-memory");
    page.shows("@page-memory p.error");
    page.block(&[]);
    page.shows("@page-memory .page-width > *");
    assert_eq!(page.count("@page-memory p.error"), 0);
}

#[test]
fn a_page_whose_texts_could_not_be_loaded_shows_once_they_can_be() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(Browser::chromium(Look::default()));
    page.expect_complaint("BLOCKED");
    page.block(&["*/strings/en.json*"]);
    page.go(&hobd.address_of_the_page());
    page.block(&[]);
    page.shows("@composer");
}

#[test]
fn what_could_not_be_loaded_opens_by_itself_once_it_can_be() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.expect_complaint("Failed to fetch dynamically imported module");
    page.expect_complaint("BLOCKED");
    page.script(
        "const later = window.setTimeout; window.laterTries = 0; \
         window.setTimeout = (act, ms) => { window.laterTries += ms === 1500; return later(act, ms); }",
    );
    page.block(&["*/chat/sampling-dialog.js*"]);
    page.click("@sampling");
    page.until("it waits for its next try", "window.laterTries > 0");
    assert_eq!(page.count("@sampling-dialog"), 0);
    page.block(&[]);
    page.shows("@sampling-dialog");
}

#[test]
fn templates_that_could_not_be_read_cannot_be_edited() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("BLOCKED");
    page.block(&["*/v1/templates"]);
    page.focus("@composer");
    page.write("/");
    page.reads("@toast", "does not answer");
    page.click("@edit-templates");
    assert_eq!(page.count("@template-editor"), 0);
    page.fill("@composer", "Say this: hello");
    page.press("Enter");
    page.answered(1);
}

#[test]
fn the_failure_of_a_daemon_that_was_away_goes_when_it_answers() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.ask("Say this: before");
    hobd.kill();
    page.send("Say this: after");
    page.shows("@failure");
    hobd.start_again();
    page.hides("@failure");
    page.until("the words are back", "one('@composer').value === 'Say this: after'");
}

#[test]
fn the_failure_of_a_refused_token_goes_with_a_right_one() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("401");
    page.ask("Say this: before");
    page.focus("@composer");
    page.write("Say this: after");
    // In one task: with that token, a look at the status would leave the chat before.
    page.script(
        "localStorage.setItem('hob.token', 'a revoked one');
         const enter = {key: 'Enter', bubbles: true, cancelable: true};
         one('@composer').dispatchEvent(new KeyboardEvent('keydown', enter))",
    );
    page.shows("@refused");
    page.fill("@token", &hobd.client.token);
    page.press("Enter");
    page.until("the words are back", "one('@composer')?.value === 'Say this: after'");
    page.hides("@failure");
    page.focus("@composer");
    page.press("Enter");
    page.answered(2);
    assert_eq!(page.last_answer(), "after");
}

#[test]
fn a_crash_during_an_answer_leaves_no_failure_and_no_copy_of_the_question() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.expect_complaint("INCOMPLETE");
    page.send(&slowly(400));
    page.reads("@live", "word word");
    hobd.kill();
    page.reads("@failure", "the connection to the daemon broke off");
    hobd.start_again();
    page.hides("@failure");
    page.hides("@banner");
    page.shows("@interrupted");
    assert_eq!(page.count("@user"), 1);
    page.until("the question is no draft", "one('@composer').value === ''");
}
