//! The built hobd under more load than it has slots for, on the fake model, so that only the daemon is measured.
//!
//! - Refusals: 200 clients on 4 slots; how long a 503 takes, from the connection to its last byte.
//! - Slow connections: 500 that send a byte of their head now and then; how long a normal request takes beside them
//!   and without them, in turn.
//! - The end: SIGTERM while the clients ask.
//!
//! The clients share the machine with hobd: their own wait for a processor is in these times.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::bars::{BarFlags, is_above};
use crate::hobd::{Access, Hobd};
use crate::measure::time;
use crate::stream::{Ask, TimedResponse};

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// Length of the load.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Slow connections.
    #[arg(long, default_value_t = 500)]
    slow: usize,
    /// Normal requests beside them, and as many without.
    #[arg(long, default_value_t = 100)]
    requests: usize,
    #[command(flatten)]
    bars: BarFlags,
}

/// Maximum time of 99 % of the refusals.
const REFUSAL_MS: f64 = 50.0;
/// Maximum time of each request beside slow connections.
const REQUEST_MS: f64 = 200.0;
const END_SECS: f64 = 10.0;

const SLOTS: &str = "4";
/// Between two bytes of a slow connection: all heads stay unfinished for hobd's 30 seconds.
const SLOW: Duration = Duration::from_millis(500);

pub fn run(options: &Options) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut hobd = Hobd::start(directory.path(), ["--model", "fake", "--slots", SLOTS])?;
    hobd.wait_until_ready()?;
    let mut missed = Vec::new();
    let mut bar = |what: &str, figure: f64, bar: f64| {
        if is_above(figure, bar) {
            missed.push(format!("{what}: {figure:.1}, bar {bar:.0}"));
        }
    };

    let access = hobd.access()?;
    let seconds = Duration::from_secs(options.seconds);
    let load = Load::new(&access, options.clients);
    let mut refused = load.run(|| thread::sleep(seconds))?;
    let answered = load.answered.load(Ordering::Relaxed);
    ensure!(!refused.is_empty(), "nothing was refused: this is no load");
    println!(
        "{} clients on {SLOTS} slots, {} s: {answered} answered, {} refused",
        options.clients,
        options.seconds,
        refused.len()
    );
    refused.sort_by(f64::total_cmp);
    let p99 = rank(&refused, 0.99);
    println!(
        "a refusal, ms: {:.1} median, {p99:.1} 99 % (bar: {REFUSAL_MS:.0}), {:.1} worst",
        rank(&refused, 0.5),
        rank(&refused, 1.0)
    );
    bar("refusal, 99 %", p99, REFUSAL_MS);

    let alone = requests(&access, options.requests)?;
    let slow = Slow::open(&access, options.slow)?;
    let beside = requests(&access, options.requests)?;
    drop(slow);
    for (what, times) in [("alone", &alone), ("beside slow connections", &beside)] {
        println!(
            "a request {what}, ms: {:.1} median, {:.1} 99 %, {:.1} worst",
            rank(times, 0.5),
            rank(times, 0.99),
            rank(times, 1.0)
        );
    }
    println!("the worst beside {} slow connections: bar {REQUEST_MS:.0} ms", options.slow);
    bar("request beside slow connections", rank(&beside, 1.0), REQUEST_MS);

    let load = Load::new(&access, options.clients);
    let mut ended = None;
    load.run(|| {
        thread::sleep(Duration::from_secs(2));
        load.is_ending.store(true, Ordering::SeqCst);
        ended = Some(time(|| hobd.stop()));
    })?;
    let (took, stopped) = ended.context("the load ran")?;
    stopped?;
    let took = took.as_secs_f64();
    println!("SIGTERM under this load: ended after {took:.2} s (bar: {END_SECS:.0} s)");
    bar("SIGTERM", took, END_SECS);

    options.bars.check(&missed)
}

/// Clients that ask as fast as they get answers.
struct Load<'a> {
    access: &'a Access,
    clients: usize,
    is_over: AtomicBool,
    /// hobd may be gone.
    is_ending: AtomicBool,
    answered: AtomicUsize,
}

impl<'a> Load<'a> {
    fn new(access: &'a Access, clients: usize) -> Self {
        let (is_over, is_ending) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { access, clients, is_over, is_ending, answered: AtomicUsize::new(0) }
    }

    /// The times of the refusals while `during` runs, in milliseconds.
    fn run(&self, during: impl FnOnce()) -> Result<Vec<f64>> {
        let mut refused = Vec::new();
        thread::scope(|scope| {
            let clients: Vec<_> =
                (0..self.clients).map(|number| scope.spawn(move || self.client(number))).collect();
            during();
            self.is_over.store(true, Ordering::SeqCst);
            for client in clients {
                refused.extend(client.join().expect("no client panics")?);
            }
            Ok(refused)
        })
    }

    fn client(&self, number: usize) -> Result<Vec<f64>> {
        let mut refused = Vec::new();
        for round in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let text = format!("client {number}, round {round}");
            let response = match ask(self.access, &text) {
                Ok(response) => response,
                Err(_) if self.is_ending.load(Ordering::SeqCst) => break,
                Err(error) => return Err(error),
            };
            match response.status {
                200 => drop(self.answered.fetch_add(1, Ordering::Relaxed)),
                503 => {
                    let head = response.text.to_ascii_lowercase();
                    ensure!(head.contains("retry-after: "), "no Retry-After: {head}");
                    refused.push(response.took.as_secs_f64() * 1e3);
                    thread::sleep(Duration::from_millis(100));
                }
                status => bail!("{status}: {}", response.text),
            }
        }
        Ok(refused)
    }
}

fn ask(access: &Access, text: &str) -> Result<TimedResponse> {
    let Access { address, token } = access;
    let body: Value = json!({
        "messages": [{"role": "user", "content": format!("Say this: {text}")}],
        "stream": true, "temperature": 0, "max_tokens": 100,
    });
    let (method, path, mark) = ("POST", "/v1/chat/completions", "\r\n\r\n");
    Ask { address, token, method, path, body: &body, mark, max_bytes: usize::MAX }.send()
}

/// Whole answers, one after the other, in milliseconds, sorted.
fn requests(access: &Access, count: usize) -> Result<Vec<f64>> {
    let ask = |number| {
        let response = ask(access, &format!("number {number}"))?;
        ensure!(response.status == 200, "{}", response.text);
        Ok(response.took.as_secs_f64() * 1e3)
    };
    let mut times = (0..count).map(ask).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The smallest of sorted figures that is not exceeded by this part of them.
fn rank(sorted: &[f64], part: f64) -> f64 {
    let within = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(within.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Connections whose head never ends. Dropping it closes them.
struct Slow {
    writer: Option<thread::JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Slow {
    fn open(access: &Access, count: usize) -> Result<Self> {
        let head =
            format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nx-slow: ", access.address);
        let open = |_| {
            let mut socket = TcpStream::connect(&access.address)?;
            socket.write_all(head.as_bytes())?;
            Ok(socket)
        };
        let mut sockets = (0..count).map(open).collect::<Result<Vec<_>>>()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let writer = thread::spawn(move || {
            let mut next = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                for socket in &mut sockets {
                    socket.write_all(b"a").ok(); // An error: hobd waited long enough.
                }
                next += SLOW;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        Ok(Self { writer: Some(writer), is_over })
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(writer) = self.writer.take() {
            writer.join().expect("writing cannot panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_of_a_hundred_figures_is_not_the_worst() {
        let figures: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|part| rank(&figures, part)), [50.0, 99.0, 100.0]);
        assert_eq!([0.5, 0.99, 1.0].map(|part| rank(&[7.0], part)), [7.0; 3]);
        assert!(rank(&[], 0.99).is_nan());
    }
}
