//! Faults inside a built hobd: a dead engine is seen, running answers end with an error, texts stay,
//! and the next turn restores its KV.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use hob_testkit::process::Signal;
use hob_testkit::{Answer, Hobd, Launch, Process, Stream, files, wait};
use serde_json::{Value, json};

/// More than the engine may be silent.
const HANG_PATIENCE: Duration = Duration::from_secs(90);

fn launch(directory: &Path) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).args(["--model", "fake"]).with_faults()
}

fn supervised(directory: &Path) -> Launch {
    launch(directory).args(["--supervise"])
}

fn body(conversation: &str, message: &str) -> Value {
    json!({"conversation": conversation, "hob": {"append": true}, "temperature": 0,
        "max_tokens": 400, "messages": [{"role": "user", "content": message}]})
}

fn say(hobd: &Hobd, conversation: &str, message: &str) -> Answer {
    hobd.client.call("POST", "/v1/chat/completions").json(&body(conversation, message)).send()
}

/// An answer of 14 seconds, of which the first words have arrived.
fn slow_answer(hobd: &Hobd, conversation: &str) -> Stream {
    let mut body = body(conversation, &format!("Say this slowly: {}", "kettle ".repeat(200)));
    body["stream"] = true.into();
    body["max_tokens"] = 2000.into();
    let mut stream = hobd.client.call("POST", "/v1/chat/completions").json(&body).stream();
    for _ in 0..12 {
        stream.next_data().unwrap(); // The fake model's tokens are bytes.
    }
    stream
}

/// The error that ends a stream.
fn error_of(stream: Stream) -> Value {
    let last = stream.collect().pop().unwrap();
    assert!(last["error"]["message"].is_string(), "the stream ends with an error: {last}");
    last["error"].clone()
}

/// The announcement of the daemon that serves now.
fn announced(directory: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(directory.join("data/hobd.json")).ok()?).ok()
}

/// Waits until another daemon has announced itself.
fn restarted(hobd: &Hobd) -> Value {
    wait::until("hobd serves again", || {
        hobd.client.try_status().filter(|status| status["crashes"] != 0)
    })
}

fn texts(hobd: &Hobd, conversation: &str) -> Vec<String> {
    let stored = hobd.client.get(&format!("/v1/conversations/{conversation}"));
    let text = |message: &Value| message["content"].as_str().unwrap().to_owned();
    stored["messages"].as_array().unwrap().iter().map(text).collect()
}

/// What the first message of a saved conversation repeats 20 times. The fake model's tokens are
/// bytes.
const REMEMBER: &str = "remember me. ";

/// Asserts that the conversation continues from its saved KV: its first message is not computed
/// again. Later turns may be: the writer saves them behind the answer, and a process that is
/// killed right after an answer has not saved it.
fn assert_restored(answer: &Answer) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let tokens = answer.json()["hob"]["tokens"].clone();
    let cached = tokens["disk"].as_u64().unwrap() + tokens["memory"].as_u64().unwrap();
    assert!(cached >= 20 * REMEMBER.len() as u64, "{tokens}");
}

/// A conversation whose KV is on disk.
fn save_one(launch: &Launch, conversation: &str) {
    let mut hobd = launch.start();
    let words = format!("{conversation}: {REMEMBER}").repeat(20);
    assert_eq!(say(&hobd, conversation, &words).status, 200);
    assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(0));
}

#[test]
fn a_panic_of_the_engine_restarts_it_in_the_same_process() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    save_one(&launch, "saved");
    let hobd = launch.start();
    let stream = slow_answer(&hobd, "running");
    launch.inject("engine", "panic").done();
    let error = error_of(stream);
    assert_eq!(
        (&error["code"], &error["type"]),
        (&json!("engine_dead"), &json!("overloaded_error"))
    );
    assert!(error["message"].as_str().unwrap().contains("try again"), "{error}");

    let status = restarted(&hobd);
    assert_eq!((&status["crashes"], &status["pid"]), (&json!(1), &hobd.ready["pid"]));
    assert_eq!(status["crash"], "the engine's thread panicked");
    assert_eq!(hobd.client.get("/health"), json!({"status": "ok"}));
    assert_eq!(announced(directory.path()).unwrap()["address"], hobd.ready["address"]);
    assert!(texts(&hobd, "running")[1].starts_with("kett"), "the text so far is kept");
    assert_restored(&say(&hobd, "saved", "Go on"));
    assert_eq!(say(&hobd, "running", "Go on").status, 200);
}

#[test]
fn a_switch_that_waits_for_an_answer_is_made_after_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    let hobd = launch.start();
    let stream = slow_answer(&hobd, "running");
    let switch = json!({"model": "fake:second"});
    let accepted = hobd.client.call("POST", "/v1/models/switch").json(&switch).send();
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    launch.inject("engine", "panic").done();
    let status = wait::until("hobd serves again", || {
        let status = hobd.client.try_status()?;
        (status["crashes"] != 0 || status["model"] != "fake").then_some(status)
    });
    assert_eq!((&status["model"], &status["switch_error"]), (&json!("fake:second"), &Value::Null));
    drop(stream);
}

#[test]
fn a_switch_that_waits_for_an_answer_is_made_after_a_hang() {
    let directory = tempfile::tempdir().unwrap();
    let launch = supervised(directory.path());
    let hobd = launch.start();
    let stream = slow_answer(&hobd, "running");
    let switch = json!({"model": "fake:second"});
    let accepted = hobd.client.call("POST", "/v1/models/switch").json(&switch).send();
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    launch.inject("engine", "hang").done();
    let status = wait::until("another hobd serves", || {
        let status = hobd.client.try_status()?;
        (status["pid"] != hobd.ready["pid"]).then_some(status)
    });
    assert_eq!((&status["model"], &status["switch_error"]), (&json!("fake:second"), &Value::Null));
    assert_eq!(status["crash"], "hobd ended: exit status: 70");
    drop(stream);
}

#[test]
fn a_daemon_that_starts_again_serves_where_it_cannot_announce_itself() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    let hobd = launch.start();
    // The file of this name is written first.
    std::fs::create_dir(directory.path().join("data/hobd.json.tmp")).unwrap();
    let panic = launch.inject("engine", "panic");
    hobd.client.call("GET", "/v1/status").try_send().ok(); // Wakes the engine.
    panic.done();
    assert_eq!(restarted(&hobd)["crashes"], 1);
    assert_eq!(announced(directory.path()), None);
}

#[test]
fn the_engine_starts_again_at_once_after_its_first_panic_and_a_second_later_after_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    let hobd = launch.start();
    let panic = || {
        let before = Instant::now();
        let panic = launch.inject("engine", "panic");
        hobd.client.call("GET", "/v1/status").try_send().ok(); // Wakes the engine.
        panic.done();
        before
    };
    panic();
    restarted_or_first(&hobd, 1);
    let died = panic();
    restarted_or_first(&hobd, 2);
    assert!(died.elapsed() >= Duration::from_secs(1), "{:?}", died.elapsed());
}

#[test]
fn a_panic_of_the_writer_or_a_reader_ends_one_job_and_restarts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    save_one(&launch, "saved");
    save_one(&launch, "other");
    let mut hobd = launch.start();
    let panics = |hobd: &Hobd| hobd.client.get("/v1/status")["counters"]["tier_panics"].clone();
    let fault = launch.inject("reader", "panic");
    let computed = say(&hobd, "saved", "Go on");
    fault.done();
    assert_eq!(computed.status, 200, "its KV is computed: {}", computed.text());
    assert_eq!(panics(&hobd), json!(1));
    let fault = launch.inject("writer", "panic");
    assert_eq!(say(&hobd, "new", &"remember this ".repeat(20)).status, 200);
    fault.done();
    wait::until("the writer's panic is counted", || (panics(&hobd) == json!(2)).then_some(()));
    assert_restored(&say(&hobd, "other", "Go on"));

    let status = hobd.client.get("/v1/status");
    assert_eq!((&status["crashes"], &status["pid"]), (&json!(0), &hobd.ready["pid"]));
    let metrics = hobd.client.call("GET", "/metrics").send().text();
    assert!(metrics.contains("hob_tier_panics_total 2"), "{metrics}");
    assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(0));
    let hobd = launch.start();
    assert_restored(&say(&hobd, "other", "Go on"));
}

/// Adds an object that no slot file names, and that is days old: the sweep at the next start removes it.
fn add_orphan(directory: &Path) -> PathBuf {
    let objects = files::with_extension(&directory.join("data/slots"), "kv");
    let orphans = objects[0].parent().unwrap().with_file_name("00");
    std::fs::create_dir_all(&orphans).unwrap();
    let orphan = orphans.join(format!("{}.kv", "0".repeat(64)));
    std::fs::write(&orphan, "nobody's").unwrap();
    let file = std::fs::File::options().write(true).open(&orphan).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3 * 24 * 60 * 60)).unwrap();
    orphan
}

#[test]
fn a_panic_in_maintenance_fails_its_request_alone() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    save_one(&launch, "saved");
    let orphan = add_orphan(directory.path());
    let hobd = launch.start();
    let collect = || hobd.client.call("POST", "/v1/slots/gc").json(&json!({})).send().status;
    // A later one is due in minutes.
    wait::until("the first sweep runs", || (!orphan.exists()).then_some(()));
    let fault = launch.inject("maintenance", "panic");
    assert_eq!(collect(), 503);
    fault.done();
    assert_eq!(collect(), 200);
    assert_restored(&say(&hobd, "saved", "Go on"));
    assert_eq!(hobd.client.get("/v1/status")["crashes"], 0);
}

#[test]
fn health_says_that_the_engine_hangs_and_requests_do_not_wait_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path());
    let mut hobd = launch.start();
    let stream = slow_answer(&hobd, "a");
    launch.inject("engine", "hang").done();
    assert_eq!(hobd.client.get("/health"), json!({"status": "ok"}), "silent for a moment only");
    let dead = wait::attempt(HANG_PATIENCE, || {
        let health = hobd.client.call("GET", "/health").send();
        if health.status == 503 { Ok(health.json()) } else { Err(health.status) }
    });
    let dead = dead.expect("hobd notices that its engine hangs");
    assert_eq!(dead["status"], "dead");
    assert!(dead["reason"].as_str().unwrap().contains("no progress for 30 s"), "{dead}");
    assert!(error_of(stream)["message"].as_str().unwrap().contains("try again"));
    for (method, path) in [("GET", "/v1/status"), ("GET", "/v1/memory/map")] {
        assert_eq!(hobd.client.call(method, path).send().status, 503, "{path}");
    }
    assert_eq!(say(&hobd, "a", "Hello?").status, 503);
    assert!(texts(&hobd, "a")[1].starts_with("kett"), "texts can be read");
    // It ends by itself, and not everything is saved.
    assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(70), "{}", launch.log());
}

#[test]
fn a_supervisor_starts_hobd_again_at_the_same_address() {
    let directory = tempfile::tempdir().unwrap();
    let launch = supervised(directory.path());
    save_one(&launch, "saved");
    let mut hobd = launch.start();
    assert_ne!(hobd.ready["pid"], hobd.process.id(), "a child serves");
    for (crashes, signal) in [(1, Signal::ABORT), (2, Signal::ILL)] {
        let child = restarted_or_first(&hobd, crashes - 1);
        let mut stream = slow_answer(&hobd, "running");
        // The text of a stream is stored each 250 ms.
        wait::until("the text is stored", || {
            texts(&hobd, "running").get(1)?.starts_with("kett").then_some(())
        });
        Process::signal(child, signal);
        while let Ok(Some(_)) = stream.try_next_data() {}
        let status = restarted(&hobd);
        assert_eq!(status["crashes"], crashes);
        assert!(status["crash"].as_str().unwrap().starts_with("hobd ended: signal"), "{status}");
    }
    assert!(texts(&hobd, "running")[1].starts_with("kett"), "the text so far is kept");
    assert_restored(&say(&hobd, "saved", "Go on"));

    assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(0));
    assert_eq!(announced(directory.path()), None);
}

/// As a package manager does it: the running program has no file any more.
#[cfg(target_os = "linux")]
#[test]
fn a_supervisor_starts_hobd_again_after_an_update_has_replaced_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_hobd"));
    // Beside the original, whose libraries it finds.
    let program = built.with_file_name(format!("hobd-before-{}", std::process::id()));
    std::fs::hard_link(built, &program).unwrap();
    let launch = Launch::new(&program, directory.path()).args(["--model", "fake", "--supervise"]);
    let started = launch.spawn().ready();
    std::fs::remove_file(&program).unwrap();
    let hobd = started.unwrap();
    Process::signal(restarted_or_first(&hobd, 0), Signal::ABORT);
    assert_eq!(restarted(&hobd)["crashes"], 1);
}

/// The process id of the child after so many crashes.
fn restarted_or_first(hobd: &Hobd, crashes: u32) -> u32 {
    let pid = wait::until("hobd serves", || {
        let status = hobd.client.try_status()?;
        (status["crashes"] == crashes).then(|| status["pid"].as_u64())?
    });
    u32::try_from(pid).unwrap()
}

#[test]
fn a_supervisor_replaces_a_hobd_that_hangs() {
    let directory = tempfile::tempdir().unwrap();
    let launch = supervised(directory.path());
    save_one(&launch, "saved");
    let hobd = launch.start();
    let stream = slow_answer(&hobd, "running");
    launch.inject("engine", "hang").done();
    let error = error_of(stream);
    assert!(error["message"].as_str().unwrap().contains("try again"), "{error}");
    let status = restarted(&hobd);
    assert_ne!(status["pid"], hobd.ready["pid"]);
    assert_eq!(status["crash"], "hobd ended: exit status: 70");
    assert_restored(&say(&hobd, "saved", "Go on"));
}

#[test]
fn a_supervisor_ends_with_a_child_that_cannot_start() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = supervised(directory.path()).command();
    let failed = command.args(["--listen", "127.0.0.1:0", "--threads", "lots"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let other = launch(directory.path()).start();
    let mut command = supervised(directory.path()).command();
    let failed = command.args(["--listen", "127.0.0.1:0"]).output().unwrap();
    let error = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1), "{error}");
    assert!(error.contains("is another hobd running?"), "{error}");
    drop(other);
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_ends_with_its_supervisor() {
    let directory = tempfile::tempdir().unwrap();
    let launch = supervised(directory.path());
    let mut hobd = launch.start();
    say(&hobd, "saved", &REMEMBER.repeat(20));
    Process::signal(hobd.process.id(), Signal::KILL);
    hobd.process.kill();
    wait::until("the child ends", || announced(directory.path()).is_none().then_some(()));
    // The child owns the slots directory until its process has ended.
    let hobd = wait::until("another hobd starts", || launch.spawn().ready());
    assert_restored(&say(&hobd, "saved", "Go on"));
}

/// The marks of conversations but `cursed`.
fn marks(directory: &Path) -> Vec<PathBuf> {
    let mut marks = files::below(&directory.join("data/slots"));
    let is_mark = |path: &PathBuf| {
        let path = path.display().to_string();
        path.contains("crashes/") && !path.contains("cursed")
    };
    marks.retain(is_mark);
    marks
}

#[test]
fn kv_that_ends_the_process_three_times_in_a_row_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let launch = supervised(directory.path());
    save_one(&launch, "cursed");
    save_one(&launch, "saved");
    let hobd = launch.start();
    for crashes in 0..3 {
        let child = restarted_or_first(&hobd, crashes);
        // In each of these processes, but before its end: no crash counts against it.
        assert_restored(&say(&hobd, "saved", "Go on"));
        wait::until("its mark is removed", || marks(directory.path()).is_empty().then_some(()));
        let abort = launch.inject("restore", "abort");
        let call = hobd.client.call("POST", "/v1/chat/completions");
        assert!(call.json(&body("cursed", "Go on")).try_send().is_err(), "{child} is aborted");
        abort.done();
    }
    restarted_or_first(&hobd, 3);
    assert_restored(&say(&hobd, "saved", "Go on"));
    let abort = launch.inject("restore", "abort");
    let answer = say(&hobd, "cursed", "Go on");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let hob = answer.json()["hob"].clone();
    assert_eq!(hob["tokens"]["disk"], 0, "{hob}");
    assert!(hob["miss"].as_str().unwrap().contains("crashed 3 times in a row"), "{hob}");
    assert!(!abort.is_done(), "nothing was restored");
    let quarantine = hobd.client.get("/v1/slots/quarantine").to_string();
    assert!(quarantine.contains("crashed 3 times in a row"), "{quarantine}");
}

#[test]
fn a_deletion_takes_the_count_of_crashes_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let launch = supervised(directory.path());
    save_one(&launch, "cursed");
    let hobd = launch.start();
    let abort = launch.inject("restore", "abort");
    let call = hobd.client.call("POST", "/v1/chat/completions");
    assert!(call.json(&body("cursed", "Go on")).try_send().is_err(), "hobd is aborted");
    abort.done();
    restarted_or_first(&hobd, 1);
    let marks = || {
        let models = std::fs::read_dir(directory.path().join("data/slots")).unwrap();
        let marks = models.map(|model| model.unwrap().path().join("crashes"));
        marks.filter_map(|marks| std::fs::read_dir(marks).ok()).map(Iterator::count).sum::<usize>()
    };
    assert_eq!(marks(), 1);
    let deleted = hobd.client.call("DELETE", "/v1/conversations/cursed").send();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(marks(), 0);
}

#[cfg(feature = "llama")]
#[test]
fn a_real_model_answers_again_after_its_process_was_ended_and_its_engine_panicked() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(env!("CARGO_BIN_EXE_hobd"), directory.path()).with_faults();
    let launch = launch.args(["--model", "bundled", "--supervise"]);
    let hobd = launch.start();
    let child = || restarted_or_first(&hobd, 0);
    assert_eq!(say(&hobd, "a", "My locker code is 48213.").status, 200);
    wait::until("its KV is on disk", || {
        let saved = hobd.client.get("/v1/slots")["data"].as_array().map_or(0, Vec::len);
        (saved > 0).then_some(())
    });
    Process::signal(child(), Signal::ABORT);
    assert_eq!(restarted(&hobd)["crashes"], 1);
    let answer = say(&hobd, "a", "What is my locker code?");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let tokens = answer.json()["hob"]["tokens"].clone();
    assert!(tokens["disk"].as_u64().unwrap() > 20, "{tokens}");

    let panic = launch.inject("engine", "panic");
    hobd.client.call("GET", "/v1/status").try_send().ok(); // Wakes the engine.
    panic.done();
    let pid = restarted_or_first(&hobd, 2);
    assert_ne!(pid, hobd.ready["pid"]);
    assert_eq!(say(&hobd, "a", "And now?").status, 200);
}
