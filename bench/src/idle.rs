//! The processor time of an idle hobd with many warm prefixes, and the latency of `speech-start`
//! and of filler phrases. Runs the real hobd with the bundled model.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::bars::{BarFlags, is_above};
use crate::hobd::Hobd;
use crate::measure::{cpu_time, median_ms};

#[derive(clap::Args)]
pub struct Options {
    /// Number of profiles, each with a warm prefix.
    #[arg(long, default_value_t = 20)]
    profiles: usize,
    /// Length of the idle time, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[command(flatten)]
    bars: BarFlags,
}

/// Processor time, as a part of one core.
const BAR: f64 = 0.005;

/// Calls of each kind, each over a connection of its own.
const CALLS: usize = 60;

/// Maximum medians.
const SPEECH_START_MS: f64 = 2.0;
const PHRASE_MS: f64 = 5.0;

/// Maximum time until prefixes and phrases are warm.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn run(options: &Options) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let profiles = directory.path().join("profiles");
    fs::create_dir(&profiles)?;
    for number in 0..options.profiles {
        let text = format!("You are kettle {number} on the shelf. ").repeat(20);
        let profile = format!("[[segment]]\nlayer = \"identity\"\ntext = \"{text}\"\n");
        fs::write(profiles.join(format!("kettle-{number}.toml")), profile)?;
    }
    let arguments = ["--profiles-dir".as_ref(), profiles.as_os_str()];
    let mut hobd = Hobd::start(directory.path(), arguments)?;
    hobd.wait_until_ready()?;
    wait_until_warm(&hobd, options.profiles)?;
    let filler = "/v1/voice/filler";
    wait_for_phrases(&hobd, filler)?;
    std::thread::sleep(Duration::from_secs(5)); // The writer finishes.

    let process = hobd.id();
    let before = cpu_time(&process)?;
    std::thread::sleep(Duration::from_secs(options.seconds));
    let used = cpu_time(&process)?.saturating_sub(before);
    let share = used.as_secs_f64() / options.seconds as f64;
    println!(
        "{} warm prefixes, idle for {} s: {:.0} ms of processor time, {:.2} % of one core \
         (bar: {:.2} %)",
        options.profiles,
        options.seconds,
        used.as_secs_f64() * 1e3,
        share * 100.0,
        BAR * 100.0
    );
    let mut missed = Vec::new();
    if is_above(share, BAR) {
        missed.push(format!("{:.2} % of one core", share * 100.0));
    }
    let phrases = (0..CALLS).map(|_| {
        let answer = hobd.call("GET", filler, &json!({}))?;
        ensure!(answer.status == 200, "no phrase any more: {}", answer.status);
        Ok(answer.took)
    });
    // Before speech starts: hobd plays no phrase while the user speaks.
    let phrases = phrases.collect::<Result<Vec<_>>>()?;
    let speech = (0..CALLS).map(|call| {
        let path = format!("/v1/conversations/room-{}/speech-start", call % 4);
        hobd.call("POST", &path, &json!({})).map(|answer| answer.took)
    });
    for (what, times, bar) in [
        ("speech-start", speech.collect::<Result<Vec<_>>>()?, SPEECH_START_MS),
        ("filler phrase", phrases, PHRASE_MS),
    ] {
        let ms = median_ms(&times);
        println!("{what}, over HTTP: {ms:.2} ms, median of {CALLS} (bar: {bar:.0} ms)");
        if is_above(ms, bar) {
            missed.push(format!("{what}: {ms:.2} ms"));
        }
    }
    options.bars.check(&missed)
}

/// hobd synthesises the phrases one after the other while it is idle.
fn wait_for_phrases(hobd: &Hobd, path: &str) -> Result<()> {
    let began = Instant::now();
    while hobd.call("GET", path, &json!({}))?.status != 200 {
        ensure!(began.elapsed() < PATIENCE, "no phrase was synthesised: is espeak-ng installed?");
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// hobd logs each warm prefix.
fn wait_until_warm(hobd: &Hobd, profiles: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        let log = hobd.log()?;
        let warm = log.lines().filter(|line| line.contains("prefix warm ")).count();
        if warm >= profiles {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "only {warm} prefixes are warm:\n{log}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
