//! The cost of saved KV, beside what it is compared with.
//!
//! - Restore: a whole conversation from the page cache through the engine, every byte verified,
//!   from a turn's admission until it is hot; against `llama_state_seq_load_file`, which verifies
//!   nothing, on a plain dump of the same state, interleaved.
//! - Lossy: the same of a conversation whose KV was rounded, against the exact one, and their bytes.
//! - Saving: the time of the engine's thread, and the bytes that one turn adds to the disk.
//! - Families: the bytes of a turn of models whose memory is not plain attention, and what of their
//!   snapshots stands in front of the first token.
//! - Sharing: the disk space of conversations over one prefix, against whole dumps.
//! - Listing: the real `hob slots ls` over 10,000 slot files.
//! - Sweeping: a sweep over as many, and its effect on a running answer.
//!
//! Computing 32,768 tokens takes too long, so most KV here is fabricated (see `fabricate`): of the
//! right layout and size, under the right names, and without duplicates.

pub mod fabricate;
mod families;
mod listing;
mod lossy;
mod restore;
mod saving;
mod sharing;
mod sweeping;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};

use crate::bars::{BarFlags, is_above};
use crate::{Subject, SubjectFlags};

#[derive(clap::Args)]
pub struct Options {
    /// Rounds; each time is the median of as many samples.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    #[command(flatten)]
    subject: SubjectFlags,
    /// Measure only this part.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// The `hob` that lists [default: the one beside this program].
    #[arg(long)]
    hob: Option<PathBuf>,
    #[command(flatten)]
    bars: BarFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Restore,
    Lossy,
    Saving,
    Families,
    Sharing,
    Listing,
    Sweeping,
}

/// A figure and its bar, if it has one.
struct Row {
    what: String,
    measured: String,
    ratio: f64,
    bar: Option<f64>,
    unit: &'static str,
}

pub fn run(options: &Options) -> Result<()> {
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let mut rows = Vec::new();
    if [Part::Restore, Part::Lossy, Part::Saving, Part::Sharing, Part::Sweeping]
        .into_iter()
        .any(wanted)
    {
        let subject = Subject::of(options.subject.model.as_deref())?;
        let model = Arc::new(LlamaModel::load(&subject.path, LlamaOptions::default())?);
        println!("{}.", subject.on(&*model));
        if wanted(Part::Restore) {
            rows.extend(restore::measure(&model, options.rounds)?);
        }
        if wanted(Part::Lossy) {
            rows.extend(lossy::measure(&model, options.rounds)?);
        }
        if wanted(Part::Saving) {
            rows.extend(saving::measure(&model, options.rounds)?);
        }
        if wanted(Part::Sharing) {
            rows.push(sharing::measure(&model)?);
        }
        if wanted(Part::Sweeping) {
            rows.extend(sweeping::measure(&model, options.rounds)?);
        }
    }
    if wanted(Part::Families) {
        rows.extend(families::measure(options.rounds)?);
    }
    if wanted(Part::Listing) {
        rows.push(listing::measure(options.hob.as_deref(), options.rounds)?);
    }
    print(options, &rows)
}

fn print(options: &Options, rows: &[Row]) -> Result<()> {
    println!("Times are medians of {} rounds.\n", options.rounds);
    println!("| what | measured | figure | bar |");
    println!("|---|---|---:|---:|");
    let mut missed = Vec::new();
    for Row { what, measured, ratio, bar, unit } in rows {
        let bar_text = bar.map_or(String::new(), |bar| format!("{bar:.2}{unit}"));
        println!("| {what} | {measured} | {ratio:.2}{unit} | {bar_text} |");
        if bar.is_some_and(|bar| is_above(*ratio, bar)) {
            missed.push(format!("{what}: {ratio:.2}{unit}"));
        }
    }
    options.bars.check_on(options.subject.model.as_deref(), &missed)
}
