//! What the documents of the API list, beside what the built hobd answers on the fake model: codes of errors, metrics and
//! fields of the status.

use hob_testkit::Call;
use serde_json::{Value, json};

use crate::common::home::Home;

const CHAT: &str = "/v1/chat/completions";
const ERRORS: &str = include_str!("../../../docs/HTTP.md");
const STATUS: &str = include_str!("../../../docs/http/status.md");

/// Whether a row of the document's tables begins with the status and the code.
fn is_listed(status: u16, code: &str) -> bool {
    let (begin, code) = (format!("| {status} | "), format!("`{code}`"));
    let codes =
        |line: &str| line.strip_prefix(begin.as_str())?.split(" | ").next().map(str::to_owned);
    ERRORS.lines().filter_map(codes).any(|codes| codes.contains(&code))
}

fn assert_refused(call: Call, status: u16, code: &str) {
    let answer = call.send();
    let error = answer.error();
    assert_eq!((answer.status, error["code"].as_str()), (status, Some(code)), "{error}");
    assert!(is_listed(status, code), "docs/HTTP.md has no row {status} with {code}");
}

#[test]
fn the_code_of_an_error_is_listed_with_its_status() {
    let home = Home::on_fake();
    let hobd = home.start();
    let hi = json!([{"role": "user", "content": "Hi"}]);
    let blank = json!([{"layer": "rules", "source": "text", "content": " "}]);
    for (method, path, body, status, code) in [
        ("GET", "/v1/nothing", Value::Null, 404, "not_found"),
        ("GET", CHAT, Value::Null, 405, "method_not_allowed"),
        ("GET", "/v1/models/another", Value::Null, 404, "model_not_found"),
        ("GET", "/v1/conversations/room", Value::Null, 404, "conversation_not_found"),
        ("GET", "/v1/conversations/room/answer", Value::Null, 404, "no_answer"),
        ("POST", CHAT, json!({}), 400, "missing"),
        ("POST", CHAT, json!({"messages": 1}), 400, "invalid_type"),
        ("POST", CHAT, json!({"messages": hi, "temperature": 9}), 400, "invalid_value"),
        ("POST", CHAT, json!({"messages": hi, "audio": {}}), 400, "unsupported"),
        ("POST", CHAT, json!({"messages": hi, "lora": [{"id": "no"}]}), 400, "adapter_not_found"),
        ("PATCH", "/v1/settings", json!({"settings": {"no": 1}}), 400, "unknown_setting"),
        ("PUT", "/v1/profiles/lights", json!({"segments": blank}), 400, "invalid_profile"),
    ] {
        let call = hobd.client.call(method, path);
        let call = if body.is_null() { call } else { call.json(&body) };
        assert_refused(call, status, code);
    }
    let call = |method: &str, path: &str| hobd.client.call(method, path);
    let foreign = call("GET", "/v1/models").header("origin", "http://evil.example");
    assert_refused(foreign, 403, "origin_not_allowed");
    let form = call("POST", "/v1/audio/transcriptions");
    let form = form.header("content-type", "multipart/form-data; boundary=x").body("no form");
    assert_refused(form, 400, "invalid_form");
    let long = call("POST", "/v1/documents?name=long.txt").body("x".repeat((4 << 20) + 1));
    assert_refused(long, 413, "document_too_large");
}

#[test]
fn each_metric_and_each_field_of_the_status_is_described() {
    let home = Home::on_fake();
    let hobd = home.start();
    let page = hobd.client.get_text("/metrics");
    let metrics = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let status = hobd.client.get("/v1/status");
    let fields = status.as_object().unwrap().keys().map(String::as_str);
    let is_described = |name: &str| {
        [format!("`{name}`"), format!("`{name}{{")].iter().any(|it| STATUS.contains(it))
    };
    let missing: Vec<_> = metrics.chain(fields).filter(|name| !is_described(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
