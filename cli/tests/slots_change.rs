//! `hob slots prune`, `rm`, `gc` and `class`: what changes a directory.

mod common;
#[path = "common/saved.rs"]
mod saved;

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::thread;

use common::Home;
use hob_slots::Store;
use saved::{MODEL, bytes, files, saved_home};

#[test]
fn prune_changes_nothing_without_yes() {
    let home = saved_home();
    let before = files(&home);
    let ran = home.hob(&["slots", "prune"]).ok();
    assert!(ran.contains("room-2") && !ran.contains("room-1"), "only room-2 has expired: {ran}");
    assert!(ran.contains("would remove 1 conversation") && ran.contains("--yes"), "{ran}");
    assert_eq!(files(&home), before);

    let promised = home.hob(&["slots", "prune", "--json"]).json();
    let done = home.hob(&["slots", "prune", "--json", "--yes"]).json();
    assert_eq!(promised["freed_bytes"], done["freed_bytes"]);
    assert_eq!((&promised["dry_run"], &done["dry_run"]), (&true.into(), &false.into()));
    let freed = bytes(&before) - bytes(&files(&home));
    assert_eq!(done["freed_bytes"].as_u64().unwrap(), freed);
    assert!(!home.hob(&["slots", "ls"]).ok().contains("room-2"));
}

#[test]
fn prune_takes_criteria() {
    let home = saved_home();
    let names = |words: &[&str]| {
        let words = [&["slots", "prune", "--json"], words].concat();
        let found = home.hob(&words).json();
        let slots = found["slots"].as_array().unwrap().iter();
        slots.map(|slot| slot["conversation"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["--older-than", "90m"]), ["room-1", "room-2"]);
    assert_eq!(names(&["--older-than", "90m", "--class", "extended"]), ["room-1"]);
    assert_eq!(names(&["--larger-than", "1GiB"]), Vec::<String>::new());
    assert_eq!(names(&["--conversation", "room-3"]), ["room-3"]);
    assert_eq!(home.hob(&["slots", "prune", "--older-than", "soon"]).code, 2);
    assert_eq!(home.hob(&["slots", "prune", "--class", "forever"]).code, 2);
}

#[test]
fn removing_a_conversation_frees_its_own_objects() {
    let home = saved_home();
    let before = bytes(&files(&home));
    let ran = home.hob(&["slots", "rm", "--json", "nobody", "room-1"]);
    let done: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(done["removed"], serde_json::json!(["room-1"]));
    ran.fails(4, &["nobody"]);
    home.hob(&["slots", "rm", "no\nbody"]).fails(4, &["`no body`"]);
    assert!(bytes(&files(&home)) < before);
    home.hob(&["slots", "show", "room-1"]).fails(4, &["room-1"]);
    home.hob(&["slots", "show", "room-3", "--verify"]).ok();
}

#[test]
fn an_owned_directory_is_not_changed() {
    let home = saved_home();
    let dir = home.path("data/slots");
    let store = Store::open(&dir).unwrap();
    fs::write(home.path("data/hobd.json"), running(&home)).unwrap();
    let before = files(&home);
    for words in [&["slots", "rm", "room-1"][..], &["slots", "prune", "--yes"]] {
        let pid = format!("pid {}", std::process::id());
        home.hob(words).fails(6, &["in use by", &pid, "127.0.0.1:9", "hob conversations rm"]);
    }
    assert_eq!(files(&home), before);
    assert!(
        home.hob(&["slots", "ls"]).ok().contains("room-1"),
        "ls works while another process owns the directory"
    );
    home.hob(&["slots", "prune"]).ok();
    drop(store);
}

#[test]
fn a_daemon_that_ends_within_a_change_leaves_the_way_on() {
    let home = saved_home();
    let archive = home.path("room.tar").display().to_string();
    home.hob(&["slots", "export", "room-1", "-o", &archive]).ok();
    let _owned = Store::open(home.path("data/slots")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // It closes each connection within the request.
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    let token_file = home.path("data/token").display().to_string();
    fs::write(&token_file, "secret\n").unwrap();
    fs::write(home.path("data/hobd.json"), announced(&home, &address, &token_file)).unwrap();
    for words in [
        &["rm", "room-1"][..],
        &["prune", "--yes"],
        &["class", "room-2", "long"],
        &["import", &archive],
    ] {
        let words = [&["slots"], words].concat();
        home.hob(&words)
            .fails(1, &["broke off", "a part of it", "`hob slots ls`", "the same command"]);
    }
}

#[test]
fn unreferenced_objects_are_collected_with_yes() {
    let home = saved_home();
    let slot = files(&home).into_iter().find(|(path, _)| path.contains("room-2")).unwrap().0;
    fs::remove_file(slot).unwrap();
    let before = files(&home);
    let ran = home.hob(&["slots", "gc"]).ok();
    assert!(ran.contains("would remove 1 unreferenced object and free"), "{ran}");
    assert_eq!(files(&home), before);
    let done = home.hob(&["slots", "gc", "--yes", "--json"]).json();
    assert_eq!((&done["models"][0]["objects"], &done["dry_run"]), (&1.into(), &false.into()));
    assert_eq!(done["freed_bytes"].as_u64().unwrap(), bytes(&before) - bytes(&files(&home)));
    assert!(home.hob(&["slots", "gc"]).ok().contains("would remove 0 unreferenced objects"));
    home.hob(&["slots", "verify"]).ok();
}

#[test]
fn a_class_is_changed_by_name() {
    let home = saved_home();
    let output = home.hob(&["slots", "class", "room-2", "kept"]).ok();
    assert_eq!(output, "room-2: permanent instead of short\n");
    let listed = home.hob(&["slots", "ls", "--json", "--class", "permanent"]).json();
    assert_eq!(listed["slots"][0]["conversation"], "room-2");
    assert_eq!(listed["slots"][0]["expired"], false);
    assert!(files(&home).iter().any(|(path, _)| path.ends_with("room-2.kept.bin")));
    home.hob(&["slots", "class", "missing", "permanent"]).fails(4, &["missing"]);
    assert_eq!(home.hob(&["slots", "class", "room-2", "forever"]).code, 2);
}

#[test]
fn kept_is_accepted_as_permanent() {
    let home = saved_home();
    home.hob(&["slots", "class", "room-2", "kept"]).ok();
    for words in [&["ls"][..], &["prune"]] {
        let words = [&["slots"], words, &["--json", "--class", "kept"]].concat();
        let listed = home.hob(&words).json();
        assert_eq!(listed["slots"][0]["conversation"], "room-2");
        assert_eq!(listed["slots"][0]["class"], "permanent");
    }
}

fn running(home: &Home) -> String {
    announced(home, "127.0.0.1:9", "/t")
}

/// What a daemon that owns the directory writes for its clients.
fn announced(home: &Home, address: &str, token_file: &str) -> String {
    serde_json::json!({
        "address": address, "token_file": token_file, "pid": 1, "model": "m",
        "fingerprint": MODEL.to_string(), "slots_dir": home.path("data/slots"),
    })
    .to_string()
}
