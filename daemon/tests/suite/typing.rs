//! Typing ahead: the words that are hot when the user presses Enter.

use std::time::Duration;

use hob_prewarm::Battery;
use serde_json::{Value, json};

use crate::common::{Plan, World, user};

/// Tokens that the fake model's template writes behind a user message and before the answer:
/// `<|im_end|>\n<|im_start|>assistant\n`.
const END: usize = 13;

fn typed_in(world: &World, id: &str, text: &str, options: Value) -> Value {
    let mut body = options;
    body["text"] = text.into();
    let answer = world.post(&format!("/v1/conversations/{id}/typing"), body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn typed(world: &World, id: &str, text: &str) -> Value {
    typed_in(world, id, text, json!({}))
}

fn append(id: &str) -> Value {
    json!({"conversation": id, "hob": {"append": true}})
}

fn computed(answer: &Value) -> usize {
    answer["hob"]["tokens"]["computed"].as_u64().unwrap() as usize
}

/// Types `text` word by word; each prefill is complete before the next word.
fn type_words(world: &World, id: &str, text: &str) {
    let hot = world.ahead("hot");
    let ends: Vec<usize> = text.match_indices(' ').map(|(at, _)| at + 1).collect();
    for (count, end) in (1..).zip(ends) {
        assert_eq!(typed(world, id, &text[..end])["ahead"], true);
        world.until("the word is hot", |world| world.ahead("hot") >= hot + count);
    }
}

#[test]
fn enter_computes_the_last_word_only() {
    let world = World::new();
    world.chat(json!([user("My locker code is 48213.")]), append("a"));
    type_words(&world, "a", "What is my locker code?");
    let answer = world.chat(json!([user("What is my locker code?")]), append("a"));
    assert_eq!(computed(&answer), "code?".len() + END, "{answer}");
    assert_eq!(answer["hob"]["miss"], Value::Null);
}

#[test]
fn the_words_of_the_next_message_follow_the_answer() {
    let world = World::new();
    for message in ["What is my locker code?", "And what is it for?"] {
        type_words(&world, "a", message);
        let answer = world.chat(json!([user(message)]), append("a"));
        let last = message.rsplit(' ').next().unwrap();
        assert!(computed(&answer) <= last.len() + END, "{message}: {answer}");
    }
    let stored = world.conversation("a")["messages"].clone();
    assert_eq!(stored.as_array().unwrap().len(), 4);
}

#[test]
fn a_new_chat_is_computed_from_its_first_word_with_its_profile() {
    let world = World::new();
    world.profile("kettle", "[[segment]]\nlayer = 'rules'\ntext = 'Speak like a kettle.'\n");
    world.reload();
    let profile = json!({"hob": {"profile": "kettle", "append": true}});
    typed_in(&world, "new", "Is it ", profile);
    world.until("the words are hot", |world| world.ahead("hot") == 1);
    let body = json!({"conversation": "new", "hob": {"profile": "kettle", "append": true}});
    let answer = world.chat(json!([user("Is it hot?")]), body);
    assert_eq!(computed(&answer), "hot?".len() + END, "{answer}");
}

#[test]
fn an_edit_computes_from_the_first_different_word() {
    let world = World::new();
    type_words(&world, "a", "Turn the kitchen light ");
    assert_eq!(typed(&world, "a", "Turn the ")["ahead"], true); // The user deletes two words.
    let hot = world.ahead("hot");
    typed(&world, "a", "Turn the bathroom ");
    world.until("the new word is hot", |world| world.ahead("hot") > hot);
    let answer = world.chat(json!([user("Turn the bathroom light on")]), append("a"));
    assert_eq!(computed(&answer), "light on".len() + END, "{answer}");

    let other = World::new();
    let cold = other.chat(json!([user("Turn the bathroom light on")]), append("a"));
    assert_eq!(crate::common::text(&answer), crate::common::text(&cold));
}

#[test]
fn what_came_back_while_a_message_was_typed_is_named_in_its_answer() {
    let world = Plan::new().context_tokens(640).start();
    let say = |text: &str| world.chat(json!([user(text)]), append("a"));
    say("Hello");
    say("The word is aardvark, says the second message.");
    for n in 0..12 {
        say(&format!("Question {n} is about number {} alone.", n * 7919));
    }
    let hot = world.ahead("hot");
    typed(&world, "a", "What was it about the aardvark ");
    world.until("the words are hot", |world| world.ahead("hot") > hot);
    let answer = say("What was it about the aardvark again?");
    let moved = answer["hob"]["moved"].as_array().unwrap();
    let is_back = |it: &Value| it["way"] == "back" && it["key"] == "message 3";
    assert!(moved.iter().any(is_back), "{}", answer["hob"]);
}

#[test]
fn instructions_stay_while_a_message_is_typed() {
    let world = Plan::new().context_tokens(640).start();
    let instructions = "Answer as a kettle does. ".repeat(12);
    let system = json!({"role": "system", "content": instructions});
    world.chat(json!([system, user("Hello")]), append("a"));
    for n in 0..6 {
        world.chat(
            json!([user(&format!("Question {n} is about {} alone.", n * 7919))]),
            append("a"),
        );
    }
    let hot = world.ahead("hot");
    typed(&world, "a", &"Now tell me about something else, ".repeat(6));
    world.until("the words are hot", |world| world.ahead("hot") > hot);
    let map = world.get("/v1/memory/map").json();
    let slots = map["slots"].as_array().unwrap().iter();
    let slot = slots.max_by_key(|slot| slot["blocks"].as_array().unwrap().len()).unwrap();
    let blocks = slot["blocks"].as_array().unwrap();
    let mut away = blocks.iter().filter(|block| block["origin"] == "away");
    assert!(away.clone().count() > 0, "the conversation does not fit: {blocks:?}");
    let is_behind = |block: &Value| block["start"].as_u64().unwrap() > instructions.len() as u64;
    assert!(away.all(is_behind), "{blocks:?}");
}

#[test]
fn words_that_are_never_sent_are_recorded_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    world.chat(json!([user("My locker code is 48213.")]), append("a"));
    let stored = world.conversation("a")["messages"].clone();
    let timeline = world.timeline("a");
    let words = "secret ".repeat(60);
    typed(&world, "a", &words);
    typed(&world, "new", &words);
    world.until("the words are hot", |world| world.ahead("hot") == 2);
    assert_eq!(world.conversation("a")["messages"], stored);
    assert_eq!(world.timeline("a"), timeline);
    assert_eq!(world.get("/v1/conversations").json()["data"].as_array().unwrap().len(), 1);
    world.stop();
    drop(world);

    let world = Plan::new().directory(directory.path()).start();
    let saved = world.get("/v1/slots").json()["data"].clone();
    let saved: Vec<(&str, u64)> = saved
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| (slot["conversation"].as_str().unwrap(), slot["tokens"].as_u64().unwrap()))
        .collect();
    assert_eq!(saved, [("a", timeline.len() as u64)]);
    let new = world.chat(json!([user(&words)]), append("new"));
    assert_eq!(new["hob"]["tokens"]["disk"], 0, "{new}");
}

#[test]
fn leaving_the_chat_cancels_the_prefill() {
    let world = Plan::new().pace(Duration::from_millis(5)).micro_batch(8).start();
    typed(&world, "a", &"word ".repeat(400));
    world.until("the prefill has begun", |world| world.hot_tokens() > 16);
    let left = world.call("DELETE", "/v1/conversations/a/typing").send();
    assert_eq!((left.status, &left.json()["ahead"]), (200, &json!(false)));
    world.until("it is cancelled", |world| world.status().counters.cancelled == 1);
    world.settle();
    assert!(world.hot_tokens() < 1500, "the rest of the words is not computed");
}

#[test]
fn words_typed_after_speech_that_started_without_any_are_cancelled_too() {
    let world = Plan::new().pace(Duration::from_millis(5)).micro_batch(8).start();
    let started = world.post("/v1/conversations/a/speech-start", json!({}));
    assert_eq!(started.status, 200, "{}", started.text());
    typed(&world, "a", &"word ".repeat(400));
    world.until("the prefill has begun", |world| world.hot_tokens() > 16);
    let left = world.call("DELETE", "/v1/conversations/a/typing").send();
    assert_eq!(left.status, 200, "{}", left.text());
    world.until("it is cancelled", |world| world.status().counters.cancelled == 1);
}

#[test]
fn an_answer_elsewhere_is_not_delayed() {
    let world = Plan::new().pace(Duration::from_millis(5)).micro_batch(16).start();
    typed(&world, "a", &"word ".repeat(1000)); // 25 s of prefill.
    world.until("the prefill has begun", |world| world.hot_tokens() > 32);
    world.chat(json!([user("Hi")]), json!({"conversation": "b", "max_tokens": 1}));
    assert!(world.hot_tokens() < 4000, "the words are still being computed");
}

#[test]
fn the_next_message_waits_for_the_answer_before_it() {
    let world = Plan::new().pace(Duration::from_millis(5)).start();
    let mut body = append("a");
    body["max_tokens"] = 4000.into();
    body["ignore_eos"] = true.into();
    let mut stream = world.stream(json!([user("Hello")]), body);
    stream.next().unwrap();
    let answer = typed(&world, "a", "And then ");
    assert_eq!((&answer["ahead"], &answer["reason"]), (&json!(false), &json!("answering")));
    drop(stream);
    world.until("the words are accepted", |world| {
        typed(world, "a", "And then ")["ahead"] == json!(true)
    });
}

#[test]
fn typed_words_leave_those_that_another_client_speaks() {
    let world = World::new();
    for (text, is_final) in
        [("What is", false), ("What is my locker", false), ("What is it?", true)]
    {
        let body = json!({"text": text, "final": is_final});
        let heard = world.post("/v1/conversations/a/transcript", body);
        assert_eq!(heard.status, 200, "{}", heard.text());
        let answer = typed_in(&world, "a", "And then ", json!({"temperature": 1}));
        assert_eq!((&answer["ahead"], &answer["reason"]), (&json!(false), &json!("speaking")));
    }
    let left = world.call("DELETE", "/v1/conversations/a/typing").send();
    assert_eq!(left.status, 200, "{}", left.text());
    let ended = world.post("/v1/conversations/a/speech-end", json!({"max_tokens": 4}));
    assert_eq!(ended.status, 200, "{}", ended.text());
    assert_eq!(world.conversation("a")["messages"][0]["content"], "What is it?");
    world.until("the words are accepted", |world| {
        typed(world, "a", "And then ")["ahead"] == json!(true)
    });
}

#[test]
fn a_message_that_is_left_leaves_speech_before_its_first_word() {
    let world = World::new();
    let post = |what: &str, body: Value| {
        let answer = world.post(&format!("/v1/conversations/a/{what}"), body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    post("speech-start", json!({"temperature": 0, "max_tokens": 4}));
    let left = world.call("DELETE", "/v1/conversations/a/typing").send();
    assert_eq!(left.status, 200, "{}", left.text());
    post("transcript", json!({"text": "Say this: 123456", "final": true}));
    let answer = post("speech-end", json!({}));
    assert_eq!(crate::common::text(&answer), "1234", "the fields of the start: {answer}");
}

#[test]
fn nothing_is_computed_when_the_setting_is_off_or_the_battery_is_low() {
    let low = || Some(Battery { percent: 9, charging: false });
    for (plan, reason) in
        [(Plan::new().without_type_ahead(), "off"), (Plan::new().battery(low), "battery")]
    {
        let world = plan.start();
        let answer = typed(&world, "a", "Hello there ");
        assert_eq!((&answer["ahead"], &answer["reason"]), (&json!(false), &json!(reason)));
        world.chat(json!([user("Hi")]), json!({}));
        assert_eq!(world.ahead("hot"), 0, "{reason}");
    }
}

#[test]
fn an_invalid_request_names_its_field() {
    let world = World::new();
    let missing = world.post("/v1/conversations/a/typing", json!({}));
    assert_eq!((missing.status, &missing.error()["param"]), (400, &json!("text")));
    let name = world.post("/v1/conversations/a%0Ab/typing", json!({"text": "a"}));
    assert_eq!((name.status, &name.error()["param"]), (400, &json!("id")));
}

/// The built hobd with llama.cpp and the bundled model.
#[cfg(feature = "llama")]
mod on_llama_cpp {
    use hob_testkit::{Client, Launch, wait};
    use serde_json::{Value, json};

    fn tokens(client: &Client, text: &str) -> usize {
        let body = json!({"content": text});
        client.post("/tokenize", &body)["tokens"].as_array().unwrap().len()
    }

    fn is_hot(client: &Client, count: u64) -> Option<()> {
        let page = client.call("GET", "/metrics").send().text();
        let line = page.lines().find_map(|line| {
            line.strip_prefix("hob_ahead_total{outcome=\"hot\"} ")?.parse::<u64>().ok()
        });
        (line >= Some(count)).then_some(())
    }

    #[test]
    fn enter_computes_the_last_word_and_words_that_are_never_sent_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let launch = launch.args(["--model", "bundled", "--voice-command", "off"]);
        let mut hobd = launch.start();
        hobd.client.say("a", "My locker code is 48213. Please remember it for me until tomorrow.");

        let question = "What is the code of my locker, and until when do you remember it for me?";
        let ends: Vec<usize> = question.match_indices(' ').map(|(at, _)| at + 1).collect();
        for (count, end) in (1..).zip(ends) {
            let body = json!({"text": &question[..end]});
            hobd.client.post("/v1/conversations/a/typing", &body);
            wait::until("the word is hot", || is_hot(&hobd.client, count));
        }
        let answer = hobd.client.say("a", question);
        let last = tokens(&hobd.client, " me?")
            + tokens(&hobd.client, "<|im_end|>\n<|im_start|>assistant\n");
        let computed = answer["hob"]["tokens"]["computed"].as_u64().unwrap() as usize;
        assert!(computed <= last, "{computed} of {last} tokens: {answer}");

        let said = answer["usage"]["total_tokens"].as_u64().unwrap();
        let unsent = "These words are never sent to anyone, ".repeat(8);
        let done = question.matches(' ').count() as u64;
        hobd.client.post("/v1/conversations/a/typing", &json!({"text": unsent}));
        hobd.client.post("/v1/conversations/new/typing", &json!({"text": unsent}));
        wait::until("the words are hot", || is_hot(&hobd.client, done + 2));
        assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(0));

        let hobd = launch.start();
        let list: Value = hobd.client.get("/v1/conversations");
        assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
        let slots = hobd.client.get("/v1/slots")["data"].clone();
        let slots = slots.as_array().unwrap();
        assert_eq!((slots.len(), &slots[0]["conversation"]), (1, &json!("a")));
        assert!(slots[0]["tokens"].as_u64().unwrap() <= said + 2, "{said}: {slots:?}");
        let new = hobd.client.say("new", &unsent);
        assert_eq!(new["hob"]["tokens"]["disk"], 0, "{new}");
    }
}
