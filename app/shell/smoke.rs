//! `--smoke-test`: the app tries itself, from the window to a chat that was resumed, and tells how long
//! each step took.
//!
//! - It does what the page does, in the page, with the page's own transport.
//! - It ends by itself: 0 when everything went well, 1 when something did not or nothing happened for
//!   too long.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tauri::{AppHandle, Manager};

use super::backend::Backend;
use super::state::Phase;
use super::{ending, window};

/// A model has to be loaded, twice, on a machine that may be busy.
const LONGEST: Duration = Duration::from_secs(300);

/// Between two looks into the page.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Whether somebody could write now.
const USABLE: &str = r#"Boolean(document.querySelector('[data-test="composer"]'))"#;

/// Begins the trial. `begun`: when the process did.
pub fn start(app: AppHandle, begun: Instant) {
    let trial = move || {
        let code = match run(&app, begun) {
            Ok(()) => 0,
            Err(error) => {
                println!("FAILED  {error:#}");
                1
            }
        };
        ending::begin(&app, code);
    };
    thread::Builder::new()
        .name("hob-trial".to_owned())
        .spawn(trial)
        .expect("the system can start a thread");
}

fn run(app: &AppHandle, begun: Instant) -> Result<()> {
    let until = begun + LONGEST;
    let shown = Instant::now();
    told("window", format!("{} ms after the start", (shown - begun).as_millis()));

    wait(until, "a usable page", || Ok((look(app, USABLE)? == Value::Bool(true)).then_some(())))?;
    told("usable page", format!("{} ms after the window", shown.elapsed().as_millis()));

    let ready = ready(app, until)?;
    told("daemon", format!("{ready}, {} ms after the start", begun.elapsed().as_millis()));

    look(app, concat!(include_str!("smoke.js"), "; true"))?;
    let trip = step(app, until, "trip")?;
    told("round trip", format!("{:.1} ms, the median of 40", number(&trip, "/median_ms")?));

    let first = step(app, until, "ask")?;
    ensure!(number(&first, "/pieces")? > 0.0, "the answer had no words: {first}");
    told("answer", answer(&first)?);

    let restarted = Instant::now();
    let backend = app.state::<Backend>();
    let mut phases = backend.phases();
    phases.mark_unchanged();
    backend.restart();
    wait(until, "the daemon's end", || Ok(phases.has_changed()?.then_some(())))?;
    let place = self::ready(app, until)?;
    told("started over", format!("{place}, after {} ms", restarted.elapsed().as_millis()));

    let second = step(app, until, "resume")?;
    told("resumed", answer(&second)?);
    let places =
        ["shared", "memory", "disk"].map(|place| number(&second, &format!("/tokens/{place}")));
    let back = places.into_iter().sum::<Result<f64>>()?;
    ensure!(back > 0.0, "nothing of the chat came back: {second}");
    println!("ok      everything, in {} ms", begun.elapsed().as_millis());
    Ok(())
}

fn told(step: &str, what: String) {
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

/// Waits until requests are served, and says where.
fn ready(app: &AppHandle, until: Instant) -> Result<String> {
    let phases = app.state::<Backend>().phases();
    wait(until, "the daemon", || match &*phases.borrow() {
        Phase::Ready { daemon, .. } => Ok(Some(format!("here, at {}", daemon.address))),
        Phase::Attached { daemon } => Ok(Some(format!("in process {}", daemon.pid))),
        Phase::Failed { message, .. } => bail!("{message}"),
        Phase::Starting { .. } => Ok(None),
    })
}

/// Has the page do something, and returns what it saw.
fn step(app: &AppHandle, until: Instant, name: &str) -> Result<Value> {
    look(app, &format!("window.hobTry.{name}(); true"))?;
    let seen = wait(until, name, || {
        let seen = look(app, &format!("window.hobTrial.{name} ?? null"))?;
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

/// The value of an expression in the page; null while the page is another one.
fn look(app: &AppHandle, script: &str) -> Result<Value> {
    let (reply, answer) = mpsc::channel();
    let window = window::get(app).context("the window is gone")?;
    window.eval_with_callback(script, move |value| drop(reply.send(value)))?;
    let value = match answer.recv_timeout(LONGEST) {
        Ok(value) => value,
        Err(RecvTimeoutError::Disconnected) => return Ok(Value::Null),
        Err(RecvTimeoutError::Timeout) => bail!("the page does not answer"),
    };
    serde_json::from_str(&value).with_context(|| format!("the page answered {value:?}"))
}

fn wait<T>(until: Instant, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    while Instant::now() < until {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        thread::sleep(LOOK_EVERY);
    }
    bail!("waited too long for {what}")
}
