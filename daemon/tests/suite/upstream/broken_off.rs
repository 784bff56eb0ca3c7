//! Answers that do not reach their client as a whole: the engine dies or reports an error, or the client leaves.

use hob_testkit::client::Event;
use hob_testkit::wait;
use serde_json::json;
use tempfile::TempDir;

use super::engine::{Engine, Script};
use super::{World, ask, behind, first_words, front, text};
use crate::common::user;

#[test]
fn an_engine_that_dies_within_an_answer_leaves_the_text_and_a_message() {
    let mut world = World::new();
    let url = world.url();
    let slowly = format!("Say this slowly: {}", "word ".repeat(200));
    let request = json!({"conversation": "talk", "hob": {"append": true}, "stream": true,
        "messages": [user(&slowly)], "temperature": 0});
    let mut events = world.front().events(&request);
    first_words(&mut events);
    let address = world.behind().address;
    drop(world.behind.take()); // kill -9
    let error = events.find_map(|event| match event {
        Event::Data(chunk) => chunk.get("error").cloned(),
        Event::Done => None,
    });
    let error = error.expect("the stream says why it ends");
    assert_eq!(error["code"], "upstream_broken");
    assert!(error["message"].as_str().unwrap().contains(&url), "{error}");
    let stored = world.front().get("/v1/conversations/talk");
    let answer = stored["messages"][1]["content"].as_str().unwrap();
    assert!(answer.starts_with("word word"), "{stored}");

    let refused = world.front().call("POST", "/v1/chat/completions").json(&ask("Hi")).send();
    assert_eq!(refused.status, 502, "{}", refused.text());
    let error = refused.error();
    assert_eq!(error["code"], "upstream_unreachable");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&url) && message.contains("`upstream`"), "{message}");
    let anthropic = json!({"max_tokens": 9, "messages": [user("Hi")]});
    let refused = world.front().call("POST", "/v1/messages").json(&anthropic).send();
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (502, &json!("api_error")));
    let ollama = json!({"model": "m", "messages": [user("Hi")]});
    let refused = world.front().call("POST", "/api/chat").json(&ollama).send();
    assert!(refused.json()["error"].as_str().unwrap().contains(&url), "{}", refused.text());
    assert_eq!(world.front().call("GET", "/health").send().status, 503);
    let status = world.front().get("/v1/status");
    assert!(status["upstream"]["error"].as_str().unwrap().contains(&url), "{}", status["upstream"]);

    world.behind = Some(behind(world.directory.path(), "fake").listen(address).start());
    assert_eq!(text(&world.front().say("talk", "Say this: Back.")), "Back.");
    assert_eq!(world.front().call("GET", "/health").send().status, 200);
}

#[test]
fn a_client_that_leaves_ends_the_answer_behind() {
    let world = World::new();
    let mut slowly = ask(&format!("Say this slowly: {}", "word ".repeat(400)));
    slowly["stream"] = true.into();
    slowly["max_tokens"] = 4000.into();
    let mut events = world.front().events(&slowly);
    events.next().expect("it begins");
    drop(events);
    wait::until("the turn behind is cancelled", || {
        let counters = world.behind().get("/v1/status")["counters"].clone();
        (counters["cancelled"] == 1).then_some(())
    });
    assert_eq!(text(&world.front().chat(&ask("Say this: Next."))), "Next.");
}

#[test]
fn an_error_within_an_answer_names_the_field_of_the_clients_protocol() {
    let directory = TempDir::new().unwrap();
    let engine = Engine::start("vllm");
    let front = front(directory.path(), &engine.url()).start();
    let begun = json!({"choices": [{"index": 0, "delta": {"content": "One"}}]});
    for (path, field, name) in [
        ("/v1/messages", "stop", "stop_sequences"),
        ("/api/chat", "stop", "options.stop"),
        ("/completion", "max_tokens", "n_predict"),
    ] {
        let message = format!("`{field}` is wrong");
        let failed = json!({"error": {"message": message, "param": field, "code": 400}});
        engine.answers(Script::Whole(vec![begun.clone(), failed]));
        for streams in [false, true] {
            let body = json!({"model": "any", "messages": [user("Hi")], "prompt": "Hi", "max_tokens": 8,
                "stream": streams});
            let answer = front.client.call("POST", path).json(&body).send();
            let text = answer.text();
            assert_eq!(answer.status, if streams { 200 } else { 400 }, "{text}");
            assert!(text.contains(&format!("`{name}` is wrong")), "{path} {streams}: {text}");
        }
    }
}

#[test]
fn a_detached_answer_goes_on_and_a_cut_one_is_continued() {
    let world = World::new();
    let said = "word ".repeat(20);
    let mut request = ask(&format!("Say this slowly: {}", said.trim_end()));
    request["conversation"] = "talk".into();
    request["hob"] = json!({"detached": true, "append": true});
    request["stream"] = true.into();
    request["max_tokens"] = 200.into();
    let mut events = world.front().events(&request);
    events.next().expect("it begins");
    drop(events);
    let stored = wait::until("the answer is complete", || {
        let stored = world.front().get("/v1/conversations/talk");
        let answer = &stored["messages"][1];
        (answer["finish"]["finish_reason"] == "stop").then(|| answer["content"].clone())
    });
    assert_eq!(stored, said.trim_end());

    let cut = json!({"conversation": "cut", "messages": [user("Say this: one two three")],
        "max_tokens": 7, "temperature": 0});
    assert_eq!(text(&world.front().chat(&cut)), "one two");
    let rest = json!({"conversation": "cut", "messages": [], "temperature": 0,
        "hob": {"append": true, "continue": true}});
    world.front().chat(&rest);
    let stored = world.front().get("/v1/conversations/cut");
    assert_eq!(stored["messages"].as_array().unwrap().last().unwrap()["content"], "one two three");
}
