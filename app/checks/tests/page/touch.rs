//! The page on a touch screen, such as that of a phone.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

#[test]
fn enter_begins_a_line_and_the_button_sends() {
    let (_hobd, page) = start();
    page.focus("@composer");
    page.write("Say this: one");
    page.press("Enter");
    page.write("two");
    assert_eq!(page.script("return one('@composer').value"), "Say this: one\ntwo");
    assert_eq!(page.texts("@composer-hint"), [""], "its keyboard has no Shift+Enter");
    page.click("@send");
    page.answered(1);

    page.tool("@user", "Edit");
    page.shows(".edit textarea");
    page.press("Enter");
    page.write("three");
    page.press("Control+Enter");
    page.reads("@user @siblings", "2/2");
    page.answered(1);
    assert_eq!(page.last_answer(), "one two three");
}

#[test]
fn opening_a_chat_opens_no_keyboard_and_no_field_is_zoomed_into() {
    let (hobd, page) = start();
    hobd.client.say("apples", "Say this: apples");
    page.go(&format!("{}/?#/chat/apples", hobd.origin()));
    page.reads("@answer", "apples");
    assert_eq!(page.script("return document.activeElement === one('@composer')"), false);
    // The keyboard leaves the composer and the end of the chat in sight.
    let viewport = page.script("return one('meta[name=viewport]').content");
    assert!(viewport.as_str().unwrap().contains("interactive-widget=resizes-content"));
    for field in ["@composer", "@search"] {
        is_not_zoomed_into(&page, field);
    }
}

#[test]
fn no_field_of_a_panel_and_no_choice_is_zoomed_into() {
    let (hobd, page) = start();
    page.click("@instructions");
    page.shows("@instructions-text");
    is_not_zoomed_into(&page, "@instructions-text");
    page.click("@instructions-cancel");
    page.click("@sampling");
    page.shows("[name=max_tokens]");
    is_not_zoomed_into(&page, "[name=max_tokens]");
    page.go(&format!("{}/?#/settings", hobd.origin()));
    page.shows("@like-theme");
    is_not_zoomed_into(&page, "@like-theme");
}

/// iOS zooms into a field whose text is smaller than 16 pixels.
fn is_not_zoomed_into(page: &Page, field: &str) {
    let size = format!("return parseFloat(getComputedStyle(one('{field}')).fontSize) >= 16");
    assert_eq!(page.script(&size), true, "{field}");
}

fn start() -> (Hobd, Page) {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.cdp(
        "Emulation.setDeviceMetricsOverride",
        &json!({"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": true}),
    );
    page.cdp("Emulation.setTouchEmulationEnabled", &json!({"enabled": true}));
    page.go(&format!("{}/?#/", hobd.origin()));
    page.shows("@composer");
    page.until("it is a touch screen", "matchMedia('(hover: none) and (pointer: coarse)').matches");
    (hobd, page)
}
