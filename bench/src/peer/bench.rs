//! What every table is measured with, and the rows that it fills.

use std::path::PathBuf;

use anyhow::Result;

use super::setup::Setup;
use super::side::Side;
use crate::record::{Row, Who};

/// What a table needs to know of the run.
pub struct Bench {
    pub setup: Setup,
    /// Each table has directories of its own below it.
    pub directory: PathBuf,
    pub rounds: usize,
    /// Rounds of the agent's day.
    pub day_rounds: usize,
    /// Factor of all lengths.
    pub scale: f64,
    /// The trace of the agent day.
    pub trace: PathBuf,
    /// Bytes of KV a token; `None`: the model's shape is not known.
    pub kv_bytes: Option<usize>,
    pub weights_bytes: u64,
}

impl Bench {
    /// Two stopped sides over empty directories.
    pub fn sides(&self, part: &str) -> Result<[Side; 2]> {
        Side::pair(&self.directory.join(part))
    }

    /// This many words, scaled; one at least.
    pub fn words(&self, words: usize) -> usize {
        ((words as f64 * self.scale).round() as usize).max(1)
    }
}

/// The rows of a table while it is measured.
pub struct Sheet {
    pub title: String,
    /// Sizes and settings, as sentences.
    pub conditions: String,
    pub rounds: usize,
    pub rows: Vec<Row>,
}

impl Sheet {
    pub fn new(title: &str, rounds: usize, rows: Vec<Row>) -> Self {
        Self { title: title.to_owned(), conditions: String::new(), rounds, rows }
    }

    pub fn push(&mut self, key: &str, who: Who, sample: f64) {
        self.row(key).push(who, sample);
    }

    pub fn row(&mut self, key: &str) -> &mut Row {
        let row = self.rows.iter_mut().find(|row| row.key == key);
        row.expect("each key that is measured has a row")
    }
}

/// Which of the two begins in this round, and which follows.
pub fn order(round: usize) -> [usize; 2] {
    if round.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}
