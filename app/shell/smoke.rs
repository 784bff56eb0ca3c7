//! `--smoke-test`: the app tests itself, from opening the window to resuming a chat, and prints the time
//! of each step.
//!
//! - Its script runs in the page and uses the page's own transport.
//! - The app then ends: exit code 0 on success, 1 after a failure or a timeout.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tauri::{AppHandle, Manager};

use super::backend::Backend;
use super::phase::Phase;
use super::{ending, window};

/// For the whole test: it loads a model twice, on a machine that may be busy.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Between two evaluations in the page.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Whether the user could type a message.
const USABLE: &str = r#"Boolean(document.querySelector('[data-test="composer"]'))"#;

/// Starts the test. `started`: when the process did.
pub fn start(app: AppHandle, started: Instant) {
    let test = move || {
        let code = match run(&app, started) {
            Ok(()) => 0,
            Err(error) => {
                println!("FAILED  {error:#}");
                1
            }
        };
        ending::begin(&app, code);
    };
    thread::Builder::new()
        .name("hob-smoke-test".to_owned())
        .spawn(test)
        .expect("the system can start a thread");
}

fn run(app: &AppHandle, started: Instant) -> Result<()> {
    let until = started + TIMEOUT;
    let shown = Instant::now();
    report("window", format!("{} ms after the start", (shown - started).as_millis()));

    wait(until, "a usable page", || {
        Ok((evaluate(app, USABLE)? == Value::Bool(true)).then_some(()))
    })?;
    report("usable page", format!("{} ms after the window", shown.elapsed().as_millis()));

    let ready = ready(app, until)?;
    report("daemon", format!("{ready}, {} ms after the start", started.elapsed().as_millis()));

    evaluate(app, concat!(include_str!("smoke.js"), "; true"))?;
    let trip = step(app, until, "trip")?;
    report("round trip", format!("{:.1} ms, the median of 40", number(&trip, "/median_ms")?));

    let first = step(app, until, "ask")?;
    ensure!(number(&first, "/pieces")? > 0.0, "the answer is empty: {first}");
    report("answer", answer(&first)?);

    let restarted = Instant::now();
    let backend = app.state::<Backend>();
    let mut phases = backend.phases();
    phases.mark_unchanged();
    backend.restart();
    wait(until, "the daemon's end", || Ok(phases.has_changed()?.then_some(())))?;
    let place = self::ready(app, until)?;
    report("started over", format!("{place}, after {} ms", restarted.elapsed().as_millis()));

    let second = step(app, until, "resume")?;
    report("resumed", answer(&second)?);
    let places =
        ["shared", "memory", "disk"].map(|place| number(&second, &format!("/tokens/{place}")));
    let back = places.into_iter().sum::<Result<f64>>()?;
    ensure!(back > 0.0, "no token of the chat was restored: {second}");
    println!("ok      everything, in {} ms", started.elapsed().as_millis());
    Ok(())
}

fn report(step: &str, what: String) {
    println!("ok      {step:<13} {what}");
}

fn answer(seen: &Value) -> Result<String> {
    let tokens = |place: &str| number(seen, &format!("/tokens/{place}"));
    Ok(format!(
        "first word after {:.0} ms, {} tokens from disk, {} from memory, {} computed, {} pieces",
        number(seen, "/first_ms")?,
        tokens("disk")?,
        tokens("memory")?,
        tokens("computed")?,
        number(seen, "/pieces")?,
    ))
}

/// Waits until the daemon serves requests; returns where it runs.
fn ready(app: &AppHandle, until: Instant) -> Result<String> {
    let phases = app.state::<Backend>().phases();
    wait(until, "the daemon", || match &*phases.borrow() {
        Phase::Ready { daemon, .. } => Ok(Some(format!("here, at {}", daemon.address))),
        Phase::Attached { daemon } => Ok(Some(format!("in process {}", daemon.pid))),
        Phase::Failed { message, .. } => bail!("{message}"),
        Phase::Starting { .. } => Ok(None),
    })
}

/// Runs a step of `smoke.js` in the page and returns its result.
fn step(app: &AppHandle, until: Instant, name: &str) -> Result<Value> {
    evaluate(app, &format!("window.hobSmoke.run.{name}(); true"))?;
    let seen = wait(until, name, || {
        let seen = evaluate(app, &format!("window.hobSmoke.results.{name} ?? null"))?;
        Ok((!seen.is_null()).then_some(seen))
    })?;
    match seen.get("error") {
        Some(error) => bail!("{name}: {error}"),
        None => Ok(seen),
    }
}

fn number(seen: &Value, place: &str) -> Result<f64> {
    seen.pointer(place).and_then(Value::as_f64).with_context(|| format!("no {place} in {seen}"))
}

/// The value of an expression in the page; null while the page reloads.
fn evaluate(app: &AppHandle, script: &str) -> Result<Value> {
    let (reply, answer) = mpsc::channel();
    let window = window::get(app).context("the window is gone")?;
    window.eval_with_callback(script, move |value| drop(reply.send(value)))?;
    let value = match answer.recv_timeout(TIMEOUT) {
        Ok(value) => value,
        Err(RecvTimeoutError::Disconnected) => return Ok(Value::Null),
        Err(RecvTimeoutError::Timeout) => bail!("the page does not answer"),
    };
    serde_json::from_str(&value).with_context(|| format!("the page answered {value:?}"))
}

fn wait<T>(until: Instant, what: &str, mut poll: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    while Instant::now() < until {
        if let Some(seen) = poll()? {
            return Ok(seen);
        }
        thread::sleep(POLL_EVERY);
    }
    bail!("waited too long for {what}")
}
