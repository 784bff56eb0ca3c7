//! Answers that break off, or end with an error of the daemon.

use serde_json::{Value, json};

use super::common::Home;
use super::fake::Daemon;
use super::terminal::Terminal;

const SAID: &str = "POST /v1/chat/completions";

#[test]
fn a_message_whose_answer_ends_with_an_error_is_part_of_the_conversation() {
    let home = Home::new();
    let text = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let crashed = json!({"error": {"message": "the engine crashed"}});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 404, json!({"error": {"message": "none"}}))
        .stream(SAID, &[text("It is **half"), crashed]);
    let words = ["chat", "--conversation", "c", "--system", "Be brief."];
    let mut hob = Terminal::start(&home, &words);
    hob.reads("> ");
    hob.types("What is it?\r");
    let roles = |body: &Value| {
        let messages = body["messages"].as_array().unwrap();
        messages.iter().map(|message| message["role"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(roles(&daemon.received(SAID).body), ["system", "user"]);
    let shown = hob.reads("the engine crashed");
    assert!(shown.contains("It is **half"), "what came is shown: {shown:?}");
    hob.reads("> ");
    let daemon = daemon.stream(SAID, &[text("Whole.")]);
    hob.types("Again?\r");
    assert_eq!(roles(&daemon.received(SAID).body), ["user"]);
    hob.reads("Whole.");
    hob.reads("> ");
    hob.types("\u{4}");
    assert_eq!(hob.ends(), 0);
}

#[test]
fn a_stream_that_breaks_off_is_a_failure() {
    let home = Home::new();
    let chunk = json!({"choices": [{"delta": {"content": "Yo"}}]});
    let text = format!("data: {chunk}\n\n");
    let _daemon = Daemon::new(&home).raw(SAID, 200, text);
    let ran = home.hob(&["ask", "hi"]);
    assert_eq!(ran.out, "Yo");
    ran.fails(1, &["broke off"]);
}

#[test]
fn a_failure_within_an_answer_begins_a_line_of_the_terminal() {
    let home = Home::new();
    let chunk = json!({"choices": [{"delta": {"content": "It is half"}}]});
    let _daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .raw(SAID, 200, format!("data: {chunk}\n\n"));
    let failed = "It is half\r\nhob: the daemon's answer broke off";
    let mut hob = Terminal::start(&home, &["ask", "What?"]);
    hob.reads(failed);
    assert_eq!(hob.ends(), 1);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);
    hob.reads("> ");
    hob.types("What?\r");
    hob.reads(failed);
    hob.reads("> ");
    hob.types("\u{4}");
    assert_eq!(hob.ends(), 0);
}
