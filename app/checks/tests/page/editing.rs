//! Single messages: an answer is edited, messages are deleted and come back, a chat is forked, and a tool's
//! result is given by hand.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

/// What the chat of most checks has been asked for.
const ANSWERS: [&str; 2] = ["first", "second"];

#[test]
fn an_edited_answer_is_a_branch_that_the_model_reads() {
    let (_hobd, page) = Page::with_answers(&ANSWERS);
    page.tool("@answer:nth-child(2)", "Edit the answer");
    page.shows(".edit textarea");
    page.press("Control+a");
    page.write("another text");
    page.press("Enter");
    page.answered(1);
    assert_eq!(page.last_answer(), "another text");
    page.reads("@answer @siblings", "2/2");
    page.ask("Say this: third");
    assert_eq!(page.texts("@answer .text"), ["another text", "third"]);

    page.tool("@answer:nth-child(2)", "Previous branch");
    page.until("the first is back", "all('@answer .text').at(-1).innerText === 'second'");
    assert_eq!(page.texts("@answer .text"), ["first", "second"]);
}

#[test]
fn an_edited_answer_that_cannot_be_saved_goes_back_to_its_field() {
    let (mut hobd, page) = Page::with_answers(&["first"]);
    page.expect_it_away();
    page.tool("@answer", "Edit the answer");
    page.shows(".edit textarea");
    page.press("Control+a");
    page.write("another text");
    hobd.kill();
    page.press("Enter");
    page.reads("@toast", "does not answer");
    page.until("the text is back", "one('.edit textarea')?.value === 'another text'");

    hobd.start_again();
    page.hides("@banner");
    page.focus(".edit textarea");
    page.press("Enter");
    page.reads("@answer @siblings", "2/2");
    assert_eq!(page.last_answer(), "another text");
}

#[test]
fn an_edit_that_was_left_is_there_again_until_it_is_given_up() {
    let hobd = Hobd::with_chats(&["apples", "pears"]);
    let page = Page::open(&hobd);
    page.open_chat("Say this: apples");
    for (message, name, words) in
        [("@user", "Edit", "another question"), ("@answer", "Edit the answer", "another answer")]
    {
        page.tool(message, name);
        page.fill(".edit textarea", words);
        page.open_chat("Say this: pears");
        assert_eq!(page.count(".edit textarea"), 0);

        // The field of the edit leaves the focus to the composer.
        let is_back = format!("one('.edit textarea')?.value === '{words}'");
        page.click("@chat [href='#/chat/apples']");
        page.until("it is there again", &is_back);
        page.focuses("@composer");
        page.script("window.isOld = true; location.reload()");
        page.until("it is there after a reload", &format!("!window.isOld && {is_back}"));

        page.focus(".edit textarea");
        page.press("Escape");
        page.shows(message);
        page.open_chat("Say this: pears");
        page.open_chat("Say this: apples");
        page.answered(1);
        assert_eq!(page.count(".edit textarea"), 0);
    }
}

#[test]
fn the_field_of_an_edit_is_as_high_as_its_text_and_its_ring_is_whole() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.ask(&format!("Say this: {}", "a line\n".repeat(12)));
    page.tool("@user", "Edit");
    page.shows(".edit textarea");
    let fits =
        "const field = one('.edit textarea'); return field.scrollHeight <= field.clientHeight + 1";
    assert_eq!(page.script(fits), json!(true));
    let before = page.script("return one('.edit textarea').clientHeight").as_f64().unwrap();
    page.press("Shift+Enter");
    page.write("one more");
    page.until("it grows", &format!("one('.edit textarea').clientHeight > {before}"));
    // The ring is 4 px around the field; what contains it clips at its edge.
    let room = page.script(
        "const [field, message] = ['.edit textarea', '.message.user'].map(one)
             .map(element => element.getBoundingClientRect());
         return Math.min(field.left - message.left, message.right - field.right, field.top - message.top)",
    );
    assert!(room.as_f64().unwrap() >= 4.0, "{room}");
}

#[test]
fn a_deleted_message_takes_what_follows_and_undo_brings_both_back() {
    let (_hobd, page) = Page::with_answers(&ANSWERS);
    page.hover("@user:nth-child(1)");
    page.choose("@user:nth-child(1) @message-menu", "Delete, with the 3 messages that follow");
    page.reads("@toast", "4 messages deleted: this one and what follows it. Other branches stay.");
    page.until("nothing is left", "!one('@user') && !one('@answer')");
    page.click("@toast button");
    page.answered(2);
    assert_eq!(page.texts("@answer .text"), ["first", "second"]);
}

#[test]
fn the_focus_stays_in_the_chat_when_an_edit_is_given_up_and_when_a_message_is_deleted() {
    let (_hobd, page) = Page::with_answers(&ANSWERS);
    for (message, name) in
        [("@user:nth-child(3)", "Edit"), ("@answer:nth-child(4)", "Edit the answer")]
    {
        page.tool(message, name);
        page.shows(".edit textarea");
        page.press("Escape");
        page.hides(".edit textarea");
        assert_eq!(page.focused(), ("button".to_owned(), name.to_owned()));
    }
    page.hover("@answer:nth-child(4)");
    page.choose("@answer:nth-child(4) @message-menu", "Delete");
    page.reads("@toast", "Message deleted.");
    page.focuses("#content");
}

#[test]
fn the_focus_goes_on_when_a_message_is_answered_again_and_when_an_edit_is_saved() {
    let (_hobd, page) = Page::with_answers(&ANSWERS);
    page.tool("@answer:nth-child(4)", "Regenerate");
    page.focuses("@composer");
    page.answered(2);
    page.tool("@user:nth-child(3)", "Edit");
    page.shows(".edit textarea");
    page.press("Enter");
    page.focuses("@composer");
    page.answered(2);

    page.tool("@answer:nth-child(4)", "Edit the answer");
    page.shows(".edit textarea");
    page.write(" and more");
    page.press("Enter");
    page.reads("@answer:nth-child(4)", "second and more");
    page.focuses("#content");
}

#[test]
fn a_question_whose_answer_was_deleted_is_answered_again() {
    let (_hobd, page) = Page::with_answers(&ANSWERS);
    page.hover("@answer:nth-child(4)");
    page.choose("@answer:nth-child(4) @message-menu", "Delete");
    page.reads("@toast", "Message deleted. Other branches stay.");
    page.answered(1);
    page.click("@answer-it");
    page.answered(2);
    assert_eq!(page.last_answer(), "second");
}

#[test]
fn a_new_chat_from_a_message_shares_the_kv_of_its_beginning() {
    let (hobd, page) = Page::with_answers(&ANSWERS);
    page.hover("@answer:nth-child(2)");
    page.choose("@answer:nth-child(2) @message-menu", "New chat from here");
    page.reads("@title", "Copy of Say this: first");
    page.answered(1);
    page.ask("Say this: another second");

    assert_eq!(page.texts("@answer .text"), ["first", "another second"]);
    assert_eq!(hobd.client.get("/v1/conversations")["data"].as_array().unwrap().len(), 2);
    let numbers = page.last_numbers();
    assert!(numbers.contains("tokens remembered"), "{numbers}");
    page.open_chat("Say this: first");
    page.answered(2);
}

#[test]
fn the_result_of_a_tool_call_returns_to_its_field_when_it_cannot_be_sent() {
    let mut hobd = Hobd::start(Model::Fake);
    hobd.client.call_tool("lamp", "set_light", "room", "kitchen");
    hobd.client.rename("lamp", "Lamp");
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.open_chat("Lamp");
    page.click("@give-result");
    page.until("its field has the focus", "document.activeElement.matches('.edit textarea')");
    page.write("it is on");
    hobd.kill();
    page.click("@results .primary");
    page.shows("@failure");
    page.until("the result is back", "one('@results textarea')?.value === 'it is on'");

    hobd.start_again();
    page.hides("@failure");
    page.click("@results .primary");
    page.answered(2);
    let stored = hobd.client.get("/v1/conversations/lamp");
    assert_eq!(stored["messages"][2]["role"], "tool");
    assert_eq!(stored["messages"][2]["content"], "it is on");
}

#[test]
fn the_result_of_a_tool_call_is_given_by_hand() {
    let hobd = Hobd::start(Model::Fake);
    hobd.client.call_tool("lamp", "set_light", "room", "kitchen");
    hobd.client.rename("lamp", "Lamp");
    let page = Page::open(&hobd);
    page.open_chat("Lamp");
    page.reads("@tool-call", "Calls set_light");
    page.click("@give-result");
    page.reads("@results", "Result of set_light");
    page.until("its field has the focus", "document.activeElement.matches('.edit textarea')");
    page.write("{\"state\": \"on\"}");
    page.click("@results .primary");
    page.answered(2);

    page.hides("@give-result");
    let messages = hobd.client.get("/v1/conversations/lamp")["messages"].clone();
    let call = &messages[1]["tool_calls"][0]["id"];
    let result = &messages[2];
    assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), call));
    assert_eq!(result["content"], "{\"state\": \"on\"}");
    assert_eq!(messages[3]["role"], "assistant");
}
