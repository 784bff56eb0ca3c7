//! The processor time of an idle hobd with many warm prefixes, and the latency of `speech-start`
//! and of filler phrases. Runs the real hobd with the bundled model.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::measure::{beside_us, cpu_time, median_ms, time};

#[derive(clap::Args)]
pub struct Options {
    /// Number of profiles, each with a warm prefix.
    #[arg(long, default_value_t = 20)]
    profiles: usize,
    /// Length of the idle time, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Print the figures without failing on a missed bar.
    #[arg(long)]
    no_bars: bool,
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
    let hobd = Hobd::start(directory.path(), &profiles)?;
    hobd.wait_until_warm(options.profiles)?;
    let filler = "/v1/voice/filler";
    hobd.wait_for_phrases(filler)?;
    std::thread::sleep(Duration::from_secs(5)); // The writer finishes.

    let process = hobd.process.id().to_string();
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
    if share > BAR {
        missed.push(format!("{:.2} % of one core", share * 100.0));
    }
    let phrases = (0..CALLS).map(|_| {
        let (status, took) = hobd.call("GET", filler)?;
        ensure!(status == 200, "no phrase any more: {status}");
        Ok(took)
    });
    // Before speech starts: hobd plays no phrase while the user speaks.
    let phrases = phrases.collect::<Result<Vec<_>>>()?;
    let speech = (0..CALLS).map(|call| {
        let path = format!("/v1/conversations/room-{}/speech-start", call % 4);
        hobd.call("POST", &path).map(|(_, took)| took)
    });
    for (what, times, bar) in [
        ("speech-start", speech.collect::<Result<Vec<_>>>()?, SPEECH_START_MS),
        ("filler phrase", phrases, PHRASE_MS),
    ] {
        let ms = median_ms(&times);
        println!("{what}, over HTTP: {ms:.2} ms, median of {CALLS} (bar: {bar:.0} ms)");
        if ms > bar {
            missed.push(format!("{what}: {ms:.2} ms"));
        }
    }
    if missed.is_empty() || options.no_bars {
        return Ok(());
    }
    bail!("missed: {}", missed.join("; "))
}

struct Hobd {
    process: Child,
    log: PathBuf,
    ready: PathBuf,
}

impl Hobd {
    fn start(directory: &Path, profiles: &Path) -> Result<Self> {
        let (log, ready) = (directory.join("log"), directory.join("ready.json"));
        let mut command = Command::new(beside_us("hobd", "hob-daemon")?);
        command.env_clear().env("HOME", directory).arg("--data-dir").arg(directory.join("data"));
        command.arg("--profiles-dir").arg(profiles).args(["--listen", "127.0.0.1:0"]);
        command.arg("--ready-file").arg(&ready);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()); // For espeak-ng.
        let process = command.stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn();
        Ok(Self { process: process.context("cannot run hobd")?, log, ready })
    }

    /// Status and time of one request without a body.
    fn call(&self, method: &str, path: &str) -> Result<(u16, Duration)> {
        let ready: Value = serde_json::from_slice(&fs::read(&self.ready)?)?;
        let text = |name: &str| ready[name].as_str().map(str::to_owned).context("the ready file");
        let (address, token) = (text("address")?, fs::read_to_string(text("token_file")?)?);
        let (took, answer) = time(|| -> Result<String> {
            let mut stream = TcpStream::connect(&address)?;
            stream.set_nodelay(true)?;
            write!(
                stream,
                "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
                 content-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}",
                token.trim()
            )?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..answer.len().min(64)]).into_owned())
        });
        let answer = answer?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.with_context(|| format!("no status in {answer:?}"))?;
        ensure!(status < 300, "{method} {path}: {answer}");
        Ok((status, took))
    }

    /// hobd synthesises the phrases one after the other while it is idle.
    fn wait_for_phrases(&self, path: &str) -> Result<()> {
        let began = Instant::now();
        while self.call("GET", path)?.0 != 200 {
            ensure!(
                began.elapsed() < PATIENCE,
                "no phrase was synthesised: is espeak-ng installed?"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// hobd logs each warm prefix.
    fn wait_until_warm(&self, profiles: usize) -> Result<()> {
        let began = Instant::now();
        loop {
            let log = fs::read_to_string(&self.log)?;
            let warm = log.lines().filter(|line| line.contains(" warm profile=")).count();
            if warm >= profiles {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "only {warm} prefixes are warm:\n{log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Hobd {
    fn drop(&mut self) {
        let _ = self.process.kill(); // An error: it has ended already.
        let _ = self.process.wait();
    }
}
