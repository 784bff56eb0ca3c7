//! `hob slots`: what lists a directory of saved conversations, and measures it.

mod common;
#[path = "common/saved.rs"]
mod saved;

use std::fs;

use common::Home;
use hob_slots::store::Key;
use hob_slots::{Store, TtlClass};
use saved::{bytes, files, save, saved_home};

#[test]
fn an_empty_or_missing_directory_lists_nothing() {
    let home = Home::new();
    let list = home.hob(&["slots", "ls"]).ok();
    assert!(list.starts_with("0 conversations, 0 tokens; 0 B"), "{list}");
    assert!(home.hob(&["slots", "prune", "--yes"]).ok().contains("0 conversations"));
    home.hob(&["slots", "show", "room-1"]).fails(4, &["room-1", "hob slots ls"]);
    home.hob(&["slots", "rm", "room-1"]).fails(4, &["room-1"]);
    assert!(!home.path("data").exists(), "a command that only reads creates no directory");
}

#[test]
fn conversations_are_listed_with_bytes_and_tokens() {
    let home = saved_home();
    let list = home.hob(&["slots", "ls"]).ok();
    for words in ["room-1", "abababababababab", "extended", "2 h ago", "expired", "1,280"] {
        assert!(list.contains(words), "{words} is missing: {list}");
    }
    let listed = home.hob(&["slots", "ls", "--json"]).json();
    let room = listed["slots"].as_array().unwrap().iter().find(|s| s["conversation"] == "room-1");
    assert_eq!(room.unwrap()["tokens"], 1280);
    assert!(listed["disk_bytes"].as_u64().unwrap() > 30_000);
    assert!(listed["quota_bytes"].is_u64());
    let other = home.hob(&["slots", "ls", "--json", "--fingerprint", "0000000000000000"]).json();
    assert_eq!(other["slots"].as_array().unwrap().len(), 0);
}

#[test]
fn doctor_reads_an_encrypted_directory_with_its_key() {
    let home = Home::new();
    let key = Key::load_or_make(&home.path("data/slots.key")).unwrap();
    let store = Store::open(home.path("data/slots")).unwrap().sealed(&key).unwrap();
    save(&store, "room-1", TtlClass::Long, 0, &[1, 2, 3]);
    drop(store);
    let found = |encrypted: &str| {
        let checks = home.run(&["doctor", "--json"], &[("HOB_SLOTS_ENCRYPT", encrypted)], "");
        let checks: serde_json::Value = serde_json::from_str(&checks.out).unwrap();
        let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "saved KV");
        check.unwrap()["found"].as_str().unwrap().to_owned()
    };
    assert_eq!(found("true"), "1 conversation");
    assert_eq!(found("false"), "0 conversations; 1 file cannot be used");
}

#[test]
fn no_command_makes_a_key_in_place_of_a_missing_one() {
    let home = Home::new();
    let file = home.path("data/slots.key");
    let key = Key::load_or_make(&file).unwrap();
    let store = Store::open(home.path("data/slots")).unwrap().sealed(&key).unwrap();
    save(&store, "room-1", TtlClass::Long, 0, &[1, 2, 3]);
    drop(store);
    fs::remove_file(&file).unwrap();
    let hob = |words: &[&str]| home.run(words, &[("HOB_SLOTS_ENCRYPT", "true")], "");
    for words in [&["slots", "ls"][..], &["slots", "gc"], &["slots", "rm", "room-1"]] {
        hob(words).fails(1, &["slots.key is missing", "put the file back"]);
        assert!(!file.exists(), "{words:?}");
    }
    // Where nothing is encrypted yet, there is nothing to decrypt.
    fs::remove_dir_all(home.path("data/slots")).unwrap();
    let store = Store::open(home.path("data/slots")).unwrap();
    save(&store, "clear", TtlClass::Long, 0, &[1, 2, 3]);
    drop(store);
    assert!(hob(&["slots", "ls"]).ok().contains("clear"));
    hob(&["slots", "rm", "clear"]).ok();
    assert!(!file.exists());
}

#[test]
fn doctor_names_slot_files_of_a_later_version() {
    let home = saved_home();
    let room = home.path("data/slots/abababababababab/room-2.short.bin");
    let mut file = fs::read(&room).unwrap();
    file[8] = 99;
    fs::write(&room, file).unwrap();
    let checks: serde_json::Value =
        serde_json::from_str(&home.hob(&["doctor", "--json"]).out).unwrap();
    let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "saved KV");
    let check = check.unwrap();
    assert_eq!(check["found"], "2 conversations; 1 slot file of a later version of Hob");
    assert!(check["remedy"].as_str().unwrap().contains("that version reads them"), "{check}");
}

#[test]
fn a_list_is_complete_where_no_one_reads_its_warnings() {
    let home = saved_home();
    let room = home.path("data/slots/abababababababab/room-2.short.bin");
    fs::write(&room, "damaged").unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = home.command(&["slots", "ls"]).stderr(writer).output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    assert!(String::from_utf8(ran.stdout).unwrap().contains("2 conversations"));
    let warned = home.hob(&["slots", "ls"]).err;
    assert!(warned.contains("room-2.short.bin"), "{warned}");
}

#[test]
fn a_directory_can_be_named() {
    let home = saved_home();
    let dir = home.path("data/slots");
    fs::rename(&dir, home.path("elsewhere")).unwrap();
    let words =
        ["slots", "ls", "--slots-dir", home.path("elsewhere").to_str().unwrap()].map(str::to_owned);
    let words = words.each_ref().map(String::as_str);
    assert!(home.hob(&words).ok().contains("room-1"));
}

#[test]
fn a_list_is_sorted_filtered_and_limited() {
    let home = saved_home();
    let names = |words: &[&str]| {
        let listed = home.hob(&[&["slots", "ls", "--json"], words].concat()).json();
        let slots = listed["slots"].as_array().unwrap().iter();
        slots.map(|slot| slot["conversation"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["room-1", "room-2", "room-3"]);
    assert_eq!(names(&["--sort", "used"]), ["room-3", "room-1", "room-2"]);
    assert_eq!(names(&["--sort", "used", "--reverse"]), ["room-2", "room-1", "room-3"]);
    assert_eq!(names(&["--sort", "class"]), ["room-2", "room-3", "room-1"]);
    assert_eq!(names(&["--sort", "own", "--limit", "2"]), ["room-1", "room-3"]);
    assert_eq!(names(&["--class", "short"]), ["room-2"]);
    assert_eq!(names(&["--state", "cold"]), ["room-1", "room-3"]);
    assert_eq!(names(&["--state", "expired"]), ["room-2"]);
    assert!(home.hob(&["slots", "ls", "--limit", "1"]).ok().contains("… 2 more"));
    let listed = home.hob(&["slots", "ls", "--class", "short"]).ok();
    assert!(listed.contains("\n1 of 3 conversations, 64 tokens; "), "{listed}");
    assert_eq!(home.hob(&["slots", "ls", "--state", "lost"]).code, 2);
    assert_eq!(home.hob(&["slots", "ls", "--sort", "colour"]).code, 2);
}

#[test]
fn slots_alone_lists_as_other_commands_do() {
    let home = saved_home();
    let listed = home.hob(&["slots", "--json"]).json();
    assert_eq!(listed["slots"].as_array().unwrap().len(), 3);
    assert!(home.hob(&["slots"]).ok().contains("3 conversations"));
}

#[test]
fn disk_usage_is_shown_as_a_tree() {
    let home = saved_home();
    let tree = home.hob(&["slots", "du"]).ok();
    for words in ["└─ abababababababab", "slot files of 3 conversations", "own: ", "shared: "] {
        assert!(tree.contains(words), "{words} is missing: {tree}");
    }
    let json = home.hob(&["slots", "du", "--json"]).json();
    assert_eq!(json["bytes"].as_u64().unwrap(), bytes(&files(&home)));
    assert_eq!(json["models"][0]["unreferenced_bytes"], 0);
    assert_eq!(Home::new().hob(&["slots", "du", "--json"]).json()["bytes"], 0);
}

#[test]
fn a_live_view_needs_a_terminal() {
    saved_home().hob(&["slots", "top"]).fails(2, &["needs a terminal", "hob slots ls --json"]);
}

#[test]
fn a_disk_without_room_is_named_with_the_remedy() {
    let home = saved_home();
    let small = [("HOB_TEST_FREE_BYTES", "8589934592")];
    let remedy = "8.0 GiB of the disk are free";
    for words in [&["slots", "ls"][..], &["doctor"]] {
        let said = home.run(words, &small, "").out;
        assert!(said.contains(remedy) && said.contains("slots_quota_bytes"), "{said}");
        assert!(!home.hob(words).out.contains("removed once"), "this disk has room");
    }
    let json = home.run(&["slots", "ls", "--json"], &small, "").json();
    assert_eq!(json["quota_bytes"], 0);
    assert!(json["no_room"].as_str().unwrap().contains(remedy), "{json}");
    let set = [small[0], ("HOB_SLOTS_QUOTA_BYTES", "1GiB")];
    let said = home.run(&["slots", "ls"], &set, "").ok();
    assert!(said.contains("of 1.0 GiB") && !said.contains("removed once"), "{said}");
}
