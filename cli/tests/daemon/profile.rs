//! `--profile` of `hob chat` and `hob ask`: every request of a chat that has a prompt names the profile.

use std::fs;

use serde_json::{Value, json};

use super::common::Home;
use super::fake::Daemon;
use super::terminal::Terminal;

const SAID: &str = "POST /v1/chat/completions";

fn answer() -> [Value; 1] {
    [json!({"choices": [{"index": 0, "delta": {"content": "Yes."}}]})]
}

#[test]
fn each_request_of_a_chat_names_its_profile() {
    let home = Home::new();
    fs::write(home.path("a.txt"), "text").unwrap();
    let document = json!({"id": "d1", "name": "a.txt", "tokens": 9, "ready_tokens": 0,
        "context_tokens": 8192});
    let conversation = "/v1/conversations/c";
    let used = json!({"tokens": 9, "max_tokens": 640});
    let shortened = json!({"result": {"start": 3, "left_out": 2, "summary": "We met."}});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/profiles/night", 200, json!({"name": "night"}))
        .answer(&format!("GET {conversation}"), 404, json!({"error": {"message": "none"}}))
        .answer("POST /v1/documents?name=a%2Etxt&profile=night", 201, document)
        .stream("POST /v1/documents/d1/read?profile=night", &[json!({"object": "document.ready"})])
        .answer(&format!("POST {conversation}/typing"), 200, json!({"ahead": true}))
        .answer(&format!("GET {conversation}/context?profile=night"), 200, used)
        .answer("GET /v1/settings", 200, json!({"data": []}))
        .answer("GET /v1/status", 200, json!({"model": "m", "context_tokens": 640}))
        .stream(&format!("POST {conversation}/shorten"), &[shortened])
        .stream(SAID, &answer());
    let words = ["chat", "--conversation", "c", "--profile", "night"];
    let mut hob = Terminal::start(&home, &words);
    hob.reads("> ");
    hob.types("I will ");
    let typed = daemon.received(&format!("POST {conversation}/typing")).body;
    assert_eq!(typed["hob"], json!({"append": true, "profile": "night"}));
    hob.types("ask.\r");
    hob.reads("Yes.");
    hob.reads("> ");
    let said = daemon.received(SAID).body;
    assert_eq!(said["hob"], json!({"append": true, "profile": "night"}));
    hob.types("/context\r");
    hob.reads("9 of 640 tokens");
    hob.reads("> ");
    hob.types("/summarise\r");
    hob.reads("this stands for 2 older messages");
    hob.reads("> ");
    let shorten = daemon.received(&format!("POST {conversation}/shorten")).body;
    assert_eq!(shorten, json!({"summarise": true, "hob": {"profile": "night"}}));
    hob.types("/new\r");
    hob.reads("> ");
    hob.types(&format!("/file {}\r", home.path("a.txt").display()));
    hob.reads("9 tokens are ready");
    hob.types("And this?\r");
    hob.reads("Yes.");
    hob.reads("> ");
    daemon.received(SAID);
    hob.types("/quit\r");
    hob.reads("hob chat --profile night --last");
    assert_eq!(hob.ends(), 0);

    let file = home.path("a.txt").display().to_string();
    home.hob(&["ask", "--profile", "night", "--file", &file, "Well?"]).ok();
    assert_eq!(daemon.received(SAID).body["hob"], json!({"profile": "night"}));
}

#[test]
fn a_chat_with_an_unknown_profile_does_not_begin() {
    let home = Home::new();
    let unknown =
        |message: &str| json!({"error": {"message": message, "code": "profile_not_found"}});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/profiles/nigth", 404, unknown("no profile is called `nigth`"))
        .answer("GET /v1/conversations/c", 404, json!({"error": {"message": "none"}}))
        .stream(SAID, &answer());
    let words = |profile| ["chat", "--conversation", "c", "--profile", profile];
    home.run(&words("nigth"), &[], "Hello\n").fails(4, &["no profile is called `nigth`"]);
    assert_eq!(home.hob(&words("")).code, 2);
    home.run(&words("none"), &[], "Hello\n").ok();
    assert_eq!(daemon.received(SAID).body["hob"], json!({"append": true, "profile": "none"}));
}
