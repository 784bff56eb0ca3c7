//! What may not go to the disk, of a private conversation or of a request without a cache key, leaves its cells as far
//! as memory has room for it. Then the refusal, or the answer that ends, names the setting.

use serde_json::{Value, json};

use crate::common::{Answer, KV_BYTES_PER_TOKEN, Plan, World, merged, user};

/// Cells of the conversations.
const BUDGET: u64 = 400;

/// A world in which memory has room for the KV of so many tokens.
fn world(tokens: u64) -> World {
    Plan::new().memory_budget(tokens * KV_BYTES_PER_TOKEN).learned_prefixes(0).start()
}

/// A prompt four times as long as its budget.
fn read(world: &World, extra: &Value) -> Answer {
    let messages = json!([user(&"word ".repeat(320))]);
    let body = json!({"messages": messages, "hob": {"budget": BUDGET}, "max_tokens": 4});
    world.post("/v1/chat/completions", merged(body, extra))
}

fn private() -> Value {
    json!({"conversation": "secret", "hob": {"budget": BUDGET, "private": true}})
}

#[test]
fn a_prompt_for_which_memory_has_no_room_is_refused_with_the_setting() {
    let world = world(200);
    for extra in [json!({}), private()] {
        let refused = read(&world, &extra);
        assert_eq!(refused.status, 400, "{extra}: {}", refused.text());
        let error = refused.error();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("raise `memory_budget_bytes`"), "{extra}: {message}");
    }
    let saved = read(&world, &json!({"conversation": "chat"}));
    assert_eq!(saved.status, 200, "its KV goes to the disk: {}", saved.text());
}

#[test]
fn a_prompt_for_which_memory_has_room_is_answered() {
    let world = world(4_000);
    for extra in [json!({}), private()] {
        let answer = read(&world, &extra);
        assert_eq!(answer.status, 200, "{extra}: {}", answer.text());
    }
}

#[test]
fn an_answer_for_which_memory_has_no_room_ends_and_says_why() {
    let world = world(200);
    let hob = json!({"budget": BUDGET});
    let extra = json!({"hob": hob, "max_tokens": 2_000, "ignore_eos": true});
    let answer = world.chat(json!([user("Hello")]), extra);
    assert_eq!(answer["choices"][0]["finish_reason"], "length", "{answer}");
    assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() < 2_000, "{answer}");
    assert_eq!(answer["hob"]["context_full"], true, "{answer}");
    let why = &answer["hob"]["cells"]["no_eviction"];
    assert_eq!(why["reason"], "memory", "{answer}");
    assert!(why["remedy"].as_str().unwrap().contains("memory_budget_bytes"), "{why}");
}
