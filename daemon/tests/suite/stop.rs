//! SIGTERM ends a hobd with everything saved, whatever it does: answers on all slots, edits, deletions,
//! changed profiles, model switches, maintenance, export and import.
//!
//! Runs 3 rounds, or `HOB_TEST_STOP_ROUNDS`. Each round starts hobd on the directory of the last one,
//! checks what the last one saved, and stops it at a random moment.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hob_testkit::process::Signal;
use hob_testkit::{Client, Hobd, Launch, Process, Stream, free_port, wait};
use serde_json::{Value, json};

use crate::common::chance::{Chance, from_env};

/// Conversations that are never edited or deleted: their KV must survive.
const STEADY: [&str; 3] = ["steady-0", "steady-1", "steady-2"];

const MODELS: [&str; 2] =
    if cfg!(feature = "llama") { ["bundled", "fake:second"] } else { ["fake", "fake:second"] };

/// A steady conversation's last complete turn.
#[derive(Clone, Debug)]
struct LastTurn {
    model: String,
    total_tokens: u64,
    /// A later turn was begun.
    is_stale: bool,
}

fn launch(directory: &Path) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_hobd"), directory).args(["--slots", "2"])
}

fn configure(directory: &Path) {
    let file = directory.join(".config/hob/hob.toml");
    fs::create_dir_all(file.parent().unwrap().join("profiles")).unwrap();
    fs::write(&file, format!("model = '{}'\n", MODELS[0])).unwrap();
}

/// Asks for an end and waits for it. hobd ends with 0 where it has saved everything within the ten seconds that it
/// gives itself, otherwise with 70.
fn stop(hobd: &mut Hobd, log: &Launch) -> Duration {
    let told = Instant::now();
    let status = hobd.process.terminate(wait::PATIENCE);
    let took = told.elapsed();
    assert_eq!(status.code(), Some(0), "after {took:?}: {}", log.log());
    took
}

fn body(conversation: &str, message: &str) -> Value {
    json!({"conversation": conversation, "hob": {"append": true}, "temperature": 0,
        "max_tokens": 24, "messages": [{"role": "user", "content": message}]})
}

/// `None`: hobd refused it or was gone.
fn post(client: &Client, path: &str, body: &Value) -> Option<Value> {
    let answer = client.call("POST", path).json(body).try_send().ok()?;
    (answer.status == 200).then(|| serde_json::from_slice(&answer.body).ok())?
}

#[test]
fn sigterm_during_a_model_switch_is_not_lost() {
    for pause in [0, 300, 1500] {
        let directory = tempfile::tempdir().unwrap();
        configure(directory.path());
        let launch = launch(directory.path());
        let mut hobd = launch.start();
        let mut body = body("a", &format!("Say this slowly: {}", "kettle ".repeat(100)));
        (body["stream"], body["max_tokens"]) = (true.into(), 2000.into());
        let mut stream = hobd.client.call("POST", "/v1/chat/completions").json(&body).stream();
        stream.next_data().unwrap();
        let switch = json!({"model": MODELS[1]});
        let switched = hobd.client.call("POST", "/v1/models/switch").json(&switch).send();
        assert_eq!(switched.status, 202, "{}", switched.text());
        // The switch waits for the answer, saves, and opens the other model.
        thread::sleep(Duration::from_millis(pause));
        stop(&mut hobd, &launch);
        assert!(!directory.path().join("data/hobd.json").exists());
    }
}

/// An answer of some 20 seconds, of which the first word has arrived.
fn long_answer(hobd: &Hobd) -> Stream {
    let mut body = body("a", &format!("Say this slowly: {}", "kettle ".repeat(300)));
    (body["stream"], body["max_tokens"]) = (true.into(), 2000.into());
    let mut stream = hobd.client.call("POST", "/v1/chat/completions").json(&body).stream();
    stream.next_data().unwrap();
    stream
}

fn until_stopping(launch: &Launch) {
    wait::until("the signal is heard", || launch.log().contains("stopping;").then_some(()));
}

/// The fake model writes each token of this answer after a pause: longer than the five seconds that
/// a stop gives to answers, and less than the ten before a switch.
#[test]
fn an_answer_of_six_seconds_is_whole_when_the_model_is_switched() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path());
    fs::write(directory.path().join(".config/hob/hob.toml"), "model = 'fake'\n").unwrap();
    let launch = launch(directory.path());
    let hobd = launch.start();
    let said = "k".repeat(600); // A token each 10 ms.
    let mut body = body("a", &format!("Say this slowly: {said}"));
    (body["stream"], body["max_tokens"]) = (true.into(), 2000.into());
    let mut stream = hobd.client.call("POST", "/v1/chat/completions").json(&body).stream();
    stream.next_data().unwrap();
    hobd.client.post("/v1/models/switch", &json!({"model": "fake:second"}));
    let events = stream.collect();
    let finish = |event: &Value| event["choices"][0]["finish_reason"].as_str() == Some("stop");
    assert!(events.iter().any(finish), "{:?}", events.last());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).args(["--model", "fake"]);
    let mut hobd = launch.start();
    let _stream = long_answer(&hobd);
    Process::signal(hobd.process.id(), Signal::TERM);
    until_stopping(&launch);
    assert_eq!(hobd.process.terminate(wait::PATIENCE).code(), Some(130), "{}", launch.log());
}

#[test]
fn ctrl_c_in_a_terminal_ends_no_program_that_speaks_for_hobd() {
    let directory = tempfile::tempdir().unwrap();
    let (script, found) = (directory.path().join("say"), directory.path().join("group"));
    let read = "read -r pid name state parent group rest </proc/self/stat";
    let run = format!("{read}; echo $group >'{}'; exec /bin/sleep 60", found.display());
    fs::write(&script, run).unwrap();
    let launch = launch(directory.path()).args(["--model", "fake", "--voice-command"]);
    let launch = launch.args([format!("/bin/sh {}", script.display())]);
    let mut hobd = launch.start();
    let group = wait::until("the program runs", || {
        fs::read_to_string(&found).ok()?.trim_end().parse::<u32>().ok()
    });
    // hobd may end before it logs that Ctrl-C has ended a program.
    assert_ne!(group, hobd.process.id(), "the terminal would signal the program too");
    hobd.process.signal_group(Signal::INT);
    let status = wait::until("hobd ends", || hobd.process.exit_status());
    assert_eq!(status.code(), Some(0), "{}", launch.log());
    assert!(!launch.log().contains("synthesis failed"), "{}", launch.log());
}

#[test]
fn a_closed_terminal_lets_the_answer_end_and_saves_everything() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).args(["--model", "fake"]).with_hangups();
    let mut hobd = launch.start();
    let _stream = long_answer(&hobd);
    Process::signal(hobd.process.id(), Signal::HUP);
    until_stopping(&launch);
    // The shell of the terminal sends it again.
    Process::signal(hobd.process.id(), Signal::HUP);
    let status = wait::until("hobd ends", || hobd.process.exit_status());
    assert_eq!(status.code(), Some(0), "{}", launch.log());
    assert!(!directory.path().join("data/hobd.json").exists());
}

#[test]
fn a_hobd_that_was_started_without_hangups_serves_on() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).args(["--model", "fake"]).without_hangups();
    let mut hobd = launch.start();
    Process::signal(hobd.process.id(), Signal::HUP);
    assert!(post(&hobd.client, "/v1/chat/completions", &body("a", "Hello")).is_some());
    stop(&mut hobd, &launch);
}

#[test]
fn a_signal_to_a_supervisor_and_its_child_counts_once() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).args(["--model", "fake", "--supervise"]);
    let mut hobd = launch.start();
    let _stream = long_answer(&hobd);
    let child = hobd.ready["pid"].as_u64().unwrap();
    Process::signal(u32::try_from(child).unwrap(), Signal::TERM);
    until_stopping(&launch);
    stop(&mut hobd, &launch);
}

#[test]
fn who_watches_the_memory_gets_the_end_of_the_stream_and_delays_no_stop() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).args(["--model", "fake"]);
    let mut hobd = launch.start();
    let mut watch = hobd.client.call("GET", "/v1/memory/events").open();
    let mut head = [0; 64];
    watch.read_exact(&mut head).unwrap();
    let reads = thread::spawn(move || {
        let mut rest = Vec::new();
        watch.read_to_end(&mut rest).map(|_| rest)
    });
    stop(&mut hobd, &launch);
    let rest = reads.join().unwrap().unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "the stream ends with its last chunk");
}

#[test]
fn sigterm_ends_a_hobd_whose_model_does_not_load() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path()).args(["--model", "fake"]).with_faults();
    let launch = launch.listen(([127, 0, 0, 1], free_port()).into());
    let client = launch.start().client;
    let _loads = launch.inject("start", "wait");
    let starting = launch.spawn();
    wait::until("the model loads", || client.call("GET", "/health").try_send().ok());
    // A hobd that serves would end with 70: the model does not stop. There is nothing to save.
    assert_eq!(starting.terminate().code(), Some(0), "{}", launch.log());
}

#[test]
fn sigterm_under_any_load_ends_hobd_with_everything_saved() {
    let rounds = from_env("HOB_TEST_STOP_ROUNDS", 3);
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path());
    let launch = launch(directory.path());
    let mut last = BTreeMap::new();
    for round in 0..rounds {
        let mut hobd = launch.start();
        check_saved(&hobd, &last);
        last = talk(&hobd, round);
        let profiles = directory.path().join(".config/hob/profiles");
        let took = stop_under_load(&mut hobd, (&launch, &profiles), round, &mut last);
        println!("round {round}: stopped within {took:?}");
    }
    let hobd = launch.start();
    check_saved(&hobd, &last);
}

/// Asserts that each steady conversation continues from its saved KV.
fn check_saved(hobd: &Hobd, last: &BTreeMap<String, LastTurn>) {
    let model = hobd.client.get("/v1/status")["model"].as_str().unwrap().to_owned();
    for (conversation, last) in last {
        let answer = post(&hobd.client, "/v1/chat/completions", &body(conversation, "Go on"));
        let answer = answer.unwrap_or_else(|| panic!("{conversation} is answered"));
        if last.model == model && !last.is_stale {
            let tokens = &answer["hob"]["tokens"];
            let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
            let expected = last.total_tokens.saturating_sub(2);
            assert!(cached.unwrap() >= expected, "{conversation}: {tokens} after {last:?}");
        }
    }
}

/// A turn of each steady conversation.
fn talk(hobd: &Hobd, round: u64) -> BTreeMap<String, LastTurn> {
    let turn = |conversation: &&str| {
        let words = format!("Round {round}: the kettle boils, and the tea is ready.");
        let answer = post(&hobd.client, "/v1/chat/completions", &body(conversation, &words));
        let answer = answer.unwrap_or_else(|| panic!("{conversation} is answered"));
        let last = LastTurn {
            model: answer["model"].as_str().unwrap().to_owned(),
            total_tokens: answer["usage"]["total_tokens"].as_u64().unwrap(),
            is_stale: false,
        };
        ((*conversation).to_owned(), last)
    };
    STEADY.iter().map(turn).collect()
}

/// Stops hobd at a random moment while clients send everything at once.
fn stop_under_load(
    hobd: &mut Hobd,
    (launch, profiles): (&Launch, &Path),
    round: u64,
    last: &mut BTreeMap<String, LastTurn>,
) -> Duration {
    let ends = AtomicBool::new(false);
    let client = hobd.client.clone();
    let mut chance = Chance(round);
    let load = chance.one_of(&[500, 1500, 3000]) + chance.within(0..500);
    let load = Duration::from_millis(load as u64);
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..4 {
            let (client, ends) = (&client, &ends);
            clients.push(scope.spawn(move || streams(client, ends, number)));
        }
        let (client, ends) = (&client, &ends);
        clients.push(scope.spawn(move || maintains(client, ends)));
        clients.push(scope.spawn(move || carries(client, ends)));
        clients.push(scope.spawn(move || configures(client, profiles, ends, round)));
        thread::sleep(load);
        // In every other round a steady conversation is answered at the end.
        if round % 2 == 1 {
            last.get_mut(STEADY[0]).unwrap().is_stale = true;
            let body = body(STEADY[0], &format!("Say this slowly: {}", "tea ".repeat(100)));
            clients.push(scope.spawn(move || drop(post(client, "/v1/chat/completions", &body))));
        }
        let took = stop(hobd, launch);
        ends.store(true, Ordering::SeqCst);
        took
    })
}

/// Answers on both slots, edits, and deletions.
fn streams(client: &Client, ends: &AtomicBool, number: u64) {
    let mut turn = 0;
    while !ends.load(Ordering::SeqCst) {
        let conversation = format!("client-{number}-{}", turn / 4);
        let words = if turn % 2 == 0 { "Say this slowly: one two three" } else { "Hello again" };
        let mut body = body(&conversation, words);
        body["stream"] = true.into();
        if turn % 4 == 2 {
            body["hob"] = json!({}); // The whole conversation, edited.
        }
        if let Ok(mut stream) = client.call("POST", "/v1/chat/completions").json(&body).try_stream()
        {
            for _ in 0..if turn % 4 == 1 { 3 } else { usize::MAX } {
                if !matches!(stream.try_next_data(), Ok(Some(_))) {
                    break;
                }
            }
        }
        if turn % 4 == 3 {
            let path = format!("/v1/conversations/{conversation}");
            client.call("DELETE", &path).try_send().ok();
        }
        turn += 1;
    }
}

/// Maintenance of the saved KV, of other conversations than the steady ones.
fn maintains(client: &Client, ends: &AtomicBool) {
    while !ends.load(Ordering::SeqCst) {
        for (path, body) in [
            ("/v1/slots/gc", json!({"dry_run": false})),
            ("/v1/slots/remove", json!({"conversations": ["client-0-0", "client-1-0"]})),
            ("/v1/slots/verify", json!({})),
            ("/v1/slots/prune", json!({"dry_run": false, "class": "short"})),
        ] {
            client.call("POST", path).json(&body).try_send().ok();
        }
    }
}

/// Export and import.
fn carries(client: &Client, ends: &AtomicBool) {
    while !ends.load(Ordering::SeqCst) {
        let path = format!("/v1/conversations/{}/export?format=archive", STEADY[1]);
        if let Ok(exported) = client.call("GET", &path).try_send()
            && exported.status == 200
        {
            let import = client.call("POST", "/v1/conversations/import");
            let import = import.header("content-type", "application/x-tar").body(exported.body);
            import.try_send().ok();
        }
    }
}

/// A profile that changes, and in every third round a model switch.
fn configures(client: &Client, profiles: &Path, ends: &AtomicBool, round: u64) {
    let mut number = 0;
    while !ends.load(Ordering::SeqCst) {
        number += 1;
        let text = format!("Rule {number}: the kettle is hot. ").repeat(10);
        let profile = format!("[[segment]]\nlayer = 'rules'\nkey = 'kettle'\ntext = '{text}'\n");
        fs::write(profiles.join("load.toml"), profile).unwrap();
        thread::sleep(Duration::from_millis(100));
        if round % 3 == 2 && number == 4 {
            let model = MODELS[(usize::try_from(round).unwrap() / 3 % 2) ^ 1];
            client.call("POST", "/v1/models/switch").json(&json!({"model": model})).try_send().ok();
        }
    }
}
