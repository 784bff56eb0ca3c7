//! Speculative prefill while the user speaks: the tokens that are hot when speech ends.

use std::time::Duration;

use hob_runtime::SlotState;
use serde_json::{Value, json};

use crate::common::{Answer, Plan, World, text, user};

/// Tokens that the fake model's template writes around a user message and before the answer:
/// `<|im_start|>user\n`, `<|im_end|>\n<|im_start|>assistant\n`.
const AROUND: usize = 6 + 13;

fn post(world: &World, id: &str, what: &str, body: Value) -> Answer {
    let answer = world.post(&format!("/v1/conversations/{id}/{what}"), body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

fn start(world: &World, id: &str) {
    post(world, id, "speech-start", json!({}));
}

/// Sends a partial transcript. Returns the stable words.
fn partial(world: &World, id: &str, text: &str) -> String {
    let answer = post(world, id, "transcript", json!({"text": text})).json();
    answer["certain"].as_str().unwrap().to_owned()
}

fn final_text(world: &World, id: &str, text: &str) {
    post(world, id, "transcript", json!({"text": text, "final": true}));
}

fn end(world: &World, id: &str) -> Value {
    post(world, id, "speech-end", json!({"temperature": 0, "max_tokens": 8})).json()
}

fn tokens(answer: &Value, place: &str) -> usize {
    answer["hob"]["tokens"][place].as_u64().unwrap() as usize
}

fn until_hot(world: &World, count: u64) {
    world.until("the prefill is complete", |world| world.ahead("hot") >= count);
}

fn talk(world: &World, id: &str) {
    let append = json!({"conversation": id, "hob": {"append": true}});
    world.chat(json!([user("My locker code is 48213.")]), append.clone());
    world.chat(json!([user("And my seat is B12.")]), append);
}

/// A daemon that computes 16 tokens at a time, at 2 ms per token.
fn slow() -> World {
    Plan::new().pace(Duration::from_millis(2)).micro_batch(16).start()
}

fn with_system(length: usize) -> Value {
    json!({"messages": [{"role": "system", "content": "x".repeat(length)}]})
}

#[test]
fn the_history_is_hot_before_the_text_is_final() {
    let directory = tempfile::tempdir().unwrap();
    let mut before = Plan::new().directory(directory.path()).start();
    talk(&before, "a");
    before.stop();

    let world = Plan::new().directory(directory.path()).start();
    start(&world, "a");
    until_hot(&world, 1);
    let history = world.hot_tokens();
    final_text(&world, "a", "What is it?");
    let answer = end(&world, "a");
    assert_eq!((tokens(&answer, "disk"), tokens(&answer, "memory")), (0, 0), "{answer}");
    assert!(tokens(&answer, "shared") >= history, "{answer}");
    assert_eq!(answer["hob"]["miss"], Value::Null);
    assert_eq!(world.conversation("a")["messages"][4]["content"], "What is it?");
}

#[test]
fn a_final_text_that_was_prefilled_leaves_nothing_to_compute() {
    let text = "What is my locker code?";
    let other = World::new();
    talk(&other, "a");
    let append = json!({"conversation": "a", "hob": {"append": true}});
    let cold = other.chat(json!([user(text)]), append);
    let prompt = cold["usage"]["prompt_tokens"].as_u64().unwrap() as usize;

    let world = World::new();
    talk(&world, "a");
    start(&world, "a");
    for text in ["What is", "What is my", "What is my locker"] {
        partial(&world, "a", text);
    }
    final_text(&world, "a", text);
    world.until("the whole turn is hot", |world| world.hot_tokens() + 1 >= prompt);
    let answer = end(&world, "a");
    assert!(tokens(&answer, "computed") <= 1, "{answer}");

    let history = world.conversation("a")["messages"].clone();
    assert_eq!(crate::common::text(&answer), crate::common::text(&cold));
    assert_eq!(history[5]["content"].as_str().unwrap(), crate::common::text(&cold));
}

#[test]
fn words_are_hot_as_soon_as_they_are_certain() {
    let world = World::new();
    talk(&world, "a");
    start(&world, "a");
    until_hot(&world, 1);
    assert_eq!(partial(&world, "a", "Turn the kitchen"), "");
    assert_eq!(partial(&world, "a", "Turn the kitchen light"), "Turn the kitchen");
    until_hot(&world, 2);
    let text = "Turn the kitchen light on";
    final_text(&world, "a", text);
    let answer = end(&world, "a");
    // "Turn the kitchen " is hot, whether or not the prefill of the final text was in time.
    assert!(tokens(&answer, "computed") <= text.len() - 17 + 13, "{answer}");
}

#[test]
fn a_final_text_that_differs_computes_only_the_difference() {
    let world = World::new();
    talk(&world, "a");
    start(&world, "a");
    until_hot(&world, 1);
    partial(&world, "a", "Turn the kitchen light");
    partial(&world, "a", "Turn the kitchen light on");
    until_hot(&world, 2);
    let append = json!({"conversation": "a", "hob": {"append": true}});
    let answer = world.chat(json!([user("Turn the bathroom light on")]), append);
    let different = "bathroom light on".len() + 13;
    assert_eq!(tokens(&answer, "computed"), different, "{answer}");

    let other = World::new();
    talk(&other, "a");
    let append = json!({"conversation": "a", "hob": {"append": true}});
    let cold = other.chat(json!([user("Turn the bathroom light on")]), append);
    assert_eq!(text(&answer), text(&cold));
}

#[test]
fn new_speech_cancels_the_prefill_of_the_old() {
    let world = slow();
    start(&world, "a");
    until_hot(&world, 1);
    let long = "word ".repeat(1_000); // 10 s of prefill.
    partial(&world, "a", &long);
    partial(&world, "a", &long);
    world.until("the prefill has begun", |world| world.hot_tokens() > 40);
    start(&world, "a");
    world.until("the prefill was replaced", |world| world.ahead("replaced") == 1);
    until_hot(&world, 2);
    let nothing = world.post("/v1/conversations/a/speech-end", json!({}));
    assert_eq!((nothing.status, &nothing.error()["code"]), (400, &json!("nothing_heard")));
    final_text(&world, "a", "Hi");
    let answer = end(&world, "a");
    assert_eq!(answer["usage"]["prompt_tokens"], AROUND + 2, "{answer}");
}

#[test]
fn a_failed_speculative_prefill_only_makes_the_turn_cold() {
    let world = Plan::new().context_tokens(600).start();
    start(&world, "a");
    until_hot(&world, 1);
    let too_long = "word ".repeat(400);
    partial(&world, "a", &too_long);
    partial(&world, "a", &too_long);
    world.until("the prefill failed", |world| world.ahead("failed") == 1);
    final_text(&world, "a", "Hi");
    let answer = end(&world, "a");
    assert_eq!(answer["usage"]["prompt_tokens"], AROUND + 2, "{answer}");
}

#[test]
fn two_rooms_are_made_hot_at_once() {
    let world = slow();
    for id in ["a", "b"] {
        post(
            &world,
            id,
            "speech-start",
            json!({"messages": [
            {"role": "system", "content": id.repeat(2_000)}]}), // 4 s alone.
        );
    }
    world.until("both prefills have begun", |world| {
        let states = world.status().slots;
        states.iter().filter(|slot| slot.state == SlotState::Prefill && slot.tokens > 0).count()
            == 2
    });
    until_hot(&world, 2);
}

#[test]
fn a_turn_takes_over_the_speculative_prefill_and_repeats_none_of_it() {
    let world = Plan::new().micro_batch(128).start();
    let paused = world.pause();
    post(&world, "a", "speech-start", with_system(700));
    let paused = world.step(world.step(paused));
    final_text(&world, "a", "Hello");
    // A stream begins when it is queued.
    let body = json!({"stream": true, "stream_options": {"include_usage": true}, "max_tokens": 8});
    let turn = world.call("POST", "/v1/conversations/a/speech-end").json(&body).stream();
    drop(paused);
    let chunks = turn.collect();
    let answer = chunks.last().unwrap();
    let prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(tokens(answer, "shared") > 60, "{answer}");
    assert!(
        tokens(answer, "computed") > 1,
        "the prefill must still run when the turn arrives: {answer}"
    );
    let generated = answer["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(world.status().counters.computed_tokens <= prompt + generated, "{answer}");
}

#[test]
fn a_partial_transcript_does_not_wait_for_the_prefill() {
    let world = World::new();
    let _none_is_computed = world.pause();
    post(&world, "a", "speech-start", with_system(1000));
    partial(&world, "a", "Hello there");
    partial(&world, "a", "Hello there you");
}

#[test]
fn starting_twice_computes_once() {
    let world = slow();
    let paused = world.pause(); // A start behind the end of the prefill would begin another one.
    post(&world, "a", "speech-start", with_system(300));
    post(&world, "a", "speech-start", with_system(300));
    start(&world, "a");
    drop(paused);
    until_hot(&world, 1);
    assert_eq!((world.ahead("hot"), world.ahead("replaced")), (1, 0));
}

#[test]
fn a_prewarm_that_arrives_after_the_start_of_speech_replaces_nothing() {
    let world = slow();
    post(&world, "a", "speech-start", with_system(300));
    let mut body = with_system(300);
    body["conversation"] = "a".into();
    let late = world.post("/v1/prewarm", body.clone());
    assert_eq!((late.status, &late.error()["code"]), (503, &json!("superseded")));
    body["wait"] = false.into();
    assert_eq!(world.post("/v1/prewarm", body).status, 202, "nobody waits: it is computed anyway");
    until_hot(&world, 1);
    assert_eq!(world.ahead("replaced"), 0);
}

#[test]
fn speech_before_the_last_answer_is_complete_waits_for_it_and_delays_no_request() {
    let world = Plan::new().pace(Duration::from_millis(5)).start();
    let append = json!({"conversation": "a", "hob": {"append": true}, "max_tokens": 1_200,
        "ignore_eos": true}); // 6 s.
    let mut stream = world.stream(json!([user("Hello")]), append);
    stream.next().unwrap();
    start(&world, "a");
    let other = world.chat(json!([user("Hi")]), json!({"conversation": "b"}));
    assert!(!text(&other).is_empty());
    assert_eq!(world.ahead("hot"), 0);
    stream.collect();
    until_hot(&world, 1);
    final_text(&world, "a", "Go on");
    let answer = end(&world, "a");
    assert!(tokens(&answer, "computed") <= AROUND + 8, "{answer}");
}

#[test]
fn the_answer_to_speech_is_streamed_on_request() {
    let world = World::new();
    start(&world, "a");
    final_text(&world, "a", "Hello");
    let body = json!({"stream": true, "max_tokens": 4, "temperature": 0});
    let call = world.call("POST", "/v1/conversations/a/speech-end").json(&body);
    let chunks = call.stream().collect();
    assert_eq!(chunks.last().unwrap()["hob"]["conversation"], "a");
    assert_eq!(world.conversation("a")["messages"][0]["content"], "Hello");
}

#[test]
fn a_turn_closes_its_session_and_the_words_are_answered_once() {
    let world = World::new();
    start(&world, "a");
    final_text(&world, "a", "What is my locker code?");
    assert!(end(&world, "a")["choices"][0]["message"]["content"].is_string());
    let again = world.post("/v1/conversations/a/speech-end", json!({}));
    assert_eq!((again.status, &again.error()["code"]), (400, &json!("nothing_heard")));
}

#[test]
fn words_that_the_queue_refused_are_answered_by_a_later_request() {
    let world = Plan::new().slots(1).queue(1).pace(Duration::from_millis(2)).start();
    let queue = world.fill_queue();
    final_text(&world, "a", "What is my locker code?");
    let end = || world.post("/v1/conversations/a/speech-end", json!({"max_tokens": 4}));
    let refused = end();
    assert_eq!((refused.status, &refused.error()["code"]), (503, &json!("queue_full")));
    drop(queue);
    world.until("the words are answered", |_| {
        let answer = end();
        assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
        answer.status == 200
    });
    assert_eq!(world.conversation("a")["messages"][0]["content"], "What is my locker code?");
}

#[test]
fn a_session_without_an_event_for_ten_minutes_is_closed() {
    let world = Plan::new().with_clock().start();
    let ten_minutes = Duration::from_secs(10 * 60);
    start(&world, "a");
    final_text(&world, "a", "What is my locker code?");
    world.pass(ten_minutes);
    let end = world.post("/v1/conversations/a/speech-end", json!({}));
    assert_eq!((end.status, &end.error()["code"]), (400, &json!("nothing_heard")));

    start(&world, "b");
    world.pass(ten_minutes);
    let mut body = with_system(40);
    body["conversation"] = "b".into();
    let prewarm = world.post("/v1/prewarm", body);
    assert_eq!(prewarm.status, 200, "nobody speaks: {}", prewarm.text());
}

#[test]
fn an_invalid_speech_request_names_its_field() {
    let world = World::new();
    let end = world.post("/v1/conversations/a/speech-end", json!({}));
    assert_eq!((end.status, &end.error()["code"]), (400, &json!("nothing_heard")));
    let start = world.post("/v1/conversations/a/speech-start", json!({"tools": 5}));
    assert_eq!((start.status, &start.error()["param"]), (400, &json!("tools")));
    let transcript = world.post("/v1/conversations/a/transcript", json!({"final": true}));
    assert_eq!((transcript.status, &transcript.error()["param"]), (400, &json!("text")));
    let name = world.post("/v1/conversations/a%0Ab/speech-start", json!({}));
    assert_eq!((name.status, &name.error()["param"]), (400, &json!("id")));
    let without_a_body = world.call("POST", "/v1/conversations/a/speech-start").send();
    assert_eq!(without_a_body.status, 200, "{}", without_a_body.text());
}

#[test]
fn a_prewarm_reports_what_it_computed_and_saves_nothing() {
    let world = World::new();
    let body = json!({"conversation": "a", "messages": [user("Hello there")]});
    let first = world.post("/v1/prewarm", body.clone()).json();
    assert_eq!((&first["object"], &first["hot"]), (&json!("prewarm"), &json!(true)));
    assert_eq!(tokens(&first, "computed"), AROUND + 11, "{first}");
    assert_eq!(tokens(&world.post("/v1/prewarm", body).json(), "computed"), 0);
    assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
    let answer = world.chat(json!([user("Hello there")]), json!({"conversation": "a"}));
    assert!(tokens(&answer, "computed") <= 1, "{answer}");
    // Without a question, the prewarm computes the history and the start of the next message.
    let history = world.post("/v1/prewarm", json!({"conversation": "a"})).json();
    assert_eq!(history["hob"]["conversation"], "a");
    assert!(tokens(&history, "computed") <= 1 + 1 + 6 + 1, "{history}");
}

#[test]
fn a_prewarm_without_wait_continues() {
    let world = World::new();
    let system = with_system(200)["messages"].clone();
    let body = json!({"conversation": "a", "wait": false, "messages": system});
    let accepted = world.post("/v1/prewarm", body);
    assert_eq!((accepted.status, &accepted.json()["hot"]), (202, &json!(false)));
    world.until("the history is hot", |world| world.hot_tokens() > 200);
}

#[test]
fn a_request_for_zero_tokens_makes_the_prompt_hot_and_stores_nothing() {
    let world = World::new();
    let ask = |max_tokens: usize| {
        let extra = json!({"conversation": "a", "hob": {"append": true}, "max_tokens": max_tokens});
        world.chat(json!([user("Hello there")]), extra)
    };
    let nothing = ask(0);
    assert_eq!(
        (text(&nothing), &nothing["choices"][0]["finish_reason"]),
        (String::new(), &json!("length"))
    );
    assert_eq!(nothing["usage"]["completion_tokens"], 0);
    assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
    assert!(tokens(&ask(8), "computed") <= 1);

    let complete = |max_tokens: usize| {
        let body =
            json!({"prompt": "Once upon", "prompt_cache_key": "c", "max_tokens": max_tokens});
        world.post("/v1/completions", body).json()
    };
    let nothing = complete(0);
    assert_eq!(
        (&nothing["choices"][0]["text"], &nothing["choices"][0]["finish_reason"]),
        (&json!(""), &json!("length"))
    );
    assert!(tokens(&complete(4), "computed") <= 1);
}

#[test]
fn a_profile_is_in_front_of_the_spoken_words() {
    let world = World::new();
    world.profile("kettle", "[[segment]]\nlayer = 'rules'\ntext = 'Speak like a kettle.'\n");
    world.reload();
    post(&world, "hob", "speech-start", json!({"profile": "kettle"}));
    until_hot(&world, 1);
    let prefix = world.hot_tokens();
    assert!(prefix > "Speak like a kettle.".len(), "{prefix}");
    final_text(&world, "hob", "Is it hot?");
    until_hot(&world, 2);
    let answer = end(&world, "hob");
    assert!(tokens(&answer, "shared") > prefix && tokens(&answer, "computed") <= 1, "{answer}");
    let unknown = world.post("/v1/conversations/attic/speech-start", json!({"profile": "nobody"}));
    assert_eq!(unknown.status, 400, "{}", unknown.text());
}

#[test]
fn the_end_of_speech_overrides_the_profile_of_the_start_and_nothing_else_of_it() {
    let world = World::new();
    for name in ["kettle", "lamp"] {
        let text = format!("[[segment]]\nlayer = 'rules'\ntext = 'Speak like a {name}.'\n");
        world.profile(name, &text);
    }
    world.reload();
    let said = |id: &str, body: Value| {
        post(&world, id, "speech-start", json!({"profile": "kettle"}));
        final_text(&world, id, "Is it hot?");
        post(&world, id, "speech-end", body).json()["usage"]["prompt_tokens"].clone()
    };
    let asked = |profile: &str| {
        let hob = json!({"hob": {"profile": profile}});
        world.chat(json!([user("Is it hot?")]), hob)["usage"]["prompt_tokens"].clone()
    };
    let (kettle, lamp) = (asked("kettle"), asked("lamp"));
    assert_ne!(kettle, lamp);
    assert_eq!(said("a", json!({"max_tokens": 4, "profile": "lamp"})), lamp);
    assert_eq!(said("b", json!({"max_tokens": 4, "hob": {"profile": "lamp"}})), lamp);
    assert_eq!(said("c", json!({"max_tokens": 4, "hob": {"draft": false}})), kettle);
    assert_eq!(said("d", json!({"max_tokens": 4, "profile": null, "hob": null})), kettle);
    assert_eq!(said("e", json!({"max_tokens": 4, "hob": {"profile": null}})), kettle);
}
