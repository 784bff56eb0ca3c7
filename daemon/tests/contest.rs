//! Daemons and command lines that compete for one directory.
//!
//! Ten seconds in a usual run, a minute with `HOB_TEST_ALL=1`. Needs `hob` beside `hobd`: a build of
//! the whole workspace, which is what `cargo xtask test` makes.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hob_testkit::{Hobd, Launch};
use serde_json::json;

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
        // Also after a panic: the loops would never end, and the test would hang.
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
            program("hob", directory).command().arg("slots").args(asked).output().unwrap();
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
        let output = hobd(directory).command().args(["--listen", "127.0.0.1:0"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "there must not be two owners");
        assert!(said.contains(&format!("in use by pid {owner}")), "{said}");
    }
}

/// Starts hobd as soon as no command line owns the directory.
fn start(directory: &Path) -> Hobd {
    let launch = hobd(directory);
    let started = (0..200).find_map(|_| launch.spawn().ready());
    started.expect("the directory is free at some time")
}

/// Talks; from the second turn on only what is new is computed, whatever others prune. Returns
/// the number of turns.
fn talk_until(hobd: &Hobd, end: Instant, speaker: usize) -> u32 {
    let mut turns = 0;
    while Instant::now() < end {
        // A context is not endless: begin anew from time to time.
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
