//! A backend that watches each cell of another one, where memory is plain.
//!
//! - It knows the bytes of each cell from when it was computed, also while it is away.
//! - What comes back into a sequence has the bytes with which it left. What is restored behind a sequence's end
//!   was computed before, at that position.
//! - Now and then, ranges of a live sequence leave and come back while nothing is computed: then the next
//!   logits are those of before.

mod backend;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::Hasher;
use std::ops::Range;
use std::sync::Arc;

use hob_runtime::backend::state::PlainState;
use hob_runtime::backend::{Backend, ContextShape, LoadError, Model, Row, Sequence};
use hob_runtime::splice;
use hob_slots::Token;
use parking_lot::Mutex;

use crate::histories::random::Random;
use crate::histories::wrapped::{Contexts, Wrapped};

/// One micro-batch in this many is preceded by a trial.
const TRIALS: usize = 8;

/// By how much of the largest logit others may differ where cells lie elsewhere: attention adds in the order of
/// the cells.
const ROUNDING: f32 = 0.01;

/// What was observed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Cells that came back into the sequence that they had left.
    pub back: usize,
    /// Cells that were restored behind a sequence's end.
    pub restored: usize,
    pub trials: usize,
    /// Trials in which the logits told that something was away.
    pub missed: usize,
    /// Trials in which the logits were rounded otherwise when the cells had moved.
    pub rounded: usize,
}

impl Sums {
    pub fn add(&mut self, more: Self) {
        self.back += more.back;
        self.restored += more.restored;
        self.trials += more.trials;
        self.missed += more.missed;
        self.rounded += more.rounded;
    }
}

/// Contexts whose cells are watched.
pub struct Observer {
    seed: u64,
    /// Position and digest of every cell that was ever computed.
    known: Mutex<HashSet<(usize, u64)>>,
    pub sums: Mutex<Sums>,
}

/// `model`, whose memory is plain, with contexts that are watched.
pub fn observed(model: &Arc<dyn Model>, seed: u64) -> Wrapped<Observer> {
    assert!(model.facts().memory.is_plain());
    let (known, sums) = Default::default();
    Wrapped { model: model.clone(), contexts: Observer { seed, known, sums } }
}

impl Contexts for Observer {
    fn with_context(
        &self,
        model: &dyn Model,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError> {
        let own = Sequence(i32::try_from(shape.sequences).expect("few"));
        let more = ContextShape { sequences: shape.sequences + 1, ..shape };
        model.with_context(more, &mut |inner| {
            let sequences = (0..=shape.sequences).map(|_| SequenceCells::default()).collect();
            let (random, cells) = (Random(self.seed), inner.context_tokens());
            run(&mut Context { inner, own, sequences, cells, made: 0, random, observer: self });
        })
    }
}

/// A cell by its number, and a digest of its bytes.
#[derive(Clone, Copy, Debug)]
struct Cell {
    number: u64,
    digest: u64,
}

/// By position.
#[derive(Clone, Debug, Default)]
struct SequenceCells {
    cells: BTreeMap<usize, Cell>,
    /// Digests of what has left.
    away: BTreeMap<usize, u64>,
    /// Its cells are not known yet: they were imported.
    is_imported: bool,
}

impl SequenceCells {
    fn end(&self) -> usize {
        self.cells.last_key_value().map_or(0, |(last, _)| last + 1)
    }
}

struct Context<'b> {
    inner: &'b mut dyn Backend,
    /// A sequence that the engine does not know.
    own: Sequence,
    sequences: Vec<SequenceCells>,
    /// Of the cache.
    cells: usize,
    /// Cells so far.
    made: u64,
    random: Random,
    observer: &'b Observer,
}

impl Context<'_> {
    fn cells_of(&mut self, sequence: Sequence) -> &mut SequenceCells {
        &mut self.sequences[usize::try_from(sequence.0).expect("not negative")]
    }

    fn numbered(&mut self, digests: BTreeMap<usize, u64>) -> BTreeMap<usize, Cell> {
        let first = self.made;
        self.made += digests.len() as u64;
        let number = |(at, (position, digest))| (position, Cell { number: first + at, digest });
        (0..).zip(digests).map(number).collect()
    }

    /// Reads what was just computed.
    fn learn(&mut self, sequence: Sequence, range: Range<usize>) {
        let state = splice::export(self.inner, self.own, sequence, range.clone(), Vec::new());
        let digests = digests(&state.expect("llama.cpp writes the range"));
        assert!(digests.keys().copied().eq(range), "each row has one cell");
        self.observer.known.lock().extend(digests.iter().map(|(at, digest)| (*at, *digest)));
        let cells = self.numbered(digests);
        self.cells_of(sequence).cells.extend(cells);
    }

    /// A cell of imported bytes joins a live sequence.
    fn check(&mut self, to: Sequence, position: usize, digest: u64) {
        let held = &mut self.sequences[usize::try_from(to.0).expect("not negative")];
        assert!(!held.cells.contains_key(&position), "position {position} has a cell already");
        let is_known = self.observer.known.lock().contains(&(position, digest));
        assert!(is_known, "{position} was never computed so");
        let mut sums = self.observer.sums.lock();
        match held.away.remove(&position) {
            Some(left) => {
                assert_eq!(digest, left, "{position} comes back with other bytes");
                sums.back += 1;
            }
            None => sums.restored += 1,
        }
    }

    /// All of the sequence's cells are where they should be, once each.
    fn prove(&mut self, sequence: Sequence) {
        let state = self.inner.export_cells(sequence, Vec::new()).expect("llama.cpp writes it");
        let expected = self.cells_of(sequence).cells.iter().map(|(at, cell)| (*at, cell.digest));
        assert!(digests(&state).into_iter().eq(expected), "the cells of {sequence:?}");
    }

    /// Ranges that only the sequence has leave and come back, twice: the first time moves them to the first free
    /// cells, from which they leave and to which they come back the second time.
    fn try_out(&mut self, sequence: Sequence) {
        let ranges = self.some_ranges(sequence);
        let used: HashSet<u64> = self
            .sequences
            .iter()
            .flat_map(|held| held.cells.values())
            .map(|it| it.number)
            .collect();
        if ranges.is_empty() || used.len() >= self.cells {
            return;
        }
        let never = self.next_logits(sequence);
        let (missing, moved) = self.leave_and_return(sequence, &ranges);
        let (_, again) = self.leave_and_return(sequence, &ranges);
        assert!(moved == again, "{ranges:?} of {sequence:?} came back to the same cells");
        let largest = never.iter().fold(0.0, |largest: f32, logit| largest.max(logit.abs()));
        let rounded = difference(&moved, &never);
        assert!(rounded <= ROUNDING * largest, "{rounded} by rounding, of {largest}");
        let mut sums = self.observer.sums.lock();
        sums.trials += 1;
        sums.missed += usize::from(missing != never);
        sums.rounded += usize::from(moved != never);
    }

    /// Returns the next logits meanwhile and after.
    fn leave_and_return(
        &mut self,
        sequence: Sequence,
        ranges: &[Range<usize>],
    ) -> (Vec<f32>, Vec<f32>) {
        let mut states = Vec::new();
        for range in ranges {
            let state =
                splice::export(self.inner, self.own, sequence, range.clone(), Vec::new()).unwrap();
            self.inner.remove(sequence, range.clone()).unwrap();
            states.push(state);
        }
        let missing = self.next_logits(sequence);
        for (range, state) in ranges.iter().zip(&states) {
            let (inner, range) = (&mut *self.inner, range.clone());
            splice::import(inner, self.own, sequence, state, &range, range.clone()).unwrap();
        }
        self.prove(sequence);
        (missing, self.next_logits(sequence))
    }

    /// One to three ranges before the last cell, ascending, without holes; none where others share cells.
    fn some_ranges(&mut self, sequence: Sequence) -> Vec<Range<usize>> {
        let held = self.cells_of(sequence);
        let own: HashSet<u64> = held.cells.values().map(|cell| cell.number).collect();
        let positions: Vec<usize> = held.cells.keys().copied().collect();
        let all = self.sequences.iter().flat_map(|held| held.cells.values());
        let is_shared = all.filter(|cell| own.contains(&cell.number)).count() > own.len();
        let Some((_, before_last)) = positions.split_last() else { return Vec::new() };
        if is_shared || before_last.is_empty() {
            return Vec::new();
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let first = self.random.below(before_last.len());
            let most = 1 + self.random.below(130);
            let run = before_last[first..].chunk_by(|one, next| one + 1 == *next).next();
            let run = run.map_or(&[][..], |run| &run[..run.len().min(most)]);
            let range = run[0]..run[0] + run.len();
            if ranges.last().is_none_or(|last| last.end <= range.start) {
                ranges.push(range);
            }
        }
        ranges
    }

    /// The logits of one more token, which is dropped again.
    fn next_logits(&mut self, sequence: Sequence) -> Vec<f32> {
        let position = self.inner.end(sequence);
        let row = Row { token: Token(300), position, sequence, wants_logits: true };
        self.inner.decode(&[row]).expect("there is room");
        let logits = self.inner.logits(0).to_vec();
        self.inner.remove(sequence, position..position + 1).expect("plain attention");
        logits
    }
}

/// A digest of each cell's K and V, by position.
fn digests(state: &[u8]) -> BTreeMap<usize, u64> {
    let parsed = PlainState::parse(state).expect("plain attention");
    let mut hashers = vec![DefaultHasher::new(); parsed.cells()];
    for rows in parsed.rows() {
        let row_bytes = rows.len() / hashers.len();
        for (hasher, row) in hashers.iter_mut().zip(state[rows].chunks_exact(row_bytes)) {
            hasher.write(row);
        }
    }
    let positions =
        parsed.positions().map(|position| usize::try_from(position).expect("no negative ones"));
    let digests: BTreeMap<usize, u64> = positions.zip(hashers.iter().map(Hasher::finish)).collect();
    assert_eq!(digests.len(), hashers.len(), "one cell a position");
    digests
}

/// The largest difference of two logits.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
