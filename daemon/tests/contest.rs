//! Daemons and command lines that want the same directory at the same time.
//!
//! Ten seconds in a usual run, a minute with `HOB_TEST_ALL=1`. Needs `hob` beside `hobd`: a build of
//! the whole workspace, which is what `cargo xtask test` makes.

#![cfg(unix)]

#[path = "common/client.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod client;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use client::Call;
use serde_json::{Value, json};

const SPEAKERS: usize = 3;

/// What the four loops ask for, over and over.
const LOOPS: [&[&str]; 4] =
    [&["ls", "--json"], &["verify"], &["prune", "--yes", "--older-than", "0s"], &["gc", "--yes"]];

#[test]
fn two_daemons_and_four_command_lines_share_a_directory_and_nothing_live_leaves() {
    let all = std::env::var("HOB_TEST_ALL").is_ok();
    let half = Duration::from_secs(if all { 30 } else { 5 });
    let directory = tempfile::tempdir().unwrap();
    let (stop, turns) = (AtomicBool::new(false), AtomicU32::new(0));
    let runs: Vec<u32> = std::thread::scope(|scope| {
        let loops: Vec<_> = LOOPS
            .into_iter()
            .map(|asked| scope.spawn(|| ask_until(&stop, directory.path(), asked)))
            .collect();
        // Also when something fails: the loops would go on for ever, and nobody would hear of it.
        let _stop = Raise(&stop);
        for _ in 0..2 {
            let hobd = Hobd::start(directory.path());
            let end = Instant::now() + half;
            std::thread::scope(|scope| {
                for speaker in 0..SPEAKERS {
                    let (hobd, turns) = (&hobd, &turns);
                    scope.spawn(move || {
                        turns.fetch_add(hobd.talk_until(end, speaker), Ordering::Relaxed)
                    });
                }
                scope.spawn(|| be_refused_until(end, directory.path(), hobd.process.id()));
            });
            // Dropped here: killed, without a chance to put anything in order.
        }
        stop.store(true, Ordering::Relaxed);
        loops.into_iter().map(|one| one.join().unwrap()).collect()
    });
    println!("{} turns, runs of the command lines: {runs:?}", turns.load(Ordering::Relaxed));
    assert!(turns.load(Ordering::Relaxed) > 20 && runs.iter().all(|&runs| runs > 1));
}

/// Raised when it is dropped.
struct Raise<'f>(&'f AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `hob slots …` again and again. Returns how often it did what was asked.
fn ask_until(stop: &AtomicBool, directory: &Path, asked: &[&str]) -> u32 {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let Output { status, stderr, .. } =
            program("hob", directory).arg("slots").args(asked).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        // Another command line was faster, or hobd was just killed.
        let in_between = ["in use by", "cannot reach", "no daemon", "broke off"];
        let excused = in_between.iter().any(|excuse| said.contains(excuse));
        assert!(status.success() || excused, "{asked:?} ended with {status}: {said}");
        done += u32::from(status.success());
    }
    done
}

/// Starts another hobd on the directory, which has an owner all the time.
fn be_refused_until(end: Instant, directory: &Path, owner: u32) {
    while Instant::now() < end {
        let output = hobd(directory).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "there must not be two owners");
        assert!(said.contains(&format!("in use by pid {owner}")), "{said}");
    }
}

struct Hobd {
    process: Child,
    address: SocketAddr,
    token: String,
}

impl Hobd {
    /// Starts one, as soon as no command line owns the directory.
    fn start(directory: &Path) -> Self {
        let ready_file = directory.join("ready.json");
        for _ in 0..200 {
            fs::remove_file(&ready_file).ok();
            let mut starting = hobd(directory);
            starting.arg("--ready-file").arg(&ready_file).stderr(Stdio::null());
            let mut process = starting.spawn().unwrap();
            while process.try_wait().unwrap().is_none() {
                if let Ok(text) = fs::read_to_string(&ready_file) {
                    let ready: Value = serde_json::from_str(&text).unwrap();
                    let text = |name: &str| ready[name].as_str().unwrap().to_owned();
                    let token = fs::read_to_string(text("token_file")).unwrap();
                    let address = text("address").parse().unwrap();
                    return Self { process, address, token: token.trim().to_owned() };
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        panic!("the directory was never free");
    }

    /// Talks; from the second turn on only what is new is computed, whatever others prune. Returns
    /// the number of turns.
    fn talk_until(&self, end: Instant, speaker: usize) -> u32 {
        let mut turns = 0;
        while Instant::now() < end {
            // A context is not endless: begin anew from time to time.
            let (chapter, page) = (turns / 40, turns % 40);
            let body = json!({
                "conversation": format!("speaker-{speaker}-{chapter}"), "hob": {"append": true},
                "max_tokens": 8, "temperature": 0,
                "messages": [{"role": "user", "content": format!("Turn {turns}.")}],
            });
            let call = Call::new(self.address, "POST", "/v1/chat/completions");
            let bearer = format!("Bearer {}", self.token);
            let answer = call.header("authorization", &bearer).json(&body).send();
            assert_eq!(answer.status, 200, "{}", answer.text());
            let answer = answer.json();
            let computed = answer["hob"]["tokens"]["computed"].as_u64().unwrap();
            assert!(page == 0 || computed < 60, "live KV was pruned: {answer}");
            turns += 1;
        }
        turns
    }
}

impl Drop for Hobd {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn hobd(directory: &Path) -> Command {
    let mut command = program("hobd", directory);
    command.args(["--model", "fake", "--listen", "127.0.0.1:0", "--log", "warn"]);
    command
}

fn program(name: &str, directory: &Path) -> Command {
    let hobd = PathBuf::from(env!("CARGO_BIN_EXE_hobd"));
    let path = hobd.with_file_name(name);
    assert!(path.exists(), "{} is missing: build the whole workspace first", path.display());
    let mut command = Command::new(path);
    command.env_clear().env("HOME", directory).stdin(Stdio::null());
    command.arg("--data-dir").arg(directory.join("data"));
    command.arg("--slots-dir").arg(directory.join("slots"));
    command
}
