//! Prewarming a chat before its next question, through the built hobd with one slot.

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

struct World {
    launch: Launch,
    hobd: Hobd,
    _directory: TempDir,
}

impl World {
    fn on(model: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let launch = launch.args(["--model", model, "--slots", "1", "--voice-command", "off"]);
        Self { hobd: launch.clone().start(), launch, _directory: directory }
    }

    fn restart(&mut self) {
        self.hobd.process.terminate(wait::PATIENCE);
        self.hobd = self.launch.clone().start();
    }

    /// A chat with stored text and no KV. Returns its id.
    fn import(&self) -> String {
        let words = "My locker code is 48213, and my garden has two apple trees. ".repeat(6);
        let message = |id: u64, parent: Option<u64>, role: &str, content: &str| {
            let message = json!({"role": role, "content": content});
            json!({"id": id, "parent": parent, "status": "complete", "message": message})
        };
        let chat = json!({"format": "hob conversation", "version": 1, "head": 2, "messages": [
            message(1, None, "user", &words),
            message(2, Some(1), "assistant", "I will remember that."),
        ]});
        let imported = self.hobd.client.post("/v1/conversations/import", &chat);
        imported["id"].as_str().unwrap().to_owned()
    }

    fn prewarm(&self, id: &str, compute: bool) -> Value {
        let body = json!({"conversation": id, "compute": compute});
        self.hobd.client.post("/v1/prewarm", &body)
    }

    fn place(&self, id: &str) -> Value {
        self.hobd.client.get(&format!("/v1/conversations/{id}"))["place"].clone()
    }
}

fn tokens(prewarm: &Value, origin: &str) -> u64 {
    prewarm["hob"]["tokens"][origin].as_u64().unwrap()
}

#[test]
fn the_blocks_of_a_prewarmed_chat_keep_their_layers() {
    let world = World::on("fake");
    let id = world.import();

    world.prewarm(&id, true);

    let map = world.hobd.client.get("/v1/memory/map");
    let slots = map["slots"].as_array().unwrap();
    let slot = slots.iter().find(|slot| slot["conversation"] == id.as_str()).expect("it is hot");
    let blocks = slot["blocks"].as_array().unwrap();
    let layers: Vec<_> = blocks.iter().map(|block| block["layer"].as_str()).collect();
    assert!(layers.len() > 2 && layers[0] == Some("user"), "{layers:?}");
    assert!(layers.contains(&Some("assistant")) && !layers.contains(&None), "{layers:?}");
}

fn without_computing_only_saved_kv_is_restored(model: &str) {
    let mut world = World::on(model);
    let text_only = world.import();
    world.hobd.client.say("saved", &"My garden has two apple trees. ".repeat(6));
    world.restart();

    let restored = world.prewarm("saved", false);
    assert_eq!((&restored["hot"], tokens(&restored, "computed")), (&json!(true), 0), "{restored}");
    assert!(tokens(&restored, "disk") > 64, "{restored}");
    assert_eq!(world.place("saved"), "slot");

    let nothing = world.prewarm(&text_only, false);
    assert_eq!((&nothing["hot"], &nothing["hob"]), (&json!(false), &Value::Null));
    assert_eq!(world.prewarm("unknown", false)["hot"], false);
    assert_eq!((world.place(&text_only), world.place("saved")), (json!("none"), json!("slot")));
    let counters = world.hobd.client.get("/v1/status")["counters"].clone();
    assert_eq!(counters["computed_tokens"], 0, "{counters}");
}

fn without_computing_a_hint_s_saved_kv_is_restored(model: &str) {
    let mut world = World::on(model);
    let question = "My garden has two apple trees. ".repeat(24);
    let messages = json!([{"role": "user", "content": question}]);
    let chat = json!({"prompt_cache_key": "app", "messages": messages, "max_tokens": 4});
    world.hobd.client.chat(&chat);
    world.restart();

    let prewarm = |key: &str, messages: &Value| {
        let body = json!({"prompt_cache_key": key, "messages": messages, "compute": false});
        world.hobd.client.post("/v1/prewarm", &body)
    };
    for nothing in [prewarm("other", &messages), prewarm("app", &Value::Null)] {
        assert_eq!((&nothing["hot"], &nothing["hob"]), (&json!(false), &Value::Null));
    }
    let restored = prewarm("app", &messages);
    assert_eq!((&restored["hot"], tokens(&restored, "computed")), (&json!(true), 0), "{restored}");
    assert!(tokens(&restored, "disk") > 64, "{restored}");
    assert_eq!(prewarm("app", &messages)["hot"], false, "it is hot already");
    let counters = world.hobd.client.get("/v1/status")["counters"].clone();
    assert_eq!(counters["computed_tokens"], 0, "{counters}");
}

fn computed_history_is_saved(model: &str) {
    let mut world = World::on(model);
    let chat = world.import();
    let first = world.prewarm(&chat, true);
    assert!(tokens(&first, "computed") > 64, "{first}");

    world.hobd.client.say("other", "Hello"); // It takes the slot.
    assert_ne!(world.place(&chat), "none");
    world.restart();
    let again = world.prewarm(&chat, true);
    assert!(tokens(&again, "disk") > 64 && tokens(&again, "computed") < 64, "{again}");
    // The next answer reports it as computed ahead or restored, as before.
    let answer = world.hobd.client.say(&chat, "And now?");
    assert!(answer["hob"]["ahead"]["disk"].as_u64() > Some(64), "{}", answer["hob"]);
}

#[test]
fn without_computing_only_saved_kv_is_restored_on_the_fake() {
    without_computing_only_saved_kv_is_restored("fake");
}

#[test]
fn without_computing_a_hint_s_saved_kv_is_restored_on_the_fake() {
    without_computing_a_hint_s_saved_kv_is_restored("fake");
}

#[test]
fn what_a_prewarm_computed_of_a_stored_chat_is_saved_on_the_fake() {
    computed_history_is_saved("fake");
}

#[cfg(feature = "llama")]
#[test]
fn without_computing_only_saved_kv_is_restored_on_llama_cpp() {
    without_computing_only_saved_kv_is_restored("bundled");
}

#[cfg(feature = "llama")]
#[test]
fn without_computing_a_hint_s_saved_kv_is_restored_on_llama_cpp() {
    without_computing_a_hint_s_saved_kv_is_restored("bundled");
}

#[cfg(feature = "llama")]
#[test]
fn what_a_prewarm_computed_of_a_stored_chat_is_saved_on_llama_cpp() {
    computed_history_is_saved("bundled");
}

#[test]
fn a_prewarm_with_words_that_are_not_stored_saves_nothing() {
    let mut world = World::on("fake");
    let unsent = json!([{"role": "user", "content": "These words are never sent. ".repeat(8)}]);
    let body = json!({"conversation": "draft", "messages": unsent});
    world.hobd.client.post("/v1/prewarm", &body);
    world.restart();
    let again = world.hobd.client.post("/v1/prewarm", &body);
    assert_eq!(tokens(&again, "disk"), 0, "{again}");
}
