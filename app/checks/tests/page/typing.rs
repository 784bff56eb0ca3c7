//! Computing a message's words while the user types it.

use hob_checks::{Hobd, Model, Page};
use hob_testkit::wait;
use serde_json::Value;

const SENTENCE: &str = "What is my locker code, which I told you?";

#[test]
fn enter_computes_the_last_word_of_a_typed_message() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    // An answer that ends within a character would be tokenized anew, and its end computed again.
    page.ask("Say this: your locker code is 48213");
    let before = wait::until("the answer is complete", || {
        Some(hobd.idle_tokens()).filter(|tokens| *tokens > 0)
    });

    page.focus("@composer");
    page.write(&format!("{SENTENCE} Please "));
    // The template's beginning of a message, and a token a letter: the sentence alone has fewer.
    let all = (6 + SENTENCE.len() + " Please".len()) as u64;
    wait::until("the words are hot", || (hobd.idle_tokens() >= before + all).then_some(()));
    assert_eq!(page.count("@answer"), 1);
    let chat = stored(&hobd);
    assert_eq!(chat["messages"].as_array().map(Vec::len), Some(2), "nothing is stored: {chat}");
    page.write("say");
    page.press("Enter");
    page.answered(2);

    let chat = stored(&hobd);
    let computed = chat["messages"][3]["finish"]["hob"]["tokens"]["computed"].as_u64();
    // " Please say" and the 13 tokens of the template's end.
    assert!(computed <= Some(24), "{computed:?}");
}

#[test]
fn the_words_of_a_new_chat_are_computed_and_leaving_it_stores_nothing() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.focus("@composer");
    page.write(&format!("{SENTENCE} "));
    wait::until("the words are hot", || (hobd.tokens_ahead() > 40).then_some(()));
    page.open_page("settings");
    let list = hobd.client.get("/v1/conversations");
    assert_eq!(list["data"].as_array().map(Vec::len), Some(0), "{list}");
}

#[test]
fn the_setting_switches_it_off() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.open_page("settings");
    page.click("@type-ahead");
    page.script("history.back()");
    page.focus("@composer");
    page.write(&format!("{SENTENCE} "));
    page.press("Enter");
    page.answered(1);
    assert_eq!(hobd.tokens_ahead(), 0);
}

#[test]
fn a_key_of_an_input_method_sends_nothing_and_closes_no_edit() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    let dispatch = |place: &str, key: &str| {
        let event =
            format!("new KeyboardEvent('keydown', {{{key}, bubbles: true, cancelable: true}})");
        page.script(&format!("one('{place}').dispatchEvent({event})"));
    };
    page.focus("@composer");
    page.write("Say this: nihon");
    dispatch("@composer", "key: 'Enter', isComposing: true");
    // WebKit: the composition is over, and the code tells that it took the key.
    dispatch("@composer", "key: 'Enter', keyCode: 229");
    assert_eq!(page.script("return one('@composer').value"), "Say this: nihon");
    assert_eq!(page.count("@user"), 0);
    page.press("Enter");
    page.answered(1);

    page.tool("@user", "Edit");
    page.shows(".edit textarea");
    dispatch(".edit textarea", "key: 'Escape', isComposing: true");
    dispatch(".edit textarea", "key: 'Enter', keyCode: 229");
    assert_eq!(page.count(".edit textarea"), 1);
    assert_eq!(page.count("@live"), 0);
}

/// The only chat.
fn stored(hobd: &Hobd) -> Value {
    let list = hobd.client.get("/v1/conversations");
    let id = list["data"][0]["id"].as_str().expect("there is a chat");
    hobd.client.get(&format!("/v1/conversations/{id}"))
}
