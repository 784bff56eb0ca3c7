//! The disk space of conversations with a common prefix.

use std::fs;
use std::sync::Arc;

use anyhow::{Result, ensure};
use hob_runtime::Model;
use hob_runtime::backend::llama::LlamaModel;
use hob_runtime::backend::llama::stock::Stock;
use hob_runtime::backend::{ContextShape, Sequence};
use hob_slots::store::Store;

use super::Row;
use super::fabricate::Fabricator;
use crate::measure::bytes_below;
use crate::turns::Words;

const CONVERSATIONS: usize = 50;
const PREFIX: usize = 2048;
const OWN: usize = 256;

/// Maximum part of as many whole dumps.
const BAR: f64 = 0.15;

pub fn measure(model: &Arc<LlamaModel>) -> Result<Row> {
    let directory = tempfile::tempdir()?;
    let (slots, dump) = (directory.path().join("slots"), directory.path().join("dump"));
    let shape = ContextShape { context_tokens: PREFIX + 1024, sequences: 3, micro_batch: 512 };
    let mut stock = Stock::new(model, shape)?;
    let mut kv = Fabricator::new(stock.backend())?;
    let mut words = Words::new(model.vocabulary().len());
    let prefix = words.next(PREFIX);
    {
        let store = Store::open(&slots)?;
        for number in 0..CONVERSATIONS {
            let tokens = [&prefix[..], &words.next(OWN)].concat();
            kv.keep(&store, model.vocabulary(), &format!("chat {number}"), &tokens)?;
        }
    }
    let (sequence, scratch) = (Sequence(0), Sequence(2));
    for start in (0..PREFIX + OWN).step_by(64) {
        let range = start..start + 64;
        stock.backend().import(scratch, &kv.state(range.clone()))?;
        stock.backend().share(scratch, sequence, range);
    }
    let tokens = words.next(PREFIX + OWN);
    ensure!(stock.save(sequence, &dump, &tokens) > 0, "llama.cpp could not write its file");
    let dumps = fs::metadata(&dump)?.len() * CONVERSATIONS as u64;
    let kept = bytes_below(&slots)?;
    Ok(Row {
        what: format!("{CONVERSATIONS} conversations of {PREFIX} + {OWN} tokens on disk"),
        measured: format!("{} MB, whole dumps {} MB", kept / 1_000_000, dumps / 1_000_000),
        ratio: kept as f64 / dumps as f64,
        bar: Some(BAR),
        unit: " x",
    })
}
