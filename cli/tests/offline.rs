//! `hob` while no daemon runs.

mod common;

use std::fs;

use common::Home;
use hob_testkit::asset;

#[test]
fn settings_are_shown_with_their_origin() {
    let home = Home::new();
    fs::write(home.path("my.toml"), "slots = 2\nslots_dir = 'kv'").unwrap();
    let file = home.path("my.toml");
    let env = [("HOB_CTX", "1024"), ("HOB_CONFIG", file.to_str().unwrap())];
    let shown = home.run(&["config", "show", "--token-file", "/t"], &env, "").ok();
    let line = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("ctx ").contains("1024") && line("ctx ").contains("environment HOB_CTX"));
    assert!(line("slots ").contains("my.toml:1"), "{shown}");
    assert!(line("token_file").contains("flag --token-file"));
    assert!(line("queue").contains("default"));
    assert!(!shown.contains("no file"), "{shown}");
    let file_of_user = home.path(".config/hob/hob.toml").display().to_string();
    let without_file = home.hob(&["config"]).ok();
    assert!(without_file.ends_with(&format!("would read {file_of_user}\n")), "{without_file}");

    assert_eq!(home.run(&["config"], &env, "").ok(), home.run(&["config", "show"], &env, "").ok());
    let entries = home.run(&["--json", "config", "show"], &env, "").json();
    let entry = entries.as_array().unwrap().iter().find(|entry| entry["key"] == "slots").unwrap();
    assert_eq!((&entry["value"], &entry["from"]["line"]), (&2.into(), &1.into()));
}

#[cfg(target_os = "linux")] // Other systems refuse such a name.
#[test]
fn a_home_directory_whose_name_is_not_utf_8_is_reported_as_json() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let home = Home::new();
    let users = home.path("").join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir_all(users.join(".config/hob")).unwrap();
    fs::write(users.join(".config/hob/hob.toml"), "slots = 2").unwrap();
    for words in [&["slots", "ls"][..], &["slots", "du"], &["config", "show"]] {
        let mut command = home.command(&[&["--json"][..], words].concat());
        let output = command.env("HOME", &users).env_remove("HOB_DATA_DIR").output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("/caf\u{fffd}/"), "{shown}");
    }
}

#[test]
fn an_unknown_setting_is_a_usage_error_with_a_suggestion() {
    let home = Home::new();
    let ran = home.run(&["slots", "ls"], &[("HOB_SLOT_DIR", "/x")], "");
    ran.fails(2, &["HOB_SLOT_DIR", "did you mean `HOB_SLOTS_DIR`"]);

    fs::write(home.path("my.toml"), "treads = 2").unwrap();
    let file = home.path("my.toml");
    let ran = home.hob(&["--config", file.to_str().unwrap(), "slots", "ls"]);
    ran.fails(2, &["`treads`", "my.toml:1", "did you mean `threads`"]);

    let ran = home.run(&["models"], &[("HOB_CTX", "lots")], "");
    ran.fails(2, &["ctx", "lots", "HOB_CTX", "write \"auto\"", "64 to 16777216"]);
    home.hob(&["--config", "/nowhere.toml", "models"]).fails(2, &["/nowhere.toml", "--config"]);
    assert_eq!(home.hob(&["frobnicate"]).code, 2);
}

#[test]
fn help_shows_a_commands_own_flags_and_the_settings_apart() {
    let home = Home::new();
    for words in [&["--help"][..], &["chat", "--help"], &["conversations", "--help"]] {
        insta::assert_snapshot!(
            format!("help_{}", words[0].trim_matches('-')),
            home.hob(words).ok()
        );
    }
    for command in [&["help", "settings"][..], &["settings"]] {
        let settings = home.hob(command).ok();
        for words in ["--ttl-long <TIME>", "--data-dir <DIR>", "HOB_TTL_LONG", "[default: 1h]"] {
            assert!(settings.contains(words), "{words} is missing: {settings}");
        }
    }
    let settings = home.run(&["settings", "--json"], &[("HOB_NONSENSE", "1")], "").json();
    let row = |key: &str| {
        let mut rows = settings.as_array().unwrap().iter();
        rows.find(|row| row["key"] == key).unwrap().clone()
    };
    let ttl = row("ttl_long");
    let names = [&ttl["flag"], &ttl["variable"], &ttl["value"], &ttl["default"]];
    assert_eq!(names, ["--ttl-long", "HOB_TTL_LONG", "TIME", "1h"]);
    assert_eq!(row("data_dir")["default"], serde_json::Value::Null);
    let shown = home.hob(&["config", "show", "--ttl-long", "2h"]).ok();
    assert!(shown.lines().any(|line| line.starts_with("ttl_long ") && line.contains("2h")));
}

#[test]
fn what_lists_and_what_removes_has_one_word_in_every_command() {
    let home = Home::new();
    for (command, words) in [
        ("conversations", ["list", "ls", "rm"]),
        ("documents", ["list", "ls", "rm"]),
        ("prefixes", ["list", "ls", "rm"]),
        ("slots", ["list", "ls", "rm"]),
    ] {
        for word in words {
            home.hob(&[command, word, "--help"]).ok();
        }
    }
}

#[test]
fn completions_and_manual_need_no_settings() {
    let home = Home::new();
    let env = [("HOB_NONSENSE", "1")];
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(home.run(&["completions", shell], &env, "").ok().contains("conversations"));
    }
    let help = home.run(&["completions", "--help"], &env, "").ok();
    assert!(help.contains("source <(hob completions bash)"), "{help}");
    assert!(home.run(&["man"], &env, "").ok().contains("Exit codes"));

    let pages = home.path("man");
    home.hob(&["man", "--dir", pages.to_str().unwrap()]).ok();
    assert!(pages.join("hob-slots-prune.1").is_file());
}

#[test]
fn models_are_found_where_other_programs_keep_them() {
    let home = Home::new();
    let studio = home.path(".lmstudio/models/org/repo");
    let hub = home.path(".cache/huggingface/hub/models--org--q/snapshots/r1");
    for dir in [&studio, &hub] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::copy(asset("hob-tiny-f16.gguf"), studio.join("tiny.gguf")).unwrap();
    fs::write(studio.join("mmproj-tiny.gguf"), "GGUF").unwrap();
    fs::copy(asset("fixtures/qwen3.gguf"), hub.join("qwen3.gguf")).unwrap();
    let whole = fs::read(asset("fixtures/qwen2.gguf")).unwrap();
    fs::write(hub.join("cut.gguf"), &whole[..whole.len() - 1]).unwrap();

    let ran = home.hob(&["models", "--ctx", "4096"]);
    assert!(ran.err.contains("cut.gguf") && ran.err.contains("truncated"), "{ran:?}");
    let list = ran.ok();
    assert!(list.contains("tiny") && list.contains("lm-studio"), "{list}");
    assert!(list.contains("hugging-face") && !list.contains("mmproj"), "{list}");
    assert!(list.contains("3.6 MiB + 4.0 MiB"), "the KV of 4,096 tokens is 4 MiB: {list}");

    let found = home.hob(&["models", "--json"]).json();
    assert_eq!(found["ctx"], "auto");
    assert_eq!(found["models"].as_array().unwrap().len(), 2);
    assert_eq!(found["problems"].as_array().unwrap().len(), 1);
    assert_eq!(found["models"][0]["trained_context"], 4096);
}

#[test]
fn a_machine_without_models_says_where_one_belongs() {
    let home = Home::new();
    let shown = home.hob(&["models"]).ok();
    let dir = home.path("data/models").display().to_string();
    assert!(shown.contains(&dir) && shown.contains("hobd --model FILE"), "{shown}");
    assert_eq!(shown.lines().count(), 1, "no memory is compared with no model: {shown}");
}

#[test]
fn each_model_is_estimated_with_the_context_that_would_be_chosen_for_it() {
    let home = Home::new();
    let path = asset("hob-tiny-f16.gguf");
    let with_memory = |bytes: &str, words: &[&str]| {
        let words = [&["models", path.to_str().unwrap()], words].concat();
        home.run(&words, &[("HOB_TEST_MEMORY_BYTES", bytes)], "").ok()
    };
    let line = |shown: &str, name: &str| {
        shown.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    let roomy = with_memory("1073741824", &[]);
    assert!(line(&roomy, "context").contains("4,096 tokens (the model was trained with no more)"));
    assert!(line(&roomy, "KV").contains("8.0 MiB for 8,192 tokens"), "slots share them: {roomy}");
    let small = with_memory("10000000", &[]);
    assert!(line(&small, "KV").contains("4.0 MiB for 4,096 tokens"), "{small}");
    let set = with_memory("1073741824", &["--ctx", "2048"]);
    assert!(line(&set, "context").contains("2,048 tokens (set by ctx; the model was trained with"));
    assert!(line(&set, "KV").contains("2.0 MiB for 2,048 tokens"), "{set}");
}

#[test]
fn a_model_that_is_too_large_may_fit_a_graphics_card_that_hobd_knows() {
    let home = Home::new();
    fs::create_dir_all(home.path("data/models")).unwrap();
    fs::copy(asset("hob-tiny-f16.gguf"), home.path("data/models/tiny.gguf")).unwrap();
    let listed = |bytes| home.run(&["models"], &[("HOB_TEST_MEMORY_BYTES", bytes)], "").ok();
    let hint = "the memory of graphics cards counts while hobd runs";
    let small = listed("1000000");
    assert!(small.contains("too large") && small.contains(hint), "{small}");
    let roomy = listed("1073741824");
    assert!(roomy.contains("fits") && !roomy.contains(hint), "{roomy}");
}

#[test]
fn one_model_is_described_by_name_or_by_path() {
    let home = Home::new();
    let path = asset("hob-tiny-f16.gguf");
    let words = ["models", "--json", "--hash", path.to_str().unwrap()];
    let first = home.hob(&words).json();
    assert_eq!(first["sha256"].as_str().unwrap().len(), 64);
    assert!(home.path("data/model-hashes.json").is_file());
    assert_eq!(home.hob(&words).json()["sha256"], first["sha256"]);

    fs::create_dir_all(home.path("data/models")).unwrap();
    fs::copy(path, home.path("data/models/Tiny-One.gguf")).unwrap();
    let shown = home.hob(&["models", "tiny-one"]).ok();
    assert!(shown.contains("architecture     llama"), "{shown}");
    assert!(shown.contains("attention        to every token"), "{shown}");
    home.hob(&["models", "tiny-on"]).fails(4, &["did you mean `Tiny-One`"]);
    home.hob(&["models", "/nowhere/a.gguf"]).fails(4, &["/nowhere/a.gguf"]);
    fs::write(home.path("bad.gguf"), "PK").unwrap();
    home.hob(&["models", home.path("bad.gguf").to_str().unwrap()])
        .fails(5, &["bad.gguf", "not a GGUF file", "give a model"]);
}

#[test]
fn commands_that_need_a_daemon_say_how_to_start_one() {
    let home = Home::new();
    for words in [&["status"][..], &["conversations"], &["ask", "hi"], &["chat"]] {
        home.hob(words).fails(3, &["127.0.0.1:8642", "hobd"]);
    }
    let doctor = home.hob(&["doctor"]).ok();
    assert!(doctor.contains("does not run"), "{doctor}");
    let checks = home.hob(&["doctor", "--json"]).json();
    assert!(checks.as_array().unwrap().iter().all(|check| check["state"] != "bad"), "{checks}");
}

#[test]
fn doctor_fails_when_others_can_read_the_token() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    fs::create_dir_all(home.path("data")).unwrap();
    fs::write(home.path("data/token"), "secret").unwrap();
    fs::set_permissions(home.path("data/token"), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = home.hob(&["doctor"]);
    assert!(ran.out.contains("chmod 600") && !ran.out.contains("secret"), "{ran:?}");
    ran.fails(1, &["1 check failed"]);
}

#[test]
fn policies_are_compared_on_the_bundled_traces() {
    let home = Home::new();
    let plot = home.path("plot.svg");
    let small = ["--requests", "200", "--seeds", "1", "--capacity", "300"];
    let tables =
        [&["simulate", "claude-2", "mixed-1", "--plot", plot.to_str().unwrap()], &small[..]];
    let shown = home.hob(&tables.concat()).ok();
    for word in
        ["claude-2: hits", "mixed-1: hits", "guarded-density", "optimum, bypass", "300 blocks"]
            .into_iter()
            .chain(["MULTI-TURN %", "GAP SECS", "guarded-density lost: multi-turn"])
    {
        assert!(shown.contains(word), "{word} is missing in {shown}");
    }
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));

    let waits =
        [&["--json", "simulate", "--closed", "--clients", "2", "--policy", "lru"], &small[..]];
    let tables = home.hob(&waits.concat()).json();
    let rows = tables[0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "one row each for memory, disk and unbounded: {rows:?}");
    assert!(rows.iter().all(|row| row["mean_secs"].as_f64().unwrap() > 0.0));
}

#[test]
fn a_prior_is_fitted_to_the_traces() {
    let home = Home::new();
    let file = home.path("prior.toml");
    home.hob(&["simulate", "--requests", "300", "--fit", file.to_str().unwrap()]).ok();
    let prior = fs::read_to_string(file).unwrap();
    assert!(prior.starts_with("version = 1\n") && prior.contains("[[class]]"), "{prior}");
}

#[test]
fn a_wrong_policy_set_up_or_trace_is_a_usage_error() {
    let home = Home::new();
    let ran = home.hob(&["simulate", "--policy", "best"]);
    assert!(ran.code == 2 && ran.err.contains("it is one of fifo, lru, lfu"), "{ran:?}");
    let ran = home.hob(&["simulate", "claude-0"]);
    assert!(ran.code == 2 && ran.err.contains("no set-up is called \"claude-0\""), "{ran:?}");
    fs::write(home.path("trace"), "hello").unwrap();
    let trace = home.path("trace");
    home.hob(&["simulate", "--trace", trace.to_str().unwrap()]).fails(2, &["line 1 of the trace"]);
}
