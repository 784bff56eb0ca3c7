//! Private requests and conversations: neither their text nor their KV reaches the disk.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use hob_testkit::{Hobd, Launch, Process, Signal, files, wait};
use serde_json::{Value, json};

use crate::common::{chat_body, user};

const CANARY: &str = "The-canary-sings-at-midnight";

/// Words around the canary: more than one block of tokens.
fn secret() -> String {
    let canaries = format!("{CANARY} ").repeat(4); // A block's end may cut one of them.
    format!("{}{canaries}{}", "I tell you this in confidence. ".repeat(4), "Keep it. ".repeat(10))
}

fn hobd(directory: &Path) -> Hobd {
    launch(directory).start()
}

fn launch(directory: &Path) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).args(["--model", "fake"])
}

fn say(hobd: &Hobd, text: &str, extra: Value) -> Value {
    hobd.client.chat(&chat_body(json!([user(text)]), extra))
}

/// Every file below `directory` that has the canary, as text or as tokens.
fn files_with_canary(hobd: &Hobd, directory: &Path) -> Vec<String> {
    let tokens = hobd.client.post("/tokenize", &json!({"content": CANARY}));
    let tokens = tokens["tokens"].as_array().unwrap().iter();
    let tokens: Vec<u8> =
        tokens.flat_map(|token| (token.as_i64().unwrap() as i32).to_le_bytes()).collect();
    files_with(directory, &tokens)
}

/// Every file below `directory` that has the canary, or `tokens`.
fn files_with(directory: &Path, tokens: &[u8]) -> Vec<String> {
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let is_hit = |bytes: Vec<u8>| has(&bytes, CANARY.as_bytes()) || has(&bytes, tokens);
    let mut found = files::below(directory);
    found.retain(|path| fs::read(path).is_ok_and(is_hit));
    found.iter().map(|path| path.display().to_string()).collect()
}

/// Waits until a private request finds no KV of the secret.
fn await_no_kv(hobd: &Hobd) {
    wait::until("its KV is gone", || {
        let fresh = say(hobd, &secret(), json!({"hob": {"private": true}}));
        let tokens = &fresh["hob"]["tokens"];
        (tokens["memory"] == 0 && tokens["disk"] == 0).then_some(())
    });
}

/// Ends hobd, which saves everything that may be saved, and looks again.
fn canary_after_stop(mut hobd: Hobd, directory: &Path) -> Vec<String> {
    let mut found = files_with_canary(&hobd, directory);
    let reader = self::hobd(tempfile::tempdir().unwrap().path());
    hobd.process.terminate(wait::PATIENCE);
    found.extend(files_with_canary(&reader, directory));
    found
}

#[test]
fn the_search_finds_the_text_and_the_tokens_of_what_is_saved() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path());
    say(&hobd, &secret(), json!({"conversation": "a"}));
    let found = canary_after_stop(hobd, directory.path());
    assert!(found.iter().any(|file| file.contains("transcripts.sqlite")), "{found:?}");
    assert!(found.iter().any(|file| file.ends_with(".kv")), "{found:?}");
}

#[test]
fn a_private_request_without_a_conversation_leaves_nothing() {
    for extra in [
        json!({"hob": {"private": true}}),
        json!({"hob": {"private": true}, "store": false}),
        json!({"hob": {"private": true}, "prompt_cache_key": "app"}),
        json!({"hob": {"private": true}, "n": 2}),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let hobd = hobd(directory.path());
        say(&hobd, &secret(), extra.clone());
        wait::until("its cells are dropped", || {
            let status = hobd.client.get("/v1/status");
            let slots = status["slots"].as_array().unwrap();
            slots.iter().all(|slot| slot["tokens"] == 0).then_some(())
        });
        let again = say(&hobd, &secret(), extra.clone());
        assert_eq!(again["hob"]["tokens"]["shared"], 0, "{again}");
        assert_eq!(hobd.client.get("/v1/conversations")["data"], json!([]));
        assert_eq!(canary_after_stop(hobd, directory.path()), [""; 0], "{extra}");
    }
}

/// As OpenAI's clients and agents send it with each request.
#[test]
fn a_request_that_is_not_stored_is_reused_from_memory_and_leaves_nothing_on_disk() {
    for extra in [
        json!({"store": false}),
        json!({"store": false, "prompt_cache_key": "app"}),
        json!({"store": false, "hob": {"ttl": "permanent"}}),
        json!({"store": false, "n": 2}),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let hobd = hobd(directory.path());
        say(&hobd, &secret(), extra.clone());
        let again = say(&hobd, &secret(), extra.clone());
        assert!(again["hob"]["tokens"]["computed"].as_u64().unwrap() < 4, "{extra}: {again}");
        for other in ["b", "c", "d", "e", "f"] {
            say(&hobd, "Hello", json!({"conversation": other})); // They need its slot.
        }
        let again = say(&hobd, &secret(), extra.clone());
        assert!(again["hob"]["tokens"]["memory"].as_u64().unwrap() > 64, "{extra}: {again}");
        let listed = hobd.client.get("/v1/conversations")["data"].clone();
        assert_eq!(listed.as_array().unwrap().len(), 5, "no text is stored: {listed}");
        assert_eq!(canary_after_stop(hobd, directory.path()), [""; 0], "{extra}");
    }
}

#[test]
fn a_private_conversation_is_remembered_in_memory_and_gone_when_it_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path());
    let private = json!({"conversation": "a", "hob": {"append": true, "private": true}});
    say(&hobd, &secret(), private);
    // It stays private, although this request does not say so.
    let plain = json!({"conversation": "a", "hob": {"append": true}});
    let answer = say(&hobd, "And now?", plain.clone());
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > secret().len() as u64);
    assert!(answer["hob"]["tokens"]["computed"].as_u64().unwrap() < 40, "{answer}");
    for other in ["b", "c", "d", "e", "f"] {
        say(&hobd, "Hello", json!({"conversation": other})); // They need its slot.
    }
    let answer = say(&hobd, "Once more?", plain.clone());
    assert!(answer["hob"]["tokens"]["computed"].as_u64().unwrap() < 40, "{answer}");
    assert!(answer["hob"]["tokens"]["memory"].as_u64().unwrap() > 64, "{answer}");

    let list = hobd.client.get("/v1/conversations")["data"].clone();
    let mine = |id: &str| list.as_array().unwrap().iter().find(|c| c["id"] == id).cloned().unwrap();
    assert_eq!((&mine("a")["private"], &mine("b")["private"]), (&json!(true), &Value::Null));
    let found = hobd.client.get(&format!("/v1/conversations?q={CANARY}"));
    assert_eq!(found["data"][0]["id"], "a", "it is found while it is there");
    assert_eq!(hobd.client.get("/v1/conversations/a")["messages"].as_array().unwrap().len(), 6);

    let deleted = hobd.client.call("DELETE", "/v1/conversations/a").send();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(hobd.client.call("GET", "/v1/conversations/a").send().status, 404);
    await_no_kv(&hobd);
    assert_eq!(canary_after_stop(hobd, directory.path()), [""; 0]);
}

#[test]
fn a_conversation_whose_private_request_failed_is_not_private() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path());
    let too_long = "a".repeat(1_100_000); // The fake was trained with 2^20 tokens, of one byte each.
    let private = json!({"conversation": "a", "hob": {"append": true, "private": true}});
    for (text, fields) in [
        (too_long.as_str(), private.clone()),
        (
            "Hello",
            json!({"conversation": "a", "hob": {"append": true, "private": true, "after": 9}}),
        ),
    ] {
        let body = chat_body(json!([user(text)]), fields);
        let refused = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(refused.status, 400, "{}", refused.text());
    }
    say(&hobd, "Hello", json!({"conversation": "a", "hob": {"append": true}}));
    let list = hobd.client.get("/v1/conversations");
    assert_eq!(list["data"][0]["private"], Value::Null, "{list}");
    let body = chat_body(json!([user(&secret())]), private);
    let refused = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert_eq!(refused.error()["code"], "not_private", "its text is on disk");
}

#[test]
fn a_private_conversation_ends_a_day_after_its_last_message() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).with_clock();
    let hobd = launch.start();
    let private = json!({"conversation": "a", "hob": {"append": true, "private": true}});
    say(&hobd, &secret(), private.clone());
    launch.pass(Duration::from_secs(23 * 3600));
    let answer = say(&hobd, "And now?", private.clone());
    assert!(answer["hob"]["tokens"]["computed"].as_u64().unwrap() < 40, "{answer}");
    launch.pass(Duration::from_secs(23 * 3600));
    let answer = say(&hobd, "Once more?", private.clone());
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > secret().len() as u64);

    launch.pass(Duration::from_secs(25 * 3600));
    wait::until("it has ended", || {
        (hobd.client.get("/v1/conversations")["data"] == json!([])).then_some(())
    });
    assert_eq!(hobd.client.call("GET", "/v1/conversations/a").send().status, 404);
    await_no_kv(&hobd);
    assert_eq!(canary_after_stop(hobd, directory.path()), [""; 0]);
}

#[test]
fn a_private_conversation_ends_with_the_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let first = hobd(directory.path());
    say(&first, &secret(), json!({"conversation": "a", "store": false}));
    assert_eq!(canary_after_stop(first, directory.path()), [""; 0]);
    let second = hobd(directory.path());
    assert_eq!(second.client.get("/v1/conversations")["data"], json!([]));
}

#[test]
fn a_stored_conversation_takes_no_private_request() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path());
    say(&hobd, "Hello", json!({"conversation": "a"}));
    let body = chat_body(json!([user(&secret())]), json!({"conversation": "a", "store": false}));
    let refused = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("not_private")));
    assert_eq!(canary_after_stop(hobd, directory.path()), [""; 0]);
}

#[test]
fn kv_with_retention_in_memory_stays_there_and_later_kv_reaches_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path());
    let in_memory = json!({"prompt_cache_key": "app", "prompt_cache_retention": "in_memory"});
    say(&hobd, &secret(), in_memory.clone());
    for other in ["b", "c", "d", "e", "f"] {
        say(&hobd, "Hello", json!({"conversation": other})); // They need its slot.
    }
    let again = say(&hobd, &secret(), in_memory);
    assert!(again["hob"]["tokens"]["memory"].as_u64().unwrap() > 64, "{again}");
    assert_eq!(files_with_canary(&hobd, directory.path()), [""; 0]);

    // The blocks are in memory alone: the next conversation that may save them writes them anew.
    say(&hobd, &secret(), json!({"prompt_cache_key": "app", "prompt_cache_retention": "24h"}));
    let found = canary_after_stop(hobd, directory.path());
    assert!(found.iter().any(|file| file.ends_with(".kv")), "{found:?}");
    let later = self::hobd(directory.path());
    let found = say(&later, &secret(), json!({"prompt_cache_key": "app"}));
    assert!(found["hob"]["tokens"]["computed"].as_u64().unwrap() <= 1, "{found}");
}

#[test]
fn kv_of_completions_with_retention_in_memory_stays_there_too() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path());
    for (route, limit) in [("/v1/completions", "max_tokens"), ("/completion", "n_predict")] {
        let body = json!({
            "prompt": secret(), limit: 1, "prompt_cache_key": "app",
            "prompt_cache_retention": "in_memory",
        });
        hobd.client.post(route, &body);
    }
    assert_eq!(canary_after_stop(hobd, directory.path()), [""; 0]);
}

#[test]
fn typed_words_of_a_private_chat_stay_off_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path());
    let typing = "/v1/conversations/private-1/typing";
    let words = json!({"text": secret(), "hob": {"append": true, "private": true}});
    hobd.client.post(typing, &words);
    wait::until("the words are computed", || {
        let slots = hobd.client.get("/v1/status")["slots"].clone();
        let mut computed = slots.as_array()?.iter().map(|slot| slot["tokens"].as_u64());
        computed.any(|tokens| tokens > Some(100)).then_some(())
    });
    hobd.client.call("DELETE", typing).send();
    for other in ["b", "c", "d", "e", "f"] {
        say(&hobd, "Hello", json!({"conversation": other})); // They need its slot.
    }
    assert_eq!(canary_after_stop(hobd, directory.path()), [""; 0]);
}

#[test]
fn a_private_chat_in_the_terminal_is_gone_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = hobd(directory.path());
    let listed = || hobd.client.get("/v1/conversations")["data"].as_array().unwrap().clone();
    for signal in [None, Some(Signal::TERM)] {
        let mut chat = Terminal::start(directory.path(), &["chat", "--private"]);
        chat.say(&secret());
        let first = listed();
        assert_eq!((first.len(), &first[0]["private"]), (1, &json!(true)), "{first:?}");
        chat.say("And now?");
        assert_eq!(listed()[0]["message_count"], 4, "it is one conversation");
        chat.say("/new\nAnother one");
        let second = listed();
        assert_eq!(second.len(), 1, "the first one is gone: {second:?}");
        assert_ne!(second[0]["id"], first[0]["id"]);
        chat.end(signal);
        wait::until("it is gone", || listed().is_empty().then_some(()));
    }
    assert_eq!(canary_after_stop(hobd, directory.path()), [""; 0]);
}

/// `hob` with pipes, on the directory of a hobd. It is built beside hobd.
struct Terminal {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Terminal {
    fn start(directory: &Path, words: &[&str]) -> Self {
        let hob = Path::new(env!("CARGO_BIN_EXE_hobd")).with_file_name("hob");
        assert!(hob.exists(), "cargo build -p hob-cli");
        let mut command = Launch::new(hob, directory).command();
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (process, input, output) = Process::start_piped(&mut command);
        Self { process, input, output: BufReader::new(output) }
    }

    /// Sends a line, and waits for the line below the answer.
    fn say(&mut self, text: &str) {
        writeln!(self.input, "{text}").unwrap();
        let mut line = String::new();
        while !line.contains("tokens read") && !line.contains("tokens remembered") {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "hob ended");
        }
    }

    /// Ends the input, or sends a signal.
    fn end(mut self, signal: Option<Signal>) {
        match signal {
            Some(signal) => Process::signal(self.process.id(), signal),
            None => drop(self.input),
        }
        let status = wait::until("hob ends", || self.process.exit_status());
        assert_eq!(status.success(), signal.is_none(), "{status}");
    }
}

/// The built hobd with llama.cpp and the bundled model.
#[cfg(feature = "llama")]
#[test]
fn a_private_conversation_on_llama_cpp_is_restored_from_memory_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let launch = launch.args(["--model", "bundled", "--voice-command", "off", "--slots", "2"]);
    let mut hobd = launch.start();
    let tokens = hobd.client.post("/tokenize", &json!({"content": format!(" {CANARY}")}));
    let private = |text: &str| {
        let extra = json!({"conversation": "a", "hob": {"append": true, "private": true}});
        say(&hobd, text, extra)
    };
    let told = private(&secret());
    for other in ["b", "c"] {
        say(&hobd, "Hello", json!({"conversation": other})); // They need its slot.
    }
    let asked = private("What did I tell you?");
    let new = asked["usage"]["prompt_tokens"].as_u64().unwrap()
        - told["usage"]["total_tokens"].as_u64().unwrap();
    assert!(asked["hob"]["tokens"]["memory"].as_u64().unwrap() > 64, "{asked}");
    assert!(asked["hob"]["tokens"]["computed"].as_u64().unwrap() <= new + 1, "{asked}");
    hobd.process.terminate(wait::PATIENCE);
    let files = || {
        let tokens = tokens["tokens"].as_array().unwrap().iter();
        let bytes = tokens.flat_map(|token| (token.as_i64().unwrap() as i32).to_le_bytes());
        files_with(directory.path(), &bytes.collect::<Vec<_>>())
    };
    assert_eq!(files(), [""; 0]);

    let mut again = launch.start();
    assert_eq!(again.client.get("/v1/conversations")["data"].as_array().unwrap().len(), 2);
    say(&again, &secret(), json!({"conversation": "d"}));
    again.process.terminate(wait::PATIENCE);
    assert!(files().iter().any(|file| file.ends_with(".kv")), "the search would find it");
}
