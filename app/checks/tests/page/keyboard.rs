//! The page without a mouse.

use hob_checks::chat::slowly;
use hob_checks::page::PAGES;
use hob_checks::{Hobd, Model, Page};

#[test]
fn everything_works_with_the_keyboard_alone() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");

    // Write, send, and read.
    page.write("Say this: first chat");
    page.press("Enter");
    page.answered(1);
    // Answer once more, and go back to the first answer.
    tab_to(&page, "button", "Regenerate");
    page.press("Enter");
    page.reads("@answer @siblings", "2/2");
    page.answered(1);
    tab_to(&page, "button", "Previous branch");
    page.press("Enter");
    page.reads("@answer @siblings", "1/2");
    // Edit the question.
    tab_to(&page, "button", "Edit");
    page.press("Enter");
    page.press("Control+a");
    page.write("Say this: edited");
    page.press("Enter");
    page.reads("@answer", "edited");
    page.answered(1);
    // A second chat, and back to the first.
    page.press("Alt+n");
    page.reads("@title", "New chat");
    page.focuses("@composer");
    page.write("Say this: second chat");
    page.press("Enter");
    page.answered(1);
    page.press("Alt+Down");
    page.reads("@title", "Say this: first chat");
    // Search, and open what was found.
    page.press("Control+k");
    page.focuses("@search");
    page.write("second");
    page.until("one is left", "all('@chat').length === 1");
    page.press("Down");
    page.press("Enter");
    page.reads("@title", "Say this: second chat");
    // Rename it from its menu.
    tab_to(&page, "button", "Chat actions");
    page.press("Enter");
    page.until("the menu has the focus", "document.activeElement.matches('[role=menuitem]')");
    page.press("Enter");
    page.shows("@question");
    page.press("Control+a");
    page.write("Renamed");
    page.press("Enter");
    page.reads("@title", "Renamed");
    // Stop an answer.
    page.press("/");
    page.focuses("@composer");
    page.write(&slowly(100));
    page.press("Enter");
    page.reads("@live", "word");
    page.press("Escape");
    page.shows("@interrupted");
    // Go to the other pages.
    for (name, keys) in PAGES {
        page.press(keys);
        page.shows(&format!("@page-{name}"));
    }
    page.press("Alt+1");
    page.shows("@composer");
}

#[test]
fn the_key_that_opens_a_list_of_choices_leaves_no_page() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.until("the chat is known", "one('@chat')");
    page.open_page("settings");
    page.script("one('@like-theme').focus()");
    page.press("Alt+Down");
    assert_eq!(page.script("return location.hash"), "#/settings");
    page.press("Escape");

    page.script("document.activeElement.blur()");
    page.press("Alt+Down");
    page.reads("@title", "Say this: apples");
}

#[test]
fn a_question_mark_lists_the_shortcuts() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");

    page.write("what?");
    page.hides("@help"); // A question mark in a text is no key for help.
    tab_to(&page, "button", "New chat");
    page.press("?");
    page.reads("@help", "Search chats");
    page.reads("@help", "Stop the answer");
    page.press("Escape");
    page.hides("@help");
    assert_eq!(page.focused(), ("button".to_owned(), "New chat".to_owned()));
}

#[test]
fn the_first_tab_stop_skips_the_list() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    page.click("@to-settings");
    page.reload(); // A chat focuses its composer; other pages focus nothing.
    page.shows("@page-settings .page-width > *");

    page.press("Tab");
    assert_eq!(page.focused(), ("link".to_owned(), "Skip to content".to_owned()));
    page.press("Enter");
    page.focuses("#content");
}

#[test]
fn escape_empties_the_search_before_it_stops_the_answer() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.send(&slowly(400));
    page.reads("@live", "word");
    page.fill("@search", "apples");
    page.until("one is left", "all('@chat').length === 1");

    page.press("Escape");
    page.until("all are listed", "all('@chat').length === 2");
    assert_eq!(page.script("return one('@search').value"), "");
    page.shows("@stop");
    page.press("Escape");
    page.shows("@interrupted");
}

/// Presses Tab until an element has the focus.
fn tab_to(page: &Page, role: &str, name: &str) {
    let mut seen = Vec::new();
    for _ in 0..60 {
        page.press("Tab");
        let focused = page.focused();
        if focused == (role.to_owned(), name.to_owned()) {
            return;
        }
        seen.push(focused);
    }
    panic!("Tab does not lead to {role} {name:?}, only to {seen:?}");
}

#[test]
fn escape_closes_an_overlay_without_stopping_the_answer() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.send(&slowly(100));
    page.reads("@live", "word");
    page.script("document.activeElement.blur()");

    page.press("?");
    page.shows("@help");
    page.press("Escape");

    page.hides("@help");
    page.answered(1);
    assert_eq!(page.count("@interrupted"), 0);
}
