//! Importing what other apps have exported.

use hob_checks::{Hobd, Model, Page};
use serde_json::{Value, json};

#[test]
fn chatgpts_conversations_are_imported_with_their_branches() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    let file = hobd.directory().join("conversations.json");
    std::fs::write(&file, json!([chatgpt("Bread"), chatgpt("Butter")]).to_string()).unwrap();

    page.import(&file);

    page.reads("@toast", "2 chats were imported.");
    page.until("both are listed", "all('@chat').length === 2");
    page.reads("@title", "Bread");
    page.reads("@talk", "Instructions");
    page.reads("@answer", "Six hours.");
    page.reads("@answer @siblings", "2/2");
    page.tool("@answer", "Previous branch");
    page.reads("@answer", "Four hours.");
    page.ask("Say this: it goes on");
}

#[test]
fn chats_of_a_file_that_are_skipped_are_named_with_the_reason() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.shows("@composer");
    let mut empty = chatgpt("Nothing");
    empty["mapping"] = json!({"s": {"message": null, "parent": null, "children": []}});
    let file = hobd.directory().join("conversations.json");
    std::fs::write(&file, json!([empty, chatgpt("Bread")]).to_string()).unwrap();

    page.import(&file);

    page.reads("@question", "One chat was skipped");
    page.reads("@question", "Nothing: it has no message with a text");
    page.click("@yes");
    page.hides("@question");
    page.reads("@title", "Bread");
}

#[test]
fn a_file_of_an_unknown_kind_is_named_in_a_dialog_with_one_button() {
    let hobd = Hobd::start(Model::Fake);
    let page = Page::open(&hobd);
    page.expect_complaint("400");
    page.shows("@composer");
    let file = hobd.directory().join("shopping.json");
    std::fs::write(&file, r#"{"bread": 2, "milk": 1}"#).unwrap();

    page.import(&file);

    page.reads("@question", "shopping.json could not be imported");
    page.reads("@question", "its fields are `bread`, `milk`");
    page.reads("@question", "of LM Studio .conversation.json");
    assert_eq!(page.texts("@question button"), ["Close"]);
    page.click("@yes");
    page.hides("@question");
    assert_eq!(page.count("@chat"), 0);
}

/// A tree of two answers, in the fields of ChatGPT's export that Hob reads.
fn chatgpt(title: &str) -> Value {
    let node = |parent: Value, children: Value, role: &str, text: &str| {
        json!({"parent": parent, "children": children, "message": {
            "author": {"role": role}, "content": {"content_type": "text", "parts": [text]},
            "recipient": "all", "create_time": 1_715_791_402.5, "metadata": {"model_slug": "gpt-4o"},
        }})
    };
    json!({"title": title, "conversation_id": title, "create_time": 1_715_791_400.1, "current_node": "b",
    "mapping": {
        "s": node(Value::Null, json!(["q"]), "system", "Answer briefly."),
        "q": node(json!("s"), json!(["a", "b"]), "user", "How long does dough rest?"),
        "a": node(json!("q"), json!([]), "assistant", "Four hours."),
        "b": node(json!("q"), json!([]), "assistant", "Six hours."),
    }})
}
