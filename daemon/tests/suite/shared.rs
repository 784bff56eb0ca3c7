//! Daemons that share saved conversations in a directory: another one goes on where one was killed, and
//! computes what is new alone.

mod backups;
mod deletion;

use std::fs;
use std::path::{Path, PathBuf};

use hob_testkit::{Client, Hobd, Launch, files, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::home::saved;
use crate::common::{computed, text, user};

/// What the fake model reads at 250 tokens a second, so that a fetch is quicker.
const SLOW: &str = "Read this slowly: ";

#[test]
fn another_daemon_goes_on_after_kill_9_and_computes_the_new_tokens_alone() {
    let world = World::new();
    let (first_launch, second, third) =
        (world.daemon("one"), world.start("two"), world.start("three"));
    let first = first_launch.start();
    // The same turns in one daemon, which is killed and started again where the others take over.
    let alone_launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), &world.place("alone")).args([
        "--model",
        "fake",
        "--threads",
        "1",
    ]);
    let mut alone = alone_launch.start();
    let mut last = Value::Null;
    for turn in 0..3 {
        let answer = say(&first.client, "talk", turn);
        last = say(&alone.client, "talk", turn);
        assert_eq!(text(&answer), text(&last));
        world.until_published(&first.client, turn + 1);
    }
    drop(first); // kill -9
    wait_saved(&alone.client, &last);
    drop(alone);
    alone = alone_launch.start();

    let (moved, restored) = (say(&second.client, "talk", 3), say(&alone.client, "talk", 3));
    assert_eq!(text(&moved), text(&restored));
    let (tokens, expected) = (&moved["hob"]["tokens"], &restored["hob"]["tokens"]);
    assert_eq!(tokens, expected, "as after a restart of one daemon");
    assert!(tokens["disk"].as_u64() > Some(100), "{tokens}");
    assert_eq!(world.metric(&second.client, "hob_shared_kv_total{result=\"fetched\"}"), 1);
    let shared = &second.client.get("/v1/status")["shared"];
    assert_eq!((&shared["texts"], &shared["fetched"]), (&json!(1), &json!(1)), "{shared}");
    assert!(shared["place"].as_str().unwrap().starts_with("file://"), "{shared}");

    // The one that was killed comes back, and a third one takes over without any being killed.
    world.until_published(&second.client, 1);
    let first = first_launch.start();
    assert_same(&say(&first.client, "talk", 4), &say(&alone.client, "talk", 4));
    world.until_published(&first.client, 1);
    assert_same(&say(&third.client, "talk", 5), &say(&alone.client, "talk", 5));
    world.until_published(&third.client, 1);
    // It has the conversation in a slot, three turns behind.
    assert_same(&say(&second.client, "talk", 6), &say(&alone.client, "talk", 6));
    assert_eq!(messages(&second.client, "talk"), 14);
    assert_eq!(messages(&alone.client, "talk"), 14);
}

#[test]
fn an_unsent_answer_of_one_daemon_and_a_newer_one_of_another_are_both_there() {
    let world = World::new();
    let launch = world.daemon("one");
    let first = launch.start();
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    let away = world.shared().with_extension("away");
    // hobd creates a place that is missing: it must not see the moment between two changes.
    first.process.stopped_while(|| {
        fs::rename(world.shared(), &away).unwrap();
        fs::write(world.shared(), "no directory").unwrap();
    });
    first.client.say("talk", "Only the first daemon has this.");
    drop(first);
    fs::remove_file(world.shared()).unwrap();
    fs::rename(&away, world.shared()).unwrap();

    let second = world.start("two");
    second.client.say("talk", "Only the second daemon has this.");
    assert_eq!(messages(&second.client, "talk"), 4);
    world.until_published(&second.client, 1);
    let first = launch.start();
    first.client.say("talk", "And this is after it.");
    let whole = first.client.get("/v1/conversations/talk/export");
    let all = whole["messages"].as_array().unwrap();
    assert_eq!(all.len(), 8, "{whole}");
    let has = |text: &str| all.iter().any(|node| node["message"]["content"] == text);
    assert!(has("Only the first daemon has this.") && has("Only the second daemon has this."));
    world.until_published(&first.client, 1);
    let third = world.start("three");
    let read = third.client.call("GET", "/v1/conversations/talk").send();
    assert_eq!(read.json()["message_count"], 8, "a third one reads all: {}", world.log("three"));
}

/// Two daemons of which the second has answered behind the first, which has not caught up.
fn one_behind(world: &World) -> (Hobd, Hobd) {
    let (first, second) = (world.start("one"), world.start("two"));
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    say(&second.client, "talk", 1);
    world.until_published(&second.client, 1);
    (first, second)
}

#[test]
fn a_turn_fetches_the_kv_of_a_conversation_that_a_client_has_read_before() {
    let world = World::new();
    // The second one has computed nothing yet, so that it fetches by its own decision and waits 10 s.
    let (first, second) = (world.start("one"), world.deciding_daemon("two").start());
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    assert_eq!(messages(&second.client, "talk"), 2);
    for (turn, fetched) in [(1, 1), (2, 1)] {
        say(&second.client, "talk", turn);
        let found = world.metric(&second.client, "hob_shared_kv_total{result=\"fetched\"}");
        assert_eq!(found, fetched, "behind turn {turn}");
    }
}

#[test]
fn an_item_is_added_behind_what_another_daemon_has_answered() {
    let world = World::new();
    let (first, second) = (world.start("one"), world.start("two"));
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    let item = json!({"type": "message", "role": "user", "content": "And this."});
    let call = second.client.call("POST", "/v1/conversations/talk/items");
    let added = call.json(&json!({"items": [item]})).send();
    assert_eq!(added.status, 200, "{}", added.text());
    let talk = second.client.get("/v1/conversations/talk");
    let branch = talk["messages"].as_array().unwrap();
    assert_eq!(branch.len(), 3, "{talk}");
    assert_eq!(branch[2]["content"], "And this.");
}

#[test]
fn a_response_and_the_items_of_a_conversation_have_what_another_daemon_has_stored() {
    let world = World::new();
    let (first, second, third) = (world.start("one"), world.start("two"), world.start("three"));
    let respond = |client: &Client, input: Value| {
        let body = json!({"conversation": "talk", "input": input, "instructions": "Be brief.",
            "temperature": 0});
        let response = client.call("POST", "/v1/responses").json(&body).send();
        assert_eq!(response.status, 200, "{}", response.text());
    };
    let rules = json!({"role": "system", "content": "You are Ember."});
    respond(&first.client, json!([rules, user("Say this: Hello.")]));
    world.until_published(&first.client, 1);
    let items = third.client.get("/v1/conversations/talk/items");
    assert_eq!(items["data"].as_array().unwrap().len(), 3, "{items}");
    respond(&second.client, json!("Say this: Bye."));
    let talk = second.client.get("/v1/conversations/talk");
    assert_eq!(talk["instructions"], "Be brief.\n\nYou are Ember.", "{talk}");
}

#[test]
fn a_pin_is_there_in_the_next_turn_through_another_daemon() {
    let world = World::new();
    let (first, second) = one_behind(&world);
    let path = "/v1/conversations/talk/messages/1";
    first.client.patch(path, &json!({"hob": {"pin": true}}));
    world.until_published(&first.client, 2);
    say(&second.client, "talk", 2);
    let talk = second.client.get("/v1/conversations/talk");
    assert_eq!(talk["messages"][0]["hob"]["pin"], true, "{talk}");
    assert_eq!(talk["message_count"], 6, "{talk}");
}

#[test]
fn a_message_that_is_deleted_behind_another_daemons_turn_stays_deleted() {
    let world = World::new();
    let (first, second) = one_behind(&world);
    let path = "/v1/conversations/talk/messages/2";
    assert_eq!(first.client.call("DELETE", path).send().status, 200);
    world.until_published(&first.client, 2);
    for daemon in [&first, &world.start("three")] {
        let talk = daemon.client.get("/v1/conversations/talk");
        assert_eq!(talk["message_count"], 1, "{talk}");
    }
    say(&second.client, "talk", 2);
    let talk = second.client.get("/v1/conversations/talk");
    assert_eq!(talk["messages"].as_array().unwrap().len(), 3, "{talk}");
}

#[test]
fn a_name_that_is_given_behind_another_daemons_turn_keeps_that_turn() {
    let world = World::new();
    let (first, second) = one_behind(&world);
    first.client.patch("/v1/conversations/talk", &json!({"title": "Tides"}));
    world.until_published(&first.client, 2);
    say(&second.client, "talk", 2);
    let talk = second.client.get("/v1/conversations/talk");
    assert_eq!((&talk["title"], &talk["message_count"]), (&json!("Tides"), &json!(6)), "{talk}");
    assert_eq!(talk["messages"].as_array().unwrap().len(), 6, "{talk}");
}

#[test]
fn a_name_and_a_shortened_conversation_are_there_in_the_next_turn_through_another_daemon() {
    let world = World::new();
    let limits = ["--ctx", "2048", "--eviction", "off"];
    let start = |name| world.daemon(name).args(limits).start();
    let (first, second) = (start("one"), start("two"));
    let ask = |client: &Client| {
        let question = "the tide comes in and goes out again ".repeat(18);
        client.chat(&json!({
            "conversation": "talk", "hob": {"append": true}, "max_tokens": 12,
            "messages": [{"role": "user", "content": question}],
        }))
    };
    ask(&first.client);
    world.until_published(&first.client, 1);
    ask(&second.client);
    world.until_published(&second.client, 1);
    let shorten = first.client.call("POST", "/v1/conversations/talk/shorten");
    let events: Vec<Value> = shorten.json(&json!({"summarise": false})).stream().collect();
    assert_eq!(events.last().unwrap()["result"]["left_out"], 2, "{events:?}");
    world.until_published(&first.client, 2);
    first.client.patch("/v1/conversations/talk", &json!({"title": "Tides"}));
    world.until_published(&first.client, 3);
    ask(&second.client);
    let talk = second.client.get("/v1/conversations/talk");
    assert_eq!((&talk["title"], &talk["message_count"]), (&json!("Tides"), &json!(6)), "{talk}");
    assert_eq!(talk["messages"][2]["starts_prompt"], true, "{talk}");
}

#[test]
fn a_copy_an_import_and_an_edit_are_there_through_another_daemon_before_a_turn() {
    let world = World::new();
    let (first, second) = (world.start("one"), world.start("two"));
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    let talk = "/v1/conversations/talk";
    let fork = json!({"message": first.client.get(talk)["head"], "id": "copy"});
    let copied = first.client.call("POST", &format!("{talk}/fork")).json(&fork).send();
    assert_eq!(copied.json()["id"], "copy", "{}", copied.text());
    world.until_published(&first.client, 2);
    assert_eq!(messages(&second.client, "copy"), 2);

    let mut file = first.client.get(&format!("{talk}/export"));
    file["id"] = json!("brought");
    let imported = first.client.call("POST", "/v1/conversations/import").json(&file).send();
    assert_eq!(imported.status, 200, "{}", imported.text());
    world.until_published(&first.client, 3);
    assert_eq!(messages(&second.client, "brought"), 2);

    let question = first.client.get("/v1/conversations/brought")["messages"][0]["id"].clone();
    let path = format!("/v1/conversations/brought/messages/{question}");
    let edited = first.client.call("PATCH", &path).json(&json!({"content": "Again"})).send();
    assert_eq!(edited.status, 200, "{}", edited.text());
    world.until_published(&first.client, 4);
    assert_eq!(messages(&world.start("three").client, "brought"), 3);
    let file = world.start("four").client.get("/v1/conversations/brought/export");
    assert_eq!(file["messages"].as_array().unwrap().len(), 3, "{file}");
}

#[test]
fn a_conversation_longer_than_its_budget_is_taken_over_with_what_is_away() {
    const BUDGET: u64 = 400;
    let world = World::new();
    let (first, second) = (world.start("one"), world.start("two"));
    let ask = |client: &Client, text: &str| {
        client.chat(&json!({
            "conversation": "talk", "hob": {"append": true, "budget": BUDGET}, "temperature": 0,
            "max_tokens": 12, "messages": [user(text)],
        }))
    };
    for n in 0..12 {
        ask(&first.client, &format!("Question {n} is about number {} alone.", n * 7919));
        world.until_published(&first.client, n + 1);
    }
    drop(first);

    let answer = ask(&second.client, "Go on.");
    let tokens = &answer["hob"]["tokens"];
    assert!(tokens["away"].as_u64().unwrap() > 100, "the holes are not filled: {answer}");
    assert!(tokens["disk"].as_u64().unwrap() > 100, "what has cells is read: {answer}");
    assert!(computed(&answer) < 100, "nothing is read again: {answer}");
    assert!(answer["hob"]["cells"]["peak"].as_u64().unwrap() <= BUDGET, "{answer}");
    let answer = ask(&second.client, "What was question 2 about, the one about number 15838?");
    let moved = answer["hob"]["moved"].as_array().unwrap();
    assert!(moved.iter().any(|moved| moved["way"] == "back"), "{answer}");
    assert!(computed(&answer) < 150, "{answer}");
}

#[test]
fn a_damaged_object_is_computed_again() {
    let world = World::new();
    let (first, second) = (world.start("one"), world.start("two"));
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    let object = files::below(&world.shared())
        .into_iter()
        .find(|file| file.extension().is_some_and(|it| it == "kv"))
        .unwrap();
    let mut bytes = fs::read(&object).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&object, bytes).unwrap();
    let answer = say(&second.client, "talk", 1);
    assert_eq!(answer["hob"]["tokens"]["disk"], 0, "{}", answer["hob"]["tokens"]);
    assert_eq!(text(&answer), text(&say(&first.client, "talk", 1)));
    assert_eq!(world.metric(&second.client, "hob_shared_kv_total{result=\"missed\"}"), 1);
    assert!(world.log("two").contains("nothing taken from the shared tier"));
}

#[test]
fn a_place_that_fails_fails_no_turn_and_is_reported_once() {
    let world = World::new();
    let first = world.start("one");
    let away = world.shared().with_extension("away");
    // hobd creates a place that is missing: it must not see the moment between two changes.
    first.process.stopped_while(|| {
        fs::rename(world.shared(), &away).unwrap();
        fs::write(world.shared(), "no directory").unwrap();
    });
    for turn in 0..4 {
        say(&first.client, "talk", turn);
    }
    wait::until("it was tried again", || {
        (world.metric(&first.client, "hob_shared_failures_total") >= 3).then_some(())
    });
    let reported = world.log("one").matches("the shared tier fails").count();
    assert_eq!(reported, 1, "{}", world.log("one"));
    let delete = first.client.call("DELETE", "/v1/conversations/talk").send();
    assert_eq!(
        (delete.status, delete.json()["error"]["code"].as_str()),
        (503, Some("shared_tier"))
    );
    assert_eq!(messages(&first.client, "talk"), 8, "it is not half deleted");

    first.process.stopped_while(|| {
        fs::remove_file(world.shared()).unwrap();
        fs::rename(&away, world.shared()).unwrap();
    });
    world.until_published(&first.client, 1);
    assert_eq!(messages(&world.start("two").client, "talk"), 8);
    assert_eq!(world.log("one").matches("answers again").count(), 1);
}

#[test]
fn an_encrypted_place_shows_no_text_and_opens_with_the_key_alone() {
    let world = World::new();
    let key = world.place("keys").join("slots.key");
    let sealed = |name: &str, key: &Path| {
        let launch = world.daemon(name).args(["--slots-encrypt", "true"]);
        launch.args(["--slots-key-file".as_ref(), key.as_os_str()]).start()
    };
    let (first, second) = (sealed("one", &key), sealed("two", &key));
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    let all: Vec<u8> =
        files::below(&world.shared()).iter().flat_map(|file| fs::read(file).unwrap()).collect();
    assert!(all.len() > 500 && !contains(&all, b"slowly") && !contains(&all, b"HOBOBJ"));
    assert!(
        files::below(&world.shared()).iter().all(|file| !file.to_string_lossy().contains("talk"))
    );
    let answer = say(&second.client, "talk", 1);
    assert!(answer["hob"]["tokens"]["disk"].as_u64() > Some(50), "{}", answer["hob"]["tokens"]);
    // Another key hides other names, so it finds nothing, and says nothing false.
    let other = sealed("three", &world.place("keys").join("other.key"));
    assert_eq!(other.client.call("GET", "/v1/conversations/talk").send().status, 404);
}

struct World {
    directory: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(world.shared()).unwrap();
        world
    }

    fn shared(&self) -> PathBuf {
        self.directory.path().join("shared")
    }

    fn place(&self, name: &str) -> PathBuf {
        let place = self.directory.path().join(name);
        fs::create_dir_all(&place).unwrap();
        place
    }

    fn daemon(&self, name: &str) -> Launch {
        self.deciding_daemon(name).fetching_shared_kv()
    }

    /// It fetches what it expects to compute later, as users' daemons do.
    fn deciding_daemon(&self, name: &str) -> Launch {
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), &self.place(name));
        let shared = format!("file://{}", self.shared().display());
        launch.args(["--model", "fake", "--threads", "1", "--shared", &shared])
    }

    fn start(&self, name: &str) -> Hobd {
        self.daemon(name).start()
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.place(name).join("log")).unwrap()
    }

    fn metric(&self, client: &Client, name: &str) -> u64 {
        let page = client.get_text("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).trim().parse().unwrap()
    }

    /// Waits until a daemon has written to the place this often.
    fn until_published(&self, client: &Client, times: u64) {
        wait::until("the conversation is published", || {
            (self.metric(client, "hob_shared_published_total") >= times).then_some(())
        });
    }
}

fn say(client: &Client, conversation: &str, turn: u64) -> Value {
    let question = "the tide comes in and goes out again ".repeat(3);
    client.chat(&json!({
        "conversation": conversation, "hob": {"append": true}, "temperature": 0, "max_tokens": 12,
        "messages": [{"role": "user", "content": format!("{SLOW}{turn} {question}")}],
    }))
}

/// Adds a document with the words 20 times, and asks about it in the conversation `talk`. Returns the document's id.
fn ask_about(client: &Client, words: &str) -> String {
    let added = client.call("POST", "/v1/documents?name=castle.txt").body(words.repeat(20)).send();
    let id = added.json()["id"].as_str().unwrap().to_owned();
    client.chat(&json!({
        "conversation": "talk", "hob": {"append": true}, "temperature": 0, "max_tokens": 12,
        "messages": [{"role": "user", "content": "How many doors?", "hob": {"documents": [id]}}],
    }));
    id
}

/// Equal answers, for which equally many tokens were computed.
fn assert_same(shared: &Value, alone: &Value) {
    assert_eq!(text(shared), text(alone));
    let tokens = [&shared["hob"]["tokens"], &alone["hob"]["tokens"]];
    assert!(computed(shared) <= computed(alone) + 1, "{tokens:?}");
}

/// Of all branches.
fn messages(client: &Client, conversation: &str) -> usize {
    let found = client.get(&format!("/v1/conversations/{conversation}"));
    found["message_count"].as_u64().unwrap() as usize
}

/// Waits until all tokens of the last answer in the conversation `talk` are on disk.
fn wait_saved(client: &Client, answer: &Value) {
    let tokens = &answer["usage"]["total_tokens"];
    wait::until("the answer is on disk", || {
        (saved(client, "talk")?["tokens"] == *tokens).then_some(())
    });
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
