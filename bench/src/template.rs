//! What it costs to render a chat template in a child process, and to try a model file in one.
//!
//! Two hobds on the bundled model's file: one runs it as the bundled model, whose template it renders
//! itself, the other as a file, whose template a child renders. Each round asks both, in turn, for the
//! prompt of the same conversation; the difference of the medians is the cost.
//!
//! A hobd that starts on a file for the first time hashes it and tries it in a child; the next start knows both
//! results. The difference is what that costs. The directory of both has the databases of an earlier start.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::bars::{BarFlags, is_above};
use crate::hobd::Hobd;
use crate::measure::median_ms;

#[derive(clap::Args)]
pub struct Options {
    /// Messages of the conversation, of 400 bytes each.
    #[arg(long, default_value_t = 20)]
    messages: usize,
    #[arg(long, default_value_t = 400)]
    rounds: usize,
    /// Starts of hobd on a model file, of each kind.
    #[arg(long, default_value_t = 5)]
    starts: usize,
    /// The model file of these starts, a path or a name; otherwise the bundled one.
    #[arg(long, value_name = "PATH|NAME")]
    model: Option<String>,
    #[command(flatten)]
    bars: BarFlags,
}

/// Maximum cost of a turn, in milliseconds.
const BAR_MS: f64 = 0.3;

/// The first rounds fill caches.
const UNCOUNTED: usize = 20;

pub fn run(options: &Options) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = hob_models::bundled::materialise(directory.path())?;
    let start = |name: &str, model: &str| -> Result<Hobd> {
        let directory = directory.path().join(name);
        std::fs::create_dir(&directory)?;
        let mut hobd = Hobd::start(&directory, ["--ctx", "512", "--model", model])?;
        hobd.wait_until_ready()?;
        Ok(hobd)
    };
    let own = start("own", "bundled")?;
    let child = start("child", &file.display().to_string())?;
    let tried = match &options.model {
        Some(named) => crate::Subject::of(Some(named))?.path,
        None => file.clone(),
    };
    print_trial(&tried, options.starts)?;
    let body = conversation(options.messages);
    let (mut own_times, mut child_times) = (Vec::new(), Vec::new());
    for round in 0..options.rounds + UNCOUNTED {
        let here = own.call("POST", "/apply-template", &body)?;
        let there = child.call("POST", "/apply-template", &body)?;
        ensure!(here.body == there.body, "the two prompts differ");
        if round >= UNCOUNTED {
            own_times.push(here.took);
            child_times.push(there.took);
        }
    }
    let (here, there) = (median_ms(&own_times), median_ms(&child_times));
    let cost = there - here;
    let bytes = body.to_string().len();
    println!("{} messages, {bytes} bytes; medians of {} rounds", options.messages, options.rounds);
    println!("rendered by hobd itself  {here:.3} ms a request");
    println!("rendered by its child    {there:.3} ms a request");
    println!("the child costs          {cost:.3} ms; bar {BAR_MS} ms");
    own.stop()?;
    child.stop()?;
    let missed = is_above(cost, BAR_MS).then(|| format!("the child costs {cost:.3} ms a turn"));
    options.bars.check(missed.as_slice())
}

fn conversation(messages: usize) -> Value {
    let message = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("{at}: {}", "The sea is calm. ".repeat(24))})
    };
    // The last one is a question.
    json!({"messages": (0..messages | 1).map(message).collect::<Vec<_>>()})
}

/// Prints how much longer the first start on a file takes than the second.
fn print_trial(file: &Path, starts: usize) -> Result<()> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let model = file.display().to_string();
    for _ in 0..starts {
        let directory = tempfile::tempdir()?;
        let start = |model: &str| -> Result<Duration> {
            let began = Instant::now();
            let mut hobd = Hobd::start(directory.path(), ["--ctx", "512", "--model", model])?;
            hobd.wait_until_ready()?;
            let took = began.elapsed();
            hobd.stop()?;
            Ok(took)
        };
        start("fake")?; // Unmeasured: makes the databases.
        first.push(start(&model)?);
        second.push(start(&model)?);
    }
    let (first, second) = (median_ms(&first), median_ms(&second));
    println!("a first start on {}: {first:.0} ms, a second one {second:.0} ms", file.display());
    println!(
        "its hash and its trial   {:.0} ms; medians of {starts} starts each\n",
        first - second
    );
    Ok(())
}
