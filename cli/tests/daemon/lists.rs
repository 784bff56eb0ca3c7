//! Conversations by title, and lists that fit a terminal.

use std::fs;

use hob_slots::{Layer, SegmentRef, Store, TtlClass};
use hob_testkit::asset;
use serde_json::{Value, json};

use super::common::Home;
use super::fake::Daemon;
use super::saved::{MODEL, save};
use super::terminal::Terminal;

const LIST: &str = "GET /v1/conversations";

/// Two and a half hours since the last use.
const AGE_SECS: u64 = 9_000;

#[test]
fn a_conversation_is_named_by_its_title_or_the_beginning_of_one() {
    let home = Home::new();
    let read = |id: &str| json!({"id": id, "messages": [{"role": "user", "content": id}]});
    let daemon = Daemon::new(&home)
        .answer(
            LIST,
            200,
            json!({"data": [
                {"id": "chat-1", "title": "The cat"}, {"id": "chat-2", "title": "The dog"},
            ]}),
        )
        .answer("GET /v1/conversations/chat-1", 200, read("chat-1"))
        .answer("GET /v1/conversations/chat-1/explain", 200, json!({"id": "chat-1"}))
        .answer("PATCH /v1/conversations/chat-2", 200, json!({}))
        .answer("DELETE /v1/conversations/chat-2", 200, json!({"deleted": true}));
    for name in ["chat-1", "the CAT", "The c"] {
        let shown = home.hob(&["conversations", "show", name]).ok();
        assert!(shown.contains("chat-1"), "{name}: {shown}");
        home.hob(&["explain", name]).ok();
    }
    assert!(home.hob(&["conversations", "show", "--last"]).ok().contains("chat-1"));
    assert!(home.hob(&["explain"]).ok().contains("only what was new"));
    home.hob(&["conversations", "show", "the"])
        .fails(2, &["“The cat” (chat-1)", "“The dog” (chat-2)"]);
    home.hob(&["explain", "The bird"]).fails(4, &["The bird", "hob conversations"]);

    home.hob(&["conversations", "rename", "The d", "Dogs"]).ok();
    daemon.received("PATCH /v1/conversations/chat-2");
    home.hob(&["conversations", "rm", "The d"]).fails(2, &["“The dog” (chat-2)"]);
    home.hob(&["conversations", "rm", "the dog"]).ok();
    daemon.received("DELETE /v1/conversations/chat-2");
}

#[test]
fn a_list_without_conversations_and_one_while_the_model_loads_say_so() {
    let home = Home::new();
    let daemon = Daemon::new(&home).answer(LIST, 200, json!({"data": []}));
    let empty = home.hob(&["conversations"]).ok();
    assert_eq!(empty, "no conversation yet; `hob chat` starts one\n");
    assert_eq!(home.hob(&["conversations", "--json"]).json(), json!([]));
    let loading = json!({"id": "room-1", "message_count": 12, "tokens": null, "tier": null,
        "place": null, "ready": null});
    let _daemon = daemon.answer(LIST, 200, json!({"data": [loading]}));
    let shown = home.hob(&["conversations"]).ok();
    let row = shown.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(row.starts_with("room-1 - 12 - the model loads"), "{shown}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_machine_without_a_browser_is_a_failure() {
    let home = Home::new();
    let _daemon = Daemon::new(&home).answer("GET /health", 200, json!({}));
    let ran = home.run(&["open"], &[("PATH", "/nowhere")], "");
    assert_eq!(ran.out, "");
    ran.fails(1, &["no browser", "hob open --print"]);
}

#[test]
fn a_user_is_asked_before_a_conversation_is_deleted() {
    let home = Home::new();
    let daemon = Daemon::new(&home)
        .answer(LIST, 200, json!({"data": [{"id": "chat-2", "title": "The dog"}]}))
        .answer("DELETE /v1/conversations/chat-2", 200, json!({"deleted": true}));
    let ask = |answer: &str, shown: &str| {
        let mut hob = Terminal::start(&home, &["conversations", "rm", "the dog"]);
        hob.reads("delete “The dog” (chat-2), its text and its KV, for good? [y/N] ");
        hob.types(answer);
        let shown = hob.reads(shown);
        assert_eq!(hob.ends(), 0);
        shown
    };
    for no in ["\r", "n\r", "\u{4}"] {
        let shown = ask(no, "kept the dog");
        assert!(!shown.contains("deleted"), "{no:?}: {shown}");
    }
    ask("y\r", "deleted the dog");
    daemon.received("DELETE /v1/conversations/chat-2");

    let mut hob = Terminal::start(&home, &["conversations", "rm", "the dog", "--yes"]);
    let shown = hob.reads("deleted the dog");
    assert!(!shown.contains("[y/N]"), "{shown}");
    assert_eq!(hob.ends(), 0);
}

#[test]
fn files_are_imported_by_the_end_of_their_names() {
    let home = Home::new();
    let imported = json!({"object": "list", "data": [
        {"id": "chat-1", "source": "ChatGPT", "was_here": false,
         "conversation": {"title": "The cat", "message_count": 1200}},
        {"id": "chat-2", "source": "ChatGPT", "was_here": true,
         "conversation": {"title": "The dog", "message_count": 1}},
    ], "skipped": [{"title": "New chat", "reason": "it has no message with a text"}]});
    let daemon = Daemon::new(&home).answer("POST /v1/conversations/import", 200, imported);
    let file = home.path("conversations.json");
    fs::write(&file, "[]").unwrap();

    let shown = home.hob(&["import", file.to_str().unwrap()]).ok();

    daemon.received("POST /v1/conversations/import");
    assert_eq!(
        shown,
        "chat-1: The cat, 1,200 messages\nchat-2: The dog, 1 message, was here already\n\
         skipped New chat: it has no message with a text\n"
    );
    home.hob(&["import", "chat.docx"]).fails(2, &["chat.docx", ".zip"]);
    home.hob(&["import", "nothing.json"]).fails(1, &["nothing.json"]);
    let directory = home.path("threads.zip");
    fs::create_dir(&directory).unwrap();
    home.hob(&["import", directory.to_str().unwrap()]).fails(2, &["threads.zip", "a directory"]);

    let ran = home.hob(&["import", file.to_str().unwrap(), "nothing.json", "--json"]);
    let answers: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(answers[0]["data"][0]["id"], "chat-1", "the first file is imported");
    ran.fails(1, &["nothing.json"]);
    let refused = json!({"error": {"message": "it is the export of no known program"}});
    let _daemon = daemon.answer("POST /v1/conversations/import", 400, refused);
    home.hob(&["import", file.to_str().unwrap()])
        .fails(7, &["conversations.json", "no known program"]);
}

#[test]
fn saved_kv_is_listed_and_named_by_titles() {
    let home = Home::new();
    let store = Store::open(home.path("data/slots")).unwrap();
    save(&store, "chat-1", TtlClass::Permanent, AGE_SECS, &[]);
    save(&store, "chat-2", TtlClass::Extended, AGE_SECS, &[]);
    save(&store, "__prefix__:helper", TtlClass::Extended, AGE_SECS, &[]);
    let list = json!({"data": [{"id": "chat-1", "title": "The cat"}]});
    let _daemon = Daemon::new(&home).answer(LIST, 200, list);
    let shown = home.hob(&["slots", "ls"]).ok();
    let line = |word: &str| shown.lines().find(|line| line.contains(word)).unwrap().to_owned();
    assert!(shown.contains("EXPIRES") && line("chat-1").contains("The cat"), "{shown}");
    assert!(line("chat-2").contains("in 21 h"), "{shown}");
    assert!(line("chat-2").ends_with("on disk"), "{shown}");
    assert!(line("prefix of profile helper").contains("extended"), "{shown}");
    let rows = home.hob(&["slots", "ls", "--json"]).json()["slots"].clone();
    let row = |id: &str| {
        let rows = rows.as_array().unwrap();
        rows.iter().find(|row| row["conversation"] == id).unwrap().clone()
    };
    assert_eq!(row("chat-1")["title"], "The cat");
    assert_eq!(row("chat-1")["expires_in_secs"], Value::Null, "it stays until the quota needs it");
    assert_eq!(row("chat-2")["title"], Value::Null);
    let in_hours = row("chat-2")["expires_in_secs"].as_u64().unwrap() / 3600;
    assert_eq!(in_hours, 21);
    for name in ["chat-1", "the cat", "the c"] {
        let shown = home.hob(&["slots", "show", name]).ok();
        assert!(shown.contains("conversation     chat-1"), "{name}: {shown}");
    }
    assert!(home.hob(&["slots", "show", "--last"]).ok().contains("conversation     chat-"));
    home.hob(&["slots", "show", "chat"]).fails(2, &["“The cat” (chat-1)", "chat-2"]);
    let archive = home.path("cat.tar");
    home.hob(&["slots", "export", "the cat", "-o", archive.to_str().unwrap()]).ok();
    let found = home.hob(&["slots", "prune", "--conversation", "The c", "--json"]).json();
    assert_eq!(found["slots"][0]["conversation"], "chat-1");
    assert!(home.hob(&["slots", "prune", "--conversation", "The c"]).ok().contains("The cat"));
}

#[test]
fn a_list_fits_its_terminal_and_goes_through_the_pager() {
    let home = Home::new();
    let data: Vec<Value> = (0..60)
        .map(|n| {
            json!({
                "id": format!("chat-1490e0698238af{n:02}"), "tier": "none", "updated_at": 1,
                "title": format!("Number {n}: a title that is much longer than its column is wide"),
                "message_count": n, "tokens": 1000 * n,
            })
        })
        .collect();
    let _daemon = Daemon::new(&home).answer(LIST, 200, json!({"data": data}));
    let mut hob = Terminal::start(&home, &["conversations"]);
    let shown = hob.reads("… 40 more (--all lists them)\r\n");
    assert_eq!(hob.ends(), 0);
    let lines: Vec<&str> = shown.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 22, "{shown}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
    insta::assert_snapshot!(
        lines[..3].join("\n").replace(lines[1].rsplit("  ").next().unwrap(), "AGO")
    );

    let paged = home.path("paged");
    let pager = format!("cat > {}", paged.display());
    let words = ["conversations", "--all"];
    let path = std::env::var("PATH").unwrap();
    let hob = Terminal::start_with(&home, &words, &[("PAGER", &pager), ("PATH", &path)]);
    assert_eq!(hob.ends(), 0);
    let paged = fs::read_to_string(paged).unwrap();
    assert_eq!(paged.lines().count(), 61, "{paged}");
    assert!(paged.lines().all(|line| line.chars().count() <= 80), "{paged}");

    assert_eq!(home.hob(&["conversations"]).ok().lines().count(), 61, "a script gets them all");
    assert_eq!(home.hob(&["conversations", "--limit", "2"]).ok().lines().count(), 4);
    assert_eq!(home.hob(&["conversations", "--json"]).json().as_array().unwrap().len(), 60);
}

#[test]
fn a_narrow_terminal_shows_when_saved_kv_expires_and_where_it_is() {
    let home = Home::new();
    let (id, title) =
        ("chat-1490e0698238af99", "A title that is much longer than its column is wide");
    let store = Store::open(home.path("data/slots")).unwrap();
    save(&store, id, TtlClass::Extended, AGE_SECS, &[]);
    let list = json!({"data": [{"id": id, "title": title}]});
    let _daemon = Daemon::new(&home).answer(LIST, 200, list);
    let mut hob = Terminal::start(&home, &["slots", "ls"]);
    let shown = hob.reads("1 conversation,");
    assert_eq!(hob.ends(), 0);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[..2].iter().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(lines[0].contains("EXPIRES") && lines[0].ends_with("STATE"), "{shown}");
    assert!(lines[1].contains("in 21 h") && lines[1].ends_with("on disk"), "{shown}");
    assert!(!shown.contains("FINGERPRINT"), "{shown}");
}

#[test]
fn a_terminal_of_40_columns_shows_fewer_of_them_and_each_whole() {
    let home = Home::new();
    let (id, title) =
        ("chat-1490e0698238af99", "A title that is much longer than its column is wide");
    let store = Store::open(home.path("data/slots")).unwrap();
    save(&store, id, TtlClass::Extended, AGE_SECS, &(0..128).collect::<Vec<_>>());
    let chat = json!({"id": id, "title": title, "message_count": 1200, "tokens": 3000,
        "tier": "none", "updated_at": 1});
    let document = json!({"id": "0123456789abcdef", "name": "a-report-with-a-long-name.pdf",
        "tokens": 3784, "ready_tokens": 3784, "conversations": 2, "used_at": 1});
    let prefix = json!({"name": "0123456789abcdef", "tokens": 3784, "conversations": 3,
        "place": "none", "used_at": 1, "text": title});
    let _daemon = Daemon::new(&home)
        .answer(LIST, 200, json!({"data": [chat]}))
        .answer("GET /v1/documents", 200, json!({"data": [document]}))
        .answer("GET /v1/learned", 200, json!({"data": [prefix]}));
    for (words, last, left_out) in [
        (&["conversations"][..], "STATE", "MESSAGES"),
        (&["documents"], "READY", "CHATS"),
        (&["prefixes"], "BEGINS", "CONVERSATIONS"),
        (&["slots", "ls"], "STATE", "TOKENS"),
        (&["slots", "show", id], "STORED", "RAW"),
    ] {
        let mut hob = Terminal::start_in(40, &home, words, &[]);
        let shown = hob.reads(last) + &hob.reads("\n"); // Columns behind the last one, too.
        let header = shown.lines().last().unwrap();
        assert!(header.chars().count() <= 40 && !header.contains(left_out), "{shown}");
        // A title may be cut; the edge of the terminal cuts nothing else.
        let row = hob.reads("\r\n");
        assert!(last == "BEGINS" || !row.trim_end().ends_with('…'), "{row}");
        assert_eq!(hob.ends(), 0);
    }
}

#[test]
fn a_terminal_of_40_columns_shows_the_whole_state_of_a_block_and_of_a_conversation() {
    let home = Home::new();
    let store = Store::open(home.path("data/slots")).unwrap();
    save(&store, "room-1", TtlClass::Long, 0, &(0..128).collect::<Vec<_>>());
    let mut record = store.get_slot(MODEL, &"room-1".parse().unwrap()).unwrap();
    let segment = |end, key: &str| SegmentRef::new(end, Layer::User, key);
    record.segments = vec![
        segment(64, "message 1"),
        SegmentRef { pinned: true, weight: 80, ..segment(128, "a-file-with-a-long-name.rs") },
    ];
    store.put_slot(MODEL, &record).unwrap();
    let title = "A title that is much longer than its column is wide";
    let chat = json!({"id": "chat-1490e0698238af99", "title": title, "ready": false,
        "read_ms": 12_400});
    let slot = json!({"slot": 0, "conversation": "chat-1490e0698238af99", "tokens": 1502,
        "state": "decoding", "away_tokens": 1234});
    let _daemon = Daemon::new(&home).answer(LIST, 200, json!({"data": [chat]})).answer(
        "GET /v1/status",
        200,
        json!({"slots": [slot]}),
    );
    for (words, last) in [
        (&["slots", "show", "room-1"][..], "weight 80"),
        (&["conversations"], "12 s"),
        (&["status"], "tokens away"),
    ] {
        let mut hob = Terminal::start_in(40, &home, words, &[]);
        hob.reads("STATE");
        let shown = hob.reads(last);
        assert_eq!(hob.ends(), 0);
        assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
    }
}

#[test]
fn a_narrow_terminal_shows_the_whole_name_of_a_model_and_whether_it_fits() {
    let home = Home::new();
    let name = "a-model-with-a-long-name-f16";
    fs::create_dir_all(home.path("data/models")).unwrap();
    let file = home.path("data/models").join(name).with_extension("gguf");
    fs::copy(asset("hob-tiny-f16.gguf"), file).unwrap();
    let env = [("HOB_TEST_MEMORY_BYTES", "1073741824")];
    let mut hob = Terminal::start_with(&home, &["models"], &env);
    let shown = hob.reads("KV for the context");
    assert_eq!(hob.ends(), 0);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[..2].iter().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(lines[1].starts_with(name) && lines[1].ends_with("fits"), "{shown}");
    assert!(!lines[0].contains("ARCHITECTURE"), "{shown}");
}

/// A daemon with more conversations than a terminal has lines.
fn with_many(home: &Home) -> Daemon {
    let data: Vec<Value> = (0..60).map(|n| json!({"id": format!("chat-{n}")})).collect();
    Daemon::new(home).answer(LIST, 200, json!({"data": data}))
}

#[test]
fn less_shows_colours_and_a_dumb_terminal_gets_no_pager() {
    let home = Home::new();
    let _daemon = with_many(&home);
    let options = home.path("options");
    let pager = format!("cat > /dev/null; echo \"$LESS\" > {}", options.display());
    let (words, path) = (["conversations", "--all"], std::env::var("PATH").unwrap());
    for (set, expected) in [(None, "FRX\n"), (Some(("LESS", "-S")), "-S\n")] {
        let env = [("PAGER", &*pager), ("PATH", &*path)];
        let env: Vec<_> = env.into_iter().chain(set).collect();
        assert_eq!(Terminal::start_with(&home, &words, &env).ends(), 0);
        assert_eq!(fs::read_to_string(&options).unwrap(), expected);
    }
    let env = [("PAGER", &*pager), ("PATH", &*path), ("TERM", "dumb")];
    let mut hob = Terminal::start_with(&home, &words, &env);
    hob.reads("chat-59");
    assert_eq!(hob.ends(), 0);
}

#[test]
fn ctrl_c_in_the_pager_is_the_pagers() {
    let home = Home::new();
    let _daemon = with_many(&home);
    let closed = home.path("closed");
    let wait = format!("while ! test -e {}; do sleep 0.02; done", closed.display());
    let pager = format!("cat > /dev/null; echo shown; {wait}");
    let (words, path) = (["conversations", "--all"], std::env::var("PATH").unwrap());
    let mut hob = Terminal::start_with(&home, &words, &[("PAGER", &pager), ("PATH", &path)]);
    hob.reads("shown");
    hob.interrupt();
    fs::write(closed, "").unwrap();
    assert_eq!(hob.ends(), 0, "it ends with its pager");
}

#[test]
fn settings_fit_a_terminal_as_one_writes_them() {
    let home = Home::new();
    let words = ["config", "show", "--ttl-long", "90m"];
    let mut hob = Terminal::start_with(&home, &words, &[("PAGER", "")]);
    let shown = hob.reads("profiles_dir");
    assert_eq!(hob.ends(), 0);
    for line in shown.split("\r\n") {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let value = |key: &str| {
        let line = shown.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let values = ["ttl_short", "ttl_long", "max_body_bytes", "idle_park_secs"].map(value);
    assert_eq!(values, ["5m", "90m", "8MiB", "3600"]);
}

#[test]
fn a_comparison_with_exact_answers_is_a_table_by_strategy() {
    let home = Home::new();
    let row = |strategy: &str, to: u64| {
        json!({
            "strategy": strategy, "moved_percent": [to.saturating_sub(25), to], "prompts": 3,
            "prompt_tokens": 1234, "moved_tokens": 1000, "repaired_tokens": 96,
            "computed_tokens": 234, "compared_tokens": 90, "agreement": 0.9888,
            "divergence": 0.00219, "f1": 0.978,
        })
    };
    let data = [row("head", 100), row("full", 0)];
    let repeat = "hob verify-correctness FILE --strategy head,full --max-tokens 16";
    let answer = json!({"object": "correctness", "repeat": repeat, "data": data});
    let daemon = Daemon::new(&home).answer("POST /v1/verify/correctness", 200, answer);
    let file = home.path("prompts.json");
    fs::write(&file, r#"["Where is the key?"]"#).unwrap();
    let file = file.to_str().unwrap();
    let shown =
        home.hob(&["verify-correctness", file, "--strategy", "head,full", "--max-tokens", "16"]);
    let shown = shown.ok();
    for expected in ["head ", "75 to 100 %", "1,234", "0.989", "0.0022", "0.978", "0 %"] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    let repeat = format!(
        "To repeat: hob verify-correctness '{file}' --strategy head,full --max-tokens 16\n"
    );
    assert!(shown.ends_with(&repeat), "{repeat} in {shown}");
    let sent = daemon.received("POST /v1/verify/correctness");
    assert_eq!(
        sent.body,
        json!({"prompts": ["Where is the key?"], "strategies": ["head", "full"], "max_tokens": 16})
    );
    fs::write(home.path("prompts.json"), "3").unwrap();
    home.hob(&["verify-correctness", file]).fails(2, &["neither an object nor a list"]);
    fs::write(home.path("prompts.json"), "{").unwrap();
    home.hob(&["verify-correctness", file]).fails(2, &["is not JSON"]);
}
