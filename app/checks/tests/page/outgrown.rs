//! A chat that outgrows the context goes on with its newest part, with one click.

use hob_checks::{Hobd, Page};
use serde_json::json;

#[test]
fn a_chat_that_outgrew_the_context_goes_on_and_its_text_stays() {
    let long = "abcdefgh ".repeat(12);
    let hobd = Hobd::with_a_long_chat(&["the first ", "the second "], &long);
    let page = Page::open(&hobd);
    page.expect_complaint("400");
    page.open_chat("A long chat");
    page.answered(2);

    page.send(&format!("Say this: the third {long}"));
    page.reads("@failure", "longer than what the model can read");
    page.click("@failure @go-on");
    page.answered(3);

    assert!(page.last_answer().starts_with("the third"), "{}", page.last_answer());
    page.hides("@failure");
    page.reads("@talk", "the first abcdefgh");
    assert_eq!(page.count("@cut"), 1);
    page.reads("@cut", "The model reads from here on");
    let cut_is_before = page.script(
        "return one('@cut').compareDocumentPosition(all('@user').at(-1)) & 4 ? true : false",
    );
    assert_eq!(cut_is_before, json!(true), "the newest message is read");

    // The cut stays where it is, also after the page is opened again.
    page.go(&hobd.origin());
    page.open_chat("A long chat");
    page.answered(3);
    page.shows("@cut");
}

#[test]
fn an_answer_that_fills_the_context_is_given_again_with_room() {
    let long = "abcdefgh ".repeat(16);
    let hobd = Hobd::with_a_long_chat(&[""], &long);
    let page = Page::open(&hobd);
    page.open_chat("A long chat");
    page.answered(1);

    page.send(&format!("Say this: once more {long}end"));
    page.answered(2);
    page.reads("@answer.last", "the context is full");
    page.click("@answer.last @go-on");
    page.until("it is answered again", "all('@answer .text').at(-1).innerText.endsWith('end')");
    page.shows("@cut");
    page.hides("@go-on");
}
