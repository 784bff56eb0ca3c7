//! `hob slots ls` over a directory of 10,000 conversations.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hob_slots::{BlockRef, Timeline};

use super::Row;
use super::fabricate::record;
use crate::measure::{beside_us, median_ms, time};
use crate::turns::{FINGERPRINT, Words};
use crate::weights::Shape;

pub const CONVERSATIONS: usize = 10_000;
/// Tokens of each: a prefix that it shares with 99 others, and its own.
const PREFIX: usize = 512;
const OWN: usize = 512;

/// Maximum median.
const BAR_MS: f64 = 150.0;

pub fn measure(hob: Option<&Path>, rounds: usize) -> Result<Row> {
    let hob = hob.map_or_else(|| beside_us("hob", "hob-cli"), |hob| Ok(hob.to_owned()))?;
    let directory = tempfile::tempdir()?;
    fill(directory.path())?;
    let mut times = Vec::new();
    for round in 0..=rounds {
        let mut command = Command::new(&hob);
        command.args(["slots", "ls"]).env("HOB_SLOTS_DIR", directory.path());
        let (took, output) = time(|| command.stderr(Stdio::inherit()).output());
        let output = output.with_context(|| format!("cannot run {}", hob.display()))?;
        let lines = output.stdout.iter().filter(|&&byte| byte == b'\n').count();
        ensure!(output.status.success() && lines > CONVERSATIONS, "{lines} lines were listed");
        if round > 0 {
            times.push(took); // The first one fills the page cache.
        }
    }
    let ms = median_ms(&times);
    Ok(Row {
        what: format!("`hob slots ls` over {CONVERSATIONS} slot files"),
        measured: format!("of {} tokens each", PREFIX + OWN),
        ratio: ms,
        bar: Some(BAR_MS),
        unit: " ms",
    })
}

/// Slot files as the store writes them, without waiting for the disk ten thousand times.
pub fn fill(directory: &Path) -> Result<()> {
    let model = directory.join(FINGERPRINT.to_string());
    fs::create_dir_all(&model)?;
    let mut words = Words::new(150_000);
    let mut prefix = Vec::new();
    for number in 0..CONVERSATIONS {
        if number % 100 == 0 {
            prefix = words.next(PREFIX);
        }
        let tokens = [&prefix[..], &words.next(OWN)].concat();
        let mut timeline = Timeline::new(FINGERPRINT);
        timeline.push(&tokens, |_| false);
        let blocks = timeline.blocks().iter().map(|block| BlockRef {
            end: block.range.end as u32,
            id: block.id,
            bytes: (block.range.len() * Shape::QWEN2_5_0_5B.kv_bytes()) as u64,
        });
        let record = record(&format!("conversation-{number}"), &tokens, blocks.collect())?;
        let name = format!("{}.{}.bin", record.conversation.file_stem(), record.class.file_word());
        fs::write(model.join(name), record.encode(FINGERPRINT))?;
    }
    Ok(())
}
