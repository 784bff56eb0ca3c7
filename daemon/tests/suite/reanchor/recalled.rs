//! What left a timeline comes back when a question asks for it.

use serde_json::Value;

use super::{Chat, FACT, check, number, tokens};

#[test]
fn what_left_comes_back_when_a_question_asks_for_it_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.talk_until_reanchored();
    let other = chat.talk();
    assert_eq!(other["hob"]["recalled"], 0, "{other}");
    let left = number(&other["hob"]["left_out"]);
    chat.restart();

    let asked = chat.ask("What is my locker code?");
    check(&asked);
    assert_eq!(asked["hob"]["recalled"], 2, "the fact and its answer: {asked}");
    assert_eq!(number(&asked["hob"]["left_out"]), left - 2, "{asked}");
    assert_eq!(asked["hob"]["reanchored"], Value::Null);
    let text = chat.prompt();
    assert!(text.contains(&format!("Earlier in this conversation:\n\n{FACT}")), "{text}");

    // It goes on as an exact continuation: what came back is computed no more.
    let next = chat.talk();
    assert_eq!(next["hob"]["recalled"], 0);
    assert!(tokens(&next, "computed") < 200, "{next}");
    let again = chat.ask("Say my locker code.");
    assert_eq!(again["hob"]["recalled"], 0, "it is there: {again}");
}

#[test]
fn what_left_comes_back_with_its_kv_where_it_is_long() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let words: String = (0..16).map(|n| format!("gauge{n} ")).collect();
    chat.ask(&format!("The barometer says: {words}"));
    chat.talk_until_reanchored();
    let asked = chat.ask("What does the barometer say?");
    check(&asked);
    assert_eq!(asked["hob"]["recalled"], 2, "{asked}");
    assert!(tokens(&asked, "moved") > 0, "{asked}");
}
