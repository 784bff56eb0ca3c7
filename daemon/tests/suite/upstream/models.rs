//! Which of the engine's models answers.

use hob_testkit::wait;
use serde_json::{Value, json};

use super::engine::Script;
use super::hints::{CHAT, World};
use super::{ask, text, user};

#[test]
fn an_engine_that_was_started_again_with_another_model_answers_with_that() {
    let World { engine, front, _directory } = World::of("vllm");
    assert_eq!(front.client.chat(&ask("Hi"))["model"], "first");
    engine.serves("third");
    let answer = front.client.chat(&ask("Hi"));
    assert_eq!((text(&answer), &answer["model"]), ("Hello", &json!("third")));
    assert_eq!(engine.last(CHAT).body["model"], "third");
}

#[test]
fn an_answer_has_the_model_that_the_engine_serves_once_it_begins() {
    let World { engine, front, _directory } = World::of("vllm");
    let held = engine.hold();
    let body = json!({"conversation": "talk", "input": "Hi", "stream": true});
    let mut stream = front.client.call("POST", "/v1/responses").json(&body).stream();
    // After the moment within which an engine refuses a request.
    let (_, created) = stream.next_named().unwrap();
    assert_eq!(created["response"]["model"], "first");
    engine.serves("third");
    drop(held);
    let mut last = created;
    while let Some((_, event)) = stream.next_named() {
        last = event;
    }
    assert_eq!(last["type"], "response.completed", "{last}");
    assert_eq!(last["response"]["model"], "third");
    let stored = front.client.get("/v1/conversations/talk")["messages"][1].clone();
    assert_eq!(stored["finish"]["model"], "third", "{stored}");
}

#[test]
fn an_ollama_client_is_answered_by_the_model_that_it_chooses_of_the_listed_ones() {
    let world = World::of("vllm");
    let client = &world.front.client;
    let listed = client.get("/api/tags")["models"][1]["name"].clone();
    assert_eq!(listed, "second:latest");
    let chat = json!({"stream": false, "messages": [user("Hi")]});
    let generate = json!({"stream": false, "prompt": "Hi"});
    for (path, body) in [("/api/chat", chat), ("/api/generate", generate)] {
        for (name, answers) in [("second:latest", "second"), ("second", "second"), ("x", "first")] {
            let mut body = body.clone();
            body["model"] = name.into();
            let answer = client.post(path, &body);
            assert_eq!(world.engine.last(CHAT).body["model"], answers, "{path} {name}");
            assert_eq!(answer["model"], format!("{answers}:latest"), "{path} {name}");
        }
    }
}

#[test]
fn vectors_and_scores_come_from_the_model_that_is_asked_for() {
    let world = World::of("vllm");
    let client = &world.front.client;
    let vectors = json!({"data": [{"embedding": [0.5, 1.0]}], "usage": {"prompt_tokens": 3}});
    world.engine.answers(Script::Status(200, vectors));
    let openai = |model: &str| json!({"model": model, "input": "a"});
    let older = json!({"model": "second:latest", "prompt": "a"});
    for (path, body, answers) in [
        ("/v1/embeddings", openai("second"), "second"),
        ("/v1/embeddings", openai("text-embedding-3-small"), "first"),
        ("/api/embed", openai("second:latest"), "second"),
        ("/api/embeddings", older, "second"),
        ("/embedding", json!({"model": "second", "content": "a"}), "second"),
    ] {
        let answer = client.post(path, &body);
        assert_eq!(world.engine.last("/v1/embeddings").body["model"], answers, "{path}: {body}");
        let expected = match path {
            "/v1/embeddings" => json!(answers),
            "/api/embed" => json!(format!("{answers}:latest")),
            _ => Value::Null,
        };
        assert_eq!(answer.get("model").unwrap_or(&Value::Null), &expected, "{path}: {body}");
    }
    let scores = json!({"results": [{"index": 0, "relevance_score": 2.0}]});
    world.engine.answers(Script::Status(200, scores));
    let ranked =
        client.post("/v1/rerank", &json!({"model": "second", "query": "q", "documents": ["a"]}));
    assert_eq!(world.engine.last("/v1/rerank").body["model"], "second");
    assert_eq!(ranked["model"], "second");
}

#[test]
fn a_model_that_the_engine_got_meanwhile_answers_and_a_foreign_name_is_not_looked_up_each_time() {
    let World { engine, front, _directory } = World::of("vllm");
    let answering = |name: &str| {
        let mut request = ask("Hi");
        request["model"] = name.into();
        front.client.chat(&request)["model"].clone()
    };
    assert_eq!(answering("second"), "second");
    engine.adds("third");
    assert_eq!(answering("third"), "third");
    assert_eq!(engine.last(CHAT).body["model"], "third");
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
