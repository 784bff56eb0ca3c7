//! A profile's `beyond`: it is the default of its conversations, and it falls back where moving KV changes answers.

use std::path::Path;

use hob_testkit::{Hobd, wait};
use serde_json::{Value, json};

use super::{check, number, start, tokens, words};

/// With the profile `long`, whose conversations go on past the context.
fn start_with_profile(directory: &Path) -> Hobd {
    let profiles = directory.join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    let segment = "[[segment]]\nlayer = 'rules'\ntext = 'Be kind.'";
    std::fs::write(profiles.join("long.toml"), format!("beyond = 'reanchor'\n{segment}")).unwrap();
    start(directory, &["--profiles-dir", profiles.to_str().unwrap()])
}

#[test]
fn a_profile_switches_it_on_and_a_request_comes_first() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start_with_profile(directory.path());
    let say = |name: &str, turn: usize, hob: Value| {
        let mut hob = hob;
        hob["append"] = true.into();
        hob["profile"] = "long".into();
        let body = json!({"conversation": name, "temperature": 0, "max_tokens": 60, "hob": hob,
            "messages": [{"role": "user", "content": format!("Say this: {}", words(turn))}]});
        hobd.client.call("POST", "/v1/chat/completions").json(&body).send()
    };
    let goes_on = (0..12).all(|turn| say("long", turn, json!({})).status == 200);
    assert!(goes_on);
    let ends = (0..12).any(|turn| say("short", turn, json!({"beyond": "end"})).status == 400);
    assert!(ends);
    for (query, goes_on) in [("?profile=long", true), ("", false)] {
        let used = hobd.client.get(&format!("/v1/conversations/long/context{query}"));
        assert_eq!(used["goes_on"], goes_on, "{used}");
    }

    let refused = |body: &Value| {
        let answer = hobd.client.call("POST", "/v1/chat/completions").json(body).send();
        (answer.status, answer.error()["param"].clone())
    };
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let unknown = json!({"conversation": "x", "messages": messages, "hob": {"beyond": "on"}});
    assert_eq!(refused(&unknown), (400, json!("hob.beyond")));
    let unnamed = json!({"messages": messages, "hob": {"beyond": "reanchor"}});
    assert_eq!(refused(&unnamed), (400, json!("hob.beyond")));
}

#[test]
fn a_profile_falls_back_by_what_its_later_timelines_move_and_computes_them_then() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = start_with_profile(directory.path());
    let talk = |turn: usize| {
        let messages = json!([{"role": "user", "content": format!("Tell me of {}", words(turn))}]);
        let hob = json!({"append": true, "profile": "long"});
        let answer = hobd.client.chat(&json!({"conversation": "c", "messages": messages,
            "hob": hob, "temperature": 0, "max_tokens": 60}));
        check(&answer);
        answer
    };
    let mut turns = 0..200;
    // Four answers are compared at least: the KV of the third timeline and of later ones has been moved before.
    let (mut timelines, mut by_answers, mut by_comparisons) = (0, 0, 0);
    let why = loop {
        let answer = talk(turns.next().expect("the profile falls back"));
        if let Some(why) = answer["hob"]["immovable"].as_str() {
            break why.to_owned();
        }
        by_answers += tokens(&answer, "moved");
        if !answer["hob"]["reanchored"].is_null() {
            timelines += 1;
            assert!(tokens(&answer, "moved") > 0, "{answer}");
        }
        if tokens(&answer, "moved") > 0 {
            by_comparisons =
                wait::until("what the answer has moved is moved to compare it", || {
                    let status = hobd.client.get("/v1/status");
                    let others = number(&status["counters"]["moved_tokens"]) - by_answers;
                    let mut slots = status["slots"].as_array().unwrap().iter();
                    let goes_on = slots.any(|slot| {
                        slot["conversation"].as_str().is_some_and(|it| it.starts_with("compared"))
                    });
                    (others > by_comparisons && !goes_on).then_some(others)
                });
        }
    };
    assert!(timelines > 2 && why.contains("`long`"), "{timelines}: {why}");
    let exact = loop {
        let answer = talk(turns.next().expect("a new timeline begins"));
        assert_eq!((tokens(&answer, "moved"), &answer["hob"]["immovable"]), (0, &json!(why)));
        if !answer["hob"]["reanchored"].is_null() {
            break answer;
        }
    };
    assert_eq!(exact["hob"]["reanchored"]["moved"], 0, "{exact}");
}
