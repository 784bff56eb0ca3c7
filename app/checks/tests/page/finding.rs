//! Find in the chat: counted, highlighted, and stepped through.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

const SHOWN: &str = "[...CSS.highlights.get('found-current')].map(String).join()";

fn start() -> (Hobd, Page) {
    let hobd = Hobd::start(Model::Fake);
    for number in 0..30 {
        let word = if number == 2 { "needle" } else { "straw" };
        hobd.client.say("hay", &format!("Say this: the **{word}** of line {number}"));
    }
    hobd.client.rename("hay", "Hay");
    let page = Page::open(&hobd);
    page.open_chat("Hay");
    page.answered(30);
    (hobd, page)
}

/// As one change: the count is that of all four letters.
fn put_line(page: &Page) {
    page.put("@find-words", "line");
    page.reads("@find-count", "of 60");
}

#[test]
fn words_are_found_across_marks_counted_and_brought_into_sight() {
    let (_hobd, page) = start();
    page.until("the text is drawn", "one('@answer strong')");
    page.press("Control+f");
    page.shows("@find");
    page.write("THE NEEDLE of");
    page.reads("@find-count", "1 of 1");
    page.until("it is highlighted", &format!("{SHOWN} === 'the needle of'"));
    let in_sight =
        "const range = [...CSS.highlights.get('found-current')][0].getBoundingClientRect();
         const frame = one('@talk').getBoundingClientRect();
         return range.top >= frame.top && range.bottom <= frame.bottom";
    page.until("it is in sight", &format!("(() => {{ {in_sight} }})()"));

    put_line(&page);
    let at = || page.text("@find-count");
    let first = at();
    page.press("Enter");
    page.until("the next", &format!("one('@find-count').innerText !== '{first}'"));
    page.press("Shift+Enter");
    page.reads("@find-count", &first);
    page.press("Control+a");
    page.write("nowhere");
    page.reads("@find-count", "not found");
    page.press("Escape");
    page.hides("@find");
    assert_eq!(page.script("return CSS.highlights.size"), json!(0));
    assert_eq!(page.focused().1, "Message");
}

#[test]
fn another_letter_keeps_the_match_that_goes_on_with_it() {
    let (_hobd, page) = start();
    page.press("Control+f");
    page.shows("@find");
    page.put("@find-words", "li");
    page.reads("@find-count", "of 60");
    // Others are in sight above it.
    let first: u32 = page.text("@find-count").split(' ').next().unwrap().parse().unwrap();
    let third = format!("{} of 60", (first + 1) % 60 + 1);
    page.press("Enter");
    page.press("Enter");
    page.reads("@find-count", &third);
    page.put("@find-words", "lin");
    page.until("lin is found", &format!("{SHOWN} === 'lin'"));
    page.reads("@find-count", &third);
}

#[test]
fn a_key_of_an_input_method_neither_steps_nor_closes() {
    let (_hobd, page) = start();
    page.press("Control+f");
    page.shows("@find");
    put_line(&page);
    let before = page.text("@find-count");
    for key in ["key: 'Enter', isComposing: true", "key: 'Escape', keyCode: 229"] {
        page.script(&format!(
            "one('@find-words').dispatchEvent(
                 new KeyboardEvent('keydown', {{{key}, bubbles: true, cancelable: true}}))"
        ));
    }
    assert_eq!(page.text("@find-count"), before);
}

#[test]
fn the_search_goes_on_while_an_answer_grows() {
    let (_hobd, page) = start();
    page.send("Say this slowly: one rare bird and another rare bird");
    page.press("Control+f");
    page.shows("@find");
    page.write("rare bird");
    page.reads("@find-count", "of 4");
    page.answered(31);
    page.reads("@find-count", "of 4");
}

#[test]
fn words_of_an_answer_are_found_before_it_ends() {
    let (_hobd, page) = start();
    let (before, after) = ("word ".repeat(30), "word ".repeat(150));
    page.send(&format!("Say this slowly: {before}rare bird {after}"));
    page.press("Control+f");
    page.shows("@find");
    page.write("rare bird");
    page.until(
        "the answer has it, too",
        "one('@live') && one('@find-count').innerText.includes('of 2')",
    );
}

#[test]
fn without_highlights_the_browser_searches() {
    let (_hobd, page) = Page::with_answers(&["first"]);
    page.script(
        "Object.defineProperty(CSS, 'highlights', { value: undefined, configurable: true })",
    );
    let prevented = page.script(
        "const event = new KeyboardEvent('keydown', { key: 'f', ctrlKey: true, bubbles: true, cancelable: true });
         document.body.dispatchEvent(event); return event.defaultPrevented",
    );
    assert_eq!(prevented, json!(false));
    page.hides("@find");
}
