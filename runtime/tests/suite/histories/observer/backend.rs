//! The calls of the engine: each is passed on, and what it does to cells is followed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hob_runtime::adapters::Adapters;
use hob_runtime::backend::{Backend, DecodeError, LoadError, Row, Sequence, StateError};
use hob_runtime::heartbeat::Heartbeat;
use hob_slots::Token;

use super::{Cell, Context, SequenceCells, TRIALS, digests};

impl Backend for Context<'_> {
    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    /// Nothing interrupts the trials.
    fn report_to(&mut self, _: Arc<Heartbeat>) {}

    fn can_interrupt(&self) -> bool {
        false
    }

    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        if self.random.one_in(TRIALS) {
            let live: Vec<usize> = (0..self.sequences.len())
                .filter(|&sequence| !self.sequences[sequence].cells.is_empty())
                .collect();
            if !live.is_empty() {
                let sequence = i32::try_from(*self.random.among(&live)).expect("few");
                self.try_out(Sequence(sequence));
            }
        }
        self.inner.decode(rows)?;
        for of_one in rows.chunk_by(|one, next| one.sequence == next.sequence) {
            let (sequence, start) = (of_one[0].sequence, of_one[0].position);
            assert_eq!(start, self.cells_of(sequence).end(), "rows begin behind a cell");
            self.cells_of(sequence).away.retain(|&position, _| position < start);
            self.learn(sequence, start..start + of_one.len());
        }
        Ok(())
    }

    fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), LoadError> {
        self.inner.set_adapters(adapters)
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        self.inner.logits(row)
    }

    fn end(&self, sequence: Sequence) -> usize {
        self.inner.end(sequence)
    }

    fn share(&mut self, from: Sequence, to: Sequence, range: Range<usize>) {
        self.inner.share(from, to, range.clone());
        let shared: Vec<(usize, Cell)> =
            self.cells_of(from).cells.range(range.clone()).map(|(at, cell)| (*at, *cell)).collect();
        assert_eq!(shared.len(), range.len(), "{range:?} of {from:?} has a hole");
        let is_import = self.cells_of(from).is_imported;
        for (position, cell) in shared {
            if is_import {
                self.check(to, position, cell.digest);
            }
            self.cells_of(to).away.remove(&position);
            self.cells_of(to).cells.insert(position, cell);
        }
        if is_import {
            self.prove(to);
        }
    }

    fn remove(&mut self, sequence: Sequence, range: Range<usize>) -> Result<(), StateError> {
        self.inner.remove(sequence, range.clone())?;
        let held = self.cells_of(sequence);
        let left: Vec<(usize, Cell)> = held.cells.range(range).map(|(at, it)| (*at, *it)).collect();
        for (position, cell) in left {
            held.cells.remove(&position);
            held.away.insert(position, cell.digest);
        }
        // The top of a sequence is never away: what was behind it is dropped.
        let end = held.end();
        held.away.retain(|&position, _| position < end);
        Ok(())
    }

    fn clear(&mut self, sequence: Sequence) {
        self.inner.clear(sequence);
        *self.cells_of(sequence) = SequenceCells::default();
    }

    fn export(&mut self, _: Sequence, _: Vec<u8>) -> Result<Vec<u8>, StateError> {
        unreachable!("plain memories are saved in blocks")
    }

    fn import(&mut self, _: Sequence, _: &[u8]) -> Result<(), StateError> {
        unreachable!("plain memories are saved in blocks")
    }

    fn has_ranges(&self) -> bool {
        self.inner.has_ranges()
    }

    fn export_cells(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError> {
        let state = self.inner.export_cells(sequence, buffer)?;
        let expected = self.cells_of(sequence).cells.iter().map(|(at, cell)| (*at, cell.digest));
        assert!(digests(&state).into_iter().eq(expected), "what is saved was computed");
        Ok(state)
    }

    fn import_cells(
        &mut self,
        sequence: Sequence,
        state: &[u8],
        held: &Range<usize>,
    ) -> Result<(), StateError> {
        self.inner.import_cells(sequence, state, held)?;
        let cells = self.numbered(digests(state));
        *self.cells_of(sequence) =
            SequenceCells { cells, away: BTreeMap::new(), is_imported: true };
        Ok(())
    }

    fn export_rest(&mut self, _: Sequence) -> Result<Vec<u8>, StateError> {
        unreachable!("plain memories have no rest")
    }

    fn rewind(&mut self, _: Sequence, _: &[u8], _: usize) -> Result<(), StateError> {
        unreachable!("plain memories have no rest")
    }

    fn embed(&mut self, tokens: &[Token]) -> Result<Vec<f32>, DecodeError> {
        self.inner.embed(tokens)
    }
}
