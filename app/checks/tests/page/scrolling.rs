//! Where a reader stands in a chat that changes.

use hob_checks::{Hobd, Model, Page};
use serde_json::Value;

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

/// How many pixels are below what is shown.
fn rest(page: &Page) -> Value {
    page.script(
        "const talk = one('@talk');
         return Math.round(talk.scrollHeight - talk.clientHeight - talk.scrollTop)",
    )
}

/// A chat of twelve answers, which is higher than the window.
fn start() -> (Hobd, Page) {
    let hobd = Hobd::start_with(Model::Fake, &["--ctx", "49152"]);
    for number in 0..12 {
        hobd.client.say("lines", &format!("Say this: line {number}"));
    }
    hobd.client.rename("lines", "Lines");
    let page = Page::open(&hobd);
    page.open_chat("Lines");
    page.answered(12);
    (hobd, page)
}
