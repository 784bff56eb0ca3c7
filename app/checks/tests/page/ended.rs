//! The end of an answer: its elements, and those of its question, become those of the stored messages.

use hob_checks::{Hobd, Model, Page};
use serde_json::json;

const PLACES: [&str; 4] = ["", " .code", " @reasoning", " .text p"];

#[test]
fn what_is_selected_wrapped_and_unfolded_in_an_answer_stays_when_it_ends() {
    let hobd = Hobd::start_with(Model::Fake, &["--ctx", "49152"]);
    let page = Page::open(&hobd);
    let rest = " and so on".repeat(80);
    page.send(&format!(
        "Say this slowly: <think>hm hm</think>It is four.\n\n```\nlet a = 1;\n```\n\nIt goes on{rest}"
    ));
    page.reads("@live .text", "It goes on");
    page.click("@live @reasoning summary");
    page.click("@live .wrap-code");
    page.script_with(
        "window.parts = arguments[0].map(place => one('@live' + place));
         window.question = one('@user .bubble');
         const words = one('@live .text p').firstChild;
         getSelection().setBaseAndExtent(words, 0, words, 10);",
        &[json!(PLACES)],
    );
    page.answered(1);

    assert_eq!(page.script("return String(getSelection())"), "It is four");
    let are_same = page.script_with(
        "return [...arguments[0].map((place, index) => one('@answer' + place) === window.parts[index]),
             one('@user .bubble') === window.question]",
        &[json!(PLACES)],
    );
    assert_eq!(are_same, json!([true, true, true, true, true]));
    assert_eq!(page.script("return one('@answer @reasoning').open"), true);
    let pressed = "return one('@answer .wrap-code').getAttribute('aria-pressed')";
    assert_eq!(page.script(pressed), "true");
    page.shows("@answer @numbers");
}
