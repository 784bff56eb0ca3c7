//! The library in the terminal.

use std::fs;

use serde_json::{Value, json};

use super::common::Home;
use super::fake::Daemon;
use super::terminal::Terminal;

const PATH: &str = "/v1/documents";
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn document(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name, "tokens": 3784, "ready_tokens": 3784, "conversations": 2})
}

/// A daemon whose library is `report.pdf`.
fn with_report(home: &Home) -> Daemon {
    Daemon::new(home)
        .answer(&format!("GET {PATH}"), 200, json!({"data": [document(ID, "report.pdf")]}))
        .answer(&format!("DELETE {PATH}/{ID}"), 200, json!({"deleted": true}))
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

    home.hob(&["documents", "rm", "a"])
        .fails(2, &["several documents match", "“a” (ab), “a” (ac); give an id"]);
    home.hob(&["documents", "rm", "none"]).fails(4, &["hob documents"]);
    let listed_id = shown.lines().nth(1).unwrap().split_whitespace().last().unwrap();
    for name in ["report.pdf", listed_id] {
        let removed = home.hob(&["documents", "rm", name]).ok();
        assert!(removed.contains("removed report.pdf"), "{removed}");
    }
    daemon.received(&format!("DELETE {PATH}/{ID}"));
}

#[test]
fn an_empty_name_removes_no_document() {
    let home = Home::new();
    let _daemon = with_report(&home);
    let ran = home.hob(&["documents", "rm", ""]);
    assert_eq!(ran.out, "");
    ran.fails(4, &["hob documents"]);
}

#[test]
fn a_user_is_asked_before_a_document_is_removed() {
    let home = Home::new();
    let daemon = with_report(&home);
    for (answer, shown) in [("n\r", "kept report.pdf"), ("yes\r", "removed report.pdf")] {
        let mut hob = Terminal::start(&home, &["documents", "rm", "report.pdf"]);
        hob.reads("remove report.pdf, with every KV that contains it? [y/N] ");
        hob.types(answer);
        hob.reads(shown);
        assert_eq!(hob.ends(), 0);
    }
    daemon.received(&format!("DELETE {PATH}/{ID}"));
    let mut hob = Terminal::start(&home, &["documents", "rm", "report.pdf", "--yes"]);
    assert!(!hob.reads("removed report.pdf").contains("[y/N]"));
    assert_eq!(hob.ends(), 0);
}

#[test]
fn a_document_may_come_from_a_pipe() {
    let home = Home::new();
    let sent = format!("POST {PATH}?name=stdin");
    let daemon = Daemon::new(&home).answer(&sent, 201, document(ID, "stdin"));
    home.run(&["documents", "add", "/dev/stdin"], &[], "\"The whole text.\"").ok();
    assert_eq!(daemon.received(&sent).body, "The whole text.");
}

#[test]
fn a_file_or_a_message_that_is_too_large_is_refused_before_it_is_sent() {
    let home = Home::new();
    let refused = json!({"error": {"message": "the body has more than 67108864 bytes",
        "code": "body_too_large"}});
    let _daemon = Daemon::new(&home)
        .answer(&format!("POST {PATH}?name=book%2Etxt"), 413, refused.clone())
        .answer("POST /v1/conversations/import", 413, refused.clone())
        .answer("POST /v1/chat/completions", 413, refused);
    for (name, words) in [("book.txt", &["documents", "add"][..]), ("chats.json", &["import"])] {
        let file = home.path(name);
        // No pipe and no socket holds that much.
        fs::File::create(&file).unwrap().set_len(1 << 30).unwrap();
        let file = file.display().to_string();
        let ran = home.hob(&[words, &[&*file][..]].concat());
        ran.fails(7, &[name, "more than 67108864 bytes"]);
    }
    let asked = home.run(&["ask", "-"], &[], &"a".repeat(12 << 20));
    asked.fails(7, &["more than 67108864 bytes"]);
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

#[test]
fn a_file_goes_with_the_next_message_of_a_chat() {
    let home = Home::new();
    fs::write(home.path("my notes.md"), "text").unwrap();
    let mut unread = document(ID, "my notes.md");
    (unread["ready_tokens"], unread["seconds_left"]) = (0.into(), 9.2.into());
    unread["context_tokens"] = 8192.into();
    let progress = json!({"phase": "reading", "tokens_total": 3784, "tokens_ready": 1204,
        "seconds_left": 6.2});
    let events = [
        json!({"object": "document.progress", "hob": {"progress": progress}}),
        json!({"object": "document.ready", "hob": {}}),
    ];
    let answer = json!({"choices": [{"index": 0, "delta": {"content": "Yes"}}]});
    let refused = json!({"error": {"message": "it is neither text nor a PDF",
        "code": "document_unreadable"}});
    fs::write(home.path("photo.png"), "\0").unwrap();
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/room-1", 404, json!({"error": {"message": "none"}}))
        .answer(&format!("POST {PATH}?name=my%20notes%2Emd"), 201, unread)
        .answer(&format!("POST {PATH}?name=photo%2Epng"), 400, refused)
        .stream(&format!("POST {PATH}/{ID}/read"), &events)
        .stream("POST /v1/chat/completions", &[answer]);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "room-1"]);
    hob.reads("> ");
    hob.types("/file /nowhere\r");
    hob.reads("cannot read /nowhere");
    hob.types(&format!("/file {}\r", home.path("photo.png").display()));
    hob.reads("photo.png: it is neither text nor a PDF");
    // Tab completes the path, and escapes its space.
    hob.types(&format!("/file {}\t\r", home.path("my").display()));
    hob.reads("my notes.md, 3,784 tokens, about 9.2 s");
    hob.reads("Reading 1,204 of 3,784 tokens, 7 s left");
    hob.reads("3,784 tokens are ready");
    hob.types("/file\r");
    hob.reads("attached: my notes.md");
    hob.types("Well?\r");
    let request = daemon.received("POST /v1/chat/completions");
    assert_eq!(request.body["messages"][0]["hob"]["documents"], json!([ID]));
    hob.reads("Yes");
    hob.types("And now?\r");
    let request = daemon.received("POST /v1/chat/completions");
    assert!(request.body["messages"][0].get("hob").is_none(), "{:?}", request.body);
    hob.types("\u{4}");
    assert_eq!(hob.ends(), 0);
}
