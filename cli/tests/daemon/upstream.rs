//! `hob` and a daemon that forwards to an engine at another address.

use serde_json::{Value, json};

use super::common::Home;
use super::fake::Daemon;
use super::terminal::Terminal;

const URL: &str = "http://127.0.0.1:8000";
const LOST: &str = "the upstream http://127.0.0.1:8000 cannot be reached: start its server";

fn status(error: Option<&str>) -> Value {
    let upstream = json!({"url": URL, "engine": "vllm", "error": error});
    json!({"model": "qwen3", "upstream": upstream, "context_tokens": 0})
}

#[test]
fn doctor_names_an_upstream_and_whether_it_can_be_reached() {
    let home = Home::new();
    let daemon = Daemon::new(&home).answer("GET /v1/status", 200, status(None));
    let doctor = home.hob(&["doctor"]).ok();
    assert!(doctor.contains(&format!("that of the upstream {URL}")), "{doctor}");
    assert!(!doctor.contains("the bundled model"), "{doctor}");
    let _daemon = daemon.answer("GET /v1/status", 200, status(Some(LOST)));
    let doctor = home.hob(&["doctor"]).ok();
    assert!(doctor.contains("note  model") && doctor.contains(LOST), "{doctor}");
}

#[test]
fn a_chat_begins_with_the_address_of_the_upstream() {
    let home = Home::new();
    let _daemon = Daemon::new(&home).answer("GET /v1/status", 200, status(None));
    let mut hob = Terminal::start(&home, &["chat"]);
    let greeting = hob.reads("> ");
    assert!(greeting.contains(&format!("qwen3 of vllm at {URL}")), "{greeting}");
    assert!(!greeting.contains("0 tokens"), "{greeting}");
    hob.types("\u{4}");
    assert_eq!(hob.ends(), 0);
}
