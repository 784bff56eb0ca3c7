//! `hob slots` on directories of saved conversations.

mod common;

use std::fs;
use std::time::{Duration, SystemTime};

use common::Home;
use hob_slots::{
    BlockId, BlockRef, ConversationId, Layer, ModelHash, Object, ObjectKind, SegmentRef,
    SlotRecord, Store, Timestamp, Token, TtlClass,
};

const MODEL: ModelHash = ModelHash([0xab; 8]);
const HOUR: u64 = 3_600;

#[test]
fn an_empty_or_missing_directory_lists_nothing() {
    let home = Home::new();
    let list = home.hob(&["slots", "ls"]).ok();
    assert!(list.contains("0 conversations, 0 tokens, 0 B"), "{list}");
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
    assert_eq!(home.hob(&["slots", "ls", "--state", "lost"]).code, 2);
    assert_eq!(home.hob(&["slots", "ls", "--sort", "colour"]).code, 2);
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
    let segment = |end, layer, key: &str| SegmentRef { end, layer, key: key.to_owned() };
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
        "room-1: 1,024 of 1,280 tokens will be computed again (1 objects damaged, 0 missing)",
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
fn an_archive_moves_a_conversation_to_another_machine() {
    let (here, there) = (saved_home(), Home::new());
    let file = here.path("rooms.tar");
    let file = file.to_str().unwrap();
    let output = here.hob(&["slots", "export", "room-1", "room-3", "-o", file]).ok();
    assert!(output.contains("2 conversations, 30 objects"), "{output}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    here.hob(&["slots", "export", "room-1", "-o", file]).fails(2, &["--force"]);

    there.hob(&["slots", "import", file]).fails(7, &[file, "abababababababab", "--keep-foreign"]);
    let done = there.hob(&["slots", "import", file, "--keep-foreign", "--json"]).json();
    assert_eq!(done["imported"].as_array().unwrap().len(), 2);
    there.hob(&["slots", "show", "room-1", "--verify"]).ok();
    there.hob(&["slots", "verify"]).ok();
    assert!(
        there.hob(&["slots", "ls"]).ok().contains("extended"),
        "the archive carries the TTL class"
    );

    let again = there.hob(&["slots", "import", file]);
    assert!(again.err.contains("room-1 skipped") && again.err.contains("--force"), "{again:?}");
    assert!(again.ok().contains("0 conversations imported"));
    let forced = there.hob(&["slots", "import", file, "--force", "--class", "kept"]).ok();
    assert!(forced.contains("room-3: 1,280 tokens, permanent"), "{forced}");
}

#[test]
fn a_bad_archive_changes_nothing() {
    let home = saved_home();
    let file = home.path("rooms.tar");
    let file = file.to_str().unwrap();
    here_export(&home, file);
    let before = files(&home);
    let mut archive = fs::read(file).unwrap();
    archive[9_000] ^= 1;
    fs::write(file, &archive).unwrap();
    home.hob(&["slots", "import", file, "--force"]).fails(5, &[file, "damaged"]);
    fs::write(file, &archive[..5_000]).unwrap();
    home.hob(&["slots", "import", file, "--force"]).fails(5, &[file]);
    fs::write(file, "PK").unwrap();
    home.hob(&["slots", "import", file, "--force"]).fails(5, &[file]);
    home.hob(&["slots", "import", "/nowhere.tar"]).fails(1, &["/nowhere.tar"]);
    assert_eq!(files(&home), before);
    let empty = Home::new();
    assert_ne!(empty.hob(&["slots", "import", file]).code, 0);
    assert!(!empty.path("data").exists(), "a bad archive creates no directory");
}

#[test]
fn a_damaged_conversation_is_not_exported() {
    let home = saved_home();
    let out = home.path("out.tar");
    let words = ["slots", "export", "room-1", "-o", out.to_str().unwrap()];
    fs::remove_file(&objects(&home)[3]).unwrap();
    home.hob(&words).fails(5, &["room-1", "not whole", "hob slots verify"]);
    assert!(!out.exists() && !home.path("out.tar.part").exists());
    let unknown = ["slots", "export", "nobody", "-o", out.to_str().unwrap()];
    home.hob(&unknown).fails(4, &["nobody"]);
}

#[test]
fn a_live_view_needs_a_terminal() {
    saved_home().hob(&["slots", "top"]).fails(2, &["needs a terminal", "hob slots ls --json"]);
}

fn here_export(home: &Home, file: &str) {
    home.hob(&["slots", "export", "room-1", "-o", file]).ok();
}

/// Three saved conversations: room-1 and room-3 share 640 tokens, room-2 has expired.
fn saved_home() -> Home {
    let home = Home::new();
    let store = Store::open(home.path("data/slots")).unwrap();
    let common: Vec<i32> = (0..640).collect();
    let own = |from: i32| common.iter().copied().chain(from..from + 640).collect::<Vec<_>>();
    save(&store, "room-1", TtlClass::Extended, 2 * HOUR, &own(10_000));
    save(&store, "room-2", TtlClass::Short, 3 * HOUR, &(5_000..5_064).collect::<Vec<_>>());
    save(&store, "room-3", TtlClass::Long, 0, &own(20_000));
    home
}

fn save(store: &Store, name: &str, class: TtlClass, unused_secs: u64, tokens: &[i32]) {
    let tokens: Vec<Token> = tokens.iter().copied().map(Token).collect();
    let mut blocks = Vec::new();
    let mut parent = BlockId::root(MODEL);
    for (n, chunk) in tokens.chunks(64).enumerate() {
        let object = Object {
            kind: ObjectKind::Block,
            model: MODEL,
            parent,
            start: n as u32 * 64,
            tokens: chunk.to_vec(),
            payload: vec![n as u8; 1024].into(),
        };
        let id = object.id();
        store.put_object(MODEL, id, &object).unwrap();
        let end = object.start + chunk.len() as u32;
        blocks.push(BlockRef { end, id, bytes: object.file_bytes() });
        parent = id;
    }
    let used_at = Timestamp::from(SystemTime::now() - Duration::from_secs(unused_secs));
    let record = SlotRecord {
        conversation: ConversationId::new(name).unwrap(),
        class,
        created_at: used_at,
        used_at,
        turns: 0,
        tokens,
        blocks,
        snapshots: Vec::new(),
        segments: Vec::new(),
        branches: Vec::new(),
    };
    store.put_slot(MODEL, &record).unwrap();
}

fn running(home: &Home) -> String {
    serde_json::json!({
        "address": "127.0.0.1:9", "token_file": "/t", "pid": 1, "model": "m",
        "fingerprint": MODEL.to_string(), "slots_dir": home.path("data/slots"),
    })
    .to_string()
}

/// Every file of the slots directory with its length, sorted.
fn files(home: &Home) -> Vec<(String, u64)> {
    let mut files = Vec::new();
    let mut dirs = vec![home.path("data/slots")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            match entry.metadata().unwrap() {
                facts if facts.is_dir() => dirs.push(entry.path()),
                _ if entry.file_name() == "owner.lock" => {}
                facts => files.push((entry.path().to_string_lossy().into_owned(), facts.len())),
            }
        }
    }
    files.sort();
    files
}

fn objects(home: &Home) -> Vec<std::path::PathBuf> {
    objects_of(home, "room-1")
}

fn objects_of(home: &Home, conversation: &str) -> Vec<std::path::PathBuf> {
    let shown = home.hob(&["slots", "show", "--json", conversation]).json();
    let blocks = shown[0]["blocks"].as_array().unwrap().clone();
    let file = |block: &serde_json::Value| {
        let id = block["id"].as_str().unwrap().to_owned();
        let all = files(home).into_iter().map(|(path, _)| path);
        all.into_iter().find(|path| path.contains(&id)).unwrap().into()
    };
    blocks.iter().map(file).collect()
}

fn bytes(files: &[(String, u64)]) -> u64 {
    files.iter().map(|(_, bytes)| bytes).sum()
}
