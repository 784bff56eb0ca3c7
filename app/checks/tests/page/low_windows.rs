//! The page in a low window, such as one at 200 %: all of it can be seen and pressed.

use hob_checks::answers::held;
use hob_checks::{Browser, Hobd, Look, Model, Page};
use serde_json::Value;

fn low(width: u32, height: u32) -> Look {
    Look { width, height, ..Look::default() }
}

/// Whether an expression is true of the page as it is now.
fn is(page: &Page, expression: &str) -> bool {
    page.script(&format!("return {expression}")) == Value::Bool(true)
}

#[test]
fn all_of_a_chat_without_messages_is_reached_by_scrolling() {
    let hobd = Hobd::start(Model::Fake);
    // 1280 x 720 at 200 %.
    let page = Page::open_as(&hobd, low(640, 360));
    page.shows(".suggestions:not(.unknown)");

    page.script("one('.fresh').scrollTop = 0");
    assert!(is(&page, "one('.fresh').scrollHeight > one('.fresh').clientHeight"));
    let top = "place => one(place).getBoundingClientRect().top";
    assert!(is(&page, &format!("(top => top('.welcome') >= top('.fresh'))({top})")));
}

#[test]
fn the_instructions_of_a_chat_end_within_the_window() {
    let hobd = Hobd::start(Model::Fake);
    // 1280 x 720 at 300 %.
    let page = Page::open_as(&hobd, low(426, 240));
    page.shows("@composer");
    page.click("@instructions");
    page.shows("@instructions-panel");

    let ends = "one('@instructions-panel').getBoundingClientRect().bottom <= innerHeight";
    assert!(is(&page, ends));
    page.click("@instructions-cancel");
    page.hides("@instructions-panel");
}

#[test]
fn a_browser_without_a_token_scrolls_to_the_field_for_it() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::of(Browser::chromium(low(640, 360)));
    page.go(&hobd.origin());
    page.shows("@connect");

    assert!(is(&page, "one('@connect').getBoundingClientRect().bottom <= innerHeight + 1"));
    page.fill("@token", &hobd.client.token);
    page.press("Enter");
    page.shows("@composer");
}

#[test]
fn the_list_has_room_for_two_chats_and_the_pages_are_below_it() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    let page = Page::open_as(&hobd, low(640, 240));
    page.shows("@composer");
    page.click("@show-side");
    page.shows("@chats");

    assert!(is(&page, "one('@chats').clientHeight >= 88"));
    page.click("@to-settings");
    page.shows("@page-settings");
}

#[test]
fn many_attached_files_leave_the_composer_in_sight() {
    let (_hobd, page) = Page::with_answers(&["apples"]);
    page.show(low(1280, 480));
    // The files are on their way for as long as the check takes.
    page.script(&held("/v1/documents"));
    let file = |n: u32| (format!("castle-{n}.txt"), format!("The castle had {n} doors."));
    let files: Vec<_> = (1..=40).map(file).collect();
    assert!(page.drop_files(&files));
    page.until("all are attached", "all('@document-chip').length === 40");

    assert!(is(&page, "one('@send').getBoundingClientRect().bottom <= innerHeight"));
}
