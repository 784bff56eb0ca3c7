//! What reaches or leaves hobd by other ways than its own address: an agent of the device bridge, the shared tier, an
//! engine at another address.

use std::net::TcpListener;

use hob_testkit::wait;
use serde_json::json;
use tungstenite::accept;

use crate::common::socket::next_message;
use crate::upstream::engine::{Engine, Script, said};

use super::*;

fn say(flock: &mut Flock) -> Value {
    let text = format!("Say this: {} {}", flock.next(), flock.next());
    json!({"messages": [{"role": "user", "content": text}], "max_tokens": 24})
}

#[test]
fn what_an_agent_asks_is_in_no_log_and_in_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let launch = launch(directory.path()).args(["--device-bridge", &url]);
    let hobd = launch.start();
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut agent = accept(stream).unwrap();
    let mut flock = Flock(0);
    assert_eq!(next_message(&mut agent)["type"], "register");
    let mut ask = |message: &Value| {
        agent.send(Message::text(message.to_string())).unwrap();
        next_message(&mut agent)
    };
    let generate = |prompt: Value, flock: &mut Flock| {
        json!({"type": "generate", "correlationId": "a", "prompt": prompt,
            "stopSequences": [flock.next()], "maxTokens": 24})
    };
    let prompt = json!(format!("Say this: {}", flock.next()));
    let answer = ask(&generate(prompt, &mut flock));
    assert_eq!(answer["ok"], true, "{answer}");
    let mut kept = generate(json!(flock.next()), &mut flock);
    kept["promptCacheKey"] = "conv:room".into();
    assert_eq!(ask(&kept)["ok"], true);

    let long = json!(flock.next().repeat(90_000));
    let embed = json!({"type": "embed", "correlationId": "b", "input": flock.next()});
    for message in [generate(long, &mut flock), embed] {
        let answer = ask(&message);
        assert_eq!(answer["ok"], false, "{answer}");
        expect_none("an error of the bridge", &answer.to_string());
    }
    let wrong = json!([flock.next()]);
    for passed_over in [
        flock.next(),
        json!({"type": flock.next()}).to_string(),
        generate(wrong, &mut flock).to_string(),
        json!({"type": "load", "correlationId": "c", "modelPath": [flock.next()]}).to_string(),
    ] {
        agent.send(Message::text(passed_over)).unwrap();
    }
    let loaded = json!({"type": "load", "correlationId": "d",
        "modelPath": format!("/phone/{}.gguf", flock.next())});
    agent.send(Message::text(loaded.to_string())).unwrap();
    assert_eq!(next_message(&mut agent)["ok"], true);
    agent.send(Message::binary(flock.next().into_bytes())).unwrap();
    agent.close(None).ok();
    drop(agent);
    expect_none_outside(&launch, hobd);
}

#[test]
fn what_goes_to_the_shared_tier_is_in_no_log_and_in_no_name_there() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let place = directory.path().join(name);
        fs::create_dir(&place).unwrap();
        place
    };
    let shared = place("shared");
    let url = format!("file://{}", shared.display());
    let daemon = |name: &str| launch(&place(name)).args(["--shared", &url]);
    let (one, two) = (daemon("one"), daemon("two"));
    let (first, second) = (one.start(), two.start());
    let mut flock = Flock(0);
    let chat = |hobd: &Hobd, flock: &mut Flock| {
        let fields = json!({"conversation": "talk", "hob": {"append": true}});
        hobd.client.call("POST", "/v1/chat/completions").json(&merged(say(flock), &fields)).send()
    };
    succeeds(chat(&first, &mut flock));
    let title = json!({"title": flock.next()});
    succeeds(first.client.call("PATCH", "/v1/conversations/talk").json(&title).send());
    wait::until("it is published", || {
        let page = first.client.get_text("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix("hob_shared_published_total "));
        line.is_some_and(|count| count != "0").then_some(())
    });
    succeeds(chat(&second, &mut flock));
    // A place that is damaged, and one that is away.
    let published = hob_testkit::files::below(&shared);
    assert!(!published.is_empty(), "the place has files");
    for file in published {
        expect_none("a name in the shared tier", &file.display().to_string());
        fs::write(file, flock.next()).unwrap();
    }
    let mut third = daemon("three").start();
    chat(&third, &mut flock);
    third.process.terminate(PATIENCE);
    expect_none(
        "the log of a damaged place",
        &fs::read_to_string(directory.path().join("three/log")).unwrap(),
    );
    let text = flock.next();
    wait::until("a file is in its place", || {
        fs::remove_dir_all(&shared).ok(); // An error: a daemon publishes meanwhile.
        fs::write(&shared, &text).ok()
    });
    chat(&first, &mut flock);
    let deleted = first.client.call("DELETE", "/v1/conversations/talk").send();
    expect_none("an error of the shared tier", &deleted.text());
    expect_none_outside(&one, first);
    expect_none_outside(&two, second);
}

#[test]
fn what_goes_to_an_engine_elsewhere_is_in_no_log_also_where_that_repeats_it_in_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start("vllm");
    let arguments = ["--log", "trace", "--upstream", &engine.url()].map(str::to_owned);
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).args(arguments);
    let hobd = launch.start();
    let mut flock = Flock(0);
    let chat = |body: &Value| hobd.client.call("POST", "/v1/chat/completions").json(body).send();
    let answer = flock.next();
    engine.answers(said(&answer));
    assert!(succeeds(chat(&say(&mut flock))).text().contains(&answer));
    let stored = json!({"conversation": "a", "hob": {"append": true}});
    succeeds(chat(&merged(say(&mut flock), &stored)));

    let refused = say(&mut flock);
    let message = format!("cannot read {}", refused["messages"][0]["content"]);
    // The client gets the engine's words.
    for status in [400, 429, 500] {
        engine.answers(Script::Status(status, json!({"error": {"message": message}})));
        let answer = chat(&merged(refused.clone(), &stored));
        assert!(answer.status >= 400, "{}", answer.text());
    }
    for script in [
        Script::Whole(vec![json!({"error": {"message": message}})]),
        Script::Events(vec![json!({"choices": [{"delta": {"content": [flock.next()]}}]})]),
    ] {
        engine.answers(script);
        chat(&refused);
    }
    expect_none_outside(&launch, hobd);
}
