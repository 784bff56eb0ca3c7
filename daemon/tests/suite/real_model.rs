//! A fetched model of a hundred million parameters: what a user would notice.
//!
//! - Every test skips itself where no model was fetched.
//! - Answers are compared token by token, at temperature 0, with the answer to the same question
//!   before the interruption.

#![cfg(feature = "llama")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use hob_testkit::{Hobd, Launch, real_model, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::computed;

const CTX: &str = "8192";
const MAX_TOKENS: u32 = 20;

#[test]
fn a_conversation_resumes_token_exact_after_a_restart_and_after_a_kill() {
    let Some(mut world) = World::new("a_conversation_resumes_token_exact", &[]) else { return };
    world.say("locker", "My locker code is 48213. Please remember it.");
    world.say("locker", "What is the capital of France?");
    let parent = world.last_message("locker");
    let before = world.say("locker", "What is my locker code?");
    let saved = before["usage"]["total_tokens"].as_u64().unwrap();
    for kill in [false, true] {
        world.until_saved("locker", saved);
        if kill {
            world.kill()
        } else {
            world.restart()
        }
        let again = world.say_after("locker", &parent, "What is my locker code?");
        assert_eq!(tokens_of(&again), tokens_of(&before), "kill: {kill}");
        assert!(again["hob"]["tokens"]["disk"].as_u64() > Some(64), "{}", again["hob"]);
        assert!(computed(&again) < 40, "only the question: {}", again["hob"]);
        assert_eq!(again["hob"]["miss"], Value::Null);
    }
}

#[test]
fn two_conversations_that_take_turns_in_one_slot_answer_as_each_does_alone() {
    // Micro-batches of two conversations would round differently, so each turn runs alone.
    let one_slot = ["--slots", "1"];
    let Some(world) = World::new("two_conversations_that_take_turns", &one_slot) else { return };
    let says = |name: &str, code: u32| {
        [
            format!("My name is {name} and my locker code is {code}."),
            "What is the capital of France?".to_owned(),
            "What is my locker code?".to_owned(),
        ]
    };
    let talks = [("ann", says("Ann", 48213)), ("bob", says("Bob", 90577))];
    let mut in_turn = [Vec::new(), Vec::new()];
    for turn in 0..3 {
        for ((id, texts), answers) in talks.iter().zip(&mut in_turn) {
            let answer = world.say(id, &texts[turn]);
            let said = answer["choices"][0]["message"]["content"].as_str().unwrap();
            let other = if *id == "ann" { ["Bob", "90577"] } else { ["Ann", "48213"] };
            assert!(other.iter().all(|word| !said.contains(word)), "{id}: {said}");
            answers.push(tokens_of(&answer));
        }
    }
    for ((id, texts), in_turn) in talks.iter().zip(in_turn) {
        let name = format!("{id} alone");
        let alone: Vec<_> = texts.iter().map(|text| tokens_of(&world.say(&name, text))).collect();
        assert_eq!(in_turn, alone, "{id}");
    }
}

#[test]
fn both_branches_of_a_chat_come_back_after_a_restart() {
    let Some(mut world) = World::new("both_branches_of_a_chat", &[]) else { return };
    world.say("fork", "I am going to bake bread for my friends. Tell me what I need.");
    let parent = world.last_message("fork");
    let questions = ["Which flour is best?", "How hot must the oven be?"];
    let before = questions.map(|question| world.say_after("fork", &parent, question));
    assert_ne!(tokens_of(&before[0]), tokens_of(&before[1]));
    for (question, before) in questions.iter().zip(before) {
        // Each branch in cells of its own: cells in another order are summed in another order, and
        // the rounding of quantised weights decides between words that are nearly as likely.
        world.restart();
        let again = world.say_after("fork", &parent, question);
        assert_eq!(tokens_of(&again), tokens_of(&before), "{question}");
        assert!(computed(&again) < 40, "{question}: {}", again["hob"]);
    }
}

#[test]
fn a_profile_is_warm_at_boot_and_the_first_question_computes_only_itself() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = directory.path().join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    let rules = "Answer in one short sentence. Be kind, and say when you do not know. ".repeat(20);
    let profile = format!("[[segment]]\nlayer = 'rules'\ntext = '{rules}'\n");
    fs::write(profiles.join("default.toml"), profile).unwrap();
    let flags = ["--profiles-dir".to_owned(), profiles.display().to_string()];
    let flags = flags.each_ref().map(String::as_str);
    let Some(mut world) = World::new("a_profile_is_warm_at_boot", &flags) else { return };
    for (boot, origin) in [("first", "computed"), ("second", "disk")] {
        let prefix = world.until_warm();
        assert_eq!(prefix["how"], origin, "{boot} boot: {prefix}");
        let length = prefix["tokens"].as_u64().unwrap();
        assert!(length > 300, "{prefix}");
        let answer = world.ask(&json!({
            "conversation": boot, "hob": {"profile": "default"},
            "messages": [{"role": "user", "content": "Is the sea salty?"}],
        }));
        assert!(computed(&answer) < 40, "{boot} boot: {}", answer["hob"]);
        assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > length);
        world.restart();
    }
}

#[test]
fn an_unloaded_model_comes_back_with_its_conversations() {
    let Some(world) = World::new("an_unloaded_model", &["--unload-after", "1s"]) else { return };
    world.say("locker", "My locker code is 48213. Please remember it.");
    let parent = world.last_message("locker");
    let before = world.say("locker", "What is my locker code?");
    wait::until("the weights are freed", || {
        (world.hobd.client.get("/v1/status")["residency"] == "unloaded").then_some(())
    });
    let again = world.say_after("locker", &parent, "What is my locker code?");
    assert_eq!(tokens_of(&again), tokens_of(&before));
    assert!(computed(&again) < 40, "{}", again["hob"]);
}

#[test]
fn a_chat_of_4000_tokens_computes_only_the_question_after_a_restart() {
    let Some(mut world) = World::new("a_chat_of_4000_tokens", &[]) else { return };
    world.say("long", "My locker code is 48213. I will now read you a story.");
    let mut tokens = 0;
    for part in 0.. {
        let answer = world.say("long", &story(part));
        tokens = answer["usage"]["total_tokens"].as_u64().unwrap();
        if tokens >= 4000 {
            break;
        }
    }
    let parent = world.last_message("long");
    let before = world.say("long", "Who is the story about?");
    world.restart();
    let again = world.say_after("long", &parent, "Who is the story about?");
    assert_same_up_to_a_near_tie(&before, &again);
    assert!(computed(&again) < 40, "{}", again["hob"]);
    let disk = again["hob"]["tokens"]["disk"].as_u64().unwrap();
    assert!(disk + 80 > tokens, "{tokens} tokens: {}", again["hob"]);
}

/// The file's weights are quantised, so that rows round by their number: an answer may go on otherwise where two
/// tokens are nearly as likely, and nowhere else.
#[test]
fn answers_with_drafts_are_those_without_up_to_near_ties() {
    let answers = |draft: &str| {
        let world = World::new("answers_with_drafts", &["--draft", draft])?;
        let ask = |part: usize| {
            let text = format!("{}Repeat this word for word.", story(part));
            world.ask(&json!({"messages": [{"role": "user", "content": text}]}))
        };
        let answers: Vec<Value> = (0..6).map(ask).collect();
        let status = world.hobd.client.get("/v1/status");
        Some((answers, status["counters"]["accepted_tokens"].as_u64().unwrap()))
    };
    let Some((expected, none)) = answers("off") else { return };
    let (seen, accepted) = answers("auto").unwrap();
    assert!(none == 0 && accepted > 0, "{none}, {accepted}");
    expected.iter().zip(&seen).for_each(|(one, other)| assert_same_up_to_a_near_tie(one, other));
}

/// About 170 tokens, different for each part: short, so that no request takes long.
fn story(part: usize) -> String {
    let animals = ["fox", "owl", "bear", "hare", "crow", "wolf", "frog"];
    let animal = animals[part % animals.len()];
    let sentence = |n: usize| {
        format!(
            "On day {n} of part {part} the {animal} walked {} miles to the river. ",
            n * 3 + part
        )
    };
    (1..=8).map(sentence).collect()
}

/// Asserts that the answers are equal up to a token that rounding could choose: restored cells may be
/// summed in another order, see docs/LLAMA_CPP.md.
fn assert_same_up_to_a_near_tie(before: &Value, again: &Value) {
    const NEAR: f64 = 0.3; // Rounding moves a log probability by up to 0.1 here.
    let tokens = |answer: &Value| answer["choices"][0]["logprobs"]["content"].clone();
    let (before, again) = (tokens(before), tokens(again));
    let (before, again) = (before.as_array().unwrap(), again.as_array().unwrap());
    let differs = |(a, b): (&Value, &Value)| a["bytes"] != b["bytes"];
    let Some(at) = before.iter().zip(again).position(differs) else {
        return assert_eq!(before.len(), again.len());
    };
    let likely = before[at]["top_logprobs"].as_array().unwrap();
    let chosen = likely.iter().find(|token| token["bytes"] == again[at]["bytes"]);
    let chosen = chosen.unwrap_or_else(|| panic!("token {at}: {} {}", before[at], again[at]));
    let margin = before[at]["logprob"].as_f64().unwrap() - chosen["logprob"].as_f64().unwrap();
    assert!(margin < NEAR, "token {at}: {} {}", before[at], again[at]);
}

/// The machine, for one test at a time: beside five more hobds with a thread a core each, llama.cpp's
/// threads wait for each other, and a request took over 60 s that alone takes 2 s.
static MACHINE: Mutex<()> = Mutex::new(());

/// A hobd with the fetched model.
struct World {
    hobd: Hobd,
    launch: Launch,
    _directory: TempDir,
    _machine: MutexGuard<'static, ()>,
}

impl World {
    /// `None` where no model was fetched.
    fn new(test: &str, flags: &[&str]) -> Option<Self> {
        let model: PathBuf = real_model(test)?;
        // A test that failed holds nothing that the next one needs.
        let machine = MACHINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let no_profiles: &Path = &directory.path().join("none");
        let launch = launch.args(["--ctx", CTX, "--log", "warn"]);
        let launch = if flags.contains(&"--draft") {
            launch.ignoring_time() // Or a slow machine would draft nothing.
        } else {
            // llama.cpp rounds by the number of rows, which with drafts depends on measured times.
            launch.args(["--draft", "off"])
        };
        let launch = launch.args(["--model".as_ref(), model.as_os_str()]);
        let launch = if flags.contains(&"--profiles-dir") {
            launch
        } else {
            launch.args(["--profiles-dir".as_ref(), no_profiles.as_os_str()])
        };
        let launch = launch.args(flags.iter().copied());
        Some(Self { hobd: launch.start(), launch, _directory: directory, _machine: machine })
    }

    fn ask(&self, body: &Value) -> Value {
        let mut body = body.clone();
        body["temperature"] = 0.into();
        body["max_tokens"] = MAX_TOKENS.into();
        body["logprobs"] = true.into();
        body["top_logprobs"] = 5.into(); // Three tokens may be as near to each other as rounding.
        self.hobd.client.chat(&body)
    }

    fn say(&self, conversation: &str, text: &str) -> Value {
        self.append(conversation, &json!({"append": true}), text)
    }

    /// A new branch behind the message `parent`.
    fn say_after(&self, conversation: &str, parent: &Value, text: &str) -> Value {
        self.append(conversation, &json!({"append": true, "after": parent}), text)
    }

    fn append(&self, conversation: &str, hob: &Value, text: &str) -> Value {
        self.ask(&json!({
            "conversation": conversation, "hob": hob,
            "messages": [{"role": "user", "content": text}],
        }))
    }

    /// The id of the last message.
    fn last_message(&self, conversation: &str) -> Value {
        self.hobd.client.get(&format!("/v1/conversations/{conversation}"))["head"].clone()
    }

    /// Waits until this many tokens are on disk; the last one or two of an answer are not computed.
    fn until_saved(&self, conversation: &str, tokens: u64) {
        wait::until("the KV is on disk", || {
            let slots = self.hobd.client.get("/v1/slots");
            let row =
                slots["data"].as_array()?.iter().find(|row| row["conversation"] == conversation);
            (row?["tokens"].as_u64()? + 2 >= tokens).then_some(())
        });
    }

    /// The row of the default profile, once it is warm.
    fn until_warm(&self) -> Value {
        wait::until("the profile is warm", || {
            let status = self.hobd.client.get("/v1/status");
            let row = status["prefixes"].as_array()?.iter().find(|row| row["profile"] == "default");
            row.filter(|row| row["state"] == "warm").cloned()
        })
    }

    fn restart(&mut self) {
        self.hobd.process.terminate(wait::PATIENCE);
        self.hobd = self.launch.start();
    }

    fn kill(&mut self) {
        self.hobd.process.kill();
        self.hobd = self.launch.start();
    }
}

/// The generated tokens, as texts.
fn tokens_of(answer: &Value) -> Vec<Value> {
    let content = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert!(!content.is_empty(), "{answer}");
    content.iter().map(|token| token["bytes"].clone()).collect()
}
