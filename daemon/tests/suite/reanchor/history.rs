//! The messages of a conversation that went on past the context: a new timeline has a part of them, and none is lost.

use serde_json::json;

use super::{CTX, Chat, FACT, SYSTEM, check, merged, number, start, tokens, words};

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
        messages.push(json!({"role": "user", "content": format!("Say this: {}", words(turn))}));
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
        let messages = json!([
            {"role": "assistant", "content": format!("I count {turn}."), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": words(turn)},
        ]);
        let answer = chat.post(&messages, &json!({}));
        check(&answer);
        let text = chat.prompt();
        assert!(text.contains("Count the lights of the house."), "{text}");
        for n in 0..=turn {
            let has_call = text.contains(&format!("I count {n}."));
            assert_eq!(has_call, text.contains(&format!("w{n}x0 ")), "{n}: {text}");
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
    let text = chat.prompt();
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
fn a_counted_prompt_leaves_the_answer_the_room_that_the_chat_leaves_it() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start(directory.path(), &[]);
    let client = &hobd.client;
    let body = json!({
        "conversation": "c", "hob": {"append": true, "beyond": "reanchor"},
        "messages": [{"role": "user", "content": "word ".repeat(18)}],
    });
    let prompt_tokens = || number(&client.chat(&body)["usage"]["prompt_tokens"]);
    client.chat(&merged(body.clone(), &json!({"max_tokens": 4})));
    let sampling = json!({"sampling": {"max_tokens": 16}});
    let changed = client.call("PATCH", "/v1/conversations/c").json(&sampling).send();
    assert_eq!(changed.status, 200, "{}", changed.text());
    // An answer without a length would have a quarter of the context.
    while prompt_tokens() < CTX * 3 / 4 - 100 {}
    let counted = client.post("/v1/chat/completions/input_tokens", &body)["input_tokens"].clone();
    let asked = prompt_tokens();
    assert_eq!(number(&counted), asked);
    assert!(asked > CTX * 3 / 4, "{asked}");
}
