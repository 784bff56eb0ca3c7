//! Models that the engine got after hobd had asked for its list.

use hob_testkit::wait;
use serde_json::json;
use tempfile::TempDir;

use super::engine::Engine;
use super::{ask, front};

#[test]
fn a_model_that_the_engine_got_meanwhile_answers_and_a_foreign_name_is_not_looked_up_each_time() {
    let (engine, directory) = (Engine::start("vllm"), TempDir::new().unwrap());
    let front = front(directory.path(), &engine.url()).start();
    let answering = |name: &str| {
        let mut request = ask("Hi");
        request["model"] = name.into();
        front.client.chat(&request)["model"].clone()
    };
    assert_eq!(answering("second"), "second");
    engine.adds("third");
    assert_eq!(answering("third"), "third");
    assert_eq!(engine.last("/v1/chat/completions").body["model"], "third");
    engine.adds("fourth");
    let rank = json!({"model": "fourth", "query": "Hi", "documents": ["a"]});
    front.client.call("POST", "/v1/rerank").json(&rank).send();
    assert_eq!(engine.last("/v1/rerank").body["model"], "fourth");
    wait::until("a foreign name is not looked up again", || {
        let listed = engine.count("/v1/models");
        assert_eq!(answering("gpt-4o"), "first");
        (engine.count("/v1/models") == listed).then_some(())
    });
}
