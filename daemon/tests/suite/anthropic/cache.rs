//! What is reused and kept: `cache_control`, TTL classes and usage.

use serde_json::{Value, json};

use super::{MESSAGES, World, say, user, with};

fn mark(ttl: Option<&str>) -> Value {
    match ttl {
        Some(ttl) => json!({"type": "ephemeral", "ttl": ttl}),
        None => json!({"type": "ephemeral"}),
    }
}

/// A system prompt of several blocks of tokens, with a mark.
fn system(ttl: Option<&str>) -> Value {
    json!([{"type": "text", "text": "Be brief. ".repeat(20), "cache_control": mark(ttl)}])
}

fn number(usage: &Value, name: &str) -> u64 {
    usage[name].as_u64().unwrap_or_else(|| panic!("{name}: {usage}"))
}

#[test]
fn usage_counts_what_was_read_and_what_was_created() {
    let world = World::new();
    let ask = |text: &str| {
        let answer = world.message(&say(text, json!({"system": system(None)})));
        let usage = answer["usage"].clone();
        let tokens = answer["hob"]["tokens"].clone();
        let input = number(&usage, "input_tokens");
        let created = number(&usage, "cache_creation_input_tokens");
        assert_eq!(input + created, number(&tokens, "computed"));
        (input, created, number(&usage, "cache_read_input_tokens"))
    };
    let (input, created, read) = ask("One");
    assert!(input == 1 && created > 200 && read == 0, "{input} {created} {read}");
    let (input, created, read) = ask("Two");
    assert!(input == 1 && created < 30 && read > 200, "{input} {created} {read}");
    let (input, created, _) = ask("Two");
    assert_eq!((input, created), (1, 0), "only its last token was computed");
}

#[test]
fn a_stream_begins_with_the_same_usage() {
    let world = World::new();
    let body = say("One", json!({"system": system(None)}));
    world.message(&body);
    let events = world.events(&body);
    let usage = &events[0]["message"]["usage"];
    assert!(number(usage, "cache_read_input_tokens") > 200, "{usage}");
    assert_eq!(number(usage, "input_tokens"), 1);
    let end = &events[events.len() - 2]["usage"];
    assert_eq!(end["cache_read_input_tokens"], usage["cache_read_input_tokens"]);
}

#[test]
fn a_mark_names_the_kv_by_its_user_or_by_what_stands_in_front() {
    let world = World::new();
    let key = |extra: Value| world.message(&say("One", extra))["hob"]["cache_key"].clone();
    let user = json!({"user_id": "user_1_session_2"});
    assert_eq!(key(json!({"metadata": user})), Value::Null, "nothing is marked");
    assert_eq!(key(json!({"metadata": user, "system": system(None)})), "conv:user_1_session_2");
    let hashed = key(json!({"system": system(None)}));
    assert!(hashed.as_str().unwrap().contains("cache_control:"), "{hashed}");
    assert_eq!(key(json!({"system": system(Some("1h"))})), hashed, "the same text");
    assert_ne!(key(json!({"system": "Hi", "cache_control": mark(None)})), hashed);
    let own = json!({"system": system(None), "prompt_cache_key": "own"});
    assert_eq!(key(own), "conv:own");
    let answer = world.message(&say("One", json!({"system": system(None), "conversation": "c"})));
    assert_eq!(
        (&answer["hob"]["conversation"], &answer["hob"]["cache_key"]),
        (&json!("c"), &Value::Null)
    );
    assert_eq!(key(json!({"system": system(None), "store": false})), hashed, "it stays in memory");
    let private = json!({"system": system(None), "hob": {"private": true}});
    assert_eq!(key(private), Value::Null);
}

#[test]
fn marks_set_how_long_the_kv_stays() {
    let world = World::new();
    let class = |key: &str, extra: Value| {
        let mut extra = extra;
        extra["prompt_cache_key"] = json!(key);
        world.message(&say(key, extra));
        hob_testkit::wait::until("the KV is saved", || {
            let slots = world.hobd.client.get("/v1/slots");
            let named = |slot: &&Value| slot["conversation"].as_str().unwrap().ends_with(key);
            slots["data"].as_array().unwrap().iter().find(named).map(|slot| slot["class"].clone())
        })
    };
    assert_eq!(class("none", json!({})), "extended");
    assert_eq!(class("unset", json!({"system": system(None)})), "extended");
    assert_eq!(class("short", json!({"system": system(Some("5m"))})), "short");
    assert_eq!(
        class("long", json!({"system": system(Some("5m")), "cache_control": mark(Some("1h"))})),
        "long"
    );
    let own = json!({"system": system(Some("5m")), "hob": {"ttl": "permanent"}});
    assert_eq!(class("own", own), "permanent");
    let tool =
        json!({"name": "f", "input_schema": {"type": "object"}, "cache_control": mark(Some("1h"))});
    assert_eq!(class("tool", json!({"tools": [tool]})), "long");
}

#[test]
fn what_is_marked_is_read_from_disk_after_a_restart() {
    let mut world = World::new();
    let read = |world: &World, system: &Value| {
        let answer = world.message(&say("One", json!({"system": system})));
        (
            number(&answer["usage"], "cache_read_input_tokens"),
            answer["hob"]["tokens"]["disk"].clone(),
        )
    };
    let plain = json!("Be kind. ".repeat(20));
    read(&world, &system(None));
    read(&world, &plain);
    world.restart();
    let (tokens, disk) = read(&world, &system(None));
    assert!(tokens > 200 && disk == tokens, "{tokens} {disk}");
    assert!(read(&world, &plain).0 < 64, "without a mark nothing is saved");
}

/// As Claude Code asks: a bill that changes, tools, marks that move with the last message.
#[test]
fn a_session_of_claude_code_computes_only_what_is_new() {
    let world = World::new();
    let session = "user_0_account_1_session_2";
    let read = json!({"name": "Read", "description": "Reads a file. ".repeat(20), "input_schema": {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
        "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}});
    let ask = |bill: &str, messages: Value| {
        let system = json!([
            {"type": "text", "text": format!("x-anthropic-billing-header: cc_version=2.1.37; cch={bill};")},
            {"type": "text", "text": "You are Claude Code.", "cache_control": mark(None)},
            {"type": "text", "text": "Be brief. ".repeat(20), "cache_control": mark(Some("1h"))},
        ]);
        let body = with(
            messages,
            json!({
                "model": "claude-sonnet-4-5", "system": system, "tools": [read], "metadata": {"user_id": session},
                "thinking": {"type": "adaptive"}, "context_management": {"edits": []},
            }),
        );
        let count = world.call("/v1/messages/count_tokens?beta=true").json(&body).send();
        let call = world
            .call(&format!("{MESSAGES}?beta=true"))
            .header("anthropic-version", "2023-06-01")
            .header("anthropic-beta", "claude-code-20250219,interleaved-thinking-2025-05-14");
        let answer = call.json(&body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        (count.json()["input_tokens"].as_u64().unwrap(), answer.json())
    };
    let question = |text: &str| {
        json!({"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>Today is Tuesday.</system-reminder>"},
        {"type": "text", "text": text, "cache_control": mark(None)}]})
    };
    let (count, first) = ask("fa690", json!([question("Hi")]));
    let usage = &first["usage"];
    assert_eq!(count, number(usage, "input_tokens") + number(usage, "cache_creation_input_tokens"));
    assert_eq!(first["hob"]["cache_key"], format!("conv:{session}"));
    let answered = json!({"role": "assistant", "content": first["content"]});
    let (more, second) = ask("0b1c2", json!([question("Hi"), answered, user(json!("And now?"))]));
    let usage = &second["usage"];
    let computed = number(usage, "input_tokens") + number(usage, "cache_creation_input_tokens");
    assert!(number(usage, "cache_read_input_tokens") >= count - 64, "{usage}");
    assert!(computed <= more - count + 64, "{usage}");
}
