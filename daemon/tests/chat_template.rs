//! The setting `chat_template`, through the built hobd.

use std::fs;
use std::path::Path;

use hob_testkit::Launch;
use serde_json::json;

const TEMPLATE: &str = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n\
    {% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

fn launch(directory: &Path, model: &str, template: &Path) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_hobd"), directory)
        .args(["--model", model, "--chat-template"])
        .args([template])
}

fn models() -> Vec<&'static str> {
    let mut models = vec!["fake"];
    if cfg!(feature = "llama") {
        models.push("bundled");
    }
    models
}

#[test]
fn prompts_are_written_by_the_template_of_the_settings() {
    for model in models() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.jinja");
        fs::write(&path, TEMPLATE).unwrap();
        let hobd = launch(directory.path(), model, &path).start();
        let body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4});
        let shown = hobd.client.call("POST", "/apply-template").json(&body).send().json();
        assert_eq!(shown["prompt"], "[user] Hi\n[assistant]", "{model}");
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(&body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[test]
fn a_template_that_cannot_be_used_is_named_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.jinja");
    let refusal = || {
        let output = launch(directory.path(), "fake", &path).command().output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = refusal();
    assert!(missing.contains("own.jinja as chat_template: correct"), "{missing}");
    fs::write(&path, "a\n{% if %}").unwrap();
    let wrong = refusal();
    assert!(wrong.contains("own.jinja") && wrong.contains("line 2"), "{wrong}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let directory = refusal();
    assert!(directory.contains("it is not a file"), "{directory}");
}
