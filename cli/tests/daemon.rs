//! The requests that `hob` sends and the output that it prints for each answer. The daemon is a
//! socket with prepared answers.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use common::Home;
use serde_json::{Value, json};
use terminal::Terminal;

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
        .stream("POST /v1/chat/completions", &chunks);

    let ran = home.run(&["chat", "--conversation", "room-1"], &[], "What is my code?\n\n/quit\n");
    let out = ran.ok();
    assert_eq!(
        out,
        "Your code is 48213.\n84 ms to first token · 6,214 tokens from disk · 31 computed\n"
    );
    let request = daemon.received("POST /v1/chat/completions");
    assert_eq!(request.token, "Bearer secret");
    assert_eq!(request.body["conversation"], "room-1");
    assert_eq!(request.body["hob"], json!({"append": true}));
    assert_eq!(request.body["messages"], json!([{"role": "user", "content": "What is my code?"}]));
    assert_eq!(request.body["stream"], true);
    assert_eq!(request.body["temperature"], 0.3);

    let answer = home.run(&["ask", "--json", "What", "now?"], &[], "A file.").json();
    assert_eq!(answer["answer"], "Your code is 48213.");
    assert_eq!(answer["hob"], hob());
    let request = daemon.received("POST /v1/chat/completions");
    assert_eq!(request.body["messages"][0]["content"], "What now?\n\nA file.");
    assert!(request.body.get("conversation").is_none());
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
        .stream("POST /v1/chat/completions", &[chunk]);
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
    let request = daemon.received("POST /v1/chat/completions");
    assert_eq!(request.body["messages"][1]["content"], "What is my code?");

    hob.reads("48213.");
    hob.types("I will not ");
    daemon.received(typing);
    hob.types("\u{3}"); // Ctrl-C
    daemon.received("DELETE /v1/conversations/room-1/typing");
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
    let said = "POST /v1/chat/completions";
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/c", 200, json!({"id": "c", "messages": []}))
        .answer(said, 400, too_long.clone())
        .stream(&format!("{said}{NEWEST}"), &chunks);
    let mut hob = Terminal::start(&home, &["chat", "--conversation", "c"]);

    hob.reads("> ");
    hob.types("What now?\r");
    let shown = hob.reads("Enter answers with the newest part");
    assert!(shown.contains("maximum context length is 640 tokens"), "{shown}");
    let refused = daemon.received(said).body;
    assert_eq!(refused["hob"], json!({"append": true}));
    hob.types("\r");
    let shown = hob.reads("the model reads the newest part only");
    assert!(shown.contains("9 tokens computed · 8 older messages left out"), "{shown}");
    let again = daemon.received(said).body;
    assert_eq!(again["hob"], json!({"append": true, "newest": true}));
    assert_eq!(again["messages"], json!([{"role": "user", "content": "What now?"}]));
    assert_eq!(refused["messages"], again["messages"]);

    let daemon = daemon.stream(said, &full);
    hob.types("Tell me.\r");
    let shown = hob.reads("Enter answers with the newest part");
    assert!(shown.contains("the context is full, so the answer ends here"), "{shown}");
    daemon.received(said);
    hob.types("\r");
    hob.reads("the model reads the newest part only");
    assert_eq!(daemon.received(said).body["messages"], json!([]), "it is answered again");
    hob.types("/quit\r");
    assert_eq!(hob.ends(), 0);

    let _daemon = daemon.answer(said, 400, too_long);
    let script = home.run(&["chat", "--conversation", "c"], &[], "What now?\n\n");
    script.fails(7, &["maximum context length"]);
}

#[test]
fn the_last_conversation_continues_without_its_name() {
    let home = Home::new();
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations", 200, json!({"data": [{"id": "room-1"}, {"id": "x"}]}))
        .answer("GET /v1/conversations/room-1", 200, json!({"id": "room-1", "messages": []}))
        .stream("POST /v1/chat/completions", &[]);
    home.run(&["chat", "--last", "--temperature", "0"], &[], "Hello\n").ok();
    let request = daemon.received("POST /v1/chat/completions");
    assert_eq!(request.body["conversation"], "room-1");
    assert_eq!(request.body["temperature"], 0.0);

    let daemon = daemon.answer("GET /v1/conversations", 200, json!({"data": []}));
    home.hob(&["chat", "--last"]).fails(4, &["no conversation yet"]);
    assert_eq!(home.hob(&["chat", "--last", "--conversation", "room-1"]).code, 2);
    assert_eq!(home.hob(&["chat", "--conversation", ""]).code, 2);
    drop(daemon);
}

#[test]
fn a_stream_that_breaks_off_is_a_failure() {
    let home = Home::new();
    let chunk = json!({"choices": [{"delta": {"content": "Yo"}}]});
    let text = format!("data: {chunk}\n\n");
    let _daemon = Daemon::new(&home).raw("POST /v1/chat/completions", 200, text);
    let ran = home.hob(&["ask", "hi"]);
    assert_eq!(ran.out, "Yo");
    ran.fails(1, &["broke off"]);
}

#[test]
fn the_exit_code_follows_from_the_daemons_error() {
    let home = Home::new();
    let error = |message: &str| json!({"error": {"message": message, "type": "x"}});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/status", 401, error("no"))
        .answer("POST /v1/chat/completions", 503, error("the queue is full"))
        .answer("GET /v1/conversations", 403, error("another host"))
        .answer("GET /v1/conversations/no%2Fne", 404, error("nothing here"));
    home.hob(&["status"]).fails(7, &["token", "--token-file"]);
    home.hob(&["ask", "hi"]).fails(6, &["the queue is full", "try again"]);
    home.hob(&["conversations"]).fails(7, &["another host"]);
    home.hob(&["conversations", "show", "no/ne"]).fails(4, &["no/ne", "hob conversations"]);
    drop(daemon);
}

#[test]
fn conversations_are_listed_read_renamed_and_deleted() {
    let home = Home::new();
    let listed = json!({
        "id": "room-1", "title": "Codes\u{1b}[31m", "created_at": 1, "updated_at": 2,
        "message_count": 12, "slot": 0, "place": "slot", "tier": "hot", "tokens": 6245,
    });
    let mut whole = listed.clone();
    whole["messages"] = json!([{"role": "user", "content": "Hello"}]);
    let daemon = Daemon::new(&home)
        .answer("GET /v1/conversations", 200, json!({"object": "list", "data": [listed.clone()]}))
        .answer("GET /v1/conversations/room-1", 200, whole)
        .answer("PATCH /v1/conversations/room-1", 200, listed)
        .answer("DELETE /v1/conversations/room-1", 200, json!({"deleted": true}))
        .answer("DELETE /v1/conversations/gone", 404, json!({"error": {"message": "none"}}));

    let list = home.hob(&["conversations"]).ok();
    assert!(list.contains("room-1") && list.contains("6,245") && list.contains("hot"), "{list}");
    assert!(!list.contains('\u{1b}'), "a title must not send control sequences to the terminal");
    assert_eq!(home.hob(&["conversations", "list", "--json"]).json()[0]["tokens"], 6245);
    assert!(home.hob(&["conversations", "show", "room-1"]).ok().contains("[user]\nHello"));
    home.hob(&["conversations", "rename", "room-1", "New"]).ok();
    assert_eq!(daemon.received("PATCH /v1/conversations/room-1").body, json!({"title": "New"}));
    let ran = home.hob(&["conversations", "rm", "gone", "room-1"]);
    assert!(ran.out.contains("deleted room-1"), "the remaining conversations are deleted: {ran:?}");
    ran.fails(4, &["gone"]);
}

#[test]
fn a_miss_is_explained_with_the_stored_and_the_new_text() {
    let home = Home::new();
    let explanation = json!({
        "reason": "clock", "what": "a time or date in message 1 stands in front of 3 messages",
        "remedy": "move it behind what stays the same: into the last message", "at": 1042,
        "segment": {"layer": "identity", "key": "message 1"},
        "before": "Be brief.\nIt is 10:", "kept_text": "41.", "new_text": "52.",
    });
    let report = |explanation: Value| {
        let at = (!explanation.is_null()).then_some(1);
        json!({"id": "room-1", "explained_at": at, "explanation": explanation})
    };
    let _daemon = Daemon::new(&home)
        .answer("GET /v1/conversations/room-1/explain", 200, report(explanation))
        .answer("GET /v1/conversations/room-2/explain", 200, report(Value::Null));
    let shown = home.hob(&["explain", "room-1"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].ends_with("ago: a time or date in message 1 stands in front of 3 messages"));
    assert_eq!(
        lines[1..],
        [
            "clock: from token 1,042 on, in message 1 (identity)",
            "",
            "  kept  Be brief.⏎It is 10:41.",
            "  came  Be brief.⏎It is 10:52.",
            "                           ^",
            "What to do: move it behind what stays the same: into the last message",
        ]
    );
    assert_eq!(home.hob(&["explain", "room-1", "--json"]).json()["explanation"]["at"], 1042);
    assert!(home.hob(&["explain", "room-2"]).ok().contains("only what was new"));
    home.hob(&["explain", "room-3"]).fails(4, &["room-3", "hob conversations"]);
}

#[test]
fn status_shows_unknown_fields_too() {
    let home = Home::new();
    let status = json!({
        "version": "9", "memory_bytes": 1_048_576, "slots": [{"slot": 0, "state": "idle"}],
        "parked": [], "counters": {"turns": 3}, "new_in_9": true,
    });
    let daemon = Daemon::new(&home).answer("GET /v1/status", 200, status.clone());
    let shown = home.hob(&["status"]).ok();
    for words in ["1.0 MiB", "idle", "parked: none", "turns", "new_in_9"] {
        assert!(shown.contains(words), "{words} is missing: {shown}");
    }
    assert_eq!(home.hob(&["--json", "status"]).json(), status);
    assert!(home.hob(&["doctor"]).ok().contains(&format!("answers at {}", daemon.address)));
}

#[test]
fn an_address_can_be_named() {
    let home = Home::new();
    let daemon = Daemon::new(&home).answer("GET /v1/status", 200, json!({}));
    fs::remove_file(home.path("data/hobd.json")).unwrap();
    home.hob(&["status"]).fails(3, &["127.0.0.1:8642"]);
    home.hob(&["status", "--address", &daemon.address]).ok();
    home.run(&["status"], &[("HOB_ADDRESS", &daemon.address)], "").ok();
    home.hob(&["status", "--address", &daemon.address, "--token-file", "/nowhere"])
        .fails(1, &["/nowhere", "--token-file"]);
}

#[test]
fn a_dead_daemon_is_not_running() {
    let home = Home::new();
    let address = Daemon::new(&home).address.clone();
    // The listener is dropped, so nothing accepts on its port.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let file = home.path("data/hobd.json");
    let text = fs::read_to_string(&file).unwrap().replace(&address, &gone);
    fs::write(&file, text).unwrap();
    home.hob(&["status"]).fails(3, &[&gone, "hobd"]);
}

#[test]
fn requests_go_to_the_daemon_that_owns_the_directory() {
    let home = Home::new();
    let store = hob_slots::Store::open(home.path("data/slots")).unwrap();
    let skipped = json!([{
        "conversation": "room-2", "fingerprint": "0123456789abcdef", "reason": "in use",
    }]);
    let removed = json!({
        "removed": ["room-1"], "missing": [], "skipped": skipped, "freed_bytes": 1_048_576,
    });
    let pruned = json!({
        "dry_run": false, "slots": [], "skipped": skipped, "unneeded_bytes": 0, "freed_bytes": 0,
    });
    let collected = json!({"dry_run": false, "models": [], "freed_bytes": 0});
    let changed = json!({
        "changed": [{"fingerprint": "0123456789abcdef", "from": "long", "to": "permanent"}],
        "skipped": [],
    });
    let daemon = Daemon::new(&home)
        .answer("POST /v1/slots/remove", 200, removed)
        .answer("POST /v1/slots/prune", 200, pruned)
        .answer("POST /v1/slots/gc", 200, collected)
        .answer("POST /v1/slots/class", 200, changed);

    let ran = home.hob(&["slots", "rm", "room-1", "room-2"]);
    assert!(ran.out.contains("removed room-1") && ran.out.contains("1.0 MiB freed"), "{ran:?}");
    ran.fails(6, &["room-2", "in use"]);
    let request = daemon.received("POST /v1/slots/remove");
    assert_eq!(request.token, "Bearer secret");
    assert_eq!(request.body["conversations"], json!(["room-1", "room-2"]));

    let ran = home.hob(&["slots", "prune", "--yes", "--older-than", "7d"]);
    assert!(ran.err.contains("room-2 skipped: in use"), "{ran:?}");
    ran.ok();
    let request = daemon.received("POST /v1/slots/prune").body;
    assert_eq!(
        (&request["older_than_secs"], &request["dry_run"]),
        (&604_800.into(), &false.into())
    );

    home.hob(&["slots", "gc", "--yes"]).ok();
    assert_eq!(daemon.received("POST /v1/slots/gc").body["dry_run"], false);
    let output = home.hob(&["slots", "class", "room-1", "kept"]).ok();
    assert_eq!(output, "room-1: permanent instead of long\n");
    assert_eq!(daemon.received("POST /v1/slots/class").body["class"], "permanent");
    drop(store);
}

fn hob() -> Value {
    json!({
        "conversation": "room-1", "slot": 0, "restore_ms": 12.5, "ttft_ms": 84.2, "miss": null,
        "tokens": {"shared": 0, "memory": 0, "disk": 6214, "computed": 31},
    })
}

/// Prepared answers, by method and path.
struct Daemon {
    address: String,
    answers: std::sync::Arc<std::sync::Mutex<BTreeMap<String, (u16, String)>>>,
    requests: Receiver<Request>,
}

#[derive(Debug)]
struct Request {
    line: String,
    token: String,
    body: Value,
}

/// Behind the line of a request with `hob.newest`.
const NEWEST: &str = " (newest)";

impl Daemon {
    fn new(home: &Home) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let token_file = home.path("data/token");
        fs::create_dir_all(home.path("data")).unwrap();
        fs::write(&token_file, "secret\n").unwrap();
        fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600)).unwrap();
        let file = json!({
            "address": address, "token_file": token_file, "pid": 1, "model": "m",
            "fingerprint": "0123456789abcdef", "slots_dir": home.path("data/slots"),
        });
        fs::write(home.path("data/hobd.json"), file.to_string()).unwrap();

        let answers = std::sync::Arc::new(std::sync::Mutex::new(BTreeMap::new()));
        let (sender, requests) = channel();
        let known = std::sync::Arc::clone(&answers);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(request) = read(&stream) else { continue };
                let is_newest = request.body["hob"]["newest"] == true;
                let line = format!("{}{}", request.line, if is_newest { NEWEST } else { "" });
                let answer = known.lock().unwrap().get(&line).cloned();
                let missing = (404, r#"{"error":{"message":"no such path"}}"#.to_owned());
                write(stream, answer.unwrap_or(missing));
                let _ = sender.send(request);
            }
        });
        Self { address, answers, requests }
    }

    fn raw(self, line: &str, status: u16, body: String) -> Self {
        self.answers.lock().unwrap().insert(line.to_owned(), (status, body));
        self
    }

    fn answer(self, line: &str, status: u16, body: Value) -> Self {
        self.raw(line, status, body.to_string())
    }

    fn stream(self, line: &str, chunks: &[Value]) -> Self {
        let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        self.raw(line, 200, format!(": waiting\n\n{events}data: [DONE]\n\n"))
    }

    /// The next received request with this method and path.
    fn received(&self, line: &str) -> Request {
        self.requests.iter().find(|request| request.line == line).unwrap()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let line = line.trim_end_matches(" HTTP/1.1\r\n").to_owned();
    let (mut token, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        match header.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                token = value.to_owned();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line, token, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn write(mut stream: TcpStream, (status, body): (u16, String)) {
    let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
