//! `hob slots show` and `verify`: each block of a conversation, and damage.

mod common;
#[path = "common/saved.rs"]
mod saved;

use std::fs;

use common::Home;
use hob_slots::{Layer, ObjectKind, SegmentRef, SnapshotRef, Store, TtlClass, View, ViewRun};
use saved::{MODEL, files, objects, objects_of, save, saved_home};

#[test]
fn one_conversation_is_shown_and_verified() {
    let home = saved_home();
    assert!(home.hob(&["slots", "show", "room-1"]).ok().contains("complete"));
    let shown = home.hob(&["slots", "show", "room-1", "--verify"]).ok();
    assert!(shown.contains("every byte verified") && shown.contains("1,280"), "{shown}");

    let object = objects(&home).remove(0);
    let mut bytes = fs::read(&object).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&object, bytes).unwrap();
    assert_eq!(
        home.hob(&["slots", "show", "room-1"]).code,
        0,
        "show without --verify checks only that the files exist"
    );
    home.hob(&["slots", "show", "room-1", "--verify"]).fails(5, &["room-1", "computed again"]);
    assert!(object.exists(), "a verification without a daemon moves no file");
}

#[test]
fn a_conversation_is_shown_block_by_block() {
    let home = saved_home();
    let shown = home.hob(&["slots", "show", "room-1"]).ok();
    for words in ["0–63", "with 1", "… 8 more", "1216–1279", "SEGMENT"] {
        assert!(shown.contains(words), "{words} is missing: {shown}");
    }
    let all = home.hob(&["slots", "show", "room-1", "--all"]).ok();
    assert!(all.contains("640–703") && !all.contains("more"), "{all}");
    let json = home.hob(&["slots", "show", "room-1", "--json"]).json();
    let blocks = json[0]["blocks"].as_array().unwrap();
    assert_eq!((&blocks[9]["shared_with"], &blocks[10]["shared_with"]), (&1.into(), &0.into()));
    assert_eq!(blocks[10]["stored_bytes"], blocks[10]["bytes"]);
    assert_eq!(blocks[10]["start"], 640);

    fs::remove_file(&objects(&home)[2]).unwrap();
    let shown = home.hob(&["slots", "show", "room-1"]).ok();
    assert!(shown.contains("1 missing, 0 damaged") && shown.contains("missing  with 1"), "{shown}");
}

#[test]
fn segments_are_shown_beside_their_blocks() {
    let home = Home::new();
    let store = Store::open(home.path("data/slots")).unwrap();
    save(&store, "room-1", TtlClass::Long, 0, &(0..256).collect::<Vec<_>>());
    let mut record = store.get_slot(MODEL, &"room-1".parse().unwrap()).unwrap();
    let segment = |end, layer, key: &str| SegmentRef::new(end, layer, key);
    record.segments = vec![
        segment(64, Layer::Identity, "who"),
        segment(192, Layer::Document, "file:a.py"),
        segment(256, Layer::User, ""),
    ];
    store.put_slot(MODEL, &record).unwrap();
    let json = home.hob(&["slots", "show", "room-1", "--json"]).json();
    let blocks = json[0]["blocks"].as_array().unwrap().iter();
    let layers: Vec<_> = blocks.map(|block| block["layer"].as_str().unwrap()).collect();
    assert_eq!(layers, ["identity", "document", "document", "user"]);
    assert!(home.hob(&["slots", "show", "room-1"]).ok().contains("document file:a.py"));
}

#[test]
fn what_is_away_and_what_is_impure_is_named() {
    let home = saved_home();
    let whole = home.hob(&["slots", "show", "room-1"]).ok();
    let whole_json = home.hob(&["slots", "show", "room-1", "--json"]).ok();
    for (shown, word) in [(&whole, "away"), (&whole, "impure"), (&whole, "STATE")] {
        assert!(!shown.contains(word), "{word} of a whole conversation: {shown}");
    }
    assert!(!whole_json.contains("away") && !whole_json.contains("impure"), "{whole_json}");

    let store = Store::open(home.path("data/slots")).unwrap();
    let mut record = store.get_slot(MODEL, &"room-1".parse().unwrap()).unwrap();
    let runs = [(640, View::WHOLE), (1280, View::without([64..192]))];
    record.lineage.views = runs.map(|(end, view)| ViewRun { end, view }).to_vec();
    record.lineage.away = vec![64..192, 576..704];
    store.put_slot(MODEL, &record).unwrap();
    let shown = home.hob(&["slots", "show", "room-1", "--all"]).ok();
    let line = |begin: &str| shown.lines().find(|line| line.starts_with(begin)).unwrap().trim_end();
    assert!(line("tokens away").ends_with("  256 in 4 blocks"), "{shown}");
    assert!(line("tokens impure").ends_with("  640, from token 640 on"), "{shown}");
    for (block, state) in [
        ("0–63", "with 1"),
        ("64–127", "  away"),
        ("128–191", "  away"),
        ("576–639", "  away"),
        ("640–703", "  away, impure"),
        ("704–767", "  impure"),
    ] {
        assert!(line(block).ends_with(state), "{block} {state}: {shown}");
    }
    let shortened = home.hob(&["slots", "show", "room-1"]).ok();
    let hidden = shortened.lines().find(|line| line.starts_with("… 8 more")).unwrap();
    assert!(hidden.trim_end().ends_with("  2 away"), "{shortened}");

    let json = &home.hob(&["slots", "show", "room-1", "--json"]).json()[0];
    assert_eq!((&json["away_tokens"], &json["impure_tokens"]), (&256.into(), &640.into()));
    let blocks = json["blocks"].as_array().unwrap();
    let told = |at: usize| (blocks[at]["away"] == true, blocks[at]["impure"] == true);
    assert_eq!(
        [0, 1, 10, 11].map(told),
        [(false, false), (true, false), (true, true), (false, true)]
    );
    assert_eq!(json["tokens"], 1280);
}

#[test]
fn what_is_pinned_and_what_has_another_weight_is_named() {
    let home = saved_home();
    let plain = home.hob(&["slots", "show", "room-1"]).ok();
    let plain_json = home.hob(&["slots", "show", "room-1", "--json"]).ok();
    for word in ["pinned", "weight "] {
        assert!(!plain.contains(word), "{word} of a conversation without labels: {plain}");
    }
    assert!(!plain_json.contains("pinned") && !plain_json.contains("\"weight\""), "{plain_json}");

    let store = Store::open(home.path("data/slots")).unwrap();
    let mut record = store.get_slot(MODEL, &"room-1".parse().unwrap()).unwrap();
    let segment = |end, key: &str| SegmentRef::new(end, Layer::User, key);
    record.segments = vec![
        segment(64, "message 1"),
        SegmentRef { pinned: true, ..segment(160, "message 2") },
        SegmentRef { weight: 80, ..segment(192, "a.rs") },
        SegmentRef { pinned: true, ..segment(640, "message 4") },
        SegmentRef { weight: 10, ..segment(1280, "message 5") },
    ];
    store.put_slot(MODEL, &record).unwrap();
    let shown = home.hob(&["slots", "show", "room-1", "--all"]).ok();
    let line = |begin: &str| shown.lines().find(|line| line.starts_with(begin)).unwrap().trim_end();
    assert!(line("tokens pinned").ends_with("  544"), "{shown}");
    for (block, state) in [
        ("0–63", "with 1"),
        ("64–127", "  pinned"),
        ("128–191", "  pinned, weight 80"),
        ("192–255", "  pinned"),
        ("640–703", "  weight 10"),
    ] {
        assert!(line(block).ends_with(state), "{block} {state}: {shown}");
    }
    let shortened = home.hob(&["slots", "show", "room-1"]).ok();
    let hidden = shortened.lines().find(|line| line.starts_with("… 8 more")).unwrap();
    assert!(hidden.trim_end().ends_with("  2 pinned"), "{shortened}");

    let json = &home.hob(&["slots", "show", "room-1", "--json"]).json()[0];
    assert_eq!(json["pinned_tokens"], 544);
    let blocks = json["blocks"].as_array().unwrap();
    let told = |at: usize| (blocks[at]["pinned"] == true, blocks[at]["weight"].as_u64());
    assert_eq!(
        [0, 1, 2, 10].map(told),
        [(false, None), (true, None), (true, Some(80)), (false, Some(10))]
    );
    let segments = json["segments"].as_array().unwrap();
    assert_eq!((&segments[1]["pinned"], &segments[1]["weight"]), (&true.into(), &().into()));
    assert_eq!(segments[2]["weight"], 80);
}

#[test]
fn a_conversation_that_stays_in_its_cells_says_so() {
    let home = saved_home();
    assert!(!home.hob(&["slots", "show", "room-1"]).ok().contains("eviction"));
    let store = Store::open(home.path("data/slots")).unwrap();
    let mut record = store.get_slot(MODEL, &"room-1".parse().unwrap()).unwrap();
    let block = record.blocks[0];
    record.snapshots = vec![SnapshotRef { position: block.end, id: block.id, bytes: block.bytes }];
    store.put_slot(MODEL, &record).unwrap();
    let shown = home.hob(&["slots", "show", "room-1"]).ok();
    let line = shown.lines().find(|line| line.starts_with("eviction")).unwrap();
    assert!(line.contains("none: a window or a running state of the model"), "{shown}");
    assert_eq!(home.hob(&["slots", "show", "room-1", "--json"]).json()[0]["no_eviction"], true);
}

#[test]
fn an_unusable_file_is_named_and_the_rest_is_listed() {
    let home = saved_home();
    let slot = files(&home).into_iter().map(|(path, _)| path);
    let slot = slot.into_iter().find(|path| path.contains("room-2")).unwrap();
    fs::write(&slot, "not a slot file").unwrap();
    let ran = home.hob(&["slots", "ls"]);
    assert!(ran.err.contains("room-2"), "{ran:?}");
    assert!(ran.ok().contains("room-1"));
    home.hob(&["slots", "show", "room-2"]).fails(5, &["room-2"]);
}

#[test]
fn verify_reads_everything_and_reports_the_cost_of_damage() {
    let home = saved_home();
    let out = home.hob(&["slots", "verify"]).ok();
    assert!(out.contains("34 files") && out.contains("all whole"), "{out}");

    let object = objects(&home).remove(4);
    let mut bytes = fs::read(&object).unwrap();
    bytes[300] ^= 1;
    fs::write(&object, bytes).unwrap();
    let ran = home.hob(&["slots", "verify"]);
    let name = object.file_name().unwrap().to_str().unwrap();
    for words in [
        &format!("{name}: its file is damaged: the checksum of its body is wrong"),
        "room-1: 1,024 of 1,280 tokens will be computed again (1 object damaged, 0 missing)",
        "room-3: 1,024 of 1,280",
    ] {
        assert!(ran.out.contains(words), "{words:?} is missing: {ran:?}");
    }
    assert!(!ran.out.contains("room-2"), "{ran:?}");
    ran.fails(5, &["1 file is damaged", "computed again"]);
    assert!(object.exists(), "a verification without a daemon moves no file");
    home.hob(&["slots", "verify", "room-2"]).ok();
    home.hob(&["slots", "verify", "room-1"]).fails(5, &["damaged"]);
    home.hob(&["slots", "verify", "nobody"]).fails(4, &["nobody"]);

    fs::remove_file(&object).unwrap();
    let report = home.hob(&["slots", "verify", "--json"]);
    assert_eq!(report.code, 5);
    let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!((&report["whole"], &report["faults"]), (&false.into(), &serde_json::json!([])));
    assert_eq!(report["costs"][0]["missing"], 1);
}

#[test]
fn unreferenced_objects_are_verified_too() {
    let home = saved_home();
    let record = files(&home).into_iter().find(|(path, _)| path.contains("room-2")).unwrap().0;
    let object = objects_of(&home, "room-2").remove(0);
    fs::remove_file(record).unwrap();
    fs::write(&object, "not an object").unwrap();
    let ran = home.hob(&["slots", "verify"]);
    assert!(ran.out.contains("not a Hob object"), "{ran:?}");
    ran.fails(5, &["1 file is damaged"]);
}

#[test]
fn rejected_files_are_listed_with_their_reasons() {
    let home = saved_home();
    assert!(home.hob(&["slots", "ls", "--rejected"]).ok().contains("0 rejected files"));
    let object = objects(&home).remove(0);
    fs::write(&object, "not an object").unwrap();
    let store = Store::open(home.path("data/slots")).unwrap();
    let id = object.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    store.get_object(MODEL, id, ObjectKind::Block).unwrap_err();
    let list = home.hob(&["slots", "ls", "--rejected"]).ok();
    assert!(list.contains("not a Hob object") && list.contains("1 rejected file,"), "{list}");
    let listed = home.hob(&["slots", "ls", "--rejected", "--json"]).json();
    assert_eq!(listed["rejected"][0]["bytes"], 13);
    assert_eq!(listed["rejected"][0]["fingerprint"], MODEL.to_string());
}

#[test]
fn the_last_conversation_of_an_empty_directory_is_no_name() {
    let home = Home::new();
    let archive = home.path("room.tar");
    let export = ["slots", "export", "--last", "--output", archive.to_str().unwrap()];
    for words in [&["slots", "show", "--last"][..], &export] {
        let ran = home.hob(words);
        assert!(!ran.err.contains("--last"), "{ran:?}");
        ran.fails(4, &["no KV of a conversation", "hob chat"]);
    }
    let home = saved_home();
    let ran = home.hob(&["slots", "show", "--last", "--fingerprint", "0123456789abcdef"]);
    ran.fails(4, &["`room-3`", "hob slots ls"]);
}
