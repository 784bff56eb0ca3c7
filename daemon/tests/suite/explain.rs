//! Explanations of prefix cache misses, each caused as a client would cause it.

use serde_json::{Value, json};

use crate::common::{Plan, World, assistant, chat_body, text, user};

fn system(text: &str) -> Value {
    json!({"role": "system", "content": text})
}

fn tool(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"room": {"type": "string"}}});
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

/// A chat of the conversation `a`.
fn say(world: &World, messages: &[Value], mut extra: Value) -> Value {
    extra["conversation"] = "a".into();
    world.chat(json!(messages), extra)
}

fn explained(answer: &Value) -> &Value {
    &answer["hob"]["explanation"]
}

#[test]
fn an_ordinary_follow_up_explains_nothing() {
    let world = World::new();
    let first = say(&world, &[system("Be brief."), user("Hello")], json!({}));
    assert_eq!(explained(&first), &Value::Null);
    let history = [system("Be brief."), user("Hello"), assistant(&text(&first)), user("Go on")];
    assert_eq!(explained(&say(&world, &history, json!({}))), &Value::Null);
    // A repeated question branches from its parent and reuses the whole prefix.
    assert_eq!(explained(&say(&world, &history, json!({}))), &Value::Null);
    let report = world.get("/v1/conversations/a/explain").json();
    assert_eq!(report["explanation"], Value::Null, "{report}");
    assert_eq!(world.get("/v1/conversations/b/explain").status, 404);
    assert!(!world.get("/metrics").text().contains("hob_misses_total{"));
}

#[test]
fn a_cold_answer_was_meant_to_compute_everything() {
    let world = World::new();
    let messages = [system("Be brief."), user("Hello")];
    let warm = say(&world, &messages, json!({}));
    let cold = say(&world, &messages, json!({"hob": {"cold": true}}));
    assert_eq!(text(&cold), text(&warm));
    assert_eq!(cold["hob"]["tokens"]["computed"], cold["usage"]["prompt_tokens"]);
    assert_eq!((&cold["hob"]["cold"], &warm["hob"]["cold"]), (&json!(true), &json!(false)));
    assert_eq!((&cold["hob"]["miss"], explained(&cold)), (&Value::Null, &Value::Null));
    assert_eq!(cold["hob"]["saved_ms"], Value::Null);
    let report = world.get("/v1/conversations/a/explain").json();
    assert_eq!(report["explanation"], Value::Null, "{report}");
    let metrics = world.get("/metrics").text();
    assert!(!metrics.contains("hob_misses_total{"));
    assert!(metrics.contains("hob_restore_full_prefill_total 0"));
}

#[test]
fn a_clock_in_front_of_the_messages_is_shown_and_where_it_belongs() {
    let world = World::new();
    let at = |time: &str| system(&format!("You help in a kitchen. It is {time}. Be brief."));
    let first = say(&world, &[at("10:41"), user("Hello")], json!({}));
    let later = [at("10:52"), user("Hello"), assistant(&text(&first)), user("Go on")];
    let answer = say(&world, &later, json!({}));
    let explanation = explained(&answer);
    assert_eq!(explanation["reason"], "clock", "{answer}");
    assert_eq!(explanation["segment"], json!({"layer": "identity", "key": "message 1"}));
    assert!(
        explanation["before"].as_str().unwrap().ends_with("kitchen. It is 10:"),
        "{explanation}"
    );
    assert!(
        explanation["kept_text"].as_str().unwrap().starts_with("41. Be brief.<|im_end|>"),
        "{explanation}"
    );
    assert!(
        explanation["new_text"].as_str().unwrap().starts_with("52. Be brief.<|im_end|>"),
        "{explanation}"
    );
    assert!(
        explanation["remedy"].as_str().unwrap().contains("into the last message"),
        "{explanation}"
    );
    let text = "<|im_start|>system\nYou help in a kitchen. It is 10:";
    let tokens = world.post("/tokenize", json!({"content": text})).json();
    assert_eq!(explanation["at"], tokens["tokens"].as_array().unwrap().len());

    let remembered = world.get("/v1/conversations/a/explain").json();
    assert_eq!(&remembered["explanation"], explanation);
    assert!(remembered["explained_at"].as_u64() > Some(1_700_000_000), "{remembered}");
    let metrics = world.get("/metrics").text();
    assert!(metrics.contains("hob_misses_total{reason=\"clock\"} 1"), "{metrics}");
}

#[test]
fn a_clock_in_front_of_the_tools_is_explained() {
    let world = World::new();
    let at = |time: &str| {
        let tools = [tool("light"), tool("heat")].map(|tool| tool.to_string()).join("\n");
        system(&format!("Today is {time}.\n<tools>\n{tools}\n</tools>"))
    };
    say(&world, &[at("Friday"), user("Hello")], json!({}));
    let answer = say(&world, &[at("Saturday"), user("Hello"), user("Again")], json!({}));
    let explanation = explained(&answer);
    assert_eq!(explanation["reason"], "clock", "{answer}");
    assert!(
        explanation["what"].as_str().unwrap().contains("in front of the tools and"),
        "{explanation}"
    );
}

#[test]
fn tools_in_another_order_are_explained_in_a_stream_too() {
    let world = World::new();
    let tools = |names: [&str; 2]| json!({"tools": names.map(tool), "tool_choice": "none"});
    say(&world, &[user("Hello")], tools(["light", "heat"]));
    let mut extra = tools(["heat", "light"]);
    extra["conversation"] = "a".into();
    let last = world.stream(json!([user("Hello")]), extra).collect().pop().unwrap();
    let explanation = explained(&last);
    assert_eq!(explanation["reason"], "tools_reordered", "{last}");
    assert_eq!(explanation["segment"], json!({"layer": "capabilities", "key": "tools"}));
    assert!(explanation["remedy"].as_str().unwrap().contains("same order"), "{explanation}");
}

#[test]
fn history_that_lost_its_middle_is_explained_after_a_restart_too() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Plan::new().directory(directory.path()).start();
    let mut world = start();
    let mut history = vec![system("Be brief."), user("One")];
    for question in ["Two", "Three"] {
        let answer = say(&world, &history, json!({}));
        history.extend([assistant(&text(&answer)), user(question)]);
    }
    let answer = say(&world, &history, json!({}));
    history.extend([assistant(&text(&answer)), user("Four")]);
    world.stop();
    drop(world);

    let mut world = start();
    history.drain(1..3);
    let answer = say(&world, &history, json!({}));
    let explanation = explained(&answer);
    assert_eq!(explanation["reason"], "history_trimmed", "{answer}");
    assert!(
        explanation["what"].as_str().unwrap().contains("2 messages are missing"),
        "{explanation}"
    );
    let explanation = explanation.clone();
    world.stop();
    drop(world);
    let world = start();
    assert_eq!(world.get("/v1/conversations/a/explain").json()["explanation"], explanation);
    world.call("DELETE", "/v1/conversations/a").send();
    assert_eq!(world.get("/v1/conversations/a/explain").status, 404);
}

#[test]
fn another_fingerprint_is_explained_by_the_fields_that_differ() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).cache_type_k("q8_0").start();
    let first = say(&world, &[user("Hello")], json!({}));
    world.stop();
    drop(world);
    let world = Plan::new().directory(directory.path()).cache_type_k("f16").start();
    let answer = say(&world, &[user("Hello"), assistant(&text(&first)), user("Go on")], json!({}));
    let explanation = explained(&answer);
    assert_eq!(explanation["reason"], "other_fingerprint", "{answer}");
    assert!(explanation["what"].as_str().unwrap().contains("cache_type_k"), "{explanation}");
    assert_eq!(explanation["kept_text"], Value::Null);
}

#[test]
fn missing_kv_is_explained_without_a_known_cause() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = Plan::new().directory(directory.path()).start();
    let first = say(&world, &[user("Hello")], json!({}));
    world.stop();
    drop(world);
    std::fs::remove_dir_all(directory.path().join("slots")).unwrap();
    let world = Plan::new().directory(directory.path()).start();
    let answer = say(&world, &[user("Hello"), assistant(&text(&first)), user("Go on")], json!({}));
    assert_eq!(explained(&answer)["reason"], "gone", "{answer}");
}

#[test]
fn a_client_that_appends_has_not_edited_the_messages_of_another_branch() {
    let world = World::new();
    let message = |id: u64, role: &str, content: &str| {
        let parent = (id % 4 != 1).then(|| id - 1);
        json!({"id": id, "parent": parent, "message": {"role": role, "content": content}})
    };
    let tree = json!({"format": "hob conversation", "version": 1, "id": "a", "head": 4, "messages": [
        message(1, "user", "Hello there"),
        message(2, "assistant", "Hi!"),
        message(3, "user", "How are you?"),
        message(4, "assistant", "Fine."),
        message(5, "user", "My locker code is 48213."),
        message(6, "assistant", "I know."),
        message(7, "user", "And the door?"),
        message(8, "assistant", "It is open."),
    ]});
    let imported = world.import("application/json", tree.to_string());
    assert_eq!(imported.status, 200, "{}", imported.text());
    let append = || json!({"conversation": "a", "hob": {"append": true}});
    world.chat(json!([user("Go on")]), append());
    let other = world.conversation("a")["messages"][7]["id"].clone();
    let chosen = world.call("PATCH", "/v1/conversations/a").json(&json!({"head": other})).send();
    assert_eq!(chosen.status, 200, "{}", chosen.text());

    // As the page does when a chat is opened.
    let warmed = world.post("/v1/prewarm", json!({"conversation": "a"}));
    assert_eq!(warmed.status, 200, "{}", warmed.text());
    let report = world.get("/v1/conversations/a/explain").json();
    let explanation = &report["explanation"];
    assert_eq!(explanation["reason"], "message_edited", "{report}");
    assert!(explanation["remedy"].as_str().unwrap().starts_with("none is needed"), "{report}");

    // A client that sends the messages itself has changed one.
    let history = [user("Good day"), assistant("I know."), user("And the door?")];
    let answer = say(&world, &history, json!({}));
    let explanation = explained(&answer);
    assert_eq!(explanation["reason"], "message_edited", "{answer}");
    assert!(explanation["remedy"].as_str().unwrap().contains("unchanged"), "{answer}");
}

#[test]
fn a_hint_is_explained_in_the_answer_alone() {
    let world = World::new();
    let ask = |question: &str| {
        let extra = json!({"promptCacheKey": "v5:abc"});
        let body = chat_body(json!([user(question), user("Go on")]), extra);
        world.post("/v1/chat/completions", body).json()
    };
    ask("What is the time?");
    let answer = ask("What is the date?");
    assert_eq!(explained(&answer)["reason"], "message_edited", "{answer}");
    let report = world.get("/v1/conversations/v5%3Aabc/explain");
    assert_eq!(report.status, 404, "an explanation quotes text, and a hint has none");
    world.settle();
    for file in hob_testkit::files::below(&world.directory) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("What is the"), "{} quotes it", file.display());
    }
}
