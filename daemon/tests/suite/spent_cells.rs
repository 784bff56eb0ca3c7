//! An answer whose cells are used up by what must stay ends with `length`, and says so: it has not reached the context
//! that the model was trained with. On the fake backend: a token a byte.

use hob_testkit::Launch;
use serde_json::{Value, json};

use crate::common::chat_body;

#[test]
fn an_answer_that_pinned_text_leaves_no_room_says_why_it_ends() {
    // The pinned message has seven tokens more than its text. Behind it fewer cells are left than a block has.
    for (ctx, budget, text) in [("4096", json!(200), 140), ("512", Value::Null, 445)] {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let hobd = launch.args(["--model", "fake", "--ctx", ctx, "--slots", "1"]).start();
        let pinned = json!({"role": "user", "content": "x".repeat(text), "hob": {"pin": true}});
        let ask = |max_tokens: u64| {
            let hob = json!({"budget": budget});
            let extra = json!({"hob": hob, "max_tokens": max_tokens, "ignore_eos": true});
            hobd.client.chat(&chat_body(json!([pinned]), extra))
        };
        let answer = ask(400);
        let cells = &answer["hob"]["cells"];
        assert_eq!(answer["choices"][0]["finish_reason"], "length", "{answer}");
        assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() < 400, "{answer}");
        assert_eq!(answer["hob"]["context_full"], true, "{answer}");
        assert_eq!(cells["peak"], cells["budget"], "{answer}");
        let why = &cells["no_eviction"];
        assert_eq!(why["reason"], "protected", "{answer}");
        assert!(why["what"].as_str().unwrap().contains("pinned parts"), "{why}");
        assert!(why["remedy"].as_str().unwrap().contains("pin fewer messages"), "{why}");

        let answer = ask(8);
        assert_eq!(answer["hob"]["context_full"], false, "{answer}");
        assert_eq!(answer["hob"]["cells"]["no_eviction"], Value::Null, "{answer}");
    }
}
