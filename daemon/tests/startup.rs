//! Everything that runs beside requests, through the built hobd and its own start: each test fails
//! when the start does not begin that part. The clock is moved by the tests.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const PROFILE: &str = "[[segment]]\nlayer = 'rules'\nkey = 'tone'\ntext = 'Be brief, and kind.'\n";

/// A directory with a hobd on the fake model.
struct World {
    launch: Launch,
    hobd: Hobd,
    directory: TempDir,
}

impl World {
    fn with(arguments: &[&str]) -> Self {
        Self::prepared(arguments, |_| {})
    }

    /// `prepare` makes files before the start.
    fn prepared(arguments: &[&str], prepare: impl Fn(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).with_clock();
        let profiles = directory.path().join("profiles");
        let launch = launch.args(["--model", "fake", "--threads", "1"]);
        let launch = launch.args(["--profiles-dir".into(), profiles.into_os_string()]);
        let launch = launch.args(arguments.iter().copied());
        let hobd = launch.start();
        Self { launch, hobd, directory }
    }

    fn say(&self, conversation: &str, ttl: &str) {
        self.hobd.client.chat(&json!({
            "conversation": conversation, "hob": {"append": true, "ttl": ttl}, "max_tokens": 4,
            "messages": [{"role": "user", "content": "My locker code is 48213. ".repeat(8)}],
        }));
        wait::until("the answer is saved", || self.is_saved(conversation).then_some(()));
    }

    fn is_saved(&self, conversation: &str) -> bool {
        let list = self.hobd.client.get("/v1/slots");
        let rows = list["data"].as_array().unwrap();
        rows.iter().any(|row| row["conversation"] == conversation)
    }

    fn status(&self) -> Value {
        self.hobd.client.get("/v1/status")
    }

    fn prefix(&self, profile: &str) -> Value {
        let prefixes = self.status()["prefixes"].clone();
        let found = prefixes.as_array().unwrap().iter().find(|row| row["profile"] == profile);
        found.cloned().unwrap_or_default()
    }

    fn until_warm(&self, profile: &str) {
        wait::until("the prefix is warm", || {
            (self.prefix(profile)["state"] == "warm").then_some(())
        });
    }
}

fn profile(directory: &Path, name: &str) {
    fs::create_dir_all(directory.join("profiles")).unwrap();
    fs::write(directory.join("profiles").join(format!("{name}.toml")), PROFILE).unwrap();
}

#[test]
fn idle_conversations_are_parked() {
    let world = World::with(&["--idle-park-secs", "600"]);
    world.say("room", "permanent");
    let hot = |world: &World| {
        let slots = world.status()["slots"].clone();
        slots.as_array().unwrap().iter().any(|slot| slot["conversation"] == "room")
    };
    assert!(hot(&world));
    world.launch.pass(11 * MINUTE);
    wait::until("it is parked", || (!hot(&world)).then_some(()));
}

#[test]
fn expired_kv_is_swept() {
    let mut world = World::with(&[]);
    world.say("brief", "short");
    world.say("room", "permanent");
    world.hobd.process.terminate(wait::PATIENCE);
    world.hobd = world.launch.start();
    assert!(world.is_saved("brief"), "five minutes have not passed");
    // The sweep of the start may run now; the next one is due an interval later.
    wait::until("a sweep has removed it", || {
        world.launch.pass(6 * MINUTE);
        (!world.is_saved("brief")).then_some(())
    });
    assert!(world.is_saved("room"));
}

#[test]
fn the_trash_is_emptied_after_an_hour() {
    let world = World::with(&[]);
    world.say("room", "permanent");
    let path = "/v1/conversations/room";
    world.hobd.client.patch(path, &json!({"trashed": true}));
    world.launch.pass(HOUR + MINUTE);
    wait::until("the trash is empty", || {
        let status = world.hobd.client.call("GET", path).send().status;
        (status == 404).then_some(())
    });
}

#[test]
fn profiles_are_prewarmed_at_the_start_and_kept_alive() {
    let world = World::prepared(&["--ttl-short", "5m"], |directory| profile(directory, "default"));
    world.until_warm("default");
    let first = world.prefix("default");
    assert!(first["computed_tokens"].as_u64() > Some(0), "{first}");
    assert_eq!(first["place"], "hot");

    let touched = |row: &Value| row["touched_at"].as_u64().unwrap();
    world.launch.pass(10 * MINUTE);
    wait::until("it is kept alive", || {
        (touched(&world.prefix("default")) >= touched(&first) + 9 * 60).then_some(())
    });
}

#[test]
fn a_keepalive_interval_is_obeyed() {
    let world =
        World::prepared(&["--keepalive-interval", "3h", "--ttl-short", "4h"], |directory| {
            profile(directory, "default");
        });
    world.until_warm("default");
    let touched = |world: &World| world.prefix("default")["touched_at"].as_u64().unwrap();
    let first = touched(&world);
    // The conversation is parked in the same round of the loop that would touch the prefix.
    world.say("room", "permanent");
    world.launch.pass(HOUR + MINUTE);
    wait::until("an idle hour was noticed", || {
        let slots = world.status()["slots"].clone();
        let is_free = |slot: &Value| slot["conversation"].is_null();
        slots.as_array().unwrap().iter().all(is_free).then_some(())
    });
    assert_eq!(touched(&world), first, "three hours have not passed");
    world.launch.pass(3 * HOUR);
    wait::until("it is kept alive", || (touched(&world) > first + 3 * 3600).then_some(()));
}

#[test]
fn a_profile_that_is_written_while_hobd_runs_is_prewarmed() {
    let world = World::prepared(&[], |directory| {
        fs::create_dir_all(directory.join("profiles")).unwrap();
    });
    assert!(world.prefix("late").is_null());
    profile(world.directory.path(), "late");
    world.until_warm("late");
}

#[test]
fn idle_weights_are_unloaded_and_come_back() {
    let world = World::with(&["--unload-after", "10m"]);
    world.say("room", "permanent");
    assert_eq!(world.status()["residency"], "resident");
    world.launch.pass(11 * MINUTE);
    wait::until("the weights are unloaded", || {
        (world.status()["residency"] == "unloaded").then_some(())
    });
    world.say("room", "permanent");
    assert_eq!(world.status()["residency"], "resident");
}

#[test]
fn turns_without_a_conversation_keep_the_weights_loaded() {
    let world = World::with(&["--unload-after", "10m", "--idle-park-secs", "600"]);
    let keyless = || {
        let messages = json!([{"role": "user", "content": "Hello"}]);
        world.hobd.client.chat(&json!({"messages": messages, "max_tokens": 1}));
    };
    world.say("room", "permanent");
    world.launch.pass(6 * MINUTE);
    keyless();
    world.launch.pass(6 * MINUTE);
    wait::until("the conversation is parked", || {
        (world.status()["parked"][0]["conversation"] == "room").then_some(())
    });
    // The loop that parks unloads as well, in the same round.
    assert_eq!(world.status()["residency"], "resident");
    for _ in 0..2 {
        world.launch.pass(11 * MINUTE);
        wait::until("the weights are unloaded", || {
            (world.status()["residency"] == "unloaded").then_some(())
        });
        keyless();
        assert_eq!(world.status()["residency"], "resident");
    }
}

#[cfg(feature = "llama")]
#[test]
fn embeddings_keep_the_weights_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let model = directory.path().join("embeds.gguf");
    fs::write(&model, embedding_model()).unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).with_clock();
    let launch = launch.args(["--threads", "1", "--ctx", "512", "--unload-after", "10m"]);
    let launch = launch.args(["--model".into(), model.into_os_string()]);
    let hobd = launch.start();
    for _ in 0..2 {
        let answer = hobd.client.post("/v1/embeddings", &json!({"input": "Hello"}));
        assert!(!answer["data"][0]["embedding"].as_array().unwrap().is_empty());
        assert_eq!(hobd.client.get("/v1/status")["residency"], "resident");
        launch.pass(11 * MINUTE);
        wait::until("the weights are unloaded", || {
            (hobd.client.get("/v1/status")["residency"] == "unloaded").then_some(())
        });
    }
}

/// The fixture of Qwen 2 with a field that makes it an embedding model, which pools the last token.
#[cfg(feature = "llama")]
fn embedding_model() -> Vec<u8> {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/fixtures");
    let file = fs::read(assets.join("qwen2.gguf")).unwrap();
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let (u32_type, string_type, last) = (4_u32, 8_u32, 3_u32);
    let mut fields = text("qwen2.pooling_type");
    fields.extend([u32_type, last].map(u32::to_le_bytes).concat());
    fields.extend([text("x"), string_type.to_le_bytes().to_vec()].concat());
    // The data behind the fields stays aligned to 32 bytes.
    fields.extend(text(&"x".repeat(32 - (fields.len() + 8) % 32)));
    let (head, rest) = file.split_at(24);
    let count = u64::from_le_bytes(head[16..].try_into().unwrap()) + 2;
    [&head[..16], &count.to_le_bytes(), &fields, rest].concat()
}

#[test]
fn while_the_model_loads_texts_and_health_are_served_and_requests_wait() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).with_faults();
    let launch = launch.args(["--model", "fake"]);
    let client = {
        let hobd = launch.start();
        hobd.client.say("room", "Say this: kettle");
        hobd.client.clone()
    };
    let launch = launch.listen(client.address);
    let loads = launch.inject("start", "wait");
    let starting = launch.spawn();

    let health = || client.call("GET", "/health").try_send().ok();
    let loading = wait::until("the socket is served", health);
    assert_eq!(loading.status, 503, "{}", loading.text());
    assert_eq!(loading.json(), json!({"status": "loading", "loaded_percent": 0}));
    let room = client.get("/v1/conversations/room");
    assert_eq!(room["messages"][1]["content"], "kettle");
    let asks = client.clone();
    let answer = std::thread::spawn(move || asks.say("room", "Say this: pot"));
    let _waits = client.call("GET", "/v1/status").open();
    assert!(!directory.path().join("ready.json").exists());

    loads.end();
    let hobd = starting.ready().expect("the daemon starts");
    assert_eq!(answer.join().unwrap()["choices"][0]["message"]["content"], "pot");
    assert_eq!(hobd.client.get("/health"), json!({"status": "ok"}));
    assert_eq!(hobd.client.get("/v1/conversations/room")["messages"][3]["content"], "pot");
}

#[cfg(feature = "llama")]
#[test]
fn a_replaced_model_file_restarts_hobd_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/fixtures");
    let model = directory.path().join("model.gguf");
    fs::copy(assets.join("qwen2.gguf"), &model).unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--threads", "1", "--ctx", "512"]);
    let launch = launch.args(["--model".into(), model.clone().into_os_string()]);
    let _hobd = launch.start();
    // hobd announces itself again after a restart.
    let fingerprint = || {
        let announced = fs::read_to_string(directory.path().join("data/hobd.json")).ok()?;
        let announced: Value = serde_json::from_str(&announced).ok()?;
        announced["fingerprint"].as_str().map(str::to_owned)
    };
    let before = fingerprint().unwrap();
    let new = directory.path().join("new.gguf");
    fs::copy(assets.join("qwen3.gguf"), &new).unwrap();
    fs::rename(&new, &model).unwrap();
    wait::until("hobd serves the new model", || fingerprint().filter(|now| *now != before));
}
