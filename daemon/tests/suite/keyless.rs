//! A client that names no conversation and sends its whole history with each request, as most clients of OpenAI do.

use hob_testkit::Launch;
use serde_json::{Value, json};

use crate::common::{assistant, chat_body, text, user};

#[test]
fn a_history_that_outgrows_its_cells_is_computed_once() {
    for (cells, budget) in [("4096", json!(400)), ("512", Value::Null)] {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path());
        let hobd = launch.args(["--model", "fake", "--ctx", cells, "--slots", "1"]).start();
        let mut messages = vec![user(&"word ".repeat(160))];
        for n in 0..8 {
            let body = chat_body(json!(messages), json!({"hob": {"budget": budget}}));
            let answer = hobd.client.chat(&body);
            let prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
            let computed = answer["hob"]["tokens"]["computed"].as_u64().unwrap();
            assert!(prompt > 800, "{answer}");
            assert!(n == 0 || computed < prompt / 3, "request {n}, {cells} cells: {answer}");
            messages.push(assistant(&text(&answer)));
            messages.push(user(&format!("Question {n} is about number {} alone.", n * 7919)));
        }
        assert_eq!(hobd.client.get("/v1/conversations")["data"], json!([]), "nothing is stored");
    }
}
