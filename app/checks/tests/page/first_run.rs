//! The first visit, with and without a token.

use hob_checks::answers::{held, status_with};
use hob_checks::{Hobd, Model, Page};
use serde_json::json;

#[test]
fn a_first_visit_can_write_at_once() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);

    page.reads("h2", "What can I remember for you?");
    assert_eq!(page.focused(), ("textbox".to_owned(), "Message".to_owned()));
    page.reads(".side", "No chats yet");
}

#[test]
fn the_composer_stays_in_its_place_when_the_status_arrives() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    let source = held("/v1/status");
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": source}));
    page.go(&hobd.origin());
    page.shows("@composer");
    let top = || page.script("return one('@composer').getBoundingClientRect().top");
    let before = top();
    assert_eq!(page.count(".suggestions:not(.unknown)"), 0);

    page.script("window.release()");
    page.shows(".suggestions:not(.unknown)");
    page.shows("@runs");
    assert_eq!(top(), before);
}

#[test]
fn the_bundled_model_answers_a_suggestion() {
    let hobd = Hobd::start(Model::Bundled);
    let page = Page::open_greedy(&hobd);

    page.click(".suggestions > :first-child");
    page.answered(1);

    assert!(page.last_answer().contains("48213"), "{}", page.last_answer());
    page.reads("@chat", "My locker code is 48213.");
    page.is_state("@chat @state", "ready");
}

#[test]
fn the_token_leaves_the_address_and_stays_in_the_browser() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");

    let address = page.script("return location.href").to_string();
    assert!(!address.contains("token") && !address.contains(&hobd.client.token), "{address}");
    page.go(&hobd.origin());
    page.shows("@composer");
}

/// A browser that forbids pages to store anything.
const WITHOUT_STORAGE: &str = "
    for (const name of ['localStorage', 'sessionStorage']) {
        const get = () => { throw new DOMException('it is forbidden', 'SecurityError'); };
        Object.defineProperty(window, name, { get });
    }";

#[test]
fn a_browser_without_storage_shows_the_page_until_it_is_closed() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(hob_checks::Browser::chromium(Default::default()));
    page.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({"source": WITHOUT_STORAGE}));
    page.go(&hobd.address_of_the_page());
    page.shows("@composer");
    assert_eq!(page.ask("Say this: hello"), "hello");
    page.open_page("settings");

    page.script("location.reload()");
    page.shows("@connect");
}

#[test]
fn a_browser_without_a_token_is_asked_for_one() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(hob_checks::Browser::chromium(Default::default()));
    page.expect_complaint("401");
    page.go(&hobd.origin());

    page.shows("@connect");
    page.fill("@token", "not the token");
    page.press("Enter");
    // A wrong token gets no further than the error.
    page.reads("@refused", "Hob refuses this token.");
    page.focuses("@token");
    page.fill("@token", &hobd.client.token);
    page.press("Enter");
    page.shows("@composer");
}

#[test]
fn a_token_that_another_window_was_given_signs_in_this_one() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(hob_checks::Browser::chromium(Default::default()));
    page.go(&hobd.origin());
    page.shows("@connect");
    page.script_with(
        "localStorage.setItem('hob.token', arguments[0]);
         window.dispatchEvent(new StorageEvent('storage', {key: 'hob.token'}))",
        &[hobd.client.token.as_str().into()],
    );
    page.shows("@composer");
}

#[test]
fn the_address_with_the_token_signs_in_a_window_that_shows_the_page_already() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(hob_checks::Browser::chromium(Default::default()));
    page.go(&hobd.origin());
    page.shows("@connect");
    assert_eq!(page.count("@refused"), 0);

    // Of an address that differs behind `#` alone, the browser loads nothing.
    page.script("window.isSame = true");
    let token = format!("token={}", hobd.client.token);
    page.script_with("location.hash = arguments[0]", &[token.into()]);
    page.shows("@composer");
    let address = page.script("return location.href").to_string();
    assert!(!address.contains("token") && !address.contains(&hobd.client.token), "{address}");
    assert_eq!(page.script("return window.isSame"), true);
}

#[test]
fn a_page_without_a_token_has_the_command_to_copy() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(hob_checks::Browser::chromium(Default::default()));
    page.go(&hobd.origin());
    page.reads("@connect .command", "hob open");
    page.script("navigator.clipboard.writeText = async text => { window.copied = text; }");
    page.click("@connect .command button");
    page.shows("@toast");
    assert_eq!(page.script("return window.copied"), "hob open");
}

#[test]
fn the_bundled_model_is_called_a_demo_until_another_one_runs() {
    let hobd = Hobd::start(Model::Bundled);
    let page = Page::open(&hobd);
    page.reads("@demo", "A demo answers here");
    page.ask("My locker code is 48213.");
    page.shows("@demo");
    page.click("@demo a");
    page.reads(".steps [aria-current]", "Choose a model");
    page.reads(".choice.chosen", "demo");

    let real = Hobd::start(Model::Fake);
    let page = Page::open(&real);
    page.shows("@composer");
    page.until("the status is read", "all('@demo').length === 0");
}

fn at_the_second_step(hobd: &Hobd) -> Page {
    let page = Page::open(hobd);
    page.open_page("models");
    page.click("@first-steps");
    page.shows("@suggestion"); // They move the button when they come.
    page.click("@first-next");
    page.reads(".steps [aria-current]", "Check its memory needs");
    page
}

#[test]
fn the_way_back_to_the_first_step_leaves_the_focus_in_the_steps() {
    let hobd = Hobd::start(Model::Fake);
    let page = at_the_second_step(&hobd);
    page.click("@first > :last-child > button:first-child");
    page.reads(".steps [aria-current]", "Choose a model");
    page.focuses("@first-next");
}

#[test]
fn the_last_step_says_where_a_message_goes() {
    let hobd = Hobd::start(Model::Fake);
    let page = at_the_second_step(&hobd);
    page.click("@first-next");
    page.reads("@first p", "stays on this machine");
    page.script(&status_with(&json!({"shared": {"place": "s3://bucket/hob"}})));
    page.reads("@first p", "stored in s3://bucket/hob too");
    let upstream = json!({"url": "http://10.0.0.7:8000", "error": null});
    page.script(&status_with(&json!({"upstream": upstream})));
    page.reads("@first p", "The engine at http://10.0.0.7:8000 answers");
    let stays = "all('@first p').some(line => line.innerText.includes('on this machine'))";
    assert_eq!(page.script(&format!("return {stays}")), false);
}

#[test]
fn three_steps_lead_to_the_first_answer() {
    let hobd = Hobd::start(Model::Bundled);
    let page = Page::open(&hobd);
    page.click("@to-models");
    page.click("@first-steps");

    page.reads(".steps [aria-current]", "Choose a model");
    page.until("the one that runs is chosen", "one('.choice.chosen input').checked");
    page.reads("@suggested", "Download");
    page.click("@first-next");
    page.reads(".steps [aria-current]", "Check its memory needs");
    page.shows("@fit");
    page.click("@first-next");
    page.reads(".steps [aria-current]", "Say hello");
    page.click("@first-next");

    page.answered(1);
    assert!(!page.last_answer().is_empty());
}
