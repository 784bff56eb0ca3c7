//! How large the context is: chosen for the model, or set; and that KV outlives a change of it.

#[cfg(feature = "llama")]
use crate::common::home::{say, say_with};
use serde_json::{Value, json};

use crate::common::home::Home;

/// Fields of the status: cells, tokens of a conversation, and why they are not more.
fn context(client: &hob_testkit::Client) -> (Value, Value, Value) {
    let status = client.get("/v1/status");
    let of = |name: &str| status[name].clone();
    (of("context_tokens"), of("conversation_tokens"), of("context_limit"))
}

#[test]
fn the_fake_model_has_a_context_that_no_machine_decides() {
    let home = Home::on_fake().with(&["--log", "info"]);
    let hobd = home.start();
    assert_eq!(context(&hobd.client), (json!(8192), json!(1 << 20), json!("unknown")));
    assert!(home.launch.log().contains("limit=\"unknown\""), "{}", home.launch.log());
    home.stop(hobd);
    let home = home.with(&["--ctx", "2048"]);
    let hobd = home.start();
    assert_eq!(context(&hobd.client), (json!(2048), json!(1 << 20), json!("set")));
    home.stop(hobd);
    // Without eviction, a conversation stays in its cells.
    let home = home.with(&["--eviction", "off"]);
    let hobd = home.start();
    assert_eq!(context(&hobd.client), (json!(2048), json!(2048), json!("set")));
}

#[cfg(feature = "llama")]
#[test]
fn the_context_is_what_the_model_was_trained_with_as_far_as_memory_allows() {
    let home = Home::new();
    let bytes = |bytes: &str| {
        let launch = home.launch.clone().env("HOB_TEST_MEMORY_BYTES", bytes);
        launch.args(["--model".into(), fixture().into_os_string()]).start()
    };
    let roomy = bytes("1073741824");
    assert_eq!(context(&roomy.client), (json!(8192), json!(8192), json!("trained")));
    assert!(home.launch.log().contains("limit=\"trained\""), "{}", home.launch.log());
    drop(roomy);
    // 8,192 tokens take 12 MiB with their attention mask, a quarter of what must be available.
    let small = bytes("40000000");
    assert_eq!(context(&small.client), (json!(4096), json!(8192), json!("memory")));
    let list = small.client.get("/v1/models/local");
    let current =
        list["data"].as_array().unwrap().iter().find(|one| one["current"] == true).unwrap();
    assert_eq!((&current["ctx"], &current["ctx_limit"]), (&json!(4096), &json!("memory")));
    assert_eq!(current["auto"], json!({"tokens": 4096, "limit": "memory"}));
    assert!(home.launch.log().contains("available_bytes=40000000"), "{}", home.launch.log());
}

#[cfg(feature = "llama")]
#[test]
fn a_context_that_does_not_fit_is_refused_for_the_running_model_too() {
    let home = Home::new();
    let launch = home.launch.clone().env("HOB_TEST_MEMORY_BYTES", "40000000");
    let hobd = launch.args(["--model".into(), fixture().into_os_string()]).start();
    let id = hobd.client.get("/v1/models/local")["current"].clone();
    let large = json!({"model": id, "ctx": 1 << 20});
    let refused = hobd.client.call("POST", "/v1/models/switch").json(&large).send();
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("model_too_large")));
    let same = hobd.client.post("/v1/models/switch", &json!({"model": id}));
    assert_eq!(same["restarts"], false, "it runs already, with its own context");
}

#[cfg(feature = "llama")]
#[test]
fn kv_that_was_saved_with_one_context_is_restored_with_another() {
    let home = Home::new();
    let hobd = home.start();
    assert_eq!(context(&hobd.client), (json!(8192), json!(4096), json!("trained")));
    say(&hobd.client, "room", &"My locker code is 48213. ".repeat(12));
    let mut before = hobd;
    for ctx in ["2048", "16384"] {
        home.stop(before);
        let hobd = home.launch.clone().args(["--ctx", ctx]).start();
        assert_eq!(hobd.client.get("/v1/status")["context_tokens"], ctx.parse::<u64>().unwrap());
        let hob = say_with(&hobd.client, "room", "And now?", json!({}));
        assert!(hob["tokens"]["disk"].as_u64() > Some(64), "{hob}");
        let computed = hob["tokens"]["computed"].as_u64();
        assert!(computed.is_some_and(|computed| computed < 100), "{hob}");
        assert_eq!(hob["miss"], Value::Null);
        before = hobd;
    }
}

/// As LongRoPE does: by one list of factors up to 1,024 tokens of context, and by another one beyond.
#[cfg(feature = "llama")]
fn rotated_by_the_length_of_the_context() -> hob_testkit::Gguf {
    let bundled = hob_testkit::Gguf::open(&hob_testkit::asset("hob-tiny-f16.gguf"));
    bundled
        .text("llama.rope.scaling.type", "longrope")
        .number("llama.rope.scaling.original_context_length", 1024)
        .tensor("rope_factors_long.weight", [16, 1], &[4.0; 16])
        .tensor("rope_factors_short.weight", [16, 1], &[1.0; 16])
}

#[cfg(feature = "llama")]
#[test]
fn kv_is_not_used_in_a_context_in_which_the_model_rotates_it_otherwise() {
    let home = Home::new();
    let path = home.path().join("model.gguf");
    rotated_by_the_length_of_the_context().write(&path);
    let with_context = |ctx: &str| {
        let launch = home.launch.clone().args(["--model".into(), path.clone().into_os_string()]);
        launch.args(["--ctx", ctx]).start()
    };
    let hobd = with_context("1024");
    say(&hobd.client, "room", &"My locker code is 48213. ".repeat(12));
    home.stop(hobd);
    for (ctx, is_restored) in [("2048", false), ("1000", true)] {
        let hobd = with_context(ctx);
        let hob = say_with(&hobd.client, "room", "And now?", json!({}));
        let from_disk = hob["tokens"]["disk"].as_u64();
        assert_eq!(from_disk > Some(64), is_restored, "{ctx}: {hob}");
        home.stop(hobd);
    }
}

/// The fixture of Qwen 2, whose context is the one of the file.
#[cfg(feature = "llama")]
fn fixture() -> std::path::PathBuf {
    hob_testkit::asset("fixtures/qwen2.gguf")
}
