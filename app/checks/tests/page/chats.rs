//! The list of chats.

use hob_checks::{Hobd, Model, Page};

#[test]
fn chats_are_renamed_and_pinned_and_stay_so() {
    let hobd = with_chats(&["apples", "pears", "plums"]);
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

    page.go(&hobd.origin());
    page.reads("@chat:first-child", "Fruit");
    page.open_chat("Fruit");
    page.choose("@chat-menu", "Unpin");
    page.until("no chat is pinned", "all('@chat .chat-title .icon').length === 0");
}

#[test]
fn chats_are_found_by_their_titles_and_by_what_was_said() {
    let hobd = with_chats(&["apples", "pears", "plums"]);
    // One that is told by what was said alone.
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

#[test]
fn a_deleted_chat_comes_back_when_it_is_undone_and_else_does_not() {
    let hobd = with_chats(&["apples", "pears"]);
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
fn the_menu_of_a_row_is_above_everything_and_does_what_it_says() {
    let hobd = with_chats(&["apples", "pears"]);
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
fn a_chat_that_somebody_else_begins_is_in_the_list() {
    let hobd = with_chats(&["apples"]);
    let page = Page::open(&hobd);
    page.reads("@chat", "apples");

    hobd.client.say("pears", "Say this: pears");

    page.reads("@chat", "pears");
}

/// A hobd that has a chat for each of these words, in which it was said.
fn with_chats(words: &[&str]) -> Hobd {
    let hobd = Hobd::start(Model::Fake);
    for word in words {
        hobd.client.say(word, &format!("Say this: {word}"));
    }
    hobd
}
