//! LoRA adapters of requests, through the built hobd on llama.cpp.
#![cfg(feature = "llama")]

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use hob_testkit::{Gguf, Hobd, Launch, wait};
use serde_json::{Value, json};

/// Of the bundled model: columns and rows of its `attn_q` weights.
const WIDTH: usize = 192;
const RANK: usize = 4;

const TEXT: &str = "My locker code is 4711, my favorite number is 12, and I live in Paris. \
                    Remember it well, please, because I will ask for it later. What is my name?";

fn header(kind: &str, architecture: &str) -> Gguf {
    Gguf::empty()
        .text("general.type", "adapter")
        .text("general.architecture", architecture)
        .text("adapter.type", kind)
        .float("adapter.lora.alpha", RANK as f32)
}

/// An adapter of the bundled model; each `seed` makes another one.
fn adapter(directory: &Path, name: &str, seed: f32) -> PathBuf {
    let wave = |step: f32| -> Vec<f32> {
        (0..WIDTH * RANK).map(|at| (at as f32 * step * seed).sin() * 0.5).collect()
    };
    let path = directory.join(format!("{name}.gguf"));
    let file = (0..2).fold(header("lora", "llama"), |file, layer| {
        let weight = format!("blk.{layer}.attn_q.weight");
        file.tensor(&format!("{weight}.lora_a"), [WIDTH, RANK], &wave(0.7)).tensor(
            &format!("{weight}.lora_b"),
            [RANK, WIDTH],
            &wave(1.3),
        )
    });
    file.write(&path);
    path
}

fn launch(directory: &Path) -> Launch {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    launch.args(["--threads", "1", "--ctx", "2048", "--model", "bundled"])
}

/// With the adapters `style` and `tone`.
fn with_two(directory: &Path) -> Launch {
    let files = [adapter(directory, "style", 1.0), adapter(directory, "loud", 2.1)];
    let tone = format!("tone={}", files[1].display());
    launch(directory).args(["--adapters", &files[0].display().to_string(), "--adapters", &tone])
}

fn body(conversation: &str, lora: &Value) -> Value {
    json!({"conversation": conversation, "max_tokens": 6, "temperature": 0, "lora": lora,
        "logprobs": true, "top_logprobs": 3, "messages": [{"role": "user", "content": TEXT}]})
}

/// The whole answer.
fn ask(hobd: &Hobd, conversation: &str, lora: &Value) -> Value {
    let call = hobd.client.call("POST", "/v1/chat/completions");
    let answer = call.json(&body(conversation, lora)).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The likeliest first tokens, and their log-probabilities.
#[derive(Clone, Debug)]
struct First(Vec<(String, f64)>);

impl PartialEq for First {
    /// llama.cpp rounds by the number of rows in a micro-batch; adapters change the first decimal.
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        pairs.into_iter().all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 0.02)
    }
}

fn first(answer: &Value) -> First {
    let top = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"].as_array().unwrap();
    let named = |it: &Value| (it["token"].to_string(), it["logprob"].as_f64().unwrap());
    First(top[..2].iter().map(named).collect())
}

fn cached(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

fn sets() -> [Value; 4] {
    [
        json!([]),
        json!([{"id": "style"}]),
        json!([{"id": 1, "scale": 0.5}]),
        json!([{"id": "tone", "scale": 0.5}, {"id": "style", "scale": 1}]),
    ]
}

#[test]
fn a_request_with_adapters_is_answered_as_by_a_model_that_is_configured_with_them() {
    let directory = tempfile::tempdir().unwrap();
    let style = adapter(directory.path(), "style", 1.0).display().to_string();
    let configured = {
        let hobd = launch(directory.path()).args(["--lora", &format!("{style}=0.5")]).start();
        first(&ask(&hobd, "room", &json!([])))
    };
    let hobd = launch(directory.path()).args(["--adapters", &style]).start();
    let plain = first(&ask(&hobd, "plain", &json!([])));
    let by_name = first(&ask(&hobd, "name", &json!([{"id": "style", "scale": 0.5}])));
    let by_path = first(&ask(&hobd, "path", &json!([{"path": style, "scale": 0.5}])));
    assert_ne!(by_name, plain);
    assert_eq!(by_name, configured);
    assert_eq!(by_path, configured);
    let without_effect = ask(&hobd, "zero", &json!([{"id": 0, "scale": 0}]));
    assert_eq!(first(&without_effect), plain);
    assert!(cached(&without_effect) > 0, "it is the KV of no adapters");
    let listed = hobd.client.get("/lora-adapters");
    assert_eq!(listed, json!([{"id": 0, "name": "style", "path": style, "scale": 0.0}]));
}

#[test]
fn no_set_gets_the_kv_of_another_and_each_finds_its_own_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let alone = |set: &Value| {
        let directory = tempfile::tempdir().unwrap();
        first(&ask(&with_two(directory.path()).start(), "alone", set))
    };
    let expected = sets().map(|set| alone(&set));
    for (n, answer) in expected.iter().enumerate() {
        assert!(!expected[..n].contains(answer), "set {n}: {expected:?}");
    }
    for round in 0..3 {
        // A round each: the last one begins with all KV on disk.
        let mut hobd = with_two(directory.path()).start();
        for (n, set) in sets().iter().enumerate() {
            let answer = ask(&hobd, "room", set);
            assert_eq!(first(&answer), expected[n], "round {round}, {set}");
            let (cached, prompt) = (cached(&answer), answer["usage"]["prompt_tokens"].as_u64());
            if round == 0 {
                assert_eq!(cached, 0, "{set}");
                let reason = &answer["hob"]["explanation"]["reason"];
                assert_eq!(reason == "other_adapters", n > 0, "{answer}");
            } else {
                assert!(cached + 64 >= prompt.unwrap() && cached > 0, "{set}: {answer}");
            }
            let other = ask(&hobd, &format!("other {round} {n}"), set);
            assert_eq!(first(&other), expected[n], "round {round}, {set}");
        }
        let status = hobd.client.get("/v1/status");
        let slots = status["slots"].as_array().unwrap();
        let room = slots.iter().find(|slot| slot["conversation"] == "other 0 3");
        if round == 0 {
            let lora = &room.expect("the last one has a slot")["lora"];
            let ids: Vec<_> = lora.as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
            assert!(ids.len() == 2 && ids.contains(&json!("style")), "{status}");
        }
        assert_eq!(status["counters"]["wasted_restores"], 0, "{status}");
        hobd.process.terminate(wait::PATIENCE); // Which saves all KV.
    }
}

#[test]
fn text_that_was_read_with_adapters_is_moved_with_these_alone() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = with_two(directory.path()).start();
    let story =
        |name: &str| format!("{name} keeps the key of the old mill by the river. ").repeat(8);
    let ask = |conversation: &str, order: [&str; 3], lora: &Value| {
        let mut body = body(conversation, lora);
        body["messages"][0]["content"] = order.map(story).concat().into();
        body["hob"] = json!({"reuse": "repaired"});
        hobd.client.chat(&body)
    };
    let style = json!([{"id": "style"}]);
    ask("first", ["Ann", "Robert", "Caroline"], &style);
    wait::until("the conversation is saved", || {
        let list = hobd.client.get("/v1/slots");
        let mut rows = list["data"].as_array().unwrap().iter();
        rows.any(|row| row["conversation"] == "first").then_some(())
    });
    for (n, set) in sets().iter().enumerate() {
        let answer = ask(&format!("other {n}"), ["Caroline", "Ann", "Robert"], set);
        let moved = answer["hob"]["tokens"]["moved"].as_u64().unwrap();
        assert_eq!(moved > 0, *set == style, "{set}: {answer}");
    }
}

#[test]
fn requests_of_different_sets_at_once_are_answered_as_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = with_two(directory.path()).start();
    let expected = sets().map(|set| first(&ask(&hobd, &format!("alone {set}"), &set)));
    let hobd = &hobd;
    let asked = |n: usize| {
        let set = &sets()[n % 4];
        // Each has a prompt of its own to compute.
        let mut body = body(&format!("room {n}"), set);
        body["hob"] = json!({"cold": true});
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        (n % 4, first(&answer.json()))
    };
    let answers: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..8).map(|n| scope.spawn(move || asked(n))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (set, answer) in answers {
        assert_eq!(answer, expected[set], "set {set}");
    }
}

#[test]
fn what_cannot_work_is_refused_by_name_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let write = |name: &str, file: Gguf| {
        let path = directory.join(format!("{name}.gguf"));
        file.write(&path);
        path.display().to_string()
    };
    let damaged = directory.join("damaged.gguf");
    fs::write(&damaged, b"GGUF, or not").unwrap();
    let alora = header("lora", "llama").number("adapter.alora.invocation_tokens", 1);
    let files = [
        write("gemma", header("lora", "gemma3")),
        write("ia3", header("ia3", "llama")),
        write("alora", alora),
        write("vector", Gguf::empty().text("general.architecture", "controlvector")),
        write("nothing", header("lora", "llama").tensor("blk.99.no", [4, 4], &[0.0; 16])),
        damaged.display().to_string(),
        directory.join("missing.gguf").display().to_string(),
    ];
    let style = adapter(directory, "style", 1.0).display().to_string();
    let all = files.iter().chain([&style]);
    let hobd = all.fold(launch(directory), |it, file| it.args(["--adapters", file])).start();
    let refused = |lora: Value| {
        let call = hobd.client.call("POST", "/v1/chat/completions");
        let answer = call.json(&body("room", &lora)).send();
        assert_eq!(answer.status, 400, "{lora}: {}", answer.text());
        let error = &answer.json()["error"];
        (error["param"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
    };
    for (id, words) in [
        ("gemma", "architecture gemma3, and this one's is llama"),
        ("ia3", "`ia3`"),
        ("alora", "aLoRA"),
        ("vector", "control vector"),
        ("nothing", "nothing.gguf"),
        ("damaged", "damaged.gguf"),
        ("missing", "missing.gguf"),
        ("unknown", "choose one of `gemma`"),
    ] {
        let (param, message) = refused(json!([{"id": id}]));
        assert_eq!(param, "lora[0].id", "{message}");
        assert!(message.contains(words), "{id}: {message}");
    }
    // A path of a request is a name, and opens nothing.
    let secret = directory.join("secret.gguf");
    fs::copy(&style, &secret).unwrap();
    for path in [secret.display().to_string(), "/etc/passwd".to_owned(), format!("{style}/../x")] {
        let (param, message) = refused(json!([{"path": path}]));
        assert_eq!(param, "lora[0].path");
        assert!(message.contains("setting `adapters`") && !message.contains(&path), "{message}");
    }
    for (lora, field) in [
        (json!([{"id": 99}]), "lora[0].id"),
        (json!([{"id": "style", "scale": 1e300}]), "lora[0].scale"),
        (json!([{"id": "style"}, {"id": 7, "scale": 0.5}]), "lora"),
    ] {
        assert_eq!(refused(lora.clone()).0, field, "{lora}");
    }
    ask(&hobd, "room", &json!([{"id": "style"}]));
}

#[test]
fn an_adapter_that_was_replaced_is_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let style = adapter(directory.path(), "style", 1.0);
    let launch = launch(directory.path()).args(["--adapters", &style.display().to_string()]);
    let hobd = launch.args(["--unload-after", "1s"]).start();
    let set = json!([{"id": "style"}]);
    let before = first(&ask(&hobd, "room", &set));
    wait::until("the weights are unloaded", || {
        (hobd.client.get("/v1/status")["residency"] == "unloaded").then_some(())
    });
    let again = ask(&hobd, "room", &set);
    assert_eq!(first(&again), before, "the adapter is loaded again with the weights");
    assert!(cached(&again) > 0, "{again}");
    adapter(directory.path(), "style", 3.3);
    let other = ask(&hobd, "room", &set);
    assert_ne!(first(&other), before);
    assert_eq!(cached(&other), 0, "{other}");
}
