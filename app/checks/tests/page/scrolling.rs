//! Where a reader stands in a chat that changes.

use hob_checks::chat::slowly;
use hob_checks::{Hobd, Model, Page};
use serde_json::Value;

const ROOMY: &[&str] = &["--ctx", "49152"];

#[test]
fn typing_a_message_of_several_lines_moves_no_reader() {
    let (_hobd, page) = start();
    let lines = "one more line\n".repeat(10);
    page.put("@composer", &lines);
    page.until(
        "the reader is near the end",
        "(talk => {
             talk.scrollTop = talk.scrollHeight - talk.clientHeight - 100;
             return seen(one('.to-end'));
         })(one('@talk'))",
    );
    let before = rest(&page);

    page.put("@composer", &format!("{lines}and a word"));
    assert_eq!(rest(&page), before);
}

#[test]
fn the_end_of_an_answer_moves_no_reader_who_has_gone_up() {
    let (_hobd, page) = start();
    page.send(&slowly(100));
    reads_the_beginning_until(&page, 13);
}

#[test]
fn the_end_of_the_first_answer_moves_none_either() {
    let hobd = Hobd::start_with(Model::Fake, ROOMY);
    let page = Page::open(&hobd);
    page.send(&slowly(300));
    reads_the_beginning_until(&page, 1);
}

/// Goes to the beginning while the last of so many answers grows, and stays there.
fn reads_the_beginning_until(page: &Page, answers: usize) {
    page.reads("@live", "word word");
    page.until(
        "the reader is at the beginning",
        "(talk => { talk.scrollTop = 0; return seen(one('.to-end')); })(one('@talk'))",
    );
    page.answered(answers);
    assert_eq!(page.script("return one('@talk').scrollTop"), 0);
    page.shows(".to-end");
}

#[test]
fn a_small_step_up_stops_following_an_answer() {
    let (_hobd, page) = start();
    page.send(&slowly(300));
    page.until("it takes several lines", "one('@live')?.clientHeight > 80");
    page.script(
        "const talk = one('@talk');
         talk.scrollTop -= 30;
         window.stood = talk.scrollTop;
         window.height = talk.scrollHeight;",
    );
    page.until("the answer has grown", "one('@talk').scrollHeight > window.height + 60");
    assert_eq!(page.script("return one('@talk').scrollTop - window.stood"), 0);
    page.click(".to-end");
    page.until("its end is shown again", "!one('.to-end')");
    page.click("@stop");
    page.shows("@interrupted");
}

#[test]
fn the_page_keys_scroll_the_chat_while_the_composer_has_the_focus() {
    let (_hobd, page) = start();
    page.focus("@composer");
    page.write("a word");
    page.press("PageUp");
    page.shows(".to-end");
    page.press("PageUp");
    let is_above =
        "(talk => talk.scrollHeight - talk.scrollTop > 2 * talk.clientHeight)(one('@talk'))";
    page.until("it is a window above the end", is_above);
    assert_eq!(page.focused().1, "Message");
    for _ in 0..3 {
        page.press("PageDown");
    }
    page.until("the end is shown", "!one('.to-end')");
    assert_eq!(page.script("return one('@composer').value"), "a word");

    // A text that is higher than its field keeps the keys.
    page.put("@composer", &"one more line\n".repeat(60));
    page.press("PageUp");
    page.until(
        "the chat is at its end",
        "(talk => talk.scrollHeight - talk.scrollTop - talk.clientHeight < 1)(one('@talk'))",
    );
}

/// How many pixels are below what is shown.
fn rest(page: &Page) -> Value {
    page.script(
        "const talk = one('@talk');
         return Math.round(talk.scrollHeight - talk.clientHeight - talk.scrollTop)",
    )
}

/// A chat of twelve answers, which is higher than the window.
fn start() -> (Hobd, Page) {
    let hobd = Hobd::start_with(Model::Fake, ROOMY);
    for number in 0..12 {
        hobd.client.say("lines", &format!("Say this: line {number}"));
    }
    hobd.client.rename("lines", "Lines");
    let page = Page::open(&hobd);
    page.open_chat("Lines");
    page.answered(12);
    (hobd, page)
}
