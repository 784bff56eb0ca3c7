//! `hob.budget` and what moved, over HTTP, on the fake backend: a token a byte.

use std::fs;
use std::path::Path;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};

use crate::common::chat_body;

pub const BUDGET: u64 = 400;

pub fn start(directory: &Path) -> Hobd {
    start_with(directory, &[])
}

pub fn start_with(directory: &Path, arguments: &[&str]) -> Hobd {
    let profiles = directory.join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    let segment = "[[segment]]\nlayer = 'rules'\ntext = 'Be kind.'";
    fs::write(profiles.join("tight.toml"), format!("budget = 2\n{segment}")).unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    let launch = launch.args(["--model", "fake", "--ctx", "4096", "--slots", "2"]);
    launch.args(["--profiles-dir"]).args([&profiles]).args(arguments).start()
}

#[test]
fn a_budget_of_the_request_or_else_of_its_profile_reaches_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let ask = |hob: Value| {
        let messages = json!([{"role": "user", "content": "Hello"}]);
        let body = chat_body(messages, json!({"hob": hob}));
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    for (hob, remedy) in [
        (json!({"budget": 2}), "raise `hob.budget`, or leave it out"),
        (json!({"profile": "tight"}), "the profile `tight` sets it"),
    ] {
        let answer = ask(hob.clone());
        assert_eq!(answer.status, 400, "{hob}: {}", answer.text());
        let error = answer.error();
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!("budget_too_small"), &json!("hob.budget"))
        );
        let message = error["message"].as_str().unwrap();
        for part in [
            "a budget of 2 cells is too small: ",
            " of attention sinks, ",
            " of protected parts, ",
            " of the recent tail and a micro-batch of 1 need ",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(message.ends_with(remedy), "{message}");
    }
    let hob = json!({"profile": "tight", "budget": BUDGET});
    assert_eq!(ask(hob).status, 200, "the request's budget comes first");
}

#[test]
fn instructions_that_do_not_fit_the_cache_are_refused_at_once_with_what_needs_how_much() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let hobd = launch.args(["--model", "fake", "--ctx", "512", "--slots", "1"]).start();
    let messages = json!([
        {"role": "system", "content": "word ".repeat(120)}, {"role": "user", "content": "Hello"},
    ]);
    for hob in [json!({}), json!({"budget": 400}), json!({"budget": 10_000})] {
        let body = chat_body(messages.clone(), json!({"hob": hob}));
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(answer.status, 400, "{hob}: {}", answer.text());
        let error = answer.error();
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!("context_length_exceeded"), &json!("messages")),
            "{hob}"
        );
        let message = error["message"].as_str().unwrap();
        for part in [
            "This model's maximum context length is 512 tokens. However, your messages resulted in ",
            "a cache of 512 cells is too small: 64 of attention sinks, ",
            " of protected parts, ",
            " of the recent tail and a micro-batch of 64 need ",
            "start with a larger --ctx",
        ] {
            assert!(message.contains(part), "{hob}: {message}");
        }
    }
}

#[test]
fn a_completion_may_have_more_tokens_than_the_cache_has_cells() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let hobd = launch.args(["--model", "fake", "--ctx", "512", "--slots", "1"]).start();
    for (key, budget, cells) in
        [(Value::Null, None, 512), (json!("story"), None, 512), (Value::Null, Some(300), 300)]
    {
        let body = json!({"prompt": "Once upon a time", "conversation": key, "temperature": 0,
            "max_tokens": 700, "ignore_eos": true, "hob": {"budget": budget}});
        let answer = hobd.client.post("/v1/completions", &body);
        assert_eq!(answer["usage"]["completion_tokens"], 700, "{answer}");
        assert_eq!(answer["hob"]["context_full"], false, "{answer}");
        assert_eq!(answer["hob"]["cells"]["budget"], cells, "{answer}");
        assert!(answer["hob"]["cells"]["peak"].as_u64().unwrap() <= cells, "{answer}");
    }
}

#[test]
fn a_budget_does_not_count_where_eviction_is_off_and_the_answer_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start_with(directory.path(), &["--eviction", "off"]);
    let ask = |hob: Value| {
        let messages = json!([{"role": "user", "content": "Hello"}]);
        let answer = hobd.client.chat(&chat_body(messages, json!({"hob": hob})));
        answer["hob"]["cells"].clone()
    };
    for hob in [json!({"budget": 2}), json!({"budget": BUDGET}), json!({"profile": "tight"})] {
        let cells = ask(hob.clone());
        assert_eq!(cells["budget"], 4096, "{hob}: {cells}");
        assert_eq!(cells["no_eviction"]["reason"], "off", "{hob}: {cells}");
        let remedy = cells["no_eviction"]["remedy"].as_str().unwrap();
        assert!(remedy.starts_with("set `eviction` to restore"), "{remedy}");
    }
    assert_eq!(ask(json!({}))["no_eviction"], Value::Null, "no budget was asked for");
}

/// Says so much that parts of the conversation leave, and then a word of the first message.
pub fn outgrow(hobd: &Hobd, hob: &Value) -> Vec<Value> {
    let say = |text: String, label: Value| {
        let message = json!({"role": "user", "content": text, "hob": label});
        let extra = json!({"conversation": "chat", "hob": {"append": true, "budget": BUDGET}});
        let body = chat_body(json!([message]), extra);
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let mut answers =
        vec![say("The word is aardvark, says the first message.".into(), hob.clone())];
    for n in 0..12 {
        answers.push(say(format!("Question {n} is about number {} alone.", n * 7919), json!({})));
    }
    answers.push(say("What was it about the aardvark?".into(), json!({})));
    answers
}

pub fn moved<'a>(answers: &'a [Value], way: &str) -> Vec<&'a Value> {
    let all = answers.iter().flat_map(|answer| answer["hob"]["moved"].as_array().unwrap());
    all.filter(|moved| moved["way"] == way).collect()
}

#[test]
fn an_answer_says_what_left_the_cells_and_what_came_back() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path());
    let answers = outgrow(&hobd, &json!({"key": "the first"}));
    for answer in &answers {
        let hob = &answer["hob"];
        let tokens = hob["tokens"].as_object().unwrap();
        let sum: u64 = tokens.values().map(|tokens| tokens.as_u64().unwrap()).sum();
        assert_eq!(sum, answer["usage"]["prompt_tokens"], "{hob}");
        assert_eq!(hob["cells"]["budget"], BUDGET, "{hob}");
        assert!(hob["cells"]["peak"].as_u64().unwrap() <= BUDGET, "{hob}");
        assert!(hob["cells"]["resident"].as_u64() <= hob["cells"]["peak"].as_u64(), "{hob}");
        assert_eq!(hob["explanation"], Value::Null, "what is away is not computed again: {hob}");
    }
    let (last_answer, last) = (answers.last().unwrap(), &answers.last().unwrap()["hob"]);
    let away = last["cells"]["away"].as_array().unwrap();
    let away_tokens: u64 = away.iter().map(|part| part["tokens"].as_u64().unwrap()).sum();
    let resident = last["cells"]["resident"].as_u64().unwrap();
    // The last token has no cell yet.
    assert_eq!(away_tokens + resident + 1, last_answer["usage"]["total_tokens"], "{last_answer}");
    let mut messages = 0;
    for part in away {
        let number = part["key"].as_str().and_then(|key| key.strip_prefix("message "));
        if let Some(number) = number.map(|number| number.parse::<u64>().unwrap()) {
            assert_eq!(part["messages_behind"], 27 - number, "{away:?}");
            messages += 1;
        }
    }
    assert!(messages > 0, "{away:?}");
    assert!(last["tokens"]["away"].as_u64().unwrap() > 0, "{last}");
    let out = moved(&answers, "out");
    assert!(out.iter().all(|moved| moved["why"] == "budget"), "{out:?}");
    assert!(out.iter().any(|moved| moved["key"] == "message 3"), "{out:?}");

    let page = hobd.client.get_text("/metrics");
    let count = |line: &str| {
        let found = page.lines().find_map(|found| found.strip_prefix(line));
        found.unwrap_or_else(|| panic!("{line} in {page}")).trim().parse::<u64>().unwrap()
    };
    let tokens =
        |moved: &[&Value]| moved.iter().map(|moved| moved["tokens"].as_u64().unwrap()).sum::<u64>();
    // An answer does not name what left and came back within it.
    let within = count("hob_tokens_moved_total{way=\"out\"}") - tokens(&out);
    let back = count("hob_tokens_moved_total{way=\"back\"}");
    assert_eq!(back, tokens(&moved(&answers, "back")) + within);
    assert!(count("hob_blocks_moved_total{way=\"out\"}") > 0);
    assert!(count("hob_recall_blocks_indexed_total{when=\"ahead\"}") > 0);
    assert!(count("hob_conversation_cells_peak") <= BUDGET);

    let stored = hobd.client.get("/v1/conversations/chat");
    let answer = stored["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(answer["finish"]["hob"]["moved"], last["moved"], "it is stored");

    let status = hobd.client.get("/v1/status");
    assert_eq!(status["slots"][0]["away_tokens"], away_tokens, "{status}");
    let blocks = |way: &str| count(&format!("hob_blocks_moved_total{{way=\"{way}\"}}"));
    let counters = &status["counters"];
    assert_eq!(counters["blocks_out"], blocks("out"), "{counters}");
    assert_eq!(counters["blocks_back"], blocks("back"), "{counters}");

    let explained = hobd.client.get("/v1/conversations/chat/explain");
    assert_eq!(explained["explanation"], Value::Null, "{explained}");
    let moves = explained["moves"].as_array().unwrap();
    assert!((4..=8).contains(&moves.len()), "{explained}");
    assert_eq!(moves[0]["question"], "What was it about the aardvark?");
    assert_eq!((&moves[0]["moved"], &moves[0]["cells"]), (&last["moved"], &last["cells"]));
    assert_eq!(moves[0]["away_tokens"], last["tokens"]["away"]);
}

/// Its tokens, and how many of them left when it first did.
fn of_message_3(hobd: &Hobd, answers: &[Value]) -> (u64, u64) {
    let is_it = |part: &Value| part["key"] == "message 3";
    let map = hobd.client.get("/v1/memory/map");
    let blocks = map["slots"][0]["blocks"].as_array().unwrap();
    let block = blocks.iter().find(|block| is_it(block)).unwrap();
    let tokens = block["end"].as_u64().unwrap() - block["start"].as_u64().unwrap();
    let out = moved(answers, "out").into_iter().find(|moved| is_it(moved)).unwrap();
    (tokens, out["tokens"].as_u64().unwrap())
}

#[test]
fn with_breadcrumbs_the_beginnings_of_what_left_stay_and_nothing_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start_with(directory.path(), &["--eviction", "breadcrumb"]);
    let answers = outgrow(&hobd, &json!({"key": "the first"}));
    for answer in &answers {
        let hob = &answer["hob"];
        let tokens = hob["tokens"].as_object().unwrap();
        let sum: u64 = tokens.values().map(|tokens| tokens.as_u64().unwrap()).sum();
        assert_eq!(sum, answer["usage"]["prompt_tokens"], "{hob}");
        assert!(hob["cells"]["peak"].as_u64().unwrap() <= BUDGET, "{hob}");
    }
    assert!(moved(&answers, "back").is_empty());
    let (tokens, left) = of_message_3(&hobd, &answers);
    assert_eq!(left, tokens - 12, "its first 12 stay at first");
}

#[test]
fn what_is_discarded_leaves_whole_and_nothing_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start_with(directory.path(), &["--eviction", "discard"]);
    let answers = outgrow(&hobd, &json!({"key": "the first"}));
    assert!(moved(&answers, "back").is_empty());
    let (tokens, left) = of_message_3(&hobd, &answers);
    assert_eq!(left, tokens);
    let last = &answers.last().unwrap()["hob"];
    assert!(last["tokens"]["away"].as_u64().unwrap() >= tokens, "{last}");
    assert!(last["cells"]["peak"].as_u64().unwrap() <= BUDGET, "{last}");
}

#[test]
fn what_was_away_stays_away_over_a_restart_and_comes_back_when_it_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = start(directory.path());
    let before = outgrow(&hobd, &json!({"key": "the first"}));
    let away = &before.last().unwrap()["hob"]["cells"]["away"];
    assert!(!away.as_array().unwrap().is_empty());
    hobd.process.terminate(wait::PATIENCE);

    let hobd = start(directory.path());
    let say = |text: &str| {
        let message = json!({"role": "user", "content": text});
        let extra = json!({"conversation": "chat", "hob": {"append": true, "budget": BUDGET}});
        hobd.client.chat(&chat_body(json!([message]), extra))
    };
    let answer = say("Go on.");
    let tokens = &answer["hob"]["tokens"];
    assert!(tokens["away"].as_u64().unwrap() > 100, "the holes are not filled: {answer}");
    assert!(tokens["disk"].as_u64().unwrap() > 100, "what has cells is read: {answer}");
    assert!(tokens["computed"].as_u64().unwrap() < 100, "nothing is read again: {answer}");
    assert!(answer["hob"]["cells"]["peak"].as_u64().unwrap() <= BUDGET, "{answer}");

    let answer = say("What was question 2 about, the one about number 15838?");
    let back = moved(std::slice::from_ref(&answer), "back");
    assert!(
        back.iter().any(|moved| moved["why"] == "mention" || moved["why"] == "words"),
        "{answer}"
    );
    assert!(answer["hob"]["tokens"]["computed"].as_u64().unwrap() < 150, "{answer}");
    wait::until("what is beside it is read ahead of the next question", || {
        let page = hobd.client.get_text("/metrics");
        let mut lines = page.lines();
        let bytes = lines.find_map(|it| it.strip_prefix("hob_disk_read_ahead_bytes_total "))?;
        (bytes.parse::<u64>().unwrap() > 0).then_some(())
    });
}

#[test]
fn a_message_longer_than_its_budget_or_than_the_cache_is_taken_in() {
    for (cells, budget) in [("4096", json!(BUDGET)), ("512", Value::Null)] {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let hobd = launch.args(["--model", "fake", "--ctx", cells, "--slots", "1"]).start();
        let text: String = (0..400).map(|n| format!("word{n} ")).collect();
        let extra = json!({"conversation": "chat", "hob": {"budget": budget}});
        let messages = json!([{"role": "user", "content": text}]);
        let answer = hobd.client.chat(&chat_body(messages, extra));
        let hob = &answer["hob"];
        let [most, peak] = ["budget", "peak"].map(|it| hob["cells"][it].as_u64().unwrap());
        assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 5 * most, "{answer}");
        assert!(peak <= most, "{answer}");
        let map = hobd.client.get("/v1/memory/map");
        let blocks = map["slots"][0]["blocks"].as_array().unwrap();
        let away: Vec<bool> = blocks.iter().map(|block| block["origin"] == "away").collect();
        let stay = (away.first(), away.last());
        assert_eq!(stay, (Some(&false), Some(&false)), "its sinks and its end: {map}");
        assert!(away.iter().filter(|away| **away).count() > away.len() / 2, "{map}");
    }
}

#[test]
fn an_idle_conversation_is_parked_before_parts_of_another_leave() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
    let hobd = launch.args(["--model", "fake", "--ctx", "640", "--slots", "2"]).start();
    let say = |conversation: &str, text: &str| {
        let messages = json!([{"role": "user", "content": text}]);
        let extra = json!({"conversation": conversation, "hob": {"append": true}});
        hobd.client.chat(&chat_body(messages, extra))
    };
    say("idle", &"It is late. ".repeat(25));
    let other = say("other", &"It is early. ".repeat(34));
    let status = hobd.client.get("/v1/status");
    assert_eq!(status["counters"]["blocks_out"], 0, "{status}");
    assert_eq!(status["parked"][0]["conversation"], "idle", "{status}");
    for answer in [other, say("idle", "Go on.")] {
        assert_eq!(answer["hob"]["tokens"]["away"], 0, "{answer}");
        assert_eq!(answer["hob"]["cells"]["away"], json!([]), "{answer}");
    }
}
