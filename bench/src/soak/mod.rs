//! A long run: mixed traffic of many conversations against the built hobd, and whether anything grows meanwhile.
//!
//! - KV lives for a minute, so that what a day expires, deletes and restores happens in each minute.
//! - Memory, descriptors and threads of `hobd` and its child processes, disk, and the 99th percentile of the first
//!   token are sampled; the slopes of the samples behind the warm-up are judged (`verdict`). A failed request fails the
//!   run, too. A run shorter than twice the warm-up (18 minutes with the defaults) only shows that everything works.
//! - `hobd` runs as users have it, but for the memory budget: with the default of an eighth of the machine's memory, a
//!   short run would only fill it.
//!
//! Reading order: `traffic` (what the clients do), `sample`, `slope`, `verdict`.

mod sample;
mod slope;
mod traffic;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::hobd::Hobd;
use sample::Usage;
use traffic::{Client, Outcome};
use verdict::{SERIES, Verdict};

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("time").required(true))]
pub struct Options {
    /// Length of the run.
    #[arg(long, group = "time")]
    hours: Option<f64>,
    /// The length in minutes; a minute shows that the tool works, and no leak.
    #[arg(long, group = "time")]
    minutes: Option<f64>,
    #[arg(long, default_value_t = 1_000)]
    conversations: usize,
    /// Clients, each with its part of the conversations.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Requests a second, of all clients.
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// How long KV stays after its last use, in seconds.
    #[arg(long, default_value_t = 60)]
    ttl: u64,
    /// `bundled`, `fake` or a GGUF file.
    #[arg(long, default_value = "bundled")]
    model: String,
    /// Further arguments of hobd.
    #[arg(last = true)]
    hobd: Vec<String>,
    /// Where the samples go, as JSON.
    #[arg(long, default_value = "target/soak.json")]
    json: PathBuf,
}

/// The part of the run, from its beginning, that is warm-up at least.
const WARM_UP: f64 = 1.0 / 3.0;
/// Two intervals of hobd's sweep.
const SWEEPS: Duration = Duration::from_secs(120);

/// Samples of a run, if it has as many seconds.
const SAMPLES: f64 = 360.0;

/// The pool of parked KV, so that it is full before the warm-up ends.
const MEMORY_BUDGET: &str = "64MiB";

/// Failures that are shown.
const MAX_SHOWN: usize = 5;

/// One moment, and the requests since the one before.
struct Sample {
    hours: f64,
    usage: Usage,
    /// Median time to the first token, in milliseconds; `None` without a turn.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    turns: usize,
    answered: usize,
    refused: usize,
}

pub fn run(options: &Options) -> Result<()> {
    let secs = options.hours.map_or(0.0, |hours| hours * 3_600.0)
        + options.minutes.map_or(0.0, |minutes| minutes * 60.0);
    ensure!(secs >= 20.0, "a run has 20 seconds at least: give more --minutes");
    let asks = options.clients > 0 && options.rate > 0.0;
    ensure!(asks, "no request would be sent: give a --clients and a --rate above 0");
    let (clients, conversations) = (options.clients, options.conversations);
    let each_asks = conversations >= clients;
    ensure!(each_asks, "{conversations} --conversations are too few for {clients} --clients");
    let time = Duration::from_secs_f64(secs);
    let directory = tempfile::tempdir()?;
    let hobd = start(options, directory.path())?;
    let access = hobd.access()?;
    let data = directory.path().join("data");
    let ends = AtomicBool::new(false);
    let (outcomes, heard) = mpsc::channel();
    let (mut samples, mut failures) = (Vec::new(), Vec::new());
    println!(
        "{} conversations, {} clients, {} requests a second, KV for {} s, {:.0} s on {}",
        options.conversations, options.clients, options.rate, options.ttl, secs, options.model
    );
    let began = Instant::now();
    let sampled = thread::scope(|scope| {
        for number in 0..options.clients {
            let client = Client {
                access: access.clone(),
                conversations: (number..options.conversations).step_by(options.clients).collect(),
                every: Duration::from_secs_f64(options.clients as f64 / options.rate),
                seed: number as u64,
            };
            let (ends, outcomes) = (&ends, outcomes.clone());
            scope.spawn(move || client.run(ends, &outcomes));
        }
        let every = Duration::from_secs_f64((secs / SAMPLES).clamp(1.0, 60.0));
        let mut sample = || -> Result<()> {
            while began.elapsed() < time {
                thread::sleep(every.min(time.saturating_sub(began.elapsed())));
                let usage = sample::usage(&hobd.id(), &data).with_context(|| log(&hobd))?;
                let sample = Sample::of(began.elapsed(), usage, &heard, &mut failures);
                if samples.len() % 10 == 0 {
                    println!("{}", sample.line());
                }
                samples.push(sample);
            }
            Ok(())
        };
        let sampled = sample();
        ends.store(true, Ordering::Relaxed);
        sampled
    });
    sampled?;
    drop(outcomes);
    failures.extend(heard.try_iter().filter_map(|outcome| match outcome {
        Outcome::Failed(failure) => Some(failure),
        _ => None,
    }));
    judge(options, &samples, &failures, &log(&hobd), hobd)
}

impl Options {
    /// Until each conversation was deleted once, and KV expires as fast as it comes.
    fn warm_up(&self) -> Duration {
        let lives = (traffic::TURNS + 1) * self.conversations;
        Duration::from_secs_f64(lives as f64 / self.rate) + Duration::from_secs(self.ttl) + SWEEPS
    }
}

fn start(options: &Options, directory: &Path) -> Result<Hobd> {
    let ttl = format!("{}s", options.ttl);
    let mut arguments: Vec<String> = [
        ["--model", &options.model],
        ["--default-ttl", "short"],
        ["--ttl-short", &ttl],
        ["--sweep-interval", "60s"],
        ["--memory-budget-bytes", MEMORY_BUDGET],
    ]
    .concat()
    .into_iter()
    .map(str::to_owned)
    .collect();
    arguments.extend(options.hobd.iter().cloned());
    let mut hobd = Hobd::start(directory, arguments)?;
    hobd.wait_until_ready()?;
    Ok(hobd)
}

fn log(hobd: &Hobd) -> String {
    let log = hobd.log().unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Prints the verdict, writes the file, ends hobd.
///
/// # Errors
/// When something grows, a request failed, or hobd does not end. A run that is too short for a verdict gets none.
fn judge(
    options: &Options,
    samples: &[Sample],
    failures: &[String],
    log: &str,
    hobd: Hobd,
) -> Result<()> {
    let whole = samples.last().map_or(0.0, |last| last.hours);
    let warm_up = options.warm_up().as_secs_f64() / 3_600.0;
    let is_judged = whole >= 2.0 * warm_up;
    let begins = if is_judged { warm_up.max(whole * WARM_UP) } else { whole * WARM_UP };
    let judged: Vec<&Sample> = samples.iter().filter(|sample| sample.hours >= begins).collect();
    let verdicts: Vec<Verdict> = SERIES
        .iter()
        .enumerate()
        .filter_map(|(at, series)| {
            let points = judged.iter().filter_map(|sample| Some((sample.hours, sample.value(at)?)));
            Verdict::of(series, &points.collect::<Vec<_>>())
        })
        .collect();
    let sum = |count: fn(&Sample) -> usize| samples.iter().map(count).sum::<usize>();
    println!(
        "\n{} turns, {} other requests, {} refused as too many, {} failed; slopes of the last {:.0} %:",
        sum(|sample| sample.turns),
        sum(|sample| sample.answered),
        sum(|sample| sample.refused),
        failures.len(),
        100.0 * (1.0 - begins / whole)
    );
    verdicts.iter().for_each(|verdict| println!("{}", verdict.line()));
    let grows: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| verdict.grows)
        .map(|verdict| verdict.series.name)
        .collect();
    write(options, samples, &verdicts, failures)?;
    println!("samples: {}", options.json.display());
    hobd.stop()?;
    if !failures.is_empty() {
        let shown = failures[..failures.len().min(MAX_SHOWN)].join("\n");
        bail!("{} requests failed:\n{shown}\n{log}", failures.len());
    }
    if !is_judged {
        let minutes = 2.0 * 60.0 * warm_up;
        println!(
            "NOT JUDGED: only a run of {minutes:.0} minutes outlasts the growth of its conversations"
        );
        return Ok(());
    }
    ensure!(verdicts.len() == SERIES.len(), "too few samples for a verdict: give more --minutes");
    ensure!(grows.is_empty(), "it grows: {}", grows.join(", "));
    println!("nothing grows beyond its allowance");
    Ok(())
}

fn write(
    options: &Options,
    samples: &[Sample],
    verdicts: &[Verdict],
    failures: &[String],
) -> Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let file = json!({
        "ended_at": now, "model": options.model, "conversations": options.conversations,
        "clients": options.clients, "rate": options.rate, "ttl_secs": options.ttl,
        "warm_up": WARM_UP, "failures": failures,
        "verdicts": verdicts.iter().map(Verdict::to_json).collect::<Vec<_>>(),
        "samples": samples.iter().map(Sample::to_json).collect::<Vec<_>>(),
    });
    if let Some(parent) = options.json.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&options.json, serde_json::to_string(&file)? + "\n")
        .with_context(|| format!("cannot write {}", options.json.display()))
}

impl Sample {
    fn of(
        at: Duration,
        usage: Usage,
        heard: &Receiver<Outcome>,
        failures: &mut Vec<String>,
    ) -> Self {
        let (mut firsts, mut answered, mut refused) = (Vec::new(), 0, 0);
        for outcome in heard.try_iter() {
            match outcome {
                Outcome::Turn(first) => firsts.push(first.as_secs_f64() * 1e3),
                Outcome::Answered => answered += 1,
                Outcome::Refused => refused += 1,
                Outcome::Failed(failure) => failures.push(failure),
            }
        }
        firsts.sort_by(f64::total_cmp);
        let rank = |part: f64| {
            let rank = (firsts.len() as f64 * part) as usize;
            firsts.get(rank.min(firsts.len().saturating_sub(1))).copied()
        };
        Self {
            hours: at.as_secs_f64() / 3_600.0,
            usage,
            p50_ms: rank(0.5),
            p99_ms: rank(0.99),
            turns: firsts.len(),
            answered,
            refused,
        }
    }

    /// The value of the series with this index.
    fn value(&self, series: usize) -> Option<f64> {
        let usage = &self.usage;
        match series {
            0 => Some(usage.memory_bytes as f64),
            1 => Some(usage.descriptors as f64),
            2 => Some(usage.threads as f64),
            3 => Some(usage.disk_bytes as f64),
            _ => self.p99_ms,
        }
    }

    fn line(&self) -> String {
        let Self { hours, usage, p50_ms, p99_ms, .. } = self;
        format!(
            "{:>7.1} min: {:>5} MiB, {:>3} descriptors, {:>3} threads, {} child processes, {:>5} MiB on disk, \
             first token {:.1} ms, p99 {:.1} ms",
            hours * 60.0,
            usage.memory_bytes >> 20,
            usage.descriptors,
            usage.threads,
            usage.children,
            usage.disk_bytes >> 20,
            p50_ms.unwrap_or(f64::NAN),
            p99_ms.unwrap_or(f64::NAN)
        )
    }

    fn to_json(&self) -> Value {
        let Self { hours, usage, p50_ms, p99_ms, turns, answered, refused } = self;
        json!({
            "hours": hours, "memory_bytes": usage.memory_bytes, "resident_bytes": usage.resident_bytes,
            "descriptors": usage.descriptors, "threads": usage.threads, "children": usage.children,
            "disk_bytes": usage.disk_bytes,
            "cpu_secs": usage.cpu_secs, "p50_ms": p50_ms, "p99_ms": p99_ms, "turns": turns,
            "answered": answered, "refused": refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::options;

    #[test]
    fn a_client_without_a_conversation_is_refused() {
        for too_few in ["0", "7"] {
            let words = ["--minutes", "1", "--clients", "8", "--conversations", too_few];
            let options: Options = options(&words).expect("each count alone is valid");
            let error = run(&options).expect_err("it starts no hobd");
            assert!(error.to_string().contains("too few for 8 --clients"), "{error}");
        }
    }
}
