//! Deleted chats: undo, and the trash.

use hob_checks::{Hobd, Page};
use serde_json::json;

#[test]
fn undo_goes_back_to_the_chat_that_was_deleted() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");

    page.choose("@chat-menu", "Delete");
    page.until("it is gone", "all('@chat').length === 1");
    page.reads("@title", "New chat");
    page.click("@toast button");

    page.reads("@title", "Say this: apples");
    page.reads("@answer", "apples");
}

#[test]
fn the_trash_lists_what_was_deleted_and_restores_it() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    hobd.client.patch("/v1/conversations/apples", &json!({"trashed": true}));
    let page = Page::open(&hobd);
    page.click("@to-trash");

    page.reads("@page-trash", "Deleted chats stay here for 60 min");
    page.reads("@trashed", "Say this: apples");
    page.reads("@trashed", "2 messages");
    page.reads("@trashed", "for good in 60 min");
    page.click("@trash-restore");

    page.reads("@title", "Say this: apples");
    page.reads("@answer", "apples");
    page.until("the list has it", "all('@chat').length === 2");
    page.click("@to-trash");
    page.reads("@trash-none", "The trash is empty.");
}

#[test]
fn the_trash_shows_what_is_deleted_while_it_is_open() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    let page = Page::open(&hobd);
    page.until("both are listed", "all('@chat').length === 2");
    page.script("window.setInterval = () => 0"); // It does not wait for its next look.
    page.click("@to-trash");
    page.shows("@trash-none");

    page.hover("@chat:nth-child(2)");
    page.choose("@chat:nth-child(2) @row-menu", "Delete");
    page.reads("@trashed", "Say this: apples");
    page.click("@toast button");
    page.shows("@trash-none");
    page.until("the list has it", "all('@chat').length === 2");
}

#[test]
fn the_trash_deletes_for_good_after_a_question() {
    let hobd = Hobd::with_chats(&["apples", "pears", "plums"]);
    for id in ["apples", "pears", "plums"] {
        hobd.client.patch(&format!("/v1/conversations/{id}"), &json!({"trashed": true}));
    }
    let page = Page::open(&hobd);
    page.click("@to-trash");
    page.until("all are listed", "all('@trashed').length === 3");

    page.click("@trash-delete");
    page.reads("@question", "for good?");
    page.click("@yes");
    page.until("one is gone", "all('@trashed').length === 2");
    page.click("@trash-empty");
    page.reads("@question", "2 chats");
    page.click("@yes");

    page.shows("@trash-none");
    let trash = hobd.client.get("/v1/conversations?trashed=true");
    assert_eq!(trash["data"], json!([]));
}
