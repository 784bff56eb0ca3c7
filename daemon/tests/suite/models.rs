//! The local models: their list, and switches that are accepted or refused.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::task::{Context, Waker};

use hob_testkit::{asset, wait};
use serde_json::{Value, json};

use crate::common::{Plan, World, user};

#[test]
fn each_model_is_listed_with_the_memory_that_it_needs() {
    let world = world(Plan::new());
    let list = world.get("/v1/models/local").json();
    // A daemon with llama.cpp lists the bundled model, too.
    let found = models(&list).into_iter().filter(|model| model["source"] != "bundled");
    let names: Vec<&str> = found.map(|model| text(&model["name"])).collect();
    assert_eq!(names, ["fake", "fake:second", "gemma3", "qwen2"]);
    assert_eq!((&list["current"], &list["fixed"]), (&json!("fake"), &Value::Null));
    let qwen = models(&list).into_iter().find(|model| model["name"] == "qwen2").unwrap();
    let file = world.directory.join("models/qwen2.gguf");
    assert_eq!((text(&qwen["id"]), text(&qwen["path"])), (shown(&file), shown(&file)));
    assert_eq!((&qwen["source"], &qwen["memory"]), (&json!("hob"), &json!("plain")));
    assert_eq!(qwen["size_bytes"], fs::metadata(&file).unwrap().len());
    assert!(qwen["estimate"]["kv_bytes"].as_u64().unwrap() > 0);
    assert_eq!(qwen["verdict"], "fits");
    assert_eq!((&qwen["current"], &qwen["kept"]), (&json!(false), &Value::Null));
    assert!(list["memory"]["total_bytes"].as_u64().unwrap() > 0);
    let problem = text(&list["problems"][0]);
    assert!(problem.contains("torn.gguf") && problem.contains("fetch"), "{problem}");
    assert_eq!(
        world.get("/v1/models").json()["data"][0]["id"],
        "fake",
        "the running model stays `fake`"
    );
}

#[test]
fn the_saved_conversations_of_the_current_model_are_counted() {
    let world = world(Plan::new());
    let saved = |world: &World| {
        let list = world.get("/v1/models/local").json();
        let current = models(&list).into_iter().find(|model| model["current"] == true);
        current.unwrap()["kept"].clone()
    };
    assert_eq!(saved(&world)["conversations"], 0);
    world.chat(json!([user("Hello there, how are you today?")]), json!({"conversation": "a"}));
    world.until("the conversation is saved", |world| {
        world.parts.models.catalogue.forget();
        saved(world)["conversations"] == 1
    });
    assert!(saved(&world)["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn lists_that_wait_for_one_that_hangs_have_no_thread() {
    let world = world(Plan::new());
    let models = &world.parts.models;
    // Each list reads this file: a pipe without a writer hangs.
    let pipe = models.catalogue.options().hashes.clone();
    fs::remove_file(&pipe).ok(); // An error: no model file was hashed.
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    models.catalogue.forget();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let list = |_| {
        let models = models.clone();
        Box::pin(async move { models.local().await.entries.len() })
    };
    let mut lists: Vec<_> = (0..20).map(list).collect();
    let within = runtime.enter();
    let mut begins = Context::from_waker(Waker::noop());
    assert!(lists.iter_mut().all(|list| list.as_mut().poll(&mut begins).is_pending()));
    drop(within);
    let (send, opened) = mpsc::channel();
    let path = pipe.clone();
    std::thread::spawn(move || send.send(File::options().write(true).open(path)).is_ok());
    let hangs = opened.recv_timeout(wait::PATIENCE).expect("a list reads the pipe").unwrap();

    world.chat(json!([user("Are you there?")]), json!({})); // Its prompt is rendered on such a thread.
    fs::remove_file(&pipe).unwrap();
    drop(hangs);
    for list in lists {
        assert!(runtime.block_on(list) > 0);
    }
}

#[cfg(target_os = "linux")] // Other systems refuse such a name.
#[test]
fn a_model_whose_name_is_not_utf_8_is_a_problem_and_the_others_are_listed() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let world = world(Plan::new());
    let named = world.directory.join("models").join(OsStr::from_bytes(b"caf\xe9.gguf"));
    fs::copy(asset("fixtures/qwen2.gguf"), named).unwrap();
    let list = world.get("/v1/models/local").json();
    assert!(models(&list).into_iter().any(|model| model["name"] == "qwen2"), "{list}");
    let mut problems = list["problems"].as_array().unwrap().iter();
    assert!(problems.any(|problem| text(problem).contains("is not UTF-8; rename")), "{list}");
}

#[test]
fn a_model_that_cannot_be_run_is_refused_with_the_reason_and_nothing_ends() {
    let world = world(Plan::new());
    let torn = shown(&world.directory.join("models/torn.gguf")).to_owned();
    for (body, status, code, expected) in [
        (json!({"model": "/nowhere/a.gguf"}), 404, "model_not_found", "/nowhere/a.gguf"),
        (json!({"model": "qwen9"}), 404, "model_not_found", "qwen9"),
        (json!({"model": torn}), 400, "model_unusable", "fetch"),
        (json!({"model": 5}), 400, "invalid_value", "string"),
        (json!({"model": "fake", "now": true}), 400, "invalid_value", "now"),
    ] {
        let answer = world.post("/v1/models/switch", body);
        let error = answer.error();
        assert_eq!((answer.status, text(&error["code"])), (status, code), "{error}");
        assert!(text(&error["message"]).contains(expected), "{error}");
    }
    assert_eq!(world.get("/v1/status").json()["switch_error"], Value::Null);
    world.chat(json!([user("Still there?")]), json!({}));
}

#[test]
fn a_switch_says_that_it_holds_for_this_run_where_a_flag_chooses_the_model() {
    let world = world(Plan::new().fixed_model());
    assert_eq!(world.get("/v1/models/local").json()["fixed"], "flag --model");
    let switch = world.post("/v1/models/switch", json!({"model": "qwen2"}));
    assert_eq!((switch.status, &switch.json()["for_this_run"]), (202, &json!(true)));
}

#[test]
fn each_context_that_a_model_can_have_is_listed_with_its_bytes() {
    let world = world(Plan::new());
    let list = world.get("/v1/models/local").json();
    let model = models(&list).into_iter().find(|model| model["name"] == "qwen2").unwrap();
    let contexts = model["contexts"].as_array().unwrap();
    let bytes = |tokens: u64| {
        let found = contexts.iter().find(|context| context["tokens"] == tokens);
        found.unwrap_or_else(|| panic!("{tokens} in {contexts:?}"))["kv_bytes"].as_u64().unwrap()
    };
    assert_eq!(bytes(model["ctx"].as_u64().unwrap()), model["estimate"]["kv_bytes"]);
    assert_eq!(bytes(4096), 2 * bytes(2048), "full attention takes the same for every token");
    let trained = model["trained_context"].as_u64().unwrap();
    let allowed = trained.max(model["ctx"].as_u64().unwrap());
    let is_allowed = |tokens: u64| tokens <= allowed;
    assert!(contexts.iter().all(|context| context["tokens"].as_u64().is_some_and(is_allowed)));
}

#[test]
fn a_switch_says_what_happens_and_a_second_one_is_refused() {
    let world = world(Plan::new());
    let same = world.post("/v1/models/switch", json!({"model": "fake"}));
    assert_eq!((same.status, &same.json()["restarts"]), (200, &json!(false)));

    let accepted = world.post("/v1/models/switch", json!({"model": "QWEN2"}));
    assert_eq!(accepted.status, 202);
    let switch = accepted.json();
    let file = world.directory.join("models/qwen2.gguf");
    assert_eq!((text(&switch["model"]), &switch["name"]), (shown(&file), &json!("qwen2")));
    assert_eq!(switch["from"]["name"], "fake");
    assert_eq!(switch["from"]["kept"]["conversations"], 0);
    assert_eq!(switch["kv"], "kept on disk, comes back with the model");
    let second = world.post("/v1/models/switch", json!({"model": "gemma3"}));
    assert_eq!((second.status, text(&second.error()["code"])), (503, "switching"));
}

#[test]
fn a_change_of_settings_while_the_daemon_restarts_is_refused_and_changes_nothing() {
    let world = world(Plan::new());
    assert_eq!(world.post("/v1/models/switch", json!({"model": "qwen2"})).status, 202);
    let retention = || {
        let list = world.get("/v1/settings").json();
        let mut settings = list["data"].as_array().unwrap().iter();
        settings.find(|setting| setting["key"] == "default_ttl").unwrap()["value"].clone()
    };
    let before = retention();
    let both = json!({"settings": {"default_ttl": "short", "threads": 1}});
    let refused = world.call("PATCH", "/v1/settings").json(&both).send();
    assert_eq!((refused.status, text(&refused.error()["code"])), (503, "switching"));
    assert_eq!(retention(), before);
}

fn world(plan: Plan) -> World {
    let world = plan.start();
    let models = world.directory.join("models");
    fs::create_dir_all(&models).unwrap();
    for name in ["qwen2.gguf", "gemma3.gguf"] {
        fs::copy(asset("fixtures").join(name), models.join(name)).unwrap();
    }
    let whole = fs::read(asset("fixtures/qwen2.gguf")).unwrap();
    fs::write(models.join("torn.gguf"), &whole[..whole.len() / 2]).unwrap();
    world
}

fn models(list: &Value) -> Vec<&Value> {
    list["data"].as_array().unwrap().iter().collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}
