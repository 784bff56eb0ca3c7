//! What a server takes: memory, time to start, processor time while idle, the size of its program.
//!
//! - Memory and processor time are those of the server and its child processes: hobd renders the model's chat
//!   template in one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::measure::{beside_us, children, cpu_time};
use crate::peer::bench::{Bench, Sheet, order};
use crate::peer::server;
use crate::peer::side::{Ask, Side};
use crate::peer::text::{message, text};
use crate::record::{Row, Unit, Who};

const WORDS: usize = 200;
/// Length of the instructions of the short prompt.
const SHORT_WORDS: usize = 8;

/// Both are idle for this time at the end of each round, side by side.
const IDLE: Duration = Duration::from_secs(20);
/// hobd has saved, and synthesised its phrases.
const SETTLING: Duration = Duration::from_secs(5);

const BAR: f64 = 1.02;

pub fn measure(bench: &Bench) -> Result<Sheet> {
    let mut sheet = Sheet::new(
        "Memory, start and size",
        bench.rounds,
        vec![
            Row::lower("start", "start to ready", Unit::Ms).bar(BAR),
            Row::lower("first", "start to the first token of a short prompt", Unit::Ms).bar(BAR),
            Row::lower("memory", "resident memory", Unit::Bytes),
            Row::lower("over", "of it beyond weights and KV", Unit::Bytes),
            Row::lower("idle", "processor time of an idle minute", Unit::Ms),
            Row::lower("program", "the program", Unit::Bytes),
        ],
    );
    let mut sides = bench.sides("footprint")?;
    for side in &mut sides {
        side.start_warm(&bench.setup)?; // Unmeasured: the file is read from the disk.
    }
    for round in 0..bench.rounds {
        for index in order(round) {
            one(&mut sides[index], round, bench, &mut sheet)?;
        }
        idle(&sides, &mut sheet)?;
    }
    sheet.push("program", Who::Hobd, size(&beside_us("hobd", "hob-daemon")?)?);
    sheet.push("program", Who::Other, size(Path::new(server::PROGRAM))?);
    sheet.conditions = format!(
        "Starts over a file that the system has in memory; resident memory behind a prompt of {} words; idle \
         for {} s at the end of each round, in steps of 10 ms; programs as their builds leave them.",
        bench.words(WORDS),
        IDLE.as_secs()
    );
    Ok(sheet)
}

fn idle(sides: &[Side; 2], sheet: &mut Sheet) -> Result<()> {
    std::thread::sleep(SETTLING);
    let before = sides.each_ref().map(|side| side.id().and_then(|id| time_of_all(&id)));
    std::thread::sleep(IDLE);
    for (side, before) in sides.iter().zip(before) {
        let used = time_of_all(&side.id()?)?.saturating_sub(before?);
        sheet.push("idle", side.who, used.as_secs_f64() * 1e3 * 60.0 / IDLE.as_secs_f64());
    }
    Ok(())
}

fn one(side: &mut Side, round: usize, bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let ready = side.start(&bench.setup)?;
    // Other instructions each time: hobd has saved the KV of what it was asked before.
    let name = format!("short {round} {}", side.name());
    let short = [message("system", &text(SHORT_WORDS, &name)), message("user", "Hello")];
    let first = side.ask(&Ask::one_token(&name, &short))?.took;
    let name = format!("prompt {round} {}", side.name());
    let prompt = [message("user", &text(bench.words(WORDS), &name))];
    side.ask(&Ask::one_token(&name, &prompt))?;
    let resident = resident_of_all(&side.id()?)?;
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    sheet.push("start", side.who, ms(ready));
    sheet.push("first", side.who, ms(ready + first));
    sheet.push("memory", side.who, resident);
    if let Some(kv_bytes) = bench.kv_bytes {
        let known = bench.weights_bytes + (kv_bytes * bench.setup.context) as u64;
        sheet.push("over", side.who, (resident - known as f64).max(0.0));
    }
    Ok(())
}

/// Processor time of the process and its children.
fn time_of_all(process: &str) -> Result<Duration> {
    // A child that has ended meanwhile takes nothing.
    let of_children =
        children(process).iter().filter_map(|child| cpu_time(child).ok()).sum::<Duration>();
    Ok(cpu_time(process)? + of_children)
}

/// Memory of the process and its children, mapped weights included. A page that two of them map counts twice.
fn resident_of_all(process: &str) -> Result<f64> {
    let of_children =
        children(process).iter().filter_map(|child| resident_bytes(child).ok()).sum::<f64>();
    Ok(resident_bytes(process)? + of_children)
}

fn resident_bytes(process: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("on Linux only")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kib.context("VmRSS")? * 1024.0)
}

fn size(program: &Path) -> Result<f64> {
    Ok(fs::metadata(program).with_context(|| program.display().to_string())?.len() as f64)
}
