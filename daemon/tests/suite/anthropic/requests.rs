//! What of a request reaches the model, and what of its answer the client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{World, say, user, with};
use crate::documents::pdf::pdf;

#[test]
fn an_answer_is_a_message() {
    let world = World::new();
    let answer = world.ask(&say("Hello", json!({"metadata": {"user_id": "u"}, "new_field": 1})));
    assert!(answer.header("request-id").unwrap().starts_with("req_"));
    let message = answer.json();
    assert!(message["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(message["type"], "message");
    assert_eq!(message["role"], "assistant");
    assert_eq!(message["model"], "fake");
    assert_eq!(message["content"], json!([{"type": "text", "text": "Hello"}]));
    assert_eq!(
        (&message["stop_reason"], &message["stop_sequence"]),
        (&json!("end_turn"), &Value::Null)
    );
    let usage = &message["usage"];
    assert_eq!(usage["output_tokens"], "Hello".len() + 1); // A token a byte, and the last one.
    let tokens = &message["hob"]["tokens"];
    assert_eq!(usage["input_tokens"], tokens["computed"]);
    assert_eq!(usage["cache_creation_input_tokens"], 0);
    assert_eq!(message["hob"]["cache_key"], Value::Null, "it marks nothing for a cache");
}

#[test]
fn a_system_prompt_is_a_text_or_blocks() {
    let world = World::new();
    let of = |system: Value, name: &str| {
        let extra = json!({"system": system, "conversation": name});
        world.message(&say("Yes", extra));
        world.stored(name)
    };
    let text = of(json!("Be brief.\nBe kind."), "text");
    let blocks = of(
        json!([{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]),
        "blocks",
    );
    for stored in [&text, &blocks] {
        assert_eq!(
            (&stored[0]["role"], &stored[0]["content"]),
            (&json!("system"), &json!("Be brief.\nBe kind."))
        );
        assert_eq!(stored.len(), 3);
    }
    // Claude Code's bill changes with each request.
    for bill in [
        "x-anthropic-billing-header: cc_version=2.1; cch=fa690;",
        "x-anthropic-billing-header: cch=1;",
    ] {
        let billed = of(
            json!([{"type": "text", "text": bill}, {"type": "text", "text": "Be brief."}]),
            "billed",
        );
        assert_eq!(billed[0]["content"], "Be brief.");
    }
    assert_eq!(world.stored("billed").len(), 3, "the second request was the same");
}

#[test]
fn contents_are_texts_or_blocks_and_thoughts_come_back() {
    let world = World::new();
    let document = json!({"type": "document", "title": "a.txt",
        "source": {"type": "text", "media_type": "text/plain", "data": "Once."}});
    let messages = json!([
        user(json!([{"type": "text", "text": "One"}, document, {"type": "text", "text": "two"}])),
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "Three"}, {"type": "text", "text": " four"},
        ]},
        {"role": "system", "content": "Be kind."},
        user(json!("Say this: five")),
    ]);
    let answer = world.message(&with(messages, json!({"conversation": "c"})));
    assert_eq!(answer["content"][0]["text"], "five");
    let stored = world.stored("c");
    let said: Vec<_> = stored
        .iter()
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    assert_eq!(
        said,
        [
            ("user", "One\na.txt\nOnce.\ntwo"),
            ("assistant", "Three four"),
            ("user", "<system-reminder>\nBe kind.\n</system-reminder>"),
            ("user", "Say this: five"),
            ("assistant", "five"),
        ]
    );
    assert_eq!(stored[1]["reasoning_content"], "Hm.");
}

#[test]
fn documents_and_results_of_searches_are_their_texts() {
    let world = World::new();
    let file = BASE64.encode(pdf(&["The castle has seven doors."]));
    let document = |source: Value| json!({"type": "document", "title": "a", "source": source});
    let found = json!({"type": "search_result", "title": "Mills", "source": "http://a",
                       "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "door."}],
                       "citations": {"enabled": true}});
    let call = json!({"type": "tool_use", "id": "c", "name": "search", "input": {}});
    let base64 = json!({"type": "base64", "media_type": "application/pdf", "data": file});
    let result = json!({"type": "tool_result", "tool_use_id": "c",
                        "content": [found, document(base64.clone())]});
    let messages = json!([
        user(json!([
            document(base64),
            document(json!({"type": "content", "content": [{"type": "text", "text": "In parts."}]})),
            document(json!({"type": "content", "content": "Whole."})),
            found,
        ])),
        {"role": "assistant", "content": [call]},
        user(json!([result, {"type": "text", "text": "Say this: five"}])),
    ]);
    let body = with(messages, json!({"conversation": "c"}));
    assert_eq!(world.message(&body)["content"][0]["text"], "five");
    let stored = world.stored("c");
    let found = "Mills\nhttp://a\nOne\ndoor.";
    let told = |n: usize| stored[n]["content"].as_str().unwrap();
    let castle = "The castle has seven doors.";
    assert!(told(0).starts_with("a\n") && told(0).contains(castle), "{}", told(0));
    assert!(told(0).ends_with(&format!("\na\nIn parts.\na\nWhole.\n{found}")), "{}", told(0));
    assert!(told(2).starts_with(found) && told(2).contains(castle), "{}", told(2));
    assert!(world.count(&body) > 0);
}

#[test]
fn a_message_of_the_system_in_front_joins_the_system_prompt() {
    let world = World::new();
    let messages = json!([{"role": "system", "content": "Be kind."}, user(json!("Hello"))]);
    world.message(&with(messages, json!({"system": "Be brief.", "conversation": "c"})));
    assert_eq!(world.stored("c")[0]["content"], "Be brief.\nBe kind.");
    assert_eq!(world.stored("c")[1]["role"], "user");
}

#[test]
fn reasoning_is_a_block_of_its_own_with_a_signature() {
    let world = World::new();
    let text = "<think>So it is.</think>Yes";
    let message = world.message(&say(text, json!({})));
    let thinking = json!({"type": "thinking", "thinking": "So it is.", "signature": "hob"});
    let answer = json!({"type": "text", "text": "Yes"});
    assert_eq!(message["content"], json!([thinking, answer]));
    assert!(message["usage"]["output_tokens_details"]["thinking_tokens"].as_u64().unwrap() > 0);
    let omitted = say(text, json!({"thinking": {"type": "adaptive", "display": "omitted"}}));
    let thinking = json!({"type": "thinking", "thinking": "", "signature": "hob"});
    assert_eq!(world.message(&omitted)["content"][0], thinking);
}

#[test]
fn thinking_and_effort_reach_the_chat_template() {
    let world = World::new();
    let said = |extra: Value| {
        let message = world.message(&say("So", extra));
        message["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let thinking = |thinking: Value| said(json!({"thinking": thinking}));
    assert_eq!(said(json!({})), "So");
    assert_eq!(thinking(json!({"type": "disabled"})), "So; thinks: False, budget: , effort: ");
    assert_eq!(thinking(json!({"type": "adaptive"})), "So; thinks: True, budget: , effort: ");
    for (tokens, effort) in [(1024, "low"), (10_000, "medium"), (31_999, "high")] {
        let enabled = json!({"type": "enabled", "budget_tokens": tokens});
        let expected = format!("So; thinks: True, budget: {tokens}, effort: {effort}");
        assert_eq!(thinking(enabled), expected);
    }
    let effort = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}});
    assert_eq!(said(effort), "So; thinks: True, budget: , effort: high");
    let own = json!({"chat_template_kwargs": {"enable_thinking": false}, "thinking": {"type": "adaptive"}});
    assert_eq!(said(own), "So; thinks: False, budget: , effort: ");
}

#[test]
fn an_answer_says_why_it_ended() {
    let world = World::new();
    let why = |body: &Value| {
        let message = world.message(body);
        let text = message["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        (text, message["stop_reason"].clone(), message["stop_sequence"].clone())
    };
    let stops = json!({"stop_sequences": ["three", "two"]});
    assert_eq!(
        why(&say("one two three", stops.clone())),
        ("one ".into(), json!("stop_sequence"), json!("two"))
    );
    assert_eq!(why(&say("one", stops)), ("one".into(), json!("end_turn"), Value::Null));
    let short = say("one two", json!({"max_tokens": 3}));
    assert_eq!(why(&short), ("one".into(), json!("max_tokens"), Value::Null));
    // Anthropic's way to warm its cache.
    let warm = world.message(&say("one two", json!({"max_tokens": 0})));
    assert_eq!((&warm["content"], &warm["stop_reason"]), (&json!([]), &json!("max_tokens")));
}

#[test]
fn an_answer_ends_where_the_context_is_full() {
    let world = World::with(&["--ctx", "256", "--slots", "1", "--eviction", "off"]);
    let message = world.message(&say(&"a".repeat(150), json!({})));
    assert_eq!(message["stop_reason"], "model_context_window_exceeded");
    assert_eq!(message["hob"]["context_full"], true);
}

#[test]
fn an_answer_goes_on_with_a_last_message_of_the_assistant() {
    let world = World::new();
    let begun = json!([user(json!("Say this: one two")), {"role": "assistant", "content": "one"}]);
    let message = world.message(&with(begun.clone(), json!({})));
    assert_eq!(message["content"][0]["text"], " two");
    assert_eq!(
        world.count(&with(begun, json!({}))),
        message["hob"]["tokens"]["computed"].as_u64().unwrap()
            + message["usage"]["cache_read_input_tokens"].as_u64().unwrap()
    );
}

#[test]
fn a_count_is_that_of_the_prompt_and_needs_no_limit() {
    let world = World::new();
    let tool = json!({"name": "light", "input_schema": {"type": "object"}});
    let plain = json!([user(json!("Hello"))]);
    for extra in [json!({}), json!({"system": "Be brief."}), json!({"tools": [tool]})] {
        let body = with(plain.clone(), extra);
        let usage = world.message(&body)["usage"].clone();
        let sum =
            |names: [&str; 3]| names.map(|name| usage[name].as_u64().unwrap()).iter().sum::<u64>();
        let total = sum(["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]);
        let mut counted = body.clone();
        counted.as_object_mut().unwrap().remove("max_tokens");
        assert_eq!(world.count(&counted), total, "{body}");
    }
    assert_eq!(world.hobd.client.get("/v1/conversations")["data"], json!([]));
}

#[test]
fn the_answer_follows_a_schema() {
    let world = World::new();
    let schema = json!({"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"]});
    let format = json!({"type": "json_schema", "schema": schema});
    for extra in [json!({"output_config": {"format": format}}), json!({"output_format": format})] {
        let message = world.message(&say("{\"mood\": \"awful\"}", extra));
        let answer: Value =
            serde_json::from_str(message["content"][0]["text"].as_str().unwrap()).unwrap();
        assert!(["good", "bad"].contains(&answer["mood"].as_str().unwrap()), "{answer}");
    }
}

#[test]
fn a_conversation_goes_on_with_new_messages_alone() {
    let world = World::new();
    let first = world.message(&say("One", json!({"conversation": "c", "system": "Be brief."})));
    let body = say("Two", json!({"hob": {"append": true}, "system": "Be long."}));
    let second = world.call(super::MESSAGES).header("x-session-id", "c").json(&body).send().json();
    assert_eq!(second["hob"]["conversation"], "c");
    let stored = world.stored("c");
    let texts: Vec<_> = stored.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(texts[..2], ["Be brief.", "Say this: One"]);
    assert_eq!(texts[2..], ["One", "Say this: Two", "Two"]);
    assert_eq!(first["hob"]["conversation"], "c");
    assert_eq!(world.hobd.client.get("/v1/conversations/c")["instructions"], "Be long.");
}

/// Both in one: OpenAI's clients read `object`, Anthropic's `type`.
#[test]
fn models_are_a_page_of_anthropics_api() {
    let world = World::new();
    let list = world.hobd.client.get("/v1/models");
    let model = &list["data"][0];
    assert_eq!(
        (&list["object"], &model["object"], &model["type"]),
        (&json!("list"), &json!("model"), &json!("model"))
    );
    assert_eq!(
        (&list["has_more"], &list["first_id"], &list["last_id"]),
        (&json!(false), &model["id"], &model["id"])
    );
    assert_eq!((&model["display_name"], &model["lifecycle"]), (&json!("fake"), &json!("active")));
    let created = model["created_at"].as_str().unwrap();
    assert!(
        created.ends_with('Z') && created.as_bytes()[10] == b'T' && created.len() == 20,
        "{created}"
    );
}
