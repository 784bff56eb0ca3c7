//! The list of chats.

use hob_checks::{Hobd, Page};
use hob_testkit::wait;
use serde_json::json;

#[test]
fn renamed_and_pinned_chats_stay_so() {
    let hobd = Hobd::with_chats(&["apples", "pears", "plums"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");

    page.choose("@chat-menu", "Rename");
    page.shows("@question");
    page.press("Control+a");
    page.write("Fruit");
    page.click("@yes");
    page.reads("@title", "Fruit");
    page.choose("@chat-menu", "Pin");
    page.reads("@chat:first-child", "Fruit");

    // The list shows it before the daemon has it: leaving the page would cancel the request.
    wait::until("the daemon has both", || {
        let chat = hobd.client.get("/v1/conversations/apples");
        (chat["title"] == "Fruit" && chat["pinned"] == true).then_some(())
    });
    page.go(&hobd.origin());
    page.reads("@chat:first-child", "Fruit");
    page.open_chat("Fruit");
    page.choose("@chat-menu", "Unpin");
    page.until("no chat is pinned", "all('@chat .chat-title .icon').length === 0");
}

#[test]
fn chats_are_found_by_title_and_by_text() {
    let hobd = Hobd::with_chats(&["apples", "pears", "plums"]);
    // One that only its text matches.
    hobd.client.rename("plums", "Prunus");
    let page = Page::open(&hobd);
    page.until("all are listed", "all('@chat').length === 3");

    page.fill("@search", "PEARS");
    page.until("one is left", "all('@chat').length === 1");
    page.reads("@chat", "Say this: pears");

    page.fill("@search", "this: plums");
    page.reads("@chat .chat-snippet", "Say this: plums");
    page.reads("@chat mark", "this");

    page.fill("@search", "nothing of the sort");
    page.reads(".side", "Nothing found");
    page.fill("@search", "");
    page.until("all are listed again", "all('@chat').length === 3");
}

/// Holds the searches of the daemon until `release()`.
const HOLD_SEARCHES: &str = "
    const answer = window.fetch;
    window.fetch = async (path, ...rest) => {
        if (path.includes('?q=')) await new Promise((release) => { window.release = release; });
        return answer(path, ...rest);
    };";

#[test]
fn nothing_is_found_once_the_daemon_has_searched() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.reads("@chat", "apples");
    page.script(HOLD_SEARCHES);
    page.put("@search", "nothing of the sort");
    page.until("the daemon is asked", "Boolean(window.release)");
    assert_eq!(page.count(".side .empty"), 0);
    page.script("window.release()");
    page.reads(".side", "Nothing found");
}

#[test]
fn what_was_found_in_texts_stays_until_the_next_letter_has_been_searched_for() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    for (chat, title) in [("apples", "Malus"), ("pears", "Pyrus")] {
        hobd.client.rename(chat, title);
    }
    let page = Page::open(&hobd);
    page.until("all are listed", "all('@chat').length === 2");
    page.put("@search", "apples");
    page.reads("@chat mark", "apples");

    page.script(HOLD_SEARCHES);
    page.put("@search", "pears");
    page.until("the daemon is asked", "Boolean(window.release)");
    assert_eq!(page.texts("@chat .chat-title"), ["Malus"]);
    page.script("window.release()");
    page.reads("@chat mark", "pears");
    assert_eq!(page.texts("@chat .chat-title"), ["Pyrus"]);

    page.put("@search", "p");
    page.until("a letter is searched for in titles", "all('@chat').length === 1");
    page.hides("@chat .chat-snippet");
}

#[test]
fn a_search_takes_no_more_letters_than_the_daemon_searches_for() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.reads("@chat", "apples");
    page.focus("@search");
    page.write(&"a".repeat(205));
    page.until("it has 200", "one('@search').value.length === 200");
    page.reads(".side", "Nothing found");
    assert_eq!(page.count("@toast"), 0);
}

#[test]
fn undo_restores_a_deleted_chat_and_nothing_else_does() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");

    page.choose("@chat-menu", "Delete");
    page.until("it is gone", "all('@chat').length === 1");
    page.shows("@composer");
    page.click("@toast button");
    page.until("it is back", "all('@chat').length === 2");
    page.open_chat("Say this: apples");
    assert_eq!(page.text("@answer .text"), "apples");

    page.choose("@chat-menu", "Delete");
    page.until("it is gone", "all('@chat').length === 1");
    page.go(&hobd.origin());
    page.until("it stays away", "all('@chat').length === 1");
    page.reads("@chat", "pears");
}

#[test]
fn the_menu_of_a_row_is_not_clipped_and_works() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    let page = Page::open(&hobd);
    page.reads("@chat", "pears");

    page.hover("@chat:nth-child(2)");
    page.click("@chat:nth-child(2) @row-menu");
    page.shows("[role=menu]");
    let is_above = "[...document.querySelectorAll('[role=menuitem]')].every(item => {
        const {x, y, width, height} = item.getBoundingClientRect();
        return item.contains(document.elementFromPoint(x + width / 2, y + height / 2));
    })";
    page.until("each of its items can be clicked", is_above);
    page.press("Escape");
    page.hides("[role=menu]");
    page.choose("@chat:nth-child(2) @row-menu", "Pin");

    page.until("it is pinned", "one('@chat:first-child .chat-title .icon')");
    page.reads("@chat:first-child", "apples");
}

#[test]
fn a_menu_closes_when_its_window_is_left() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");
    page.click("@chat-menu");
    page.shows("[role=menu]");
    page.script("window.dispatchEvent(new Event('blur'))");
    page.hides("[role=menu]");
}

#[test]
fn what_another_client_renames_edits_and_deletes_shows_without_an_answer() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");
    page.answered(1);
    page.shows("@model"); // The page has seen a status.

    hobd.client.rename("pears", "Pyrus");
    page.reads("@chat", "Pyrus");
    let answer = hobd.client.get("/v1/conversations/apples")["messages"][1]["id"].clone();
    let path = format!("/v1/conversations/apples/messages/{answer}");
    hobd.client.patch(&path, &json!({"content": "another text"}));
    page.reads("@answer", "another text");
    hobd.client.patch("/v1/conversations/pears", &json!({"trashed": true}));
    page.until("one is left", "all('@chat').length === 1");
}

#[test]
fn a_chat_that_another_client_starts_is_in_the_list() {
    let hobd = Hobd::with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.reads("@chat", "apples");

    hobd.client.say("pears", "Say this: pears");

    page.reads("@chat", "pears");
}
