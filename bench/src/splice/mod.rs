//! Reversible eviction in llama.cpp's cache: what it costs to take a range of cells out of a
//! sequence and to put it back, and what holes cost.
//!
//! - Ranges: saved and loaded by the code that the engine runs ([`hob_runtime::splice`]), against
//!   computing the same tokens in their place, interleaved. Each comes back with equal bytes, or the
//!   benchmark fails.
//! - Decoding: a token behind a sequence with holes, against the same without, interleaved.
//! - No disk, and no engine, for these: bytes stay in memory that was used before, as the engine's do.
//! - Recovery: the step between a question and what it asks for, of the whole engine.
//! - Decision: which blocks are evicted.

mod decision;
mod decoding;
mod ranges;
mod recovery;

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result};
use hob_runtime::Model;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::backend::{Backend, ContextShape, Row, Sequence};
use hob_slots::{BLOCK_TOKENS, Token};

use crate::bars::BarFlags;
use crate::turns::Words;
use crate::{Subject, SubjectFlags};

#[derive(clap::Args)]
pub struct Options {
    /// Rounds; a computed range has as many samples, all else more.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Cells of the cache.
    #[arg(long, default_value_t = 8192)]
    cells: usize,
    #[command(flatten)]
    subject: SubjectFlags,
    #[command(flatten)]
    bars: BarFlags,
    /// Measure only this part.
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Ranges, and decoding with holes.
    Cells,
    Recovery,
    Decision,
}

/// The sequence that is measured, one that takes cells from it, and the one for splices.
const LIVE: Sequence = Sequence(0);
const OTHER: Sequence = Sequence(1);
const SCRATCH: Sequence = Sequence(2);

/// As many sequences as the engine has by default: four slots, four prefixes, the scratch sequence.
const SEQUENCES: usize = 9;
const MICRO_BATCH: usize = 512;

pub fn run(options: &Options) -> Result<()> {
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let mut missed = Vec::new();
    if wanted(Part::Decision) {
        missed.extend(decision::measure().print());
    }
    if wanted(Part::Cells) || wanted(Part::Recovery) {
        let subject = Subject::of(options.subject.model.as_deref())?;
        let model = Arc::new(LlamaModel::load(&subject.path, LlamaOptions::default())?);
        println!("\n{}, {} rounds.", subject.on(&*model), options.rounds);
        if wanted(Part::Recovery) {
            missed.extend(recovery::measure(&model, options.rounds)?.print());
        }
        if wanted(Part::Cells) {
            missed.extend(measure_cells(&model, options)?);
        }
    }
    options.bars.check_on(options.subject.model.as_deref(), &missed)
}

fn measure_cells(model: &LlamaModel, options: &Options) -> Result<Vec<String>> {
    let text = Words::new(model.vocabulary().len()).next(ranges::TOKENS.max(decoding::TOKENS) + 1);
    let shape = ContextShape {
        context_tokens: options.cells,
        sequences: SEQUENCES,
        micro_batch: MICRO_BATCH,
    };
    let mut measured = None;
    model.with_context(shape, &mut |backend| {
        let cache = Cache { backend, text: &text };
        measured = Some(measure(cache, options.rounds));
    })?;
    let (ranges, speeds) = measured.context("a context runs what it was made for")??;
    println!("\n{} cells, ranges behind {} tokens.\n", options.cells, ranges::BEFORE);
    Ok([ranges.print(), speeds.print()].concat())
}

fn measure(mut cache: Cache<'_>, rounds: usize) -> Result<(ranges::Table, decoding::Table)> {
    let ranges = ranges::measure(&mut cache, rounds)?;
    cache.backend.clear(LIVE);
    let speeds = decoding::measure(&mut cache, rounds)?;
    Ok((ranges, speeds))
}

/// The measured sequence: its text, at any time in cells or not.
struct Cache<'b> {
    backend: &'b mut dyn Backend,
    text: &'b [Token],
}

impl Cache<'_> {
    /// Computes `range` of the text behind the sequence's end.
    fn compute(&mut self, range: Range<usize>) {
        let row = |position: usize| Row {
            token: self.text[position],
            position,
            sequence: LIVE,
            wants_logits: position + 1 == range.end,
        };
        let rows: Vec<Row> = range.clone().map(row).collect();
        for batch in rows.chunks(MICRO_BATCH) {
            self.backend.decode(batch).expect("there is room");
        }
        std::hint::black_box(self.backend.logits((rows.len() - 1) % MICRO_BATCH)[0]);
    }

    /// The logits of the next token, which is dropped again.
    fn next_logits(&mut self) -> Result<Vec<f32>> {
        let end = self.backend.end(LIVE);
        self.compute(end..end + 1);
        let logits = self.backend.logits(0).to_vec();
        self.backend.remove(LIVE, end..end + 1)?;
        Ok(logits)
    }
}

/// The blocks of `range`, which begins with one.
fn blocks(range: Range<usize>) -> Vec<Range<usize>> {
    let end = range.end;
    range.step_by(BLOCK_TOKENS).map(|start| start..end.min(start + BLOCK_TOKENS)).collect()
}
