//! Settings that a client changes while hobd runs: in force at once or after a reload of the model that
//! loses nothing, saved in the configuration file, and locked where a flag sets them.

use std::fs;
use std::path::PathBuf;

use hob_testkit::{Answer, Client, wait};
use serde_json::{Value, json};

use crate::common::home::{Home, saved, say, say_with};

/// A hobd whose configuration file is in its directory and names the fake model.
fn configured(arguments: &[&str]) -> (Home, PathBuf) {
    let home = Home::empty();
    let file = home.path().join("hob.toml");
    fs::write(&file, "model = 'fake'\n").unwrap();
    let home = home.with(&["--config", file.to_str().unwrap()]).with(arguments);
    (home, file)
}

fn change(client: &Client, settings: Value) -> Answer {
    client.call("PATCH", "/v1/settings").json(&json!({"settings": settings})).send()
}

fn setting(client: &Client, key: &str) -> Value {
    let list = client.get("/v1/settings");
    let mut settings = list["data"].as_array().unwrap().iter();
    settings.find(|setting| setting["key"] == key).cloned().expect("it is listed")
}

#[test]
fn a_larger_context_is_loaded_and_saved_and_nothing_is_lost() {
    let (home, file) = configured(&[]);
    let hobd = home.start();
    let text = "My locker code is 48213. ".repeat(12);
    say(&hobd.client, "room", &text);
    let private = json!({"conversation": "secret", "hob": {"append": true, "private": true},
        "messages": [{"role": "user", "content": "My other code is 7."}], "max_tokens": 4});
    hobd.client.chat(&private);
    assert_eq!(setting(&hobd.client, "ctx")["applies"], "reload");

    let answer = change(&hobd.client, json!({"ctx": 16384, "slots": 3}));
    assert_eq!((answer.status, &answer.json()["restarts"]), (202, &json!(true)));
    wait::until("the model is loaded with it", || {
        hobd.client.try_status().filter(|status| status["context_tokens"] == 16384)
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = 'fake'\nctx = 16384\nslots = 3\n");
    let ctx = setting(&hobd.client, "ctx");
    assert_eq!((&ctx["value"], &ctx["fixed"]), (&json!(16384), &Value::Null));
    assert_eq!(ctx["origin"], file.to_str().unwrap());

    let hob = say_with(&hobd.client, "room", "And now?", json!({}));
    assert!(hob["tokens"]["disk"].as_u64() > Some(100), "its KV came from disk: {hob}");
    let secret = hobd.client.get("/v1/conversations/secret");
    assert_eq!(secret["messages"][0]["content"], "My other code is 7.", "{secret}");

    home.stop(hobd);
    let hobd = home.start();
    assert_eq!(hobd.client.get("/v1/status")["context_tokens"], 16384);
    let gone = hobd.client.call("GET", "/v1/conversations/secret").send();
    assert_eq!(gone.status, 404, "a private conversation ends with the process");
}

#[test]
fn how_long_chats_stay_ready_is_in_force_at_once() {
    let (home, file) = configured(&[]);
    let hobd = home.start();
    let started = hobd.client.get("/v1/status")["started_at"].clone();
    let answer = change(&hobd.client, json!({"default_ttl": "extended"}));
    assert_eq!((answer.status, &answer.json()["restarts"]), (200, &json!(false)));
    say(&hobd.client, "room", "My locker code is 48213.");
    assert_eq!(saved(&hobd.client, "room").unwrap()["class"], "extended");
    assert_eq!(hobd.client.get("/v1/status")["started_at"], started);
    assert!(fs::read_to_string(&file).unwrap().contains("default_ttl = \"extended\""));
}

#[test]
fn a_setting_of_a_flag_is_locked_and_the_error_names_the_flag() {
    let (home, file) = configured(&["--ctx", "4096"]);
    let hobd = home.start();
    let locked = setting(&hobd.client, "ctx");
    assert_eq!((&locked["value"], &locked["fixed"]), (&json!(4096), &json!("flag --ctx")));
    let answer = change(&hobd.client, json!({"ctx": 8192, "default_ttl": "long"}));
    let error = answer.error();
    assert_eq!((answer.status, &error["code"]), (409, &json!("setting_fixed")));
    assert!(error["message"].as_str().unwrap().contains("--ctx"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = 'fake'\n", "none was changed");
    let body = json!({"model": "fake:second", "ctx": 8192});
    let refused = hobd.client.call("POST", "/v1/models/switch").json(&body).send();
    assert_eq!((refused.status, &refused.error()["code"]), (409, &json!("setting_fixed")));
}

#[test]
fn an_invalid_value_is_refused_with_the_remedy() {
    let (home, file) = configured(&[]);
    let hobd = home.start();
    for (settings, param, words) in [
        (json!({"ctx": 1}), "ctx", "from 64 to 16777216"),
        (json!({"ctx": "lots"}), "ctx", "write \"auto\""),
        (json!({"default_ttl": "forever"}), "default_ttl", "permanent"),
        (json!({"slots": null}), "slots", "a number or a text"),
        (json!({"token_file": "/tmp/x"}), "token_file", "may change"),
    ] {
        let answer = change(&hobd.client, settings);
        let error = answer.error();
        assert_eq!((answer.status, &error["param"]), (400, &json!(param)), "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
    let body = json!({"model": "fake:second", "ctx": 1});
    let refused = hobd.client.call("POST", "/v1/models/switch").json(&body).send();
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("ctx")));
    let same = change(&hobd.client, json!({"ctx": "auto"}));
    assert_eq!((same.status, &same.json()["restarts"]), (200, &json!(false)), "it is in force");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = 'fake'\n");
}

#[test]
fn a_whole_number_may_be_written_as_a_float() {
    let (home, _) = configured(&[]);
    let hobd = home.start();
    let slots = setting(&hobd.client, "slots")["value"].as_f64().unwrap();
    let same = change(&hobd.client, json!({"slots": slots}));
    assert_eq!((same.status, &same.json()["restarts"]), (200, &json!(false)), "{slots:?}");
    let refused = change(&hobd.client, json!({"slots": slots + 0.5}));
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("slots")));
}

#[test]
fn the_page_may_choose_another_model_than_the_flag_for_this_run() {
    let home = Home::on_fake();
    let hobd = home.start();
    assert_eq!(hobd.client.get("/v1/models/local")["fixed"], "flag --model");
    let body = json!({"model": "fake:second", "ctx": 4096});
    let switched = hobd.client.post("/v1/models/switch", &body);
    assert_eq!(switched["for_this_run"], true, "{switched}");
    wait::until("the other model runs", || {
        hobd.client
            .try_status()
            .filter(|now| now["model"] == "fake:second" && now["context_tokens"] == 4096)
    });
    assert_eq!(hobd.client.get("/v1/models/local")["fixed"], "flag --model");
    home.stop(hobd);
    let hobd = home.start();
    assert_eq!(hobd.client.get("/v1/status")["model"], "fake", "the flag chooses at each start");
}

#[test]
fn a_flag_of_a_start_goes_before_a_switch_that_a_hang_has_left() {
    for arguments in [&[][..], &["--supervise"]] {
        let home = Home::on_fake().with(arguments);
        let left = home.path().join("data/switch.json");
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(&left, r#"[["model", "fake:second"]]"#).unwrap();
        let hobd = home.start();
        let status = hobd.client.get("/v1/status");
        assert_eq!(status["model"], "fake");
        let error = &status["switch_error"];
        assert_eq!(error["model"], "fake:second");
        assert!(error["message"].as_str().unwrap().contains("flag --model"), "{error}");
        assert!(!left.exists(), "no later start makes it");
    }
}

#[cfg(target_os = "linux")] // Other systems refuse such a name.
#[test]
fn the_settings_are_listed_where_the_path_of_their_file_is_not_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let Home { directory, launch } = Home::on_fake();
    let config = directory.path().join(OsStr::from_bytes(b"caf\xe9"));
    let home = Home { launch: launch.env("XDG_CONFIG_HOME", config), directory };
    let hobd = home.start();
    let list = hobd.client.get("/v1/settings");
    let file = list["file"].as_str().unwrap();
    assert!(file.ends_with("caf\u{fffd}/hob/hob.toml"), "{file}");
}
