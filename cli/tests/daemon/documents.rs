//! The library in the terminal.

use std::fs;

use serde_json::{Value, json};

use super::common::Home;
use super::fake::Daemon;

const PATH: &str = "/v1/documents";
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn document(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name, "tokens": 3784, "ready_tokens": 3784, "conversations": 2})
}

#[test]
fn documents_are_listed_added_and_removed() {
    let home = Home::new();
    let listed =
        json!({"data": [document(ID, "report.pdf"), document("ab", "a"), document("ac", "a")]});
    let daemon = Daemon::new(&home)
        .answer(&format!("GET {PATH}"), 200, listed)
        .answer(&format!("POST {PATH}?name=my%20notes%2Emd"), 201, document("ad", "my notes.md"))
        .answer(&format!("DELETE {PATH}/{ID}"), 200, json!({"deleted": true}));
    let shown = home.hob(&["documents"]).ok();
    assert!(shown.contains("report.pdf") && shown.contains("3,784"), "{shown}");
    let file = home.path("my notes.md");
    fs::write(&file, "text").unwrap();
    let added = home.hob(&["documents", "add", &file.display().to_string()]).ok();
    assert!(added.contains("added my notes.md: 3,784 tokens"), "{added}");

    home.hob(&["documents", "rm", "a"]).fails(2, &["several documents match"]);
    home.hob(&["documents", "rm", "none"]).fails(4, &["hob documents"]);
    let removed = home.hob(&["documents", "rm", "report.pdf"]).ok();
    assert!(removed.contains("removed report.pdf"), "{removed}");
    daemon.received(&format!("DELETE {PATH}/{ID}"));
}

#[test]
fn a_question_is_asked_about_a_file() {
    let home = Home::new();
    let file = home.path("a.txt");
    fs::write(&file, "text").unwrap();
    let answer = json!({"choices": [{"index": 0, "delta": {"content": "Yes"}}]});
    let daemon = Daemon::new(&home)
        .answer(&format!("POST {PATH}?name=a%2Etxt"), 201, document(ID, "a.txt"))
        .stream("POST /v1/chat/completions", &[answer]);
    home.hob(&["ask", "--file", &file.display().to_string(), "Well?"]).ok();
    let request = daemon.received("POST /v1/chat/completions");
    assert_eq!(request.body["messages"][0]["hob"]["documents"], json!([ID]));
    home.hob(&["ask", "--file", "/nowhere", "Well?"]).fails(2, &["/nowhere"]);
}
