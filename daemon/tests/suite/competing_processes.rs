//! Daemons and `hob` commands that compete for one directory.
//!
//! Runs ten seconds, or a minute with `HOB_TEST_ALL=1`; longer where too little has happened by then. Needs `hob`
//! beside `hobd`: `cargo xtask test` builds both.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hob_testkit::{Hobd, Launch, wait};
use serde_json::json;

const SPEAKERS: usize = 3;

/// The `hob slots` command that each of the four loops repeats.
const LOOPS: [&[&str]; 4] =
    [&["ls", "--json"], &["verify"], &["prune", "--yes", "--older-than", "0s"], &["gc", "--yes"]];

/// What has succeeded so far.
#[derive(Default)]
struct Counts {
    turns: AtomicU32,
    /// Of each of the loops.
    runs: [AtomicU32; LOOPS.len()],
}

impl Counts {
    /// Whether so many daemons have served enough.
    fn suffice_for(&self, daemons: u32) -> bool {
        let read = |count: &AtomicU32| count.load(Ordering::Relaxed);
        read(&self.turns) > 10 * daemons && self.runs.iter().all(|runs| read(runs) >= daemons)
    }
}

#[test]
fn two_daemons_and_four_command_lines_share_a_directory_and_prune_no_live_kv() {
    let all = std::env::var("HOB_TEST_ALL").is_ok();
    let half = Duration::from_secs(if all { 30 } else { 5 });
    let directory = tempfile::tempdir().unwrap();
    let (stop, counts) = (AtomicBool::new(false), Counts::default());
    std::thread::scope(|scope| {
        for (arguments, runs) in LOOPS.into_iter().zip(&counts.runs) {
            let (stop, directory) = (&stop, directory.path());
            scope.spawn(move || run_until(stop, directory, arguments, runs));
        }
        // Raised after a panic, too: without it the loops never end and the test hangs.
        let _stop = Raise(&stop);
        for daemons in 1..=2 {
            let hobd = start(directory.path());
            let began = Instant::now();
            let is_over = || {
                let is_enough = began.elapsed() > half && counts.suffice_for(daemons);
                is_enough || began.elapsed() > wait::PATIENCE
            };
            std::thread::scope(|scope| {
                for speaker in 0..SPEAKERS {
                    let (hobd, turns, is_over) = (&hobd, &counts.turns, &is_over);
                    scope.spawn(move || talk_until(is_over, hobd, speaker, turns));
                }
                scope.spawn(|| {
                    expect_refusals_until(is_over, directory.path(), hobd.process.id());
                });
            });
            // `hobd` is dropped here, which kills it without a shutdown.
        }
    });
    println!(
        "{} turns, runs of the command lines: {:?}",
        counts.turns.load(Ordering::Relaxed),
        counts.runs
    );
    assert!(counts.suffice_for(2));
}

/// Sets the flag when dropped.
struct Raise<'f>(&'f AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeats `hob slots …` until `stop`, and counts the runs that succeed.
fn run_until(stop: &AtomicBool, directory: &Path, arguments: &[&str], runs: &AtomicU32) {
    while !stop.load(Ordering::Relaxed) {
        let Output { status, stderr, .. } =
            program("hob", directory).command().arg("slots").args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&stderr);
        // Errors while another `hob` owns the directory or hobd was just killed.
        let expected = ["in use by", "cannot reach", "no daemon", "broke off"];
        let is_expected = expected.iter().any(|text| error.contains(text));
        assert!(status.success() || is_expected, "{arguments:?} ended with {status}: {error}");
        runs.fetch_add(u32::from(status.success()), Ordering::Relaxed);
    }
}

/// Starts a second hobd on the owned directory again and again. Each start must be refused.
fn expect_refusals_until(is_over: impl Fn() -> bool, directory: &Path, owner: u32) {
    while !is_over() {
        let output = hobd(directory).command().args(["--listen", "127.0.0.1:0"]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "a second hobd must not own the directory");
        assert!(error.contains(&format!("in use by pid {owner}")), "{error}");
    }
}

/// Starts hobd as soon as no `hob` command owns the directory.
fn start(directory: &Path) -> Hobd {
    let launch = hobd(directory);
    let started = (0..200).find_map(|_| launch.spawn().ready());
    started.expect("hobd never became the owner of the directory")
}

/// Talks, and counts the turns. From the second one on hobd computes only new tokens, whatever other
/// processes prune.
fn talk_until(is_over: impl Fn() -> bool, hobd: &Hobd, speaker: usize, counted: &AtomicU32) {
    for turns in 0.. {
        if is_over() {
            break;
        }
        // 40 turns fill the context, so every 40th turn starts a new conversation.
        let (chapter, page) = (turns / 40, turns % 40);
        let body = json!({
            "conversation": format!("speaker-{speaker}-{chapter}"), "hob": {"append": true},
            "max_tokens": 8, "temperature": 0,
            "messages": [{"role": "user", "content": format!("Turn {turns}.")}],
        });
        let answer = hobd.client.chat(&body);
        let computed = answer["hob"]["tokens"]["computed"].as_u64().unwrap();
        assert!(page == 0 || computed < 60, "live KV was pruned: {answer}");
        counted.fetch_add(1, Ordering::Relaxed);
    }
}

fn hobd(directory: &Path) -> Launch {
    program("hobd", directory).args(["--model", "fake", "--log", "warn"])
}

fn program(name: &str, directory: &Path) -> Launch {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_hobd")).with_file_name(name);
    assert!(path.exists(), "{} is missing: build the whole workspace first", path.display());
    Launch::new(path, directory).separate_slots()
}
