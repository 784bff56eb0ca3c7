//! Continue: an answer that was cut short goes on in the same message.

use hob_checks::{Hobd, Model, Page};
use serde_json::{Value, json};

/// An answer of 218 tokens, which takes 2 s: a test that acts before its end repeats them.
const WORDS: &str = "one two three four five six seven eight nine ten eleven twelve thirteen \
                     fourteen fifteen sixteen seventeen eighteen nineteen twenty again one two \
                     three four five six seven eight nine ten eleven twelve thirteen fourteen";

fn messages(hobd: &Hobd) -> Vec<Value> {
    let list = hobd.client.get("/v1/conversations");
    let id = list["data"][0]["id"].as_str().unwrap().to_owned();
    let chat = hobd.client.get(&format!("/v1/conversations/{id}?branches=true"));
    chat["messages"].as_array().unwrap().clone()
}

#[test]
fn a_stopped_answer_continues_where_it_ended() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    let words = [WORDS; 4].join(" ");
    page.send(&format!("Say this slowly: {words}"));
    page.reads("@live", "two");
    page.click("@stop");
    page.reads("@answer", "stopped");
    let before = page.last_answer();
    assert!(words.starts_with(&before) && before.len() < words.len(), "{before}");

    page.click("@continue");
    page.reads("@live", &before);
    page.answered(1);

    assert_eq!(page.last_answer(), words);
    page.hides("@continue");
    let stored = messages(&hobd);
    assert_eq!((stored.len(), &stored[1]["content"]), (2, &json!(words)));
    let tokens = &stored[1]["finish"]["hob"]["tokens"];
    assert!(tokens["computed"].as_u64().unwrap() <= 2, "{tokens}");
}

#[test]
fn an_answer_at_its_limit_continues_in_every_page_that_shows_it() {
    let hobd = Hobd::start(Model::Fake);
    let words = [WORDS; 8].join(" ");
    hobd.client.chat(&json!({
        "conversation": "cut", "hob": {"append": true}, "temperature": 0, "max_tokens": 7,
        "messages": [{"role": "user", "content": format!("Say this slowly: {words}")}],
    }));
    hobd.client.rename("cut", "Cut");
    let page = Page::open(&hobd);
    page.open_chat("Cut");
    page.reads("@answer", "token limit");
    let other = Page::open(&hobd);
    other.open_chat("Cut");
    other.shows("@continue");

    page.click("@continue");
    page.reads("@live", "three");
    // Reloaded within the answer, it shows the whole text again.
    page.reload();
    page.reads("@live", "one two three");
    other.reads("@live", "one two three");
    page.answered(1);
    assert_eq!(page.last_answer(), words);
    other.answered(1);
    assert_eq!(other.last_answer(), words);
}

#[test]
fn an_answer_that_a_crash_cut_off_continues() {
    let mut hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_it_away();
    page.expect_complaint("INCOMPLETE");
    let words = [WORDS; 4].join(" ");
    page.send(&format!("Say this slowly: {words}"));
    page.reads("@live", "eleven");
    hobd.kill();
    hobd.start_again();
    page.reads("@answer", "stopped");
    page.click("@continue");
    page.until("it goes on", "one('@live') || !one('@continue')");
    page.answered(1);
    assert_eq!(page.last_answer(), words);
}
