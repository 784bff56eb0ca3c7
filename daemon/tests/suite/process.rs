//! The hobd process: its announcement, its end, model switches, and the state after `kill -9`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hob_daemon::startup::EXIT_CRASHED;
use hob_testkit::{Answer, Call, Client, Launch, Process, asset, wait};
use serde_json::{Value, json};

/// A hobd process with a directory of its own.
struct Hobd {
    process: Process,
    client: Client,
    ready: Value,
    announced: PathBuf,
}

impl Hobd {
    fn start(directory: &Path) -> Self {
        Self::with_model(directory, Path::new("fake"))
    }

    fn with_model(directory: &Path, model: &Path) -> Self {
        Self::with(directory, &["--model".into(), model.into()])
    }

    /// Starts hobd without `--model`: the configuration file chooses the model.
    fn as_configured(directory: &Path) -> Self {
        Self::with(directory, &[])
    }

    fn with(directory: &Path, arguments: &[OsString]) -> Self {
        Self::launched(directory, &launch(directory).args(arguments.iter().cloned()))
    }

    fn launched(directory: &Path, launch: &Launch) -> Self {
        let hob_testkit::Hobd { process, client, ready } = launch.start();
        Self { process, client, ready, announced: directory.join("data/hobd.json") }
    }

    fn call(&self, method: &str, path: &str) -> Call {
        self.client.call(method, path)
    }

    fn say(&self, message: &str) -> Answer {
        let body = json!({"conversation": "a", "hob": {"append": true}, "max_tokens": 12,
            "messages": [{"role": "user", "content": message}], "temperature": 0});
        self.call("POST", "/v1/chat/completions").json(&body).send()
    }

    /// Switches to another model and waits until hobd has announced itself again.
    fn switch(&self, model: &str) -> Value {
        let written = || fs::metadata(&self.announced).and_then(|facts| facts.modified()).ok();
        let before = written();
        let body = json!({"model": model});
        let answer = self.call("POST", "/v1/models/switch").json(&body).send();
        assert_eq!(answer.status, 202, "{}", answer.text());
        wait::until("the model is switched", || written().filter(|now| Some(*now) != before));
        answer.json()
    }

    /// Switches to a model that cannot be used, and waits until hobd, which goes on, says why.
    fn refuses(&self, model: &Path) -> Value {
        let body = json!({"model": model});
        let answer = self.call("POST", "/v1/models/switch").json(&body).send();
        assert_eq!(answer.status, 202, "{}", answer.text());
        wait::until("the model is refused", || {
            Some(self.status()["switch_error"].clone()).filter(|error| !error.is_null())
        })
    }

    fn status(&self) -> Value {
        self.client.get("/v1/status")
    }
}

fn launch(directory: &Path) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_hobd"), directory)
}

fn config(directory: &Path, text: &str) -> PathBuf {
    let file = directory.join(".config/hob/hob.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    file
}

fn fails(directory: &Path, arguments: &[&str]) -> String {
    let Output { status, stderr, .. } =
        launch(directory).command().args(arguments).output().unwrap();
    assert_eq!(status.code(), Some(1), "{arguments:?}");
    String::from_utf8(stderr).unwrap()
}

/// `cargo xtask model` puts one there, and hobd's data is elsewhere here.
#[cfg(all(feature = "llama", target_os = "linux"))]
#[test]
fn a_model_in_the_users_data_directory_is_found_whatever_data_dir_is() {
    let directory = tempfile::tempdir().unwrap();
    config(directory.path(), "model = 'fetched'\n");
    let models = directory.path().join(".local/share/hob/models");
    fs::create_dir_all(&models).unwrap();
    let model = models.join("fetched.gguf");
    fs::copy(asset("fixtures/qwen2.gguf"), &model).unwrap();
    let hobd = launch(directory.path()).start();
    assert_eq!(hobd.ready["model"], model.to_str().unwrap());
}

#[test]
fn the_ready_file_has_the_address_and_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = Hobd::start(directory.path());
    assert_eq!(hobd.ready["pid"], hobd.process.id());
    assert_eq!(hobd.ready["model"], "fake");
    assert_eq!(hobd.ready["fingerprint"].as_str().unwrap().len(), 16);
    assert_eq!(
        hobd.call("GET", "/v1/models").send().status,
        200,
        "hobd must serve once its ready file exists"
    );
    let announced = fs::read_to_string(directory.path().join("data/hobd.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&announced).unwrap(), hobd.ready);
}

#[test]
fn a_client_in_another_directory_finds_a_hobd_with_a_relative_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hobd"));
    command.args(["--model", "fake", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.current_dir(directory.path()).env_clear().env("HOME", directory.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _hobd = Process::start(&mut command);
    let file = directory.path().join("data/hobd.json");
    let announced: Value =
        wait::until("hobd is announced", || serde_json::from_slice(&fs::read(&file).ok()?).ok());
    Client::of(&announced).get("/v1/status");
    let slots = Path::new(announced["slots_dir"].as_str().unwrap());
    let expected = directory.path().join("data/slots");
    assert_eq!(fs::canonicalize(slots).unwrap(), fs::canonicalize(expected).unwrap());
}

#[test]
fn the_help_lists_the_exit_codes() {
    let directory = tempfile::tempdir().unwrap();
    let Output { status, stdout, .. } =
        launch(directory.path()).command().arg("--help").output().unwrap();
    assert_eq!(status.code(), Some(0));
    let help = String::from_utf8(stdout).unwrap();
    for code in [0, 1, 2, EXIT_CRASHED, 130] {
        assert!(help.contains(&format!("\n  {code:<3}  ")), "{code} is missing: {help}");
    }
}

#[test]
fn its_files_are_readable_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let hobd = Hobd::start(directory.path());
    hobd.say("Hello");
    let mode = |path: &str| {
        let path = directory.path().join("data").join(path);
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("slots"), mode("token")), (0o700, 0o700, 0o600));
    for file in ["transcripts.sqlite", "transcripts.sqlite-wal", "hobd.json"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

#[test]
fn sigterm_saves_and_removes_the_announcement() {
    let directory = tempfile::tempdir().unwrap();
    let mut hobd = Hobd::start(directory.path());
    hobd.say(&"Remember me. ".repeat(20));
    assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(0));
    assert!(!directory.path().join("data/hobd.json").exists());

    let hobd = Hobd::start(directory.path());
    let tokens = hobd.say("Go on").json()["hob"]["tokens"].clone();
    assert!(tokens["disk"].as_u64().unwrap() > 250 && tokens["computed"].as_u64().unwrap() < 60);
}

#[test]
fn a_killed_daemon_loses_no_text_and_continues_the_conversation() {
    let directory = tempfile::tempdir().unwrap();
    let mut said = Vec::new();
    for round in 0..3 {
        let mut hobd = Hobd::start(directory.path());
        let path = "/v1/conversations/a";
        if round > 0 {
            let messages = hobd.call("GET", path).send().json()["messages"].clone();
            let texts: Vec<String> = messages
                .as_array()
                .unwrap()
                .iter()
                .map(|message| message["content"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(texts, said);
        }
        let message = format!("Round {round}");
        let answer = hobd.say(&message).json();
        said.push(message);
        said.push(answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned());
        hobd.process.kill();
    }
}

#[test]
fn a_failed_start_is_one_line_on_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("broken.gguf");
    fs::write(&broken, "GGUF").unwrap();
    let as_file = directory.path().join("file");
    fs::write(&as_file, "").unwrap();
    for (arguments, expected) in [
        (vec!["--ctx", "lots"], "--ctx"),
        (vec!["--ctx", "lots"], "write \"auto\", or a whole number from 64 to 16777216"),
        (vec!["--log", "a=b=c"], "log"),
        (vec!["--model", "fake", "--listen", "127.0.0.1"], "--listen"),
        (vec!["--model", broken.to_str().unwrap(), "--listen", "127.0.0.1:0"], "hobd: "),
        (vec!["--config", "/nowhere/hob.toml"], "os error"),
        (vec!["--slots-dir", as_file.to_str().unwrap(), "--listen", "127.0.0.1:0"], "os error"),
    ] {
        let error = fails(directory.path(), &arguments);
        assert!(error.starts_with("hobd: ") && error.lines().count() == 1, "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(error.matches("os error").count() < 2, "the OS error appears twice: {error}");
    }
}

#[test]
fn a_second_daemon_on_the_same_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = Hobd::start(directory.path());
    let error = fails(directory.path(), &["--model", "fake", "--listen", "127.0.0.1:0"]);
    assert!(error.contains(&hobd.process.id().to_string()), "{error}");
    assert!(error.contains("--data-dir"), "the error must name the remedy: {error}");
    assert_eq!(hobd.say("Still here").status, 200);
    assert!(directory.path().join("data/hobd.json").exists());
}

#[test]
fn prompt_text_never_reaches_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).args(["--model", "fake", "--log", "trace"]);
    let hobd = launch.start();
    let call = |path: &str, body: &str| {
        let call = hobd.client.call("POST", path).header("content-type", "application/json");
        call.body(body).send()
    };
    let body = json!({"conversation": "a", "messages": [{"role": "user", "content": "xyzzy-plugh"}], "max_tokens": 4});
    assert_eq!(call("/v1/chat/completions", &body.to_string()).status, 200);
    call("/v1/chat/completions", "{\"xyzzy-plugh");
    call("/v1/completions", "{\"prompt\": \"xyzzy-plugh\", \"n\": \"xyzzy-plugh\"}");
    let token = hobd.client.token.clone();
    drop(hobd);
    let log = launch.log();
    assert!(!log.is_empty() && !log.contains("xyzzy-plugh"), "{log}");
    assert!(!log.contains(&token));
}

#[cfg(target_os = "linux")]
#[test]
fn a_hobd_whose_log_cannot_be_written_serves_and_saves() {
    let directory = tempfile::tempdir().unwrap();
    let ready_file = directory.path().join("ready.json");
    let mut command = launch(directory.path()).args(["--model", "fake", "--log", "info"]).command();
    command.args(["--listen", "127.0.0.1:0"]).arg("--ready-file").arg(&ready_file);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut process = Process::start(command.stderr(full));
    let ready = wait::until("hobd serves", || {
        assert!(process.is_running(), "it ended: {:?}", process.exit_status());
        serde_json::from_str::<Value>(&fs::read_to_string(&ready_file).ok()?).ok()
    });
    let client = Client::of(&ready);
    client.say("a", &"Remember me. ".repeat(20));
    assert_eq!(process.terminate(wait::PATIENCE).code(), Some(0));

    let hobd = Hobd::start(directory.path());
    let tokens = hobd.say("Go on").json()["hob"]["tokens"].clone();
    assert!(tokens["disk"].as_u64().unwrap() > 250, "{tokens}");
}

#[test]
fn an_idle_daemon_unloads_the_model_and_the_next_request_finds_its_kv() {
    let directory = tempfile::tempdir().unwrap();
    config(directory.path(), "unload_after = '10m'\n");
    let launch = launch(directory.path()).args(["--model", "fake"]).with_clock();
    let hobd = Hobd::launched(directory.path(), &launch);
    hobd.say("My locker code is 48213.");
    let residency = || hobd.call("GET", "/v1/status").send().json()["residency"].clone();
    assert_eq!(residency(), "resident");
    wait::until("the model is unloaded", || {
        launch.pass(Duration::from_secs(11 * 60));
        (residency() == "unloaded").then_some(())
    });
    let answer = hobd.say("What is my locker code?").json();
    let tokens = &answer["hob"]["tokens"];
    assert!(tokens["disk"].as_u64().unwrap() + tokens["memory"].as_u64().unwrap() > 30, "{tokens}");
    assert_eq!(residency(), "resident");
}

#[test]
fn a_switch_keeps_the_address_and_writes_the_choice_to_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path(), "# mine\nmodel = 'fake' # for tests\n");
    let hobd = Hobd::as_configured(directory.path());
    let first = hobd.say("My locker code is 48213.").json();
    let answer = hobd.switch("fake:second");
    assert_eq!(answer["from"]["name"], "fake");
    let status = hobd.status();
    assert_eq!(status["model"], "fake:second");
    assert_eq!((&status["switch_error"], &status["pid"]), (&Value::Null, &hobd.ready["pid"]));
    assert_ne!(status["fingerprint"], hobd.ready["fingerprint"]);
    let text = fs::read_to_string(&config).unwrap();
    assert_eq!(text, "# mine\nmodel = \"fake:second\" # for tests\n");

    hobd.switch("fake");
    let tokens = &hobd.say("What is it?").json()["hob"]["tokens"];
    let before = first["usage"]["total_tokens"].as_u64().unwrap();
    assert!(
        tokens["disk"].as_u64().unwrap() + 3 > before,
        "KV must be restored from disk with the model: {tokens}"
    );
}

#[cfg(not(feature = "llama"))] // With llama.cpp, this model loads.
#[test]
fn a_model_that_does_not_load_leaves_the_present_one() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path(), "model = 'fake'\n");
    let hobd = Hobd::as_configured(directory.path());
    hobd.say("Remember me.");
    let model = directory.path().join("data/models/qwen2.gguf");
    fs::create_dir_all(model.parent().unwrap()).unwrap();
    fs::copy(asset("fixtures/qwen2.gguf"), &model).unwrap();

    let error = hobd.refuses(&model);
    assert_eq!(error["model"].as_str(), model.to_str());
    assert!(error["message"].as_str().unwrap().contains("fake runs on"), "{error}");
    assert_eq!(hobd.say("Still there?").status, 200);
    assert_eq!(fs::read_to_string(&config).unwrap(), "model = 'fake'\n");
}

#[test]
fn a_model_that_a_flag_has_chosen_is_switched_for_this_run() {
    let directory = tempfile::tempdir().unwrap();
    let hobd = Hobd::start(directory.path());
    hobd.switch("fake:second");
    let status = hobd.status();
    assert_eq!((&status["model"], &status["switch_error"]), (&json!("fake:second"), &Value::Null));
    let config = directory.path().join(".config/hob/hob.toml");
    assert!(!config.exists(), "the next start is the flag's");
}

#[test]
#[cfg(feature = "llama")]
fn a_switch_to_a_model_that_llama_cpp_refuses_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let models = directory.path().join("data/models");
    fs::create_dir_all(&models).unwrap();
    fs::copy(asset("fixtures/qwen3.gguf"), models.join("qwen3.gguf")).unwrap();
    // The header is valid, but llama.cpp does not know the architecture.
    let unknown = fs::read(asset("fixtures/qwen2.gguf")).unwrap();
    let at = unknown.windows(5).position(|bytes| bytes == b"qwen2").unwrap();
    let unknown = [&unknown[..at], b"qwen!", &unknown[at + 5..]].concat();
    fs::write(models.join("unknown.gguf"), unknown).unwrap();

    let hobd = Hobd::as_configured(directory.path());
    hobd.say("Hello.");
    hobd.switch("qwen3");
    assert_eq!(hobd.status()["model"], "qwen3");
    assert_eq!(hobd.say("Hello again.").status, 200);
    let error = hobd.refuses(&models.join("unknown.gguf"));
    assert_eq!(hobd.status()["model"], "qwen3");
    assert!(error["message"].as_str().unwrap().contains("nothing was changed"), "{error}");
    hobd.switch("bundled");
    assert_eq!(hobd.status()["model"], "hob-tiny-f16");
    assert_eq!(hobd.call("GET", "/v1/models/local").send().json()["current"], "bundled");
}

#[test]
#[cfg(feature = "llama")]
fn replacing_the_model_file_switches_to_the_new_model() {
    let directory = tempfile::tempdir().unwrap();
    let model = directory.path().join("model.gguf");
    let put = |name: &str| {
        let new = directory.path().join("new");
        fs::copy(asset("fixtures").join(name), &new).unwrap();
        fs::rename(new, &model).unwrap();
    };
    put("qwen2.gguf");
    let hobd = Hobd::with_model(directory.path(), &model);
    hobd.say("Hello.");
    let fingerprint = || hobd.call("GET", "/v1/status").send().json()["fingerprint"].clone();
    let first = fingerprint();
    let ready = || fs::read_to_string(directory.path().join("ready.json")).unwrap_or_default();
    let swapped = |from: &Value| {
        // While hobd restarts, no socket listens; the ready file appears when one does.
        wait::until("the new model is served", || {
            let ready = ready();
            let is_new = !ready.contains(from.as_str().unwrap());
            (ready.contains("fingerprint") && is_new).then_some(())
        });
        fingerprint()
    };
    put("qwen3.gguf");
    let second = swapped(&first);
    assert_ne!(second, first);
    assert_eq!(hobd.say("Hello again.").status, 200);
    put("qwen2.gguf");
    assert_eq!(swapped(&second), first, "the fingerprint depends on the content of the file");
}
