//! Conversations: what names one, how it grows and branches, and what a turn computes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Plan, World, assistant, chat_body, computed, roles_and_texts, text, user};

#[test]
fn a_follow_up_computes_only_its_own_tokens() {
    let world = World::new();
    let first = world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    let said = text(&first);
    let history = json!([user("Hello"), assistant(&said), user("Go on")]);
    let second = world.chat(history, json!({"conversation": "a"}));
    let new = "\n<|im_start|>user\nGo on<|im_end|>\n<|im_start|>assistant\n";
    let new =
        world.post("/tokenize", json!({"content": new})).json()["tokens"].as_array().unwrap().len();
    // Two more: a cut-off answer lacks its end-of-turn mark, which is computed now.
    assert!(computed(&second) <= new as u64 + 2, "{second}");
    assert_eq!(second["hob"]["miss"], Value::Null);
}

#[test]
fn an_append_sends_only_new_messages_and_gets_the_same_answer() {
    let world = World::new();
    let append = |conversation: &str, message: &str| {
        let extra = json!({"conversation": conversation, "hob": {"append": true}});
        world.chat(json!([user(message)]), extra)
    };
    let first = append("a", "Hello");
    let second = append("a", "Go on");
    let history = json!([user("Hello"), assistant(&text(&first)), user("Go on")]);
    let whole = world.chat(history, json!({"conversation": "b"}));
    assert_eq!(text(&second), text(&whole));
    assert_eq!(second["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"]);
    let stored = roles_and_texts(&world.get("/v1/conversations/a").json());
    assert_eq!(stored.len(), 4);
    assert_eq!(stored[3], ("assistant".to_owned(), text(&second)));
}

#[test]
fn a_header_and_the_eliza_options_name_a_conversation_too() {
    let world = World::new();
    let body = chat_body(json!([user("Hi")]), json!({}));
    let call = world.call("POST", "/v1/chat/completions").header("x-session-id", "by-header");
    assert_eq!(call.json(&body).send().json()["hob"]["conversation"], "by-header");
    world.chat(json!([user("Hi")]), json!({"eliza": {"conversationId": "by-option"}}));
    world.chat(json!([user("Hi")]), json!({"conversation": {"id": "by/object"}}));
    let list = world.get("/v1/conversations").json();
    let ids: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3);
    assert!(["by-header", "by-option", "by/object"].iter().all(|id| ids.contains(id)));
    assert_eq!(world.get("/v1/conversations/by%2Fobject").json()["title"], "Hi");
}

#[test]
fn every_other_key_is_a_hint_that_pins_and_stores_no_text() {
    let world = World::new();
    let keys = [json!({"promptCacheKey": "v5:abc"}), json!({"prompt_cache_key": "abc"})];
    for (extra, key) in keys.into_iter().zip(["v5:abc", "conv:abc"]) {
        let answer = world.chat(json!([user("Hi")]), extra.clone());
        assert_eq!(answer["hob"]["conversation"], Value::Null);
        assert_eq!(answer["hob"]["cache_key"], key);
        assert_eq!(world.get("/v1/conversations").json()["data"], json!([]));
        let again = world.chat(json!([user("Hi")]), extra);
        assert!(computed(&again) <= 1, "{again}");
        assert_eq!(again["hob"]["slot"], answer["hob"]["slot"]);
    }
}

#[test]
fn edits_and_second_answers_are_branches() {
    let world = World::new();
    let ask = |messages: Value, seed: u64| {
        let extra =
            json!({"conversation": "a", "seed": seed, "temperature": 1.5, "max_tokens": 20});
        text(&world.chat(messages, extra))
    };
    let first = ask(json!([user("Hello")]), 1);
    let other = ask(json!([user("Hello")]), 2);
    let edited = ask(json!([user("Hallo")]), 3);
    assert_ne!(first, other);

    let stored = roles_and_texts(&world.conversation("a"));
    let expected = [
        ("user", "Hello"),
        ("assistant", &first),
        ("assistant", &other),
        ("user", "Hallo"),
        ("assistant", &edited),
    ];
    assert_eq!(stored, expected.map(|(role, text)| (role.to_owned(), text.to_owned())));
    let shown = roles_and_texts(&world.get("/v1/conversations/a").json());
    assert_eq!(shown[0].1, "Hallo");
    assert_eq!(shown.len(), 2);

    // A history with the first answer continues its branch, although two newer ones exist.
    ask(json!([user("Hello"), assistant(&first), user("More")]), 4);
    let shown = roles_and_texts(&world.get("/v1/conversations/a").json());
    assert_eq!((shown.len(), &shown[1].1), (4, &first));
    assert_eq!(roles_and_texts(&world.conversation("a")).len(), 7);
}

#[test]
fn an_append_of_nothing_answers_again() {
    let world = World::new();
    let extra = json!({"conversation": "a", "hob": {"append": true}, "temperature": 1.0});
    world.chat(json!([user("Hello")]), extra.clone());
    world.chat(json!([]), extra);
    let conversation = world.conversation("a");
    let parents: Vec<_> =
        conversation["messages"].as_array().unwrap().iter().map(|m| m["parent"].clone()).collect();
    assert_eq!(parents, [Value::Null, json!(1), json!(1)]);
}

#[test]
fn an_append_continues_behind_any_message() {
    let world = World::new();
    let say = |messages: Value, hob: Value| {
        let extra = json!({"conversation": "a", "hob": hob, "temperature": 1.0});
        world.chat(messages, extra)
    };
    let ids = |answer: &Value| {
        (answer["hob"]["message"].as_i64().unwrap(), answer["hob"]["parent"].as_i64().unwrap())
    };
    let append = json!({"append": true});
    let (first, hello) = ids(&say(json!([user("Hello")]), append.clone()));
    let (second, more) = ids(&say(json!([user("More")]), append));

    // Edit: the new message gets the parent of the edited one.
    let (edited, instead) =
        ids(&say(json!([user("Less")]), json!({"append": true, "after": first})));
    // Regenerate: a second answer to the same message.
    let (again, asked) = ids(&say(json!([]), json!({"append": true, "after": more})));
    assert_eq!(asked, more);
    // Edit of the first message: it has no parent.
    let (other, greeting) = ids(&say(json!([user("Hallo")]), json!({"append": true, "after": 0})));

    let stored = world.conversation("a");
    let tree = stored["messages"].as_array().unwrap().iter();
    let tree: Vec<_> = tree.map(|m| (m["id"].clone(), m["parent"].clone())).collect();
    let expected = [
        (hello, None),
        (first, Some(hello)),
        (more, Some(first)),
        (second, Some(more)),
        (instead, Some(first)),
        (edited, Some(instead)),
        (again, Some(more)),
        (greeting, None),
        (other, Some(greeting)),
    ];
    assert_eq!(tree, expected.map(|(id, parent)| (json!(id), json!(parent))));
    assert_eq!(stored["head"], other);
}

#[test]
fn a_place_that_is_not_there_is_refused_and_stores_nothing() {
    let world = World::new();
    let answer = world.chat(json!([user("Hello")]), json!({"conversation": "a"}));
    world.chat(json!([user("Hello")]), json!({"conversation": "b"}));
    let refused = |conversation: &str, messages: Value, after: Value| {
        let extra = json!({"conversation": conversation, "hob": {"append": true, "after": after}});
        let refused = world.post("/v1/chat/completions", chat_body(messages, extra));
        assert_eq!(refused.status, 400);
        refused.error()["param"].clone()
    };
    let theirs = answer["hob"]["message"].clone();
    assert_eq!(refused("b", json!([user("More")]), theirs.clone()), "hob.after");
    assert_eq!(refused("c", json!([user("More")]), json!(77)), "hob.after");
    assert_eq!(
        refused("a", json!([]), theirs),
        "messages",
        "an empty append after an answer is refused"
    );
    assert_eq!(refused("a", json!([]), json!(0)), "messages");
    assert_eq!(world.conversation("a")["message_count"], 2);
    assert_eq!(world.conversation("b")["message_count"], 2);
    assert_eq!(world.get("/v1/conversations/c").status, 404);
}

#[test]
fn an_append_waits_for_the_answer_before_it_and_continues_it() {
    let world = Plan::new().pace(Duration::from_millis(5)).start();
    let append = json!({"conversation": "a", "hob": {"append": true}});
    let mut long = append.clone();
    long["max_tokens"] = 200.into();
    long["ignore_eos"] = true.into();
    let mut first = world.stream(json!([user("Hello")]), long);
    first.next().expect("it has begun to answer");
    let second = world.chat(json!([user("Go on")]), append);
    let answered: String = first
        .collect()
        .iter()
        .map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default())
        .collect();
    let stored = roles_and_texts(&world.get("/v1/conversations/a").json());
    assert_eq!(stored.len(), 4, "one branch: {stored:?}");
    assert!(stored[1].1.ends_with(&answered), "{stored:?}");
    assert!(second["usage"]["prompt_tokens"].as_u64() > Some(200), "{second}");
}
