//! An embedding model that finds what left a conversation, through the built hobd on llama.cpp: what shares
//! no word with the question comes back for its meaning, and a model that cannot do this costs this alone.
//!
//! The fixture's weights are random, so that *which* parts mean the like is chance; `cargo xtask bench recall`
//! measures that with a real one.

#![cfg(feature = "llama")]

use std::path::{Path, PathBuf};

use hob_testkit::{Gguf, Hobd, Launch, asset, wait};
use serde_json::{Value, json};

/// A fixture that pools the last token.
fn embedding_model(directory: &Path) -> PathBuf {
    let path = directory.join("embeds.gguf");
    Gguf::open(&asset("fixtures/qwen2.gguf")).number("qwen2.pooling_type", 3).write(&path);
    path
}

fn start(directory: &Path, recall_model: Option<&Path>) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    let launch = launch.args(["--threads", "1", "--ctx", "2048", "--slots", "1"]);
    match recall_model {
        Some(path) => launch.args(["--recall-model".into(), path.as_os_str().to_owned()]).start(),
        None => launch.start(),
    }
}

fn say(hobd: &Hobd, text: &str) -> Value {
    let message = json!({"role": "user", "content": text});
    let hob = json!({"append": true, "budget": 700});
    let body = json!({"conversation": "chat", "hob": hob, "messages": [message],
        "temperature": 0, "max_tokens": 8});
    hobd.client.chat(&body)["hob"].clone()
}

/// Says more than the budget has room for, and then a word that was never said. Returns for which reasons
/// parts came back for that.
fn outgrow(hobd: &Hobd, mut is_ready: impl FnMut() -> bool) -> Vec<String> {
    for n in 0..10 {
        let notes = format!("The mayor of town {n} opened the old bridge at dusk. ").repeat(10);
        say(hobd, &format!("Read this. {notes}"));
    }
    wait::until("the blocks have vectors", || is_ready().then_some(()));
    let last = say(hobd, "Aardvark?");
    let moved = last["moved"].as_array().unwrap().iter();
    let back = moved.filter(|moved| moved["way"] == "back");
    back.map(|moved| moved["why"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_shares_no_word_with_the_question_comes_back_for_its_meaning() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path(), Some(&embedding_model(directory.path())));
    let status = hobd.client.get("/v1/status");
    assert_eq!(status["recall_model"], json!({"name": "embeds", "refused": null}));
    let embedded = || {
        let page = hobd.client.get_text("/metrics");
        let count =
            page.lines().find_map(|it| it.strip_prefix("hob_recall_blocks_embedded_total "));
        count.unwrap().parse::<u64>().unwrap()
    };
    let mut before = 0;
    // No more come: all blocks have one.
    let back =
        outgrow(&hobd, || std::mem::replace(&mut before, embedded()) == before && before > 10);
    assert!(back.iter().any(|why| why == "meaning"), "{back:?}");

    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path(), None);
    assert_eq!(hobd.client.get("/v1/status")["recall_model"], Value::Null);
    let back = outgrow(&hobd, || true);
    assert!(back.iter().all(|why| why != "meaning"), "{back:?}");
}

#[test]
fn a_recall_model_that_cannot_be_used_is_refused_by_name_and_the_model_serves() {
    let missing = Path::new("/nowhere/embeds.gguf");
    for (path, reason) in [
        (asset("fixtures/qwen3.gguf"), "it writes text and makes no embeddings"),
        (missing.to_owned(), "/nowhere/embeds.gguf"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let hobd = start(directory.path(), Some(&path));
        let its = hobd.client.get("/v1/status")["recall_model"].clone();
        let refused = its["refused"].as_str().unwrap_or_else(|| panic!("{its} is refused"));
        assert!(refused.contains(reason), "{its}");
        assert!(say(&hobd, "Hello")["tokens"].is_object());
    }
}
