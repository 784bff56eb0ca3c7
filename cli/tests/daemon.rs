//! The requests that `hob` sends and the output that it prints for each answer. The daemon is a
//! socket with prepared answers; in `hobd` it is the one that was built beside `hob`.

#[path = "daemon/broken.rs"]
mod broken;
#[path = "daemon/chat.rs"]
mod chat;
mod common;
#[path = "daemon/doctor.rs"]
mod doctor;
#[path = "daemon/documents.rs"]
mod documents;
#[path = "daemon/export.rs"]
mod export;
#[path = "common/fake.rs"]
mod fake;
#[path = "daemon/hobd.rs"]
mod hobd;
#[path = "daemon/keyboard.rs"]
mod keyboard;
#[path = "daemon/lists.rs"]
mod lists;
#[path = "daemon/profile.rs"]
mod profile;
#[path = "common/saved.rs"]
mod saved;
#[path = "common/terminal.rs"]
mod terminal;
#[path = "daemon/upstream.rs"]
mod upstream;
#[path = "daemon/words.rs"]
mod words;

use std::fs;

use common::Home;
use fake::Daemon;
use hob_testkit::{asset, free_port};
use serde_json::{Value, json};
use terminal::Terminal;

#[test]
fn the_exit_code_follows_from_the_daemons_error() {
    let home = Home::new();
    let error = |message: &str| json!({"error": {"message": message, "type": "x"}});
    let daemon = Daemon::new(&home)
        .answer("GET /v1/status", 401, error("no"))
        .answer("POST /v1/chat/completions", 503, error("the queue is full"))
        .answer("GET /v1/conversations", 403, error("another host"))
        .answer("GET /v1/conversations/no%2Fne", 404, error("nothing here"))
        .answer("DELETE /v1/learned/nope", 400, error("a name has 16 hex digits"))
        .answer("DELETE /v1/learned", 200, json!({"forgotten": []}));
    home.hob(&["status"]).fails(7, &["token", "--token-file"]);
    home.hob(&["ask", "hi"]).fails(6, &["the queue is full", "try again"]);
    home.hob(&["conversations"]).fails(7, &["another host"]);
    home.hob(&["conversations", "show", "no/ne"]).fails(4, &["no/ne", "hob conversations"]);
    home.hob(&["prefixes", "forget", "no\nne"]).fails(4, &["`no ne`", "hob prefixes"]);
    home.hob(&["prefixes", "forget", "nope"]).fails(4, &["`nope`", "hob prefixes"]);
    assert_eq!(home.hob(&["prefixes", "forget", "--all"]).ok(), "no prefix was learned\n");
    drop(daemon);
}

#[test]
fn the_list_of_a_daemon_whose_model_loads_shows_no_tokens() {
    let home = Home::new();
    let listed = json!({
        "id": "room-1", "title": "Codes", "created_at": 1, "updated_at": 2, "message_count": 12,
        "slot": null, "place": null, "tier": null, "tokens": null, "memory_tokens": null,
        "disk_tokens": null, "ready": null, "read_ms": null,
    });
    let answer = json!({"object": "list", "data": [listed]});
    let _daemon = Daemon::new(&home).answer("GET /v1/conversations", 200, answer);
    let list = home.hob(&["conversations"]).ok();
    let row = list.lines().find(|line| line.starts_with("room-1")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().take(4).collect();
    assert_eq!(cells[..3], ["room-1", "Codes", "12"], "{list}");
    assert_ne!(cells[3], "0", "{list}");
}

#[test]
fn a_daemon_that_fails_has_not_refused_the_request() {
    let home = Home::new();
    let error = |message: &str| json!({"error": {"message": message, "type": "server_error"}});
    let broken = |kind: &str| json!({"error": {"message": "it is so", "type": kind}});
    let mut daemon = Daemon::new(&home)
        .answer("GET /v1/status", 500, error("the store is broken"))
        .answer("GET /v1/documents", 507, error("the disk is full: free space there"))
        .answer("GET /v1/learned", 501, error("not with this engine"));
    home.hob(&["status"]).fails(1, &["the daemon failed: the store is broken"]);
    home.hob(&["documents"]).fails(1, &["the daemon failed: the disk is full"]);
    home.hob(&["prefixes"]).fails(7, &["the daemon refuses: not with this engine"]);
    for (kind, code) in [("server_error", 1), ("overloaded_error", 6), ("invalid_request_error", 7)]
    {
        daemon = daemon.stream("POST /v1/chat/completions", &[broken(kind)]);
        home.hob(&["ask", "hi"]).fails(code, &["it is so"]);
    }
    drop(daemon);
}

#[test]
fn conversations_are_listed_read_renamed_and_deleted() {
    let home = Home::new();
    let listed = json!({
        "id": "room-1", "title": "Codes\u{1b}[31m", "created_at": 1, "updated_at": 2,
        "message_count": 12, "slot": 0, "place": "slot", "tier": "hot", "tokens": 6245,
        "ready": false, "read_ms": 12_400,
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
    assert!(list.contains("room-1") && list.contains("6,245"), "{list}");
    assert!(list.contains("will read again, about 12 s"), "{list}");
    assert!(!list.contains('\u{1b}'), "a title must not send control sequences to the terminal");
    assert_eq!(home.hob(&["conversations", "list", "--json"]).json()[0]["tokens"], 6245);
    assert!(home.hob(&["conversations", "show", "room-1"]).ok().contains("[user]\nHello"));
    let renamed = home.hob(&["conversations", "rename", "room-1", "New"]).ok();
    assert_eq!(renamed, "renamed room-1 to New\n");
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
        let moved = json!([{"key": "a.rs", "tokens": 64, "way": "back", "why": "mention"}]);
        let cells = json!({"budget": 512, "peak": 500, "resident": 480});
        let moves = match at {
            Some(_) => json!([]),
            None => {
                json!([{"at": 1, "question": "What is in a.rs?", "cells": cells, "moved": moved}])
            }
        };
        json!({"id": "room-1", "explained_at": at, "explanation": explanation, "moves": moves})
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
    let mut hob = Terminal::start_in(40, &home, &["explain", "room-1"], &[]);
    hob.reads("What to do: move it behind what stays \r\nthe same: into the last message");
    assert_eq!(hob.ends(), 0);
    assert_eq!(home.hob(&["explain", "room-1", "--json"]).json()["explanation"]["at"], 1042);
    let shown = home.hob(&["explain", "room-2"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "every request computed only what was new");
    assert!(lines[4].ends_with("ago: What is in a.rs?"), "{shown}");
    assert_eq!(lines[5], "  back: mentioned          64 tokens of a.rs");
    home.hob(&["explain", "room-3"]).fails(4, &["room-3", "hob conversations"]);
}

#[test]
fn status_says_what_is_ready_and_what_is_wrong() {
    let home = Home::new();
    let status = json!({
        "version": "0.1.0", "pid": 4711, "model": "smollm2", "residency": "resident",
        "context_tokens": 16384, "conversation_tokens": 8192, "context_limit": "memory",
        "trained_tokens": 131_072, "prefill_tokens_per_second": 311.6,
        "slots": [{"slot": 0, "conversation": "room-1", "tokens": 1502, "state": "decoding"},
            {"slot": 1, "state": "free"}],
        "parked": [{"conversation": "a", "ready": true}, {"conversation": "b", "ready": true},
            {"conversation": "c", "ready": false, "read_ms": 12_400}],
        "prefixes": [{"profile": "lights", "state": "warm", "place": "hot", "tokens": 812}],
        "profiles": [{"name": "night", "error": "line 3: no `text`"}],
        "memory_bytes": 1_048_576, "memory_budget_bytes": 4_194_304, "unsaved_bytes": 2048,
        "disk_quota": {"no_room": "less than 10 GiB are free: set disk_quota_bytes"},
        "crashes": 1, "crash": "the engine's thread panicked", "counters": {"turns": 3},
    });
    let titled = json!({"data": [{"id": "room-1", "title": "The locker"}]});
    let daemon = Daemon::new(&home).answer("GET /v1/status", 200, status);
    let daemon = daemon.answer("GET /v1/conversations", 200, titled);
    let shown = home.hob(&["status"]).ok().replace(&daemon.address, "ADDRESS");
    let expected = "daemon    hobd 0.1.0 at ADDRESS, process 4711, started";
    assert!(shown.starts_with(expected), "{shown}");
    let rest: Vec<_> = shown.lines().skip(1).collect();
    assert_eq!(
        rest,
        [
            "model     smollm2, context of 8,192 tokens (memory allows no more; the model was trained \
             with 131,072), reads 312 tokens a second",
            "requests  1 of 2 slots answer, 0 wait, 3 turns since the start",
            "ready     3 conversations; 1 will be read again",
            "memory    1.0 MiB of 4.0 MiB, 2.0 KiB of it wait for the disk",
            "disk      less than 10 GiB are free: set disk_quota_bytes",
            "prefix    lights: hot, 812 tokens",
            "profile   night: line 3: no `text`",
            "crashes   1, the last: the engine's thread panicked",
            "",
            "CHAT        TOKENS  STATE",
            "The locker   1,502  decoding",
        ]
    );
}

#[test]
fn status_with_all_shows_unknown_fields_too() {
    let home = Home::new();
    let status = json!({
        "version": "9", "memory_bytes": 1_048_576, "slots": [{"slot": 0, "state": "idle"}],
        "parked": [], "counters": {"turns": 3}, "new_in_9": true,
    });
    let daemon = Daemon::new(&home).answer("GET /v1/status", 200, status.clone());
    let shown = home.hob(&["status", "--all"]).ok();
    for words in ["1.0 MiB", "idle", "parked: none", "turns", "new_in_9"] {
        assert!(shown.contains(words), "{words} is missing: {shown}");
    }

    assert_eq!(home.hob(&["--json", "status"]).json(), status);
    let doctor = home.hob(&["doctor"]).ok();
    assert!(doctor.contains(&format!("answers at {}", daemon.address)), "{doctor}");
    assert!(doctor.contains("it is hobd 9, and this is hob ") && doctor.contains("restart hobd"));
}

#[test]
fn devices_their_memory_and_the_layers_on_them_are_said() {
    let home = Home::new();
    let device = json!({"name": "CUDA0", "description": "a card", "free_bytes": 1u64 << 40,
        "total_bytes": 2u64 << 40, "shares_memory": false});
    let offload = json!({"layers": 20, "all_layers": 29, "devices": ["CUDA0"], "kv": true});
    let status = json!({"devices": [device], "offload": offload});
    let _daemon = Daemon::new(&home).answer("GET /v1/status", 200, status);
    for words in [["status"], ["doctor"]] {
        let said = home.hob(&words).ok();
        assert!(said.contains("CUDA0 (a card): 1.0 TiB of 2.0 TiB free"), "{said}");
        assert!(said.contains("20 of 29 layers on CUDA0"), "{said}");
    }
    let listed = home.hob(&["models", "--json"]).json();
    assert_eq!(listed["devices"][0]["name"], "CUDA0");
    let unused = home.run(&["models", "--json"], &[("HOB_GPU_LAYERS", "0")], "").json();
    assert_eq!(unused["devices"], json!([]));
}

#[test]
fn guesses_and_how_many_were_right_are_said() {
    let home = Home::new();
    let status = json!({
        "counters": {"drafted_tokens": 1_200, "accepted_tokens": 900},
        "draft_model": {"name": "small.gguf", "drafted_tokens": 40, "accepted_tokens": 30},
        "mtp": {"drafted_tokens": 7, "accepted_tokens": 5},
    });
    let _daemon = Daemon::new(&home).answer("GET /v1/status", 200, status);
    let said = home.hob(&["status"]).ok();
    for words in ["900 of 1,200 guessed", "small.gguf, 30 of 40 guessed", "5 of 7 guessed"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let refused = json!({"mtp": {"refused": "no memory"}, "draft_model": {"name": "s", "refused": "no pair"}});
    let _daemon = Daemon::new(&home).answer("GET /v1/status", 200, refused);
    let said = home.hob(&["status"]).ok();
    assert!(said.contains("guess nothing: no memory"), "{said}");
    assert!(said.contains("s does not draft: no pair"), "{said}");
}

#[test]
fn the_memory_of_the_running_model_counts_for_another_one() {
    let home = Home::new();
    fs::create_dir_all(home.path("data/models")).unwrap();
    fs::copy(asset("hob-tiny-f16.gguf"), home.path("data/models/tiny.gguf")).unwrap();
    let card = json!({"name": "CUDA0", "description": "a card", "free_bytes": 0});
    let daemon = Daemon::new(&home).answer("GET /v1/status", 200, json!({"devices": [card]}));
    let verdict = |layers: &str| {
        let variables = [("HOB_TEST_MEMORY_BYTES", "1000000"), ("HOB_GPU_LAYERS", layers)];
        let listed = home.run(&["models", "--json"], &variables, "").json();
        listed["models"][0]["estimate"]["verdict"].clone()
    };
    assert_eq!(verdict("auto"), "too_large");
    let on_card = json!({"free_bytes": 1_000_000, "device_free_bytes": 1u64 << 40});
    let daemon = daemon.answer("GET /v1/models/local", 200, on_card);
    assert_eq!((verdict("auto"), verdict("0")), (json!("fits"), json!("too_large")));
    let here = json!({"free_bytes": 1u64 << 40, "device_free_bytes": 0});
    let _daemon = daemon.answer("GET /v1/models/local", 200, here);
    assert_eq!(verdict("0"), "fits");
}

#[test]
fn the_layers_on_each_of_several_devices_are_said() {
    let home = Home::new();
    let device = |name: &str| json!({"name": name, "description": "a card"});
    let offload = json!({"layers": 29, "all_layers": 29, "devices": ["CUDA0", "CUDA1"],
        "split": [22, 7], "kv": true});
    let status = json!({"devices": [device("CUDA0"), device("CUDA1")], "offload": offload});
    let _daemon = Daemon::new(&home).answer("GET /v1/status", 200, status);
    for words in [["status"], ["doctor"]] {
        let said = home.hob(&words).ok();
        assert!(said.contains("29 of 29 layers on CUDA0 (22) and CUDA1 (7)"), "{said}");
    }
}

#[test]
fn a_daemon_from_before_this_hob_is_told_from_a_name_that_nothing_has() {
    let home = Home::new();
    let _daemon = Daemon::new(&home);
    let file = home.path("prompts.json");
    fs::write(&file, "[]").unwrap();
    let file = file.to_str().unwrap();
    for words in [
        &["documents"][..],
        &["documents", "add", file],
        &["import", file],
        &["prefixes"],
        &["verify-correctness", file],
    ] {
        home.hob(words).fails(7, &["does not know /v1/", "restart hobd"]);
    }
}

#[test]
fn a_file_without_a_token_is_named() {
    let home = Home::new();
    let _daemon = Daemon::new(&home);
    for text in ["", "one\ntwo", "\u{1b}[31m"] {
        fs::write(home.path("data/token"), text).unwrap();
        home.hob(&["status"]).fails(1, &["data/token: it holds no token", "--token-file"]);
    }
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
fn a_directory_that_cannot_be_written_or_read_is_named_as_such() {
    let home = Home::new();
    let daemon = Daemon::new(&home).answer("GET /health", 200, json!({}));
    let token_file = home.path("data/token");
    let nowhere = home.path("nowhere");
    let at = ["--address", &daemon.address, "--token-file", token_file.to_str().unwrap()];
    let words = [&["open", "--data-dir", nowhere.to_str().unwrap()], &at[..]].concat();
    home.hob(&words).fails(1, &["cannot write", "nowhere/open.html"]);

    let mut ask = home.command(&["ask", "What?"]);
    ask.stdin(fs::File::open(home.path("data")).unwrap());
    let ran = ask.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(
        (ran.status.code(), said.starts_with("hob: cannot read standard input")),
        (Some(1), true),
        "{said}"
    );
}

#[test]
fn a_dead_daemon_is_not_running() {
    let home = Home::new();
    let address = Daemon::new(&home).address.clone();
    let gone = format!("127.0.0.1:{}", free_port());
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
