//! `hob.beyond`: a conversation goes on past the context, through hobd on the fake backend, a token a byte.

use std::path::Path;

use hob_testkit::{Hobd, Launch, wait};
use serde_json::{Value, json};

const CTX: u64 = 1280;
const SYSTEM: &str = "You are Ember.";
const FACT: &str = "My locker code is 48213.";

/// A conversation may be as long as its cells, or, with blocks that leave them, as the context.
fn start(directory: &Path, arguments: &[&str]) -> Hobd {
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
    let launch = launch.args(["--model", "fake", "--ctx", &CTX.to_string(), "--slots", "2"]);
    launch.args(["--eviction", "off"]).args(arguments).start()
}

/// With the profile `long`, whose conversations go on past the context.
fn start_with_profile(directory: &Path) -> Hobd {
    let profiles = directory.join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    let segment = "[[segment]]\nlayer = 'rules'\ntext = 'Be kind.'";
    std::fs::write(profiles.join("long.toml"), format!("beyond = 'reanchor'\n{segment}")).unwrap();
    start(directory, &["--profiles-dir", profiles.to_str().unwrap()])
}

/// The conversation `c`, which begins with instructions and a fact.
struct Chat<'d> {
    hobd: Hobd,
    directory: &'d Path,
    hob: Value,
    turns: usize,
}

impl<'d> Chat<'d> {
    fn start(directory: &'d Path) -> Self {
        let hobd = start(directory, &[]);
        let chat = Self { hobd, directory, hob: json!({"beyond": "reanchor"}), turns: 0 };
        let system = json!({"role": "system", "content": SYSTEM});
        let fact = json!({"role": "user", "content": FACT});
        chat.post(&json!([system, fact]), &json!({}));
        chat
    }

    fn restart(&mut self) {
        self.hobd.process.terminate(wait::PATIENCE);
        self.hobd = start(self.directory, &[]);
    }

    fn try_post(&self, messages: &Value, more: &Value) -> hob_testkit::Answer {
        let mut hob = self.hob.clone();
        hob["append"] = true.into();
        hob.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"conversation": "c", "messages": messages, "hob": hob, "temperature": 0,
            "max_tokens": 60});
        self.hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    }

    fn post(&self, messages: &Value, more: &Value) -> Value {
        let answer = self.try_post(messages, more);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    fn ask(&self, text: &str) -> Value {
        self.post(&json!([{"role": "user", "content": text}]), &json!({}))
    }

    /// Says something new, in which each window occurs once.
    fn talk(&mut self) -> Value {
        self.turns += 1;
        let turn = self.turns;
        let words: String = (0..12).map(|n| format!("w{turn}x{n} ")).collect();
        self.ask(&format!("Say this: {words}"))
    }

    /// Talks until a new timeline begins, and checks each answer.
    fn talk_until_reanchored(&mut self) -> Value {
        for _ in 0..20 {
            let answer = self.talk();
            check(&answer);
            if !answer["hob"]["reanchored"].is_null() {
                return answer;
            }
        }
        panic!("no new timeline begins");
    }

    fn messages(&self) -> Vec<Value> {
        let whole = self.hobd.client.get("/v1/conversations/c");
        whole["messages"].as_array().unwrap().clone()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn tokens(answer: &Value, place: &str) -> u64 {
    number(&answer["hob"]["tokens"][place])
}

/// The prompt fits with room for its answer, which is whole, and its tokens add up.
fn check(answer: &Value) {
    assert_eq!(answer["hob"]["context_full"], false, "{answer}");
    let prompt = number(&answer["usage"]["prompt_tokens"]);
    assert!(prompt + 60 <= CTX, "{answer}");
    let places = ["shared", "memory", "disk", "away", "moved", "computed"];
    let sum: u64 = places.iter().map(|place| tokens(answer, place)).sum();
    assert_eq!(prompt, sum, "{answer}");
    assert!(number(&answer["hob"]["cells"]["peak"]) <= CTX, "{answer}");
}

#[test]
fn a_conversation_passes_the_context_again_and_again_and_its_kv_is_moved() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    for round in 0..4 {
        let answer = chat.talk_until_reanchored();
        let reanchored = &answer["hob"]["reanchored"];
        let [kept, left, moved, repaired] =
            ["kept", "left", "moved", "repaired"].map(|field| number(&reanchored[field]));
        assert_eq!(left, number(&answer["hob"]["left_out"]), "{answer}");
        assert_eq!(moved, tokens(&answer, "moved"));
        assert_eq!(repaired, tokens(&answer, "repaired"));
        let prompt = number(&answer["usage"]["prompt_tokens"]);
        assert!(prompt <= CTX / 2, "half of it is free: {answer}");
        assert!(moved > prompt / 2, "round {round}: {answer}");
        assert_eq!(answer["hob"]["explanation"], Value::Null, "{answer}");
        // Whole turns, and the question.
        assert!(kept % 2 == 1 && left.is_multiple_of(2), "{answer}");
        let all = chat.messages().len() as u64;
        assert_eq!(kept + left, all - 2, "all but the instructions and the answer");
        // The next turn goes on with it, also after a restart.
        if round % 2 == 1 {
            chat.restart();
        }
        let next = chat.talk();
        check(&next);
        assert_eq!(next["hob"]["reanchored"], Value::Null);
        assert_eq!(next["hob"]["left_out"], left);
        assert!(tokens(&next, "computed") < 200, "{next}");
    }
    // The text is whole.
    let messages = chat.messages();
    assert_eq!(messages.len(), 3 + 2 * chat.turns);
    assert_eq!(messages[1]["content"], FACT);
}

#[test]
fn without_it_the_conversation_ends_with_the_context() {
    let directory = tempfile::tempdir().unwrap();
    for hob in [json!({}), json!({"beyond": "end"})] {
        let name = if hob == json!({}) { "c1" } else { "c2" };
        let hobd = start(directory.path(), &[]);
        let mut turns = 0;
        let last = loop {
            let mut hob = hob.clone();
            hob["append"] = true.into();
            let words: String = (0..12).map(|n| format!("w{turns}x{n} ")).collect();
            let text = format!("Say this: {words}");
            let body = json!({"conversation": name, "temperature": 0, "hob": hob,
                "messages": [{"role": "user", "content": text}]});
            let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
            if answer.status != 200 {
                break answer.error()["code"].clone();
            }
            let answer = answer.json();
            assert_eq!(answer["hob"]["reanchored"], Value::Null);
            if answer["hob"]["context_full"] == true {
                break answer["choices"][0]["finish_reason"].clone();
            }
            turns += 1;
            assert!(turns < 20);
        };
        assert!(last == "length" || last == "context_length_exceeded", "{last}");
    }
}

#[test]
fn a_later_append_that_does_not_say_so_has_the_same_messages_and_computes_them_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let began = chat.talk_until_reanchored();
    let moved = tokens(&began, "moved");
    assert!(moved > 0, "{began}");
    let question = json!([{"role": "user", "content": "Say this: so far."}]);
    let exact = chat.post(&question, &json!({"beyond": "end"}));
    assert_eq!(exact["hob"]["left_out"], began["hob"]["left_out"], "{exact}");
    assert_eq!(tokens(&exact, "moved"), 0, "{exact}");
    let cached = ["shared", "memory", "disk"].map(|place| tokens(&exact, place));
    let prompt = number(&exact["usage"]["prompt_tokens"]);
    assert!(cached.iter().sum::<u64>() + moved <= prompt, "{exact}");
}

#[test]
fn what_left_comes_back_when_a_question_asks_for_it_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.talk_until_reanchored();
    let other = chat.talk();
    assert_eq!(other["hob"]["recalled"], 0, "{other}");
    let left = number(&other["hob"]["left_out"]);
    chat.restart();

    let asked = chat.ask("What is my locker code?");
    check(&asked);
    assert_eq!(asked["hob"]["recalled"], 2, "the fact and its answer: {asked}");
    assert_eq!(number(&asked["hob"]["left_out"]), left - 2, "{asked}");
    assert_eq!(asked["hob"]["reanchored"], Value::Null);
    let prompt = json!({"conversation": "c", "messages": [], "hob": {"append": true}});
    let text = chat.hobd.client.post("/apply-template", &prompt)["prompt"].clone();
    let text = text.as_str().unwrap();
    assert!(text.contains(&format!("Earlier in this conversation:\n\n{FACT}")), "{text}");

    // It goes on as an exact continuation: what came back is computed no more.
    let next = chat.talk();
    assert_eq!(next["hob"]["recalled"], 0);
    assert!(tokens(&next, "computed") < 200, "{next}");
    let again = chat.ask("Say my locker code.");
    assert_eq!(again["hob"]["recalled"], 0, "it is there: {again}");
}

#[test]
fn what_left_comes_back_with_its_kv_where_it_is_long() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let words: String = (0..16).map(|n| format!("gauge{n} ")).collect();
    chat.ask(&format!("The barometer says: {words}"));
    chat.talk_until_reanchored();
    let asked = chat.ask("What does the barometer say?");
    check(&asked);
    assert_eq!(asked["hob"]["recalled"], 2, "{asked}");
    assert!(tokens(&asked, "moved") > 0, "{asked}");
}

#[test]
fn an_edit_and_another_answer_go_on_in_the_new_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let cut = chat.talk_until_reanchored();
    let left = number(&cut["hob"]["left_out"]);
    let asked = chat.ask("What is my locker code?");
    let prompt = number(&asked["usage"]["prompt_tokens"]);

    let again = chat.post(&json!([]), &json!({}));
    check(&again);
    assert_eq!(number(&again["usage"]["prompt_tokens"]), prompt, "the same question: {again}");
    assert_eq!(again["hob"]["recalled"], 2, "{again}");
    assert!(tokens(&again, "computed") < 64, "{again}");

    let messages = chat.messages();
    let question = messages.iter().rfind(|it| it["role"] == "user").unwrap();
    let edit = json!([{"role": "user", "content": "Thank you so much!"}]);
    let edited = chat.post(&edit, &json!({"after": question["parent"]}));
    check(&edited);
    assert_eq!(edited["hob"]["recalled"], 0, "{edited}");
    assert_eq!(number(&edited["hob"]["left_out"]), left, "{edited}");

    // A branch from before the new timeline has its messages, not those of the other.
    let early = messages[4]["id"].clone();
    let aside = chat.post(&json!([{"role": "user", "content": "Aside"}]), &json!({"after": early}));
    check(&aside);
    assert_eq!(aside["hob"]["left_out"], 0, "{aside}");
}

#[test]
fn a_client_that_sends_the_whole_history_goes_on_in_the_same_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path(), &[]);
    let mut messages = vec![json!({"role": "system", "content": SYSTEM})];
    let (mut timelines, mut left) = (0, 0);
    for turn in 0..24 {
        let words: String = (0..12).map(|n| format!("w{turn}x{n} ")).collect();
        messages.push(json!({"role": "user", "content": format!("Say this: {words}")}));
        let answer = hobd.client.chat(&json!({"conversation": "whole", "messages": messages,
            "temperature": 0, "max_tokens": 60, "hob": {"beyond": "reanchor"}}));
        check(&answer);
        let now_left = number(&answer["hob"]["left_out"]);
        if answer["hob"]["reanchored"].is_null() {
            assert_eq!(now_left, left, "{answer}");
            assert!(turn == 0 || tokens(&answer, "computed") < 200, "{answer}");
        } else {
            timelines += 1;
        }
        left = now_left;
        messages.push(answer["choices"][0]["message"].clone());
    }
    assert!(timelines >= 2, "{timelines}");
    let stored = hobd.client.get("/v1/conversations/whole");
    assert_eq!(stored["messages"].as_array().unwrap().len(), messages.len());
}

#[test]
fn a_long_run_of_calls_keeps_its_question_and_never_splits_a_call_from_its_result() {
    let directory = tempfile::tempdir().unwrap();
    let chat = Chat::start(directory.path());
    chat.ask("Count the lights of the house.");
    for turn in 0..12 {
        let id = format!("call{turn}");
        let call = json!({"id": id, "type": "function",
            "function": {"name": "count", "arguments": format!("{{\"room\": {turn}}}")}});
        let words: String = (0..12).map(|n| format!("r{turn}x{n} ")).collect();
        let messages = json!([
            {"role": "assistant", "content": format!("I count {turn}."), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": words},
        ]);
        let answer = chat.post(&messages, &json!({}));
        check(&answer);
        let request = json!({"conversation": "c", "messages": [], "hob": {"append": true}});
        let text = chat.hobd.client.post("/apply-template", &request)["prompt"].clone();
        let text = text.as_str().unwrap();
        assert!(text.contains("Count the lights of the house."), "{text}");
        for n in 0..=turn {
            let has_call = text.contains(&format!("I count {n}."));
            assert_eq!(has_call, text.contains(&format!("r{n}x0 ")), "{n}: {text}");
        }
    }
    assert!(chat.messages().iter().any(|message| message["starts_prompt"] == true));
}

#[test]
fn pinned_messages_stay_in_every_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let pinned = json!([{"role": "user", "content": "The door is green.", "hob": {"pin": true}}]);
    chat.post(&pinned, &json!({}));
    chat.talk_until_reanchored();
    chat.talk_until_reanchored();
    let request = json!({"conversation": "c", "messages": [], "hob": {"append": true}});
    let text = chat.hobd.client.post("/apply-template", &request)["prompt"].clone();
    let text = text.as_str().unwrap();
    assert!(text.contains("The door is green.") && !text.contains(FACT), "{text}");
    assert!(!text.contains("Earlier in this conversation"), "it is in its place: {text}");
}

#[test]
fn an_export_and_a_fork_go_on_in_the_same_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    chat.talk_until_reanchored();
    let asked = chat.ask("What is my locker code?");
    let (left, prompt) = (&asked["hob"]["left_out"], number(&asked["usage"]["prompt_tokens"]));
    let client = &chat.hobd.client;
    let last = chat.messages().last().unwrap()["id"].clone();
    let fork = client.post("/v1/conversations/c/fork", &json!({"message": last, "id": "fork"}));
    assert_eq!(fork["id"], "fork", "{fork}");
    let document = client.get("/v1/conversations/c/export?format=json");
    client.call("DELETE", "/v1/conversations/c").send();
    client.post("/v1/conversations/import", &document);
    for name in ["c", "fork"] {
        let again = client.chat(&json!({"conversation": name, "messages": [], "temperature": 0,
            "max_tokens": 60, "hob": {"append": true, "beyond": "reanchor"}}));
        assert_eq!(&again["hob"]["left_out"], left, "{name}: {again}");
        assert_eq!(number(&again["usage"]["prompt_tokens"]), prompt, "{name}: {again}");
    }
}

#[test]
fn another_conversation_is_answered_as_if_the_new_timeline_did_not_exist() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let moved = chat.talk_until_reanchored();
    assert!(tokens(&moved, "moved") > 0);
    let request = json!({"conversation": "c", "messages": [], "hob": {"append": true}});
    // The same prompt, of a conversation of its own.
    let messages = chat.messages();
    let start = messages.iter().position(|message| message["starts_prompt"] == true).unwrap();
    let part = |message: &Value| json!({"role": message["role"], "content": message["content"]});
    let last = messages.len() - 1; // The answer.
    let same: Vec<Value> = messages[..1].iter().chain(&messages[start..last]).map(part).collect();
    let text = chat.hobd.client.post("/apply-template", &request)["prompt"].clone();
    assert_eq!(
        chat.hobd.client.post("/apply-template", &json!({"messages": same}))["prompt"],
        text
    );
    let ask = |hob: Value| {
        chat.hobd.client.chat(&json!({"conversation": "other", "messages": same, "temperature": 0,
            "max_tokens": 60, "hob": hob}))
    };
    let exact = ask(json!({}));
    let cold = ask(json!({"cold": true}));
    let content = |answer: &Value| answer["choices"][0]["message"]["content"].clone();
    assert_eq!(content(&exact), content(&cold));
    assert_eq!(tokens(&exact, "moved"), 0);
    let front = tokens(&exact, "shared") + tokens(&exact, "memory") + tokens(&exact, "disk");
    assert!(front < 128, "the instructions at most: {exact}");
}

#[test]
fn a_profile_switches_it_on_and_a_request_comes_first() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start_with_profile(directory.path());
    let say = |name: &str, turn: usize, hob: Value| {
        let words: String = (0..12).map(|n| format!("w{turn}x{n} ")).collect();
        let mut hob = hob;
        hob["append"] = true.into();
        hob["profile"] = "long".into();
        let body = json!({"conversation": name, "temperature": 0, "max_tokens": 60, "hob": hob,
            "messages": [{"role": "user", "content": format!("Say this: {words}")}]});
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    let goes_on = (0..12).all(|turn| say("long", turn, json!({})).status == 200);
    assert!(goes_on);
    let ends = (0..12).any(|turn| say("short", turn, json!({"beyond": "end"})).status == 400);
    assert!(ends);
    for (query, goes_on) in [("?profile=long", true), ("", false)] {
        let used = hobd.client.get(&format!("/v1/conversations/long/context{query}"));
        assert_eq!(used["goes_on"], goes_on, "{used}");
    }

    let refused = |body: &Value| {
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(body).send();
        (answer.status, answer.error()["param"].clone())
    };
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let unknown = json!({"conversation": "x", "messages": messages, "hob": {"beyond": "on"}});
    assert_eq!(refused(&unknown), (400, json!("hob.beyond")));
    let unnamed = json!({"messages": messages, "hob": {"beyond": "reanchor"}});
    assert_eq!(refused(&unnamed), (400, json!("hob.beyond")));
}

#[test]
fn a_profile_falls_back_by_what_its_later_timelines_move_and_computes_them_then() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start_with_profile(directory.path());
    let talk = |turn: usize| {
        let words: String = (0..12).map(|n| format!("w{turn}x{n} ")).collect();
        let messages = json!([{"role": "user", "content": format!("Tell me of {words}")}]);
        let hob = json!({"append": true, "profile": "long"});
        let answer = hobd.client.chat(&json!({"conversation": "c", "messages": messages,
            "hob": hob, "temperature": 0, "max_tokens": 60}));
        check(&answer);
        answer
    };
    let mut turns = 0..200;
    // Four answers are compared at least: the KV of the third timeline and of later ones has been moved before.
    let (mut timelines, mut by_answers, mut by_comparisons) = (0, 0, 0);
    let why = loop {
        let answer = talk(turns.next().expect("the profile falls back"));
        if let Some(why) = answer["hob"]["immovable"].as_str() {
            break why.to_owned();
        }
        by_answers += tokens(&answer, "moved");
        if !answer["hob"]["reanchored"].is_null() {
            timelines += 1;
            assert!(tokens(&answer, "moved") > 0, "{answer}");
        }
        if tokens(&answer, "moved") > 0 {
            by_comparisons =
                wait::until("what the answer has moved is moved to compare it", || {
                    let status = hobd.client.get("/v1/status");
                    let others = number(&status["counters"]["moved_tokens"]) - by_answers;
                    let mut slots = status["slots"].as_array().unwrap().iter();
                    let goes_on = slots.any(|slot| {
                        slot["conversation"].as_str().is_some_and(|it| it.starts_with("compared"))
                    });
                    (others > by_comparisons && !goes_on).then_some(others)
                });
        }
    };
    assert!(timelines > 2 && why.contains("`long`"), "{timelines}: {why}");
    let exact = loop {
        let answer = talk(turns.next().expect("a new timeline begins"));
        assert_eq!((tokens(&answer, "moved"), &answer["hob"]["immovable"]), (0, &json!(why)));
        if !answer["hob"]["reanchored"].is_null() {
            break answer;
        }
    };
    assert_eq!(exact["hob"]["reanchored"]["moved"], 0, "{exact}");
}

#[test]
fn it_is_told_by_explain() {
    let directory = tempfile::tempdir().unwrap();
    let mut chat = Chat::start(directory.path());
    let answer = chat.talk_until_reanchored();
    let asked = chat.ask("What is my locker code?");
    let explained = chat.hobd.client.get("/v1/conversations/c/explain");
    assert_eq!(explained["moves"][0]["recalled"], asked["hob"]["recalled"], "{explained}");
    assert_eq!(explained["moves"][1]["reanchored"], answer["hob"]["reanchored"], "{explained}");
    assert_eq!(explained["explanation"], Value::Null, "{explained}");
}

#[cfg(feature = "llama")]
mod llama {
    use std::path::PathBuf;

    use hob_testkit::gguf::Gguf;

    use super::*;

    /// Of a model that was trained with so little.
    const TRAINED: u32 = 512;

    const BUDGET: u64 = 400;

    /// What the bundled model has an answer to, about anything but the locker.
    const SMALL_TALK: [&str; 10] = [
        "What is the capital of Peru?",
        "What is the capital of France?",
        "What color is the sky?",
        "What is two plus two?",
        "How are you?",
        "What is the opposite of hot?",
        "What color is grass?",
        "What is the capital of Italy?",
        "What is three plus four?",
        "What is the capital of Japan?",
    ];

    fn asset(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets").join(name)
    }

    /// A copy of the bundled model that says that it was trained with [`TRAINED`] tokens.
    fn short_model(directory: &Path) -> PathBuf {
        let model = directory.join("short.gguf");
        let bundled = Gguf::open(&asset("hob-tiny-f16.gguf"));
        bundled.number("llama.context_length", TRAINED).write(&model);
        model
    }

    fn start(directory: &Path, model: &Path) -> Hobd {
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory);
        let launch = launch.args(["--model", model.to_str().unwrap(), "--slots", "1"]);
        launch.args(["--ctx", "1024", "--draft", "off"]).start()
    }

    fn ask(hobd: &Hobd, text: &str, hob: &Value) -> Value {
        let mut hob = hob.clone();
        hob["append"] = true.into();
        let messages = json!([{"role": "user", "content": text}]);
        hobd.client.chat(&json!({"conversation": "c", "messages": messages, "hob": hob,
            "temperature": 0, "max_tokens": 40}))
    }

    fn text(answer: &Value) -> &str {
        answer["choices"][0]["message"]["content"].as_str().unwrap()
    }

    fn check(answer: &Value, budget: u64) {
        assert_eq!(answer["hob"]["context_full"], false, "{answer}");
        assert!(number(&answer["usage"]["prompt_tokens"]) + 40 <= u64::from(TRAINED), "{answer}");
        assert!(number(&answer["hob"]["cells"]["peak"]) <= budget, "{answer}");
    }

    #[test]
    fn the_bundled_model_goes_on_past_what_it_was_trained_with_and_still_knows_the_code() {
        let directory = tempfile::tempdir().unwrap();
        let model = short_model(directory.path());
        for budget in [None, Some(BUDGET)] {
            let data = directory.path().join(format!("data-{budget:?}"));
            std::fs::create_dir_all(&data).unwrap();
            let mut hobd = start(&data, &model);
            let status = hobd.client.get("/v1/status");
            assert_eq!(status["conversation_tokens"], TRAINED, "{status}");
            let hob = match budget {
                Some(budget) => json!({"beyond": "reanchor", "budget": budget}),
                None => json!({"beyond": "reanchor"}),
            };
            let cells = budget.unwrap_or(1024);
            check(&ask(&hobd, FACT, &hob), cells);
            let (mut timelines, mut moved) = (0, 0);
            for round in 0..4 {
                for question in SMALL_TALK {
                    let answer = ask(&hobd, question, &hob);
                    check(&answer, cells);
                    if !answer["hob"]["reanchored"].is_null() {
                        timelines += 1;
                        moved += tokens(&answer, "moved");
                        assert_eq!(answer["hob"]["immovable"], Value::Null, "{answer}");
                    }
                }
                if round == 2 {
                    hobd.process.terminate(wait::PATIENCE);
                    hobd = start(&data, &model);
                }
            }
            // The questions are short, and what comes back for them stands between: some timelines have
            // no text that is long enough to move.
            assert!(timelines >= 3 && moved > 256, "{moved} tokens into {timelines} timelines");
            let answer = ask(&hobd, "What is my locker code?", &hob);
            check(&answer, cells);
            assert_eq!(answer["hob"]["recalled"], 2, "{answer}");
            assert!(text(&answer).contains("48213"), "{answer}");
        }
    }

    #[test]
    fn without_it_a_conversation_passes_its_cells_and_ends_with_what_the_model_was_trained_with() {
        const CELLS: u64 = 400;
        let trained = u64::from(TRAINED);
        let directory = tempfile::tempdir().unwrap();
        let model = short_model(directory.path());
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let launch = launch.args(["--model", model.to_str().unwrap(), "--slots", "1"]);
        let hobd = launch.args(["--ctx", &CELLS.to_string()]).start();
        let status = hobd.client.get("/v1/status");
        assert_eq!(status["conversation_tokens"], TRAINED, "{status}");
        let body = |turn: usize, max_tokens: Option<u64>| {
            let question = SMALL_TALK[turn % SMALL_TALK.len()];
            // Past end tokens, so that each answer has as many tokens as it may.
            json!({"conversation": "c", "messages": [{"role": "user", "content": question}],
                "hob": {"append": true}, "temperature": 0, "max_tokens": max_tokens,
                "ignore_eos": true})
        };
        let total = |answer: &Value| number(&answer["usage"]["total_tokens"]);
        let mut answers: Vec<Value> = Vec::new();
        while answers.last().is_none_or(|last| total(last) <= CELLS) {
            let answer = hobd.client.chat(&body(answers.len(), Some(20)));
            assert_eq!(answer["hob"]["context_full"], false, "{answer}");
            answers.push(answer);
        }
        answers.push(hobd.client.chat(&body(answers.len(), None)));
        for answer in &answers {
            let cells = &answer["hob"]["cells"];
            assert_eq!(cells["budget"], CELLS, "{answer}");
            assert!(number(&cells["peak"]) <= CELLS, "{answer}");
            assert_eq!(cells["no_eviction"], Value::Null, "{answer}");
        }
        let last = answers.last().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "length", "{last}");
        assert_eq!(last["hob"]["context_full"], true, "{last}");
        assert_eq!(total(last), trained, "{last}");
        let away = last["hob"]["cells"]["away"].as_array().unwrap();
        let away: u64 = away.iter().map(|part| number(&part["tokens"])).sum();
        assert!(away >= trained - 1 - CELLS, "{last}");

        let next = body(answers.len(), Some(20));
        let refused = hobd.client.call("POST", "/v1/chat/completions").json(&next).send();
        assert_eq!(refused.status, 400, "{}", refused.text());
        let error = refused.error();
        assert_eq!(error["code"], "context_length_exceeded", "{error}");
        assert_eq!(error["n_ctx"], TRAINED, "{error}");
    }

    #[test]
    fn a_sliding_window_computes_its_new_timeline_and_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let model = asset("fixtures/gemma3.gguf");
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let hobd = launch
            .args(["--model", model.to_str().unwrap(), "--slots", "1", "--ctx", "512"])
            .start();
        let hob = json!({"beyond": "reanchor"});
        let timelines: Vec<Value> = (0..48)
            .map(|turn| {
                let text = format!("{turn}. {}", SMALL_TALK[turn % SMALL_TALK.len()]);
                let answer = ask(&hobd, &text, &hob);
                assert_eq!(answer["hob"]["context_full"], false, "{answer}");
                answer
            })
            .filter(|answer| !answer["hob"]["reanchored"].is_null())
            .collect();
        assert!(timelines.len() >= 2, "{}", timelines.len());
        for answer in timelines {
            assert_eq!(tokens(&answer, "moved"), 0, "{answer}");
            let why = answer["hob"]["immovable"].as_str().unwrap();
            assert!(why.contains("sliding-window"), "{why}");
        }
    }
}
