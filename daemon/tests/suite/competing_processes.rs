//! Daemons and `hob` commands that compete for one directory.
//!
//! Runs ten seconds, or a minute with `HOB_TEST_ALL=1`. Needs `hob` beside `hobd`: `cargo xtask
//! test` builds both.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hob_testkit::{Hobd, Launch};
use serde_json::json;

const SPEAKERS: usize = 3;

/// The `hob slots` command that each of the four loops repeats.
const LOOPS: [&[&str]; 4] =
    [&["ls", "--json"], &["verify"], &["prune", "--yes", "--older-than", "0s"], &["gc", "--yes"]];

#[test]
fn two_daemons_and_four_command_lines_share_a_directory_and_prune_no_live_kv() {
    let all = std::env::var("HOB_TEST_ALL").is_ok();
    let half = Duration::from_secs(if all { 30 } else { 5 });
    let directory = tempfile::tempdir().unwrap();
    let (stop, turns) = (AtomicBool::new(false), AtomicU32::new(0));
    let runs: Vec<u32> = std::thread::scope(|scope| {
        let loops: Vec<_> = LOOPS
            .into_iter()
            .map(|arguments| scope.spawn(|| run_until(&stop, directory.path(), arguments)))
            .collect();
        // Raised after a panic, too: without it the loops never end and the test hangs.
        let _stop = Raise(&stop);
        for _ in 0..2 {
            let hobd = start(directory.path());
            let end = Instant::now() + half;
            std::thread::scope(|scope| {
                for speaker in 0..SPEAKERS {
                    let (hobd, turns) = (&hobd, &turns);
                    scope.spawn(move || {
                        turns.fetch_add(talk_until(hobd, end, speaker), Ordering::Relaxed)
                    });
                }
                scope.spawn(|| expect_refusals_until(end, directory.path(), hobd.process.id()));
            });
            // `hobd` is dropped here, which kills it without a shutdown.
        }
        stop.store(true, Ordering::Relaxed);
        loops.into_iter().map(|one| one.join().unwrap()).collect()
    });
    println!("{} turns, runs of the command lines: {runs:?}", turns.load(Ordering::Relaxed));
    assert!(turns.load(Ordering::Relaxed) > 20 && runs.iter().all(|&runs| runs > 1));
}

/// Sets the flag when dropped.
struct Raise<'f>(&'f AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeats `hob slots …` until `stop`. Returns how many runs succeeded.
fn run_until(stop: &AtomicBool, directory: &Path, arguments: &[&str]) -> u32 {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let Output { status, stderr, .. } =
            program("hob", directory).command().arg("slots").args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&stderr);
        // Errors while another `hob` owns the directory or hobd was just killed.
        let expected = ["in use by", "cannot reach", "no daemon", "broke off"];
        let is_expected = expected.iter().any(|text| error.contains(text));
        assert!(status.success() || is_expected, "{arguments:?} ended with {status}: {error}");
        done += u32::from(status.success());
    }
    done
}

/// Starts a second hobd on the owned directory until `end`. Each start must be refused.
fn expect_refusals_until(end: Instant, directory: &Path, owner: u32) {
    while Instant::now() < end {
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

/// Talks until `end`. From the second turn on hobd computes only new tokens, whatever other
/// processes prune. Returns the number of turns.
fn talk_until(hobd: &Hobd, end: Instant, speaker: usize) -> u32 {
    let mut turns = 0;
    while Instant::now() < end {
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
        turns += 1;
    }
    turns
}

fn hobd(directory: &Path) -> Launch {
    program("hobd", directory).args(["--model", "fake", "--log", "warn"])
}

fn program(name: &str, directory: &Path) -> Launch {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_hobd")).with_file_name(name);
    assert!(path.exists(), "{} is missing: build the whole workspace first", path.display());
    Launch::new(path, directory).separate_slots()
}
