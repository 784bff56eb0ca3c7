//! The events of a stream, in order.

use serde_json::{Value, json};

use super::{World, say, types};

/// The events in a short form: the type, the index, and what is new.
fn outline(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap();
            match kind {
                "content_block_start" => {
                    format!("{} start {}", event["index"], event["content_block"]["type"])
                }
                "content_block_delta" => format!("{} {}", event["index"], event["delta"]["type"]),
                "content_block_stop" => format!("{} stop", event["index"]),
                _ => kind.to_owned(),
            }
        })
        .collect::<Vec<_>>()
        .into_iter()
        .fold(Vec::new(), |mut all: Vec<String>, next| {
            if all.last() != Some(&next) {
                all.push(next); // Of equal deltas one.
            }
            all
        })
}

#[test]
fn a_text_is_streamed_in_one_block() {
    let world = World::new();
    let body = say("Hello there", json!({}));
    let events = world.events(&body);
    assert_eq!(
        outline(&events),
        [
            "message_start",
            "0 start \"text\"",
            "0 \"text_delta\"",
            "0 stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert!(types(&events).iter().filter(|kind| **kind == "content_block_delta").count() > 3);
    let start = &events[0]["message"];
    assert_eq!((&start["content"], &start["stop_reason"]), (&json!([]), &Value::Null));
    let usage = &start["usage"];
    assert!(usage["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(usage["output_tokens"], 0);
    assert_eq!(events[1]["content_block"], json!({"type": "text", "text": ""}));
    let texts = events.iter().filter_map(|event| event["delta"]["text"].as_str());
    assert_eq!(texts.collect::<String>(), "Hello there");
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"], json!({"stop_reason": "end_turn", "stop_sequence": null}));
    assert_eq!(end["usage"]["input_tokens"], usage["input_tokens"]);
    assert_eq!(end["usage"]["output_tokens"], "Hello there".len() + 1);
    assert_eq!(end["hob"]["tokens"]["computed"], usage["input_tokens"]);
    assert_eq!(events.last().unwrap(), &json!({"type": "message_stop"}));
}

/// What a stop text might begin with arrives in one piece, here the end of a call and the text behind it.
#[test]
fn the_end_of_a_call_stands_in_its_block_although_text_arrives_with_it() {
    let world = World::new();
    let call =
        "<tool_call>\n{\"name\": \"light\", \"arguments\": {\"room\":\"hall\"}}\n</tool_call>";
    let schema = json!({"type": "object", "properties": {"room": {"type": "string"}}});
    let tool = json!({"name": "light", "input_schema": schema});
    let stop = "hall\"}}\n</tool_call>Done, too";
    let extra = json!({"tools": [tool], "stop_sequences": [stop]});
    let events = world.events(&say(&format!("{call}Done."), extra));
    let of = |index: u64, field: &str| {
        let own = events.iter().filter(|event| event["index"] == index);
        own.filter_map(|event| event["delta"][field].as_str()).collect::<String>()
    };
    assert_eq!(of(0, "partial_json"), "{\"room\":\"hall\"}", "{events:?}");
    assert_eq!((of(1, "partial_json").as_str(), of(1, "text").as_str()), ("", "Done."));
}

#[test]
fn reasoning_comes_before_the_text_and_ends_with_a_signature() {
    let world = World::new();
    let text = "<think>So it is.</think>Yes";
    let events = world.events(&say(text, json!({})));
    let expected = [
        "message_start",
        "0 start \"thinking\"",
        "0 \"thinking_delta\"",
        "0 \"signature_delta\"",
        "0 stop",
        "1 start \"text\"",
        "1 \"text_delta\"",
        "1 stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(outline(&events), expected);
    assert_eq!(
        events[1]["content_block"],
        json!({"type": "thinking", "thinking": "", "signature": ""})
    );
    let thoughts = events.iter().filter_map(|event| event["delta"]["thinking"].as_str());
    assert_eq!(thoughts.collect::<String>(), "So it is.");
    let omitted = json!({"thinking": {"type": "adaptive", "display": "omitted"}});
    let events = outline(&world.events(&say(text, omitted)));
    assert_eq!(
        events[..4],
        ["message_start", "0 start \"thinking\"", "0 \"signature_delta\"", "0 stop"]
    );
}

#[test]
fn a_stop_sequence_and_a_limit_end_a_stream() {
    let world = World::new();
    for (extra, delta) in [
        (
            json!({"stop_sequences": [" two"]}),
            json!({"stop_reason": "stop_sequence", "stop_sequence": " two"}),
        ),
        (json!({"max_tokens": 3}), json!({"stop_reason": "max_tokens", "stop_sequence": null})),
    ] {
        let events = world.events(&say("one two", extra));
        let texts = events.iter().filter_map(|event| event["delta"]["text"].as_str());
        assert_eq!(texts.collect::<String>(), "one");
        assert_eq!(events[events.len() - 2]["delta"], delta);
    }
}

#[test]
fn an_answer_without_text_has_no_block() {
    let world = World::new();
    let events = world.events(&say("x", json!({"max_tokens": 0})));
    assert_eq!(outline(&events), ["message_start", "message_delta", "message_stop"]);
}

#[test]
fn progress_is_reported_in_pings_to_those_who_ask() {
    let world = World::new();
    let events = world.events(&say("Yes", json!({"hob": {"progress": true}, "conversation": "c"})));
    let reports = events.iter().take_while(|event| event["type"] == "ping");
    let reports: Vec<_> = reports.map(|ping| &ping["hob"]["progress"]["phase"]).collect();
    assert!(reports.iter().all(|phase| phase.is_string()) && !reports.is_empty(), "{reports:?}");
    let start = events.iter().find(|event| event["type"] == "message_start").unwrap();
    assert_eq!(start["message"]["hob"]["conversation"], "c");
}

#[test]
fn a_client_that_waits_gets_pings() {
    let world = World::new();
    // 4 ms a token: six seconds more than the time to the first ping.
    let slow = format!("Read this slowly: {}", "a".repeat(4_000));
    let body = super::with(json!([super::user(json!(slow))]), json!({"max_tokens": 1}));
    let events = world.events(&body);
    assert_eq!(events[0], json!({"type": "ping"}));
    assert!(types(&events).contains(&"message_stop"));
}

#[test]
fn an_error_within_a_stream_is_its_last_event() {
    let world = World::new();
    let mut body = super::with(
        json!([super::user(json!(format!("Say this slowly: {}", "a".repeat(2_000))))]),
        json!({"max_tokens": 3_000, "conversation": "c", "stream": true}),
    );
    body["stream"] = json!(true);
    let mut stream = world.call(super::MESSAGES).json(&body).stream();
    while stream.next_named().unwrap().0 != "content_block_delta" {}
    let deleted = world.hobd.client.call("DELETE", "/v1/conversations/c?permanent=true").send();
    assert!(deleted.status < 300, "{}", deleted.text());
    let mut last = Value::Null;
    while let Some((name, event)) = stream.next_named() {
        assert_eq!(event["type"], name.as_str());
        last = event;
    }
    assert_eq!(
        (&last["type"], &last["error"]["type"]),
        (&json!("error"), &json!("not_found_error"))
    );
    assert_eq!(last["error"]["code"], "conversation_deleted");
}
