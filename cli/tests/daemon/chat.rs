//! `hob chat` and `hob ask`: what they send, and what a script and a terminal get.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::common::Home;
use super::fake::{CLOSED, Daemon, NEWEST};
use super::terminal::Terminal;

const SAID: &str = "POST /v1/chat/completions";

#[test]
fn an_answer_is_streamed_with_the_origin_of_its_tokens() {
    let home = Home::new();
    let chunks = [
        json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Your code"}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": " is 48213."}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 6245}, "hob": hob()}),
    ];
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/room-1", 404, json!({"error": {"message": "none"}}))
        .stream(SAID, &chunks);

    let ran = home.run(&["chat", "--conversation", "room-1"], &[], "What is my code?\n\n/quit\n");
    let out = ran.ok();
    assert_eq!(out, "Your code is 48213.\n84 ms · 6,214 of 6,245 tokens remembered\n");
    let request = daemon.received(SAID);
    assert_eq!(request.token, "Bearer secret");
    assert_eq!(request.body["conversation"], "room-1");
    assert_eq!(request.body["hob"], json!({"append": true}));
    assert_eq!(request.body["messages"], json!([{"role": "user", "content": "What is my code?"}]));
    assert_eq!(request.body["stream"], true);
    assert_eq!(request.body["temperature"], Value::Null);

    let answer = home.run(&["ask", "--json", "What", "now?"], &[], "A file.").json();
    assert_eq!(answer["answer"], "Your code is 48213.");
    assert_eq!(answer["hob"], hob());
    let request = daemon.received(SAID);
    assert_eq!(request.body["messages"][0]["content"], "What now?\n\nA file.");
    assert!(request.body.get("conversation").is_none());
}

#[test]
fn the_line_under_an_answer_says_what_was_brought_back_for_it() {
    let home = Home::new();
    let part = |tokens: u32, way: &str| json!({"key": "message 3", "tokens": tokens, "way": way});
    let answer = |moved: Value| {
        let hob = json!({"tokens": {"shared": 900, "away": 4000, "computed": 20}, "moved": moved});
        [
            json!({"choices": [{"index": 0, "delta": {"content": "48213."}}]}),
            json!({"choices": [], "hob": hob}),
        ]
    };
    let mut daemon = Daemon::new(&home).answer(
        "GET /v1/conversations/c",
        404,
        json!({"error": {"message": "none"}}),
    );
    for (moved, back) in [
        (json!([part(412, "out")]), ""),
        (json!([part(412, "out"), part(60, "back")]), " · 1 part brought back, 60 tokens"),
        (json!([part(60, "back"), part(1352, "back")]), " · 2 parts brought back, 1,412 tokens"),
    ] {
        daemon = daemon.stream(SAID, &answer(moved));
        let ran = home.run(&["chat", "--conversation", "c"], &[], "What is my code?\n\n/quit\n");
        assert_eq!(ran.ok(), format!("48213.\n4,900 of 4,920 tokens remembered{back}\n"));
    }
    drop(daemon);
}

#[test]
fn a_message_is_sent_ahead_word_by_word_while_it_is_typed() {
    let home = Home::new();
    let typing = "POST /v1/conversations/room-1/typing";
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Your code is 48213."}}]});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/room-1", 404, json!({"error": {"message": "none"}}))
        .answer(typing, 200, json!({"ahead": true, "reason": null}))
        .answer("DELETE /v1/conversations/room-1/typing", 200, json!({"ahead": false}))
        .stream(SAID, &[chunk]);
    let words = ["chat", "--conversation", "room-1", "--system", "Be brief."];
    let mut hob = Terminal::start(&home, &words);

    hob.reads("> ");
    hob.types("What is my co");
    let request = daemon.received(typing);
    let text = request.body["text"].as_str().unwrap().to_owned();
    assert!("What is my ".starts_with(&text) && text.ends_with(' '), "{text:?}");
    assert_eq!(request.body["hob"], json!({"append": true}));
    assert_eq!(request.body["messages"][0]["content"], "Be brief.");
    hob.types("de?\r");
    let request = daemon.received(SAID);
    assert_eq!(request.body["messages"][1]["content"], "What is my code?");

    hob.reads("48213.");
    hob.types("I will not ");
    daemon.received(typing);
    hob.types("\u{3}"); // Ctrl-C drops the line.
    daemon.received("DELETE /v1/conversations/room-1/typing");
    hob.reads("Ctrl-D ends");
    hob.reads("> ");
    hob.types("\u{4}"); // Ctrl-D ends.
    assert_eq!(hob.ends(), 0);
}

#[test]
fn enter_goes_on_with_the_newest_part_of_a_conversation_that_outgrew_the_context() {
    let home = Home::new();
    let too_long = json!({"error": {
        "message": "This model's maximum context length is 640 tokens.",
        "code": "context_length_exceeded",
    }});
    let chunks = [
        json!({"choices": [{"index": 0, "delta": {"content": "I go on."}}]}),
        json!({"choices": [], "hob": {"tokens": {"computed": 9}, "left_out": 8}}),
    ];
    let full = [
        json!({"choices": [{"index": 0, "delta": {"content": "And"}, "finish_reason": "length"}]}),
        json!({"choices": [], "hob": {"tokens": {"computed": 9}, "context_full": true}}),
    ];
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .answer(SAID, 400, too_long.clone())
        .stream(&format!("{SAID}{NEWEST}"), &chunks);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);

    hob.reads("> ");
    hob.types("What now?\r");
    let shown = hob.reads("Enter answers with the newest part");
    assert!(shown.contains("maximum context length is 640 tokens"), "{shown}");
    let refused = daemon.received(SAID).body;
    assert_eq!(refused["hob"], json!({"append": true}));
    hob.types("\r");
    let shown = hob.reads("the model reads the newest part only");
    assert!(shown.contains("9 tokens read · 8 older messages left out"), "{shown}");
    let again = daemon.received(SAID).body;
    assert_eq!(again["hob"], json!({"append": true, "newest": true}));
    assert_eq!(again["messages"], json!([{"role": "user", "content": "What now?"}]));
    assert_eq!(refused["messages"], again["messages"]);

    let daemon = daemon.stream(SAID, &full);
    hob.types("Tell me.\r");
    let shown = hob.reads("Enter answers with the newest part");
    assert!(shown.contains("the context is full, so the answer ends here"), "{shown}");
    daemon.received(SAID);
    hob.types("\r");
    hob.reads("the model reads the newest part only");
    assert_eq!(daemon.received(SAID).body["messages"], json!([]), "it is answered again");
    hob.types("/quit\r");
    assert_eq!(hob.ends(), 0);

    let _daemon = daemon.answer(SAID, 400, too_long);
    let script = home.run(&["chat", "--conversation", "c"], &[], "What now?\n\n");
    script.fails(7, &["maximum context length"]);
}

#[test]
fn the_last_conversation_continues_without_its_name() {
    let home = Home::new();
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations", 200, json!({"data": [{"id": "room-1"}, {"id": "x"}]}))
        .answer("GET /v1/conversations/room-1", 200, json!({"id": "room-1", "messages": []}))
        .stream(SAID, &[]);
    home.run(&["chat", "--last", "--temperature", "0"], &[], "Hello\n").ok();
    let request = daemon.received(SAID);
    assert_eq!(request.body["conversation"], "room-1");
    assert_eq!(request.body["temperature"], 0.0);

    let daemon = daemon.answer("GET /v1/conversations", 200, json!({"data": []}));
    home.hob(&["chat", "--last"]).fails(4, &["no conversation yet"]);
    assert_eq!(home.hob(&["chat", "--last", "--conversation", "room-1"]).code, 2);
    assert_eq!(home.hob(&["chat", "--conversation", ""]).code, 2);
    assert_eq!(home.hob(&["ask", "--conversation", "", "Hello"]).code, 2);
    drop(daemon);
}

#[test]
fn ctrl_c_ends_an_answer_and_ctrl_d_the_program() {
    let home = Home::new();
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "I count: one, two"}}]});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .open_stream(SAID, &[chunk]);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);
    hob.reads("> ");
    hob.types("Count.\r");
    hob.reads("one, two");
    hob.interrupt();
    hob.reads("stopped");
    daemon.received(CLOSED);

    // Also before the first token.
    let daemon = daemon.open_stream(SAID, &[]);
    hob.reads("> ");
    hob.types("Again.\r");
    daemon.received(SAID);
    hob.interrupt();
    hob.reads("stopped");
    daemon.received(CLOSED);
    hob.reads("> ");
    hob.types("\u{4}");
    assert_eq!(hob.ends(), 0);
}

#[test]
fn the_history_is_the_users_alone_and_outlives_the_run() {
    let home = Home::new();
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Yes."}}]});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .stream(SAID, &[chunk]);
    let says = |keys: &str| {
        let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);
        hob.reads("> ");
        hob.types(keys);
        hob.reads("Yes.");
        hob.reads("> ");
        hob.types("\u{4}");
        assert_eq!(hob.ends(), 0);
        let messages = daemon.received(SAID).body["messages"].clone();
        messages[0]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(says("The first\r"), "The first");
    let up = "\u{1b}[A";
    assert_eq!(says(&format!("{up}\r")), "The first");
    let left = "\u{1b}[D";
    assert_eq!(says(&format!("{up}{left}{left}{left}{left}{left}very \r")), "The very first");
    let mode = fs::metadata(home.path("data/chat-history")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let before = fs::read(home.path("data/chat-history")).unwrap();
    let mut hob = Terminal::start(&home, &["chat", "--private"]);
    hob.reads("> ");
    hob.types("A secret\r");
    hob.reads("Yes.");
    hob.reads("> ");
    hob.types("\u{4}");
    assert_eq!(hob.ends(), 0);
    assert_eq!(fs::read(home.path("data/chat-history")).unwrap(), before);
}

#[test]
fn a_private_chat_of_the_app_that_is_continued_leaves_nothing_on_disk() {
    let home = Home::new();
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Yes."}}]});
    let listed = json!({"id": "private-1", "private": true, "message_count": 2});
    let messages = json!([
        {"role": "user", "content": "Hello", "id": 1, "status": "complete"},
        {"role": "assistant", "content": "Hi.", "id": 2},
    ]);
    let text = json!({"id": "private-1", "private": true, "messages": messages});
    let file = home.path("a.txt");
    fs::write(&file, "text").unwrap();
    let document = json!({"id": "d1", "name": "a.txt", "tokens": 9, "ready_tokens": 0,
        "context_tokens": 8192});
    let daemon = Daemon::new(&home)
        .answer("POST /v1/documents?name=a%2Etxt&keep=private", 201, document)
        .answer("GET /v1/conversations", 200, json!({"data": [listed]}))
        .answer("GET /v1/conversations/private-1", 200, text)
        .stream(SAID, &[chunk]);
    let mut hob = Terminal::start(&home, &["chat", "--last"]);
    hob.reads("> ");
    hob.types("A secret\r");
    hob.reads("Yes.");
    hob.reads("> ");
    assert_eq!(daemon.received(SAID).body["hob"], json!({"append": true, "private": true}));
    hob.types("/branch\r");
    hob.reads("a copy of a private chat would be on disk");
    hob.reads("> ");
    hob.types(&format!("/file {}\r", file.display()));
    hob.reads("9 tokens");
    hob.reads("> ");
    hob.types("/new\r");
    hob.reads("> ");
    hob.types("/file\r");
    hob.reads("no file is attached");
    hob.reads("> ");
    hob.types("\u{4}");
    assert_eq!(hob.ends(), 0);
    assert!(!home.path("data/chat-history").exists());
}

#[test]
fn a_message_may_have_several_lines() {
    let home = Home::new();
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Yes."}}]});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .stream(SAID, &[chunk]);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);
    for keys in ["one\\\rtwo\r", "one\u{1b}\rtwo\r", "\u{1b}[200~one\ntwo\u{1b}[201~\r"] {
        hob.reads("> ");
        hob.types(keys);
        hob.reads("Yes.");
        let messages = daemon.received(SAID).body["messages"].clone();
        assert_eq!(messages[0]["content"], "one\ntwo", "{keys:?}");
    }
    hob.reads("> ");
    hob.types("\u{4}");
    assert_eq!(hob.ends(), 0);
}

#[test]
fn slash_commands_show_and_change_the_conversation() {
    let home = Home::new();
    let chunks = [
        json!({"choices": [{"index": 0, "delta": {"content": "Yes."}}]}),
        json!({"choices": [], "usage": {"completion_tokens": 2}, "hob": hob()}),
    ];
    let messages = json!([
        {"role": "system", "content": "Be long.", "id": 1},
        {"role": "user", "content": "Hello", "id": 2, "status": "complete"},
        {"role": "assistant", "content": "Hi.", "id": 3, "tool_calls": null},
    ]);
    let stored = json!({"id": "c", "title": "Codes", "tokens": 31, "messages": messages});
    let local = json!({"data": [
        {"id": "/m/tiny.gguf", "name": "tiny", "current": true},
        {"id": "/m/smol.gguf", "name": "SmolLM2", "current": false},
    ]});
    let status = |model: &str, pid: u32| {
        json!({
            "model": model, "context_tokens": 8192, "pid": pid, "residency": "resident",
        })
    };
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, stored)
        .answer("GET /v1/status", 200, status("tiny", 1))
        .answer("GET /v1/models/local", 200, local)
        .raw("GET /v1/conversations/c/export?format=markdown", 200, "# Codes\n".to_owned())
        .stream(SAID, &chunks);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);
    let greeting = hob.reads("> ");
    for words in ["tiny · context 8,192 tokens", "Codes · 3 messages · 31 tokens saved", "/help"]
    {
        assert!(greeting.contains(words), "{words} is missing: {greeting}");
    }
    let mut types = |keys: &str, expected: &str| {
        hob.types(keys);
        let shown = hob.reads(expected);
        hob.reads("> ");
        shown
    };
    types("/stats\r", "no answer yet");
    types("/modle\r", "/modle is not a command; did you mean /model?");
    types("/xyzzy\r", "/help lists them");
    types("/sy\t\r", "Be long.");
    types("/model\r", "others: SmolLM2");

    types("/system Be brief.\r", "the next message goes with these instructions");
    types("Hello again\r", "Yes.");
    let said = daemon.received(SAID).body;
    assert_eq!(said["hob"], json!({"append": true, "instructions": "Be brief."}));
    assert_eq!(said["messages"], json!([{"role": "user", "content": "Hello again"}]));
    types("/retry\r", "Yes.");
    let again = daemon.received(SAID).body;
    let asked = json!({"append": true});
    assert_eq!((&again["messages"], &again["hob"]), (&json!([]), &asked));
    types("/system Be kind.\r", "the next message goes with these instructions");
    types("/continue\r", "Yes.");
    let more = daemon.received(SAID).body;
    let asked = json!({"append": true, "continue": true, "instructions": "Be kind."});
    assert_eq!((&more["messages"], &more["hob"]), (&json!([]), &asked));
    types("/stats\r", "18,642 from disk");

    let file = home.path("chat.md");
    types(&format!("/save {}\r", file.display()), "saved in");
    assert_eq!(fs::read_to_string(&file).unwrap(), "# Codes\n");
    types(&format!("/save {}\r", file.display()), "File exists");
    types("/save ~/again.md\r", "saved in");
    assert_eq!(fs::read_to_string(home.path("again.md")).unwrap(), "# Codes\n");
    // Tab completes the path, and escapes its space.
    fs::create_dir(home.path("my chats")).unwrap();
    types("/save ~/my\tcodes.md\r", "saved in");
    assert_eq!(fs::read_to_string(home.path("my chats/codes.md")).unwrap(), "# Codes\n");

    let switched = json!({"model": "/m/smol.gguf", "name": "SmolLM2", "restarts": true});
    let daemon = daemon.answer("POST /v1/models/switch", 202, switched);
    hob.types("/model smol\r");
    let request = daemon.received("POST /v1/models/switch").body;
    assert_eq!(request["model"], "/m/smol.gguf");
    let _daemon = daemon.answer("GET /v1/status", 200, status("SmolLM2", 2));
    hob.reads("SmolLM2 runs");
    hob.reads("> ");
    hob.types("/quit\r");
    assert_eq!(hob.ends(), 0);
}

#[test]
fn markdown_is_rendered_on_a_terminal_with_colours() {
    let home = Home::new();
    let text = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let chunks = [text("It is **bo"), text("ld** and `co"), text("de`.\n- one\n"), text("*two*")];
    let _daemon = Daemon::new(&home).stream(SAID, &chunks);
    let ask = ["ask", "What?"];
    let mut hob = Terminal::start(&home, &ask);
    let shown = hob.reads("two");
    assert!(shown.contains("It is \u{1b}[1mbold\u{1b}[0m and \u{1b}[36mcode\u{1b}[0m."), "{shown}");
    assert!(shown.contains("• one"), "{shown}");
    assert_eq!(hob.ends(), 0);

    let mut hob = Terminal::start_with(&home, &ask, &[("NO_COLOR", "1")]);
    hob.reads("It is **bold** and `code`.\r\n- one\r\n*two*");
    assert_eq!(hob.ends(), 0);
    let piped = home.hob(&ask).ok();
    assert_eq!(piped, "It is **bold** and `code`.\n- one\n*two*\n");
}

#[test]
fn a_terminal_shows_how_far_the_prompt_is_until_the_answer_begins() {
    let home = Home::new();
    let progress = json!({
        "phase": "reading", "tokens_total": 3784, "tokens_ready": 1204, "seconds_left": 11.6,
    });
    let chunks = [
        json!({"choices": [], "hob": {"progress": progress}}),
        json!({"choices": [{"index": 0, "delta": {"content": "Yes."}}]}),
    ];
    let daemon = Daemon::new(&home).stream(SAID, &chunks);
    let mut hob = Terminal::start(&home, &["ask", "What?"]);
    let shown = hob.reads("Yes.");
    let (before, after) = shown.split_once("Reading 1,204 of 3,784 tokens, 12 s left").unwrap();
    assert!(before.ends_with("\r\u{1b}[2K") && after.starts_with("\r\u{1b}[2K"), "{shown:?}");
    assert_eq!(hob.ends(), 0);
    assert_eq!(daemon.received(SAID).body["return_progress"], true);

    let script = home.hob(&["ask", "What?"]);
    assert_eq!((script.out.as_str(), script.err.as_str()), ("Yes.\n", ""));
    assert_eq!(daemon.received(SAID).body.get("return_progress"), None);
}

fn hob() -> Value {
    json!({
        "conversation": "room-1", "slot": 0, "restore_ms": 12.5, "ttft_ms": 84.2, "miss": null,
        "tokens": {"shared": 0, "memory": 0, "disk": 6214, "computed": 31},
    })
}
