//! `/v1/slots`: the saved conversations on disk while a daemon owns the directory.

use std::path::Path;
use std::time::Duration;

use hob_slots::archive::export;
use hob_slots::store::{Store, StoreReader};
use hob_slots::{
    BlockId, BlockRef, ConversationId, Object, ObjectKind, SlotRecord, Timestamp, Token, TtlClass,
};
use serde_json::{Value, json};

use crate::common::{Plan, World, text, user};

#[test]
fn saved_conversations_are_listed_with_their_places() {
    let saved = Saved::new();
    let world = saved.start();
    let conversation = json!({"conversation": "talks"});
    world.chat(json!([user("Hello there, how are you today?")]), conversation);
    world.until("talks is saved", |world| names(&world.get("/v1/slots").json()).len() == 3);

    let list = world.get("/v1/slots").json();
    assert_eq!(names(&list), ["new", "old", "talks"]);
    let states: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|slot| &slot["state"]).collect();
    assert_eq!(states, ["cold", "expired", "hot"]);
    assert_eq!(list["data"][0]["fingerprint"], crate::common::model().to_string());
    assert!(list["disk_bytes"].as_u64().unwrap() > 0 && list["free_bytes"].as_u64().unwrap() > 0);
    let others = world.get("/v1/slots?fingerprint=0000000000000000").json();
    assert_eq!(others["data"], json!([]));
    assert_eq!(world.get("/v1/slots?fingerprint=zz").status, 400);
}

#[test]
fn pruning_is_a_dry_run_by_default_and_skips_open_conversations() {
    let saved = Saved::new();
    let world = saved.start();
    world.chat(json!([user("Hello")]), json!({"conversation": "talks"}));
    world.until("talks is saved", |world| names(&world.get("/v1/slots").json()).len() == 3);

    let plan = world.post("/v1/slots/prune", json!({})).json();
    assert_eq!(
        (&plan["dry_run"], &plan["slots"][0]["conversation"]),
        (&true.into(), &"old".into())
    );
    assert_eq!(names(&world.get("/v1/slots").json()).len(), 3);

    let all = json!({"fingerprint": crate::common::model().to_string(), "dry_run": false});
    let done = world.post("/v1/slots/prune", all).json();
    assert_eq!(done["slots"].as_array().unwrap().len(), 2);
    assert_eq!(done["skipped"][0]["conversation"], "talks");
    assert!(done["freed_bytes"].as_u64() >= plan["freed_bytes"].as_u64());
    assert_eq!(names(&world.get("/v1/slots").json()), ["talks"]);
    assert_eq!(world.post("/v1/slots/prune", json!({"dryrun": false})).status, 400);
    assert_eq!(world.post("/v1/slots/prune", json!({"class": "forever"})).status, 400);
}

#[test]
fn conversations_are_removed_by_name_and_open_ones_are_skipped() {
    let saved = Saved::new();
    let world = saved.start();
    world.chat(json!([user("Hello")]), json!({"conversation": "talks"}));
    let body = json!({"conversations": ["new", "talks", "nobody"]});
    world.until("talks is saved", |world| names(&world.get("/v1/slots").json()).len() == 3);
    let done = world.post("/v1/slots/remove", body).json();
    assert_eq!((&done["removed"], &done["missing"]), (&json!(["new"]), &json!(["nobody"])));
    assert!(done["skipped"][0]["reason"].as_str().unwrap().contains("in use"));
    assert_eq!(names(&world.get("/v1/slots").json()), ["old", "talks"]);
    assert_eq!(world.post("/v1/slots/remove", json!({})).error()["code"], "invalid_value");
}

#[test]
fn garbage_is_collected_when_it_is_old_enough_to_be_garbage() {
    let saved = Saved::new();
    let garbage = put(&Store::open(saved.slots()).unwrap(), 50);
    let world = saved.start();
    let done = world.post("/v1/slots/gc", json!({"dry_run": false})).json();
    assert_eq!(
        done,
        json!({"dry_run": false, "models": [], "freed_bytes": 0}),
        "gc skips recent garbage"
    );

    let path =
        StoreReader::open(saved.slots()).unwrap().object_path(crate::common::model(), garbage.id);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    let plan = world.post("/v1/slots/gc", json!({})).json();
    let done = world.post("/v1/slots/gc", json!({"dry_run": false})).json();
    assert_eq!(plan["freed_bytes"], done["freed_bytes"]);
    assert_eq!(done["models"][0]["objects"], 1);
}

#[test]
fn a_class_is_changed_and_stays_changed() {
    let saved = Saved::new();
    let world = saved.start();
    let body = json!({"conversation": "new", "class": "permanent"});
    let done = world.post("/v1/slots/class", body).json();
    assert_eq!(
        (&done["changed"][0]["from"], &done["changed"][0]["to"]),
        (&json!("long"), &json!("permanent"))
    );
    assert_eq!(world.get("/v1/slots").json()["data"][0]["class"], "permanent");
    let missing = json!({"conversation": "missing", "class": "permanent"});
    assert_eq!(world.post("/v1/slots/class", missing).error()["code"], "conversation_not_found");

    // The next turn of the conversation is saved with the new class.
    world.chat(json!([user("Hello")]), json!({"conversation": "new"}));
    let tokens = |world: &World| world.get("/v1/slots").json()["data"][0]["turns"].clone();
    world.until("the turn is saved", |world| tokens(world) != json!(1));
    assert_eq!(world.get("/v1/slots").json()["data"][0]["class"], "permanent");
}

#[test]
fn a_changed_class_of_a_conversation_in_a_slot_is_reported_with_the_one_before() {
    let world = World::new();
    world.chat(json!([user("Hello")]), json!({"conversation": "new"}));
    let class = |world: &World| world.get("/v1/slots").json()["data"][0]["class"].clone();
    world.until("it is saved", |world| !class(world).is_null());
    let mut before = class(&world);
    for to in ["short", "long"].into_iter().cycle().take(20) {
        let body = json!({"conversation": "new", "class": to});
        let done = world.post("/v1/slots/class", body).json();
        let change = &done["changed"][0];
        assert_eq!((&change["from"], &change["to"]), (&before, &json!(to)), "{done}");
        world.until("it is recorded", |world| class(world) == to);
        before = to.into();
    }
}

#[test]
fn kept_is_accepted_as_permanent() {
    let saved = Saved::new();
    let world = saved.start();
    let body = json!({"conversation": "new", "class": "kept"});
    let done = world.post("/v1/slots/class", body).json();
    assert_eq!(done["changed"][0]["to"], "permanent");
    for class in ["kept", "permanent"] {
        let plan = world.post("/v1/slots/prune", json!({"class": class})).json();
        assert_eq!(plan["slots"][0]["conversation"], "new");
    }
}

#[test]
fn an_archive_from_elsewhere_spares_the_prefill() {
    let messages = json!([user("The code of my locker is 48213. Please remember that for me.")]);
    let mut there = World::new();
    let first = there.chat(messages.clone(), json!({"conversation": "locker"}));
    there.stop();
    let archive = archive(&there.directory.join("slots"), "locker");

    let here = World::new();
    let model_dir = here.directory.join("slots").join(crate::common::model().to_string());
    std::fs::remove_dir_all(model_dir).unwrap(); // Makes the model unknown to this daemon.
    let refused = import(&here, "", &archive);
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("foreign_model")));
    assert_eq!(names(&here.get("/v1/slots").json()), Vec::<String>::new());

    let done = import(&here, "?keep_foreign=true", &archive).json();
    assert_eq!(done["imported"][0]["conversation"], "locker");
    assert!(done["written_bytes"].as_u64().unwrap() > 0);
    let again = here.chat(messages, json!({"conversation": "locker"}));
    assert_eq!(text(&again), text(&first));
    assert!(again["hob"]["tokens"]["disk"].as_u64().unwrap() > 10, "{}", again["hob"]);
    assert!(again["hob"]["tokens"]["computed"].as_u64().unwrap() <= 2, "{}", again["hob"]);
}

#[test]
fn an_archive_brings_back_deleted_kv() {
    let mut world = World::new();
    let messages = json!([user("The code of my locker is 48213. Please remember that for me.")]);
    world.chat(messages.clone(), json!({"conversation": "locker"}));
    world.stop();
    let archive = archive(&world.directory.join("slots"), "locker");
    let world = Plan::new().directory(world.directory.clone()).start();
    assert_eq!(world.call("DELETE", "/v1/conversations/locker").send().status, 200);
    world.until("the saved conversation is deleted", |world| {
        names(&world.get("/v1/slots").json()).is_empty()
    });
    assert_eq!(import(&world, "", &archive).status, 200);
    let again = world.chat(messages, json!({"conversation": "locker"}));
    assert!(again["hob"]["tokens"]["disk"].as_u64().unwrap() > 10, "{}", again["hob"]);
}

#[test]
fn a_bad_archive_changes_nothing() {
    let saved = Saved::new();
    let archive = archive(&saved.slots(), "new");
    let world = saved.start();
    let before = world.get("/v1/slots").json()["data"].clone();
    let mut damaged = archive.clone();
    damaged[3_000] ^= 1;
    for bad in [&archive[..archive.len() / 2], &damaged, b"PK\x03\x04", b""] {
        let answer = import(&world, "?force=true", bad);
        assert_eq!((answer.status, &answer.error()["code"]), (400, &json!("invalid_archive")));
    }
    assert_eq!(import(&world, "?class=forever", &archive).status, 400);
    let json = world.call("POST", "/v1/slots/import").json(&json!({})).send();
    assert_eq!(json.status, 415);
    let after = world.get("/v1/slots").json()["data"].clone();
    assert_eq!(before[0]["used_at"], after[0]["used_at"]);
    assert_eq!(std::fs::read_dir(saved.slots().join("tmp")).unwrap().count(), 0);
}

#[test]
fn an_archive_may_be_larger_than_other_bodies() {
    let saved = Saved::new();
    let store = Store::open(saved.slots()).unwrap();
    save(&store, "large", 0, &(100..300).collect::<Vec<_>>());
    drop(store);
    let archive = archive(&saved.slots(), "large");
    assert!(archive.len() > 200 << 10);
    let world = saved.start();
    assert_eq!(import(&world, "?force=true", &archive).status, 200);
}

#[test]
fn every_change_requires_the_token() {
    let saved = Saved::new();
    let world = saved.start();
    for path in ["prune", "gc", "remove", "class", "import"] {
        let path = format!("/v1/slots/{path}");
        let call = crate::common::Call::new(world.address, "POST", &path).json(&json!({}));
        assert_eq!(call.send().status, 401, "{path}");
    }
    assert_eq!(crate::common::Call::new(world.address, "GET", "/v1/slots").send().status, 401);
}

/// A directory with two saved conversations, one of them expired.
struct Saved(tempfile::TempDir);

impl Saved {
    fn new() -> Self {
        let saved = Self(tempfile::tempdir().unwrap());
        let store = Store::open(saved.slots()).unwrap();
        save(&store, "new", 0, &[1, 2]);
        save(&store, "old", 5, &[1, 3]);
        saved
    }

    fn slots(&self) -> std::path::PathBuf {
        self.0.path().join("slots")
    }

    fn start(&self) -> World {
        Plan::new().directory(self.0.path()).start()
    }
}

fn save(store: &Store, name: &str, hours: u64, numbers: &[i32]) {
    let now = Timestamp::from(std::time::SystemTime::now());
    // One minute more, so that the conversation does not count as just used.
    let used_at = Timestamp(now.0 - hours * 3_600_000 - 60_000);
    let mut blocks: Vec<BlockRef> = numbers.iter().map(|&number| put(store, number)).collect();
    for (n, block) in blocks.iter_mut().enumerate() {
        block.end = n as u32 + 1;
    }
    let record = SlotRecord {
        turns: 1,
        tokens: numbers.iter().copied().map(Token).collect(),
        blocks,
        ..SlotRecord::empty(ConversationId::new(name).unwrap(), TtlClass::Long, used_at)
    };
    store.put_slot(crate::common::model(), &record).unwrap();
}

fn put(store: &Store, number: i32) -> BlockRef {
    let object = Object {
        kind: ObjectKind::Block,
        model: crate::common::model(),
        parent: BlockId::root(crate::common::model()),
        start: 0,
        tokens: vec![Token(number)],
        payload: vec![number as u8; 1_500].into(),
    };
    store.put_object(crate::common::model(), object.id(), &object).unwrap();
    BlockRef { end: 1, id: object.id(), bytes: object.file_bytes() }
}

fn archive(slots: &Path, name: &str) -> Vec<u8> {
    let mut archive = Vec::new();
    let reader = StoreReader::open(slots).unwrap();
    export(&reader, &[name.parse().unwrap()], None, Timestamp(1_000), &mut archive).unwrap();
    archive
}

fn import(world: &World, query: &str, archive: &[u8]) -> crate::common::Answer {
    let call = world.call("POST", &format!("/v1/slots/import{query}"));
    call.header("content-type", "application/x-tar").body(archive).send()
}

fn names(list: &Value) -> Vec<String> {
    let slots = list["data"].as_array().unwrap().iter();
    slots.map(|slot| slot["conversation"].as_str().unwrap().to_owned()).collect()
}
