//! The cells of the stand-in, and its computation.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hob_slots::Token;

use super::content::{digest_of, encoded_cell, kv_of, mix};
use super::logits::next_logits;
use super::{CELL_BYTES, FakeModel, echo};
use crate::adapters::Adapters;
use crate::backend::{
    Backend, ContextShape, DecodeError, LoadError, MemoryKind, RANK, Row, Sequence, StateError,
};
use crate::heartbeat::Heartbeat;

/// Nodes of each graph, whatever its rows.
const NODES: u32 = 64;

/// `sequences` is a set of bits; a cell without any is free.
#[derive(Clone, Copy, Default)]
struct Cell {
    position: usize,
    token: Token,
    kv: u64,
    /// The rest of its sequence after it. Of imported cells, only the last one's is known: it was imported too.
    rest: Option<u64>,
    sequences: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    end: usize,
    value: u64,
}

pub(super) struct FakeContext<'m> {
    model: &'m FakeModel,
    shape: ContextShape,
    cells: Vec<Cell>,
    /// In windowed and hybrid memories: each sequence's window or running state, and its position.
    rests: Vec<Option<Rest>>,
    logits: Vec<(usize, Vec<f32>)>, // By row of the last batch.
    /// Sequences and positions of the last batch.
    newest: Vec<(Sequence, usize)>,
    heartbeat: Option<Arc<Heartbeat>>,
    /// A digest of the adapters; 0 without any.
    adapters: u64,
}

impl<'m> FakeContext<'m> {
    pub fn new(model: &'m FakeModel, shape: ContextShape) -> Self {
        let cells = vec![Cell::default(); shape.context_tokens];
        let rests = vec![None; shape.sequences];
        Self {
            model,
            shape,
            cells,
            rests,
            logits: Vec::new(),
            newest: Vec::new(),
            heartbeat: None,
            adapters: 0,
        }
    }

    fn bit(&self, sequence: Sequence) -> u64 {
        let id = usize::try_from(sequence.0).expect("sequence ids are not negative");
        assert!(id < self.shape.sequences, "sequence {id} of {}", self.shape.sequences);
        1 << id
    }

    /// The sequence's cells in the order of their positions.
    fn cells_of(&self, sequence: Sequence) -> Vec<Cell> {
        let bit = self.bit(sequence);
        let mut cells: Vec<Cell> =
            self.cells.iter().filter(|cell| cell.sequences & bit != 0).copied().collect();
        cells.sort_by_key(|cell| cell.position);
        cells
    }

    fn put(&mut self, cell: Cell) {
        let free = self.cells.iter_mut().find(|cell| cell.sequences == 0);
        *free.expect("room was checked") = cell;
    }

    /// Sleeps for as long as `rows` take. Reports each of [`NODES`] and may be interrupted there, unless the
    /// model is on a device.
    fn compute(&self, rows: &[Row]) -> Result<(), DecodeError> {
        let pace = if self.reads_slowly(rows) { echo::READING_PACE } else { self.model.pace };
        let time = pace * u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let began = Instant::now();
        for node in 1..=NODES {
            if !time.is_zero() {
                std::thread::sleep((time * node / NODES).saturating_sub(began.elapsed()));
            }
            if let Some(heartbeat) = self.heartbeat.as_ref().filter(|_| self.can_interrupt()) {
                heartbeat.beat();
                if heartbeat.interrupts() {
                    return Err(DecodeError::Interrupted);
                }
            }
        }
        while self.model.stalls.load(Ordering::SeqCst) {
            if self.heartbeat.as_ref().is_some_and(|heartbeat| heartbeat.interrupts()) {
                return Err(DecodeError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Adds the cells of a micro-batch, and makes the logits that it wants.
    fn append_all(&mut self, rows: &[Row]) {
        self.logits.clear();
        self.newest = rows.iter().map(|row| (row.sequence, row.position)).collect();
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row.position, self.end(row.sequence), "a row begins at its sequence's end");
            let cells = self.append(row);
            if row.wants_logits {
                let logits = self.logits_behind(&cells);
                self.logits.push((index, logits));
            }
        }
    }

    /// Adds the cell of a row. Returns the cells that the row attended to, and its own as the last.
    fn append(&mut self, row: &Row) -> Vec<Cell> {
        let mut cells = self.cells_of(row.sequence);
        let seen: Vec<_> = cells.iter().map(|cell| (cell.position, cell.kv)).collect();
        let before = self.rest(row.sequence).map_or(0, |rest| rest.value);
        let kv = kv_of(&seen, row.token, before ^ self.adapters);
        if let Some(views) = &self.model.views {
            views.lock().insert(kv, seen.iter().map(|(position, _)| *position).collect());
        }
        let rest = if self.has_rests() { mix(before ^ kv) } else { 0 };
        if self.has_rests() {
            *self.rest(row.sequence) = Some(Rest { end: row.position + 1, value: rest });
        }
        let (position, token, sequences) = (row.position, row.token, self.bit(row.sequence));
        let cell = Cell { position, token, kv, rest: Some(rest), sequences };
        self.put(cell);
        cells.push(cell);
        cells
    }

    /// The logits of the last of a sequence's cells.
    fn logits_behind(&self, cells: &[Cell]) -> Vec<f32> {
        let tokens: Vec<Token> = cells.iter().map(|cell| cell.token).collect();
        let last = cells.last().expect("a row has a cell");
        next_logits(self.model, &tokens, last.kv)
    }

    fn fails(&self, rows: &[Row]) -> bool {
        let first = rows.first().map(|row| row.position);
        let fails_at = self.model.fails_at.as_ref();
        fails_at.is_some_and(|at| at.lock().take_if(|at| Some(*at) == first).is_some())
    }

    fn refuses(&self, end: usize) -> bool {
        let refuses_at = self.model.refuses_at.as_ref();
        refuses_at.is_some_and(|at| at.lock().take_if(|at| *at == end).is_some())
    }

    /// A micro-batch that was interrupted or has failed has changed running states, and has left cells.
    fn spoil(&mut self, rows: &[Row]) {
        if self.model.facts.memory.can_drop_newest() {
            return;
        }
        for row in rows {
            let value = mix(row.position as u64);
            if self.has_rests() {
                *self.rest(row.sequence) = Some(Rest { end: row.position + 1, value });
            }
            let (position, token) = (row.position, row.token);
            let sequences = self.bit(row.sequence);
            self.put(Cell { position, token, kv: value, rest: Some(value), sequences });
        }
    }

    fn reads_slowly(&self, rows: &[Row]) -> bool {
        let mut read: BTreeMap<i32, Vec<Token>> = BTreeMap::new();
        let held = |sequence| self.cells_of(sequence).iter().map(|cell| cell.token).collect();
        rows.iter().any(|row| {
            let tokens = read.entry(row.sequence.0).or_insert_with(|| held(row.sequence));
            tokens.push(row.token);
            echo::reads_slowly(tokens)
        })
    }

    fn room(&self) -> usize {
        self.cells.iter().filter(|cell| cell.sequences == 0).count()
    }

    fn has_rests(&self) -> bool {
        matches!(self.model.facts.memory, MemoryKind::Windowed | MemoryKind::Hybrid)
    }

    fn rest(&mut self, sequence: Sequence) -> &mut Option<Rest> {
        self.bit(sequence); // Checks the id.
        &mut self.rests[usize::try_from(sequence.0).expect("it was checked")]
    }

    /// The rest after the first `end` tokens, where the cells before it were just computed.
    fn rest_at(&self, sequence: Sequence, end: usize) -> Option<Rest> {
        let last = self.cells_of(sequence).into_iter().find(|cell| cell.position + 1 == end)?;
        Some(Rest { end, value: last.rest? })
    }

    fn cells_end(&self, sequence: Sequence) -> usize {
        let bit = self.bit(sequence);
        let cells = self.cells.iter().filter(|cell| cell.sequences & bit != 0);
        cells.map(|cell| cell.position + 1).max().unwrap_or(0)
    }

    /// Adds exported cells to an empty sequence.
    fn put_cells(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError> {
        let bit = self.bit(sequence);
        let refused = StateError::Import { bytes: state.len() };
        let (cells, rest) = state.as_chunks::<CELL_BYTES>();
        if !rest.is_empty() || cells.len() > self.room() {
            return Err(refused);
        }
        for cell in cells {
            let half =
                |at: usize| u32::from_le_bytes(cell[at..at + 4].try_into().expect("4 bytes"));
            self.put(Cell {
                position: half(0) as usize,
                token: Token(i32::try_from(half(4)).map_err(|_| refused.clone())?),
                kv: u64::from_le_bytes(cell[8..].try_into().expect("8 bytes")),
                rest: None,
                sequences: bit,
            });
        }
        Ok(())
    }

    fn check(&self, sequence: Sequence, range: &Range<usize>) {
        let end = self.end(sequence);
        assert!(
            range.start < range.end && range.end <= end,
            "range {range:?} of a sequence that ends at {end}"
        );
    }
}

impl Backend for FakeContext<'_> {
    fn context_tokens(&self) -> usize {
        self.shape.context_tokens
    }

    fn report_to(&mut self, heartbeat: Arc<Heartbeat>) {
        self.heartbeat = Some(heartbeat);
    }

    fn can_interrupt(&self) -> bool {
        !self.model.is_on_device()
    }

    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        assert!(rows.len() <= self.shape.micro_batch, "a batch is one micro-batch");
        if self.room() < rows.len() {
            return Err(DecodeError::NoRoom { rows: rows.len() });
        }
        if let Some(log) = &self.model.batches {
            log.lock().push(rows.to_vec());
        }
        let computed = self.compute(rows);
        let failed = self.fails(rows).then(|| DecodeError::Failed("a test asks for it".to_owned()));
        let error = failed.or(computed.err());
        if error.is_some() {
            self.spoil(rows);
        } else {
            self.append_all(rows);
        }
        self.model.ended.fetch_add(1, Ordering::SeqCst);
        error.map_or(Ok(()), Err)
    }

    fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), LoadError> {
        if let Some(changed) = adapters.files().iter().find(|it| it.has_changed()) {
            return Err(LoadError::adapter(changed, "the file has changed"));
        }
        self.adapters = digest_of(adapters.set());
        Ok(())
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        let found = self.logits.iter_mut().find(|(index, _)| *index == row);
        &mut found.expect("the row has logits").1
    }

    fn end(&self, sequence: Sequence) -> usize {
        let end = self.cells_end(sequence);
        if !self.has_rests() {
            return end;
        }
        let rest = self.rests[usize::try_from(sequence.0).expect("it was checked")];
        rest.map_or(0, |rest| rest.end.min(end))
    }

    fn share(&mut self, from: Sequence, to: Sequence, range: Range<usize>) {
        if !self.has_rests() {
            self.check(from, &range);
        }
        match self.model.facts.memory {
            // A window is shared as far as it is there.
            MemoryKind::Windowed => {
                let rest = self.rest(from).and_then(|_| self.rest_at(from, range.end));
                *self.rest(to) = rest.or(*self.rest(to));
            }
            MemoryKind::Hybrid => *self.rest(to) = *self.rest(from),
            MemoryKind::Plain | MemoryKind::Recurrent => {}
        }
        let (from, to) = (self.bit(from), self.bit(to));
        let moved = |cell: &&Cell| cell.sequences & from != 0 && range.contains(&cell.position);
        let positions: BTreeSet<usize> =
            self.cells.iter().filter(moved).map(|cell| cell.position).collect();
        let is_plain = self.model.facts.memory.is_plain();
        assert!(!is_plain || positions.len() == range.len(), "{range:?} has a hole");
        for cell in &mut self.cells {
            if !positions.contains(&cell.position) {
                continue;
            }
            if cell.sequences & from != 0 {
                cell.sequences |= to;
            } else {
                assert!(cell.sequences & to == 0, "position {} has a cell already", cell.position);
            }
        }
    }

    fn remove(&mut self, sequence: Sequence, range: Range<usize>) -> Result<(), StateError> {
        self.check(sequence, &range);
        let memory = self.model.facts.memory;
        let is_end = range.end == self.end(sequence);
        let is_newest = range.clone().all(|position| self.newest.contains(&(sequence, position)));
        let can = memory.is_plain()
            || (is_end && (range.start == 0 || (memory.can_drop_newest() && is_newest)));
        if !can {
            return Err(StateError::Partial(memory));
        }
        let bit = self.bit(sequence);
        for cell in &mut self.cells {
            if range.contains(&cell.position) {
                cell.sequences &= !bit;
            }
        }
        if self.has_rests() {
            *self.rest(sequence) = self.rest_at(sequence, range.start);
        }
        Ok(())
    }

    fn clear(&mut self, sequence: Sequence) {
        *self.rest(sequence) = None;
        let bit = self.bit(sequence);
        self.cells.iter_mut().for_each(|cell| cell.sequences &= !bit);
    }

    fn export(&mut self, sequence: Sequence, buffer: Vec<u8>) -> Result<Vec<u8>, StateError> {
        let cells = self.export_cells(sequence, buffer)?;
        let rest = if self.has_rests() { self.export_rest(sequence)? } else { Vec::new() };
        Ok([cells, rest].concat())
    }

    fn import(&mut self, sequence: Sequence, state: &[u8]) -> Result<(), StateError> {
        self.clear(sequence);
        let refused = StateError::Import { bytes: state.len() };
        if !self.has_rests() {
            return self.put_cells(sequence, state);
        }
        let (cells, rest) = state.split_last_chunk::<CELL_BYTES>().ok_or(refused)?;
        self.put_cells(sequence, cells)?;
        self.rewind(sequence, rest, self.cells_end(sequence))
    }

    fn has_ranges(&self) -> bool {
        self.has_rests() || self.model.facts.memory.is_plain()
    }

    fn export_cells(&mut self, sequence: Sequence, _: Vec<u8>) -> Result<Vec<u8>, StateError> {
        let cells = self.cells_of(sequence);
        let bytes = cells.iter().flat_map(|cell| encoded_cell(cell.position, cell.token, cell.kv));
        Ok(bytes.collect())
    }

    fn import_cells(
        &mut self,
        sequence: Sequence,
        state: &[u8],
        held: &Range<usize>,
    ) -> Result<(), StateError> {
        self.clear(sequence);
        self.put_cells(sequence, state)?;
        let cells = self.cells_of(sequence);
        if cells.iter().map(|cell| cell.position).eq(held.clone()) {
            return Ok(());
        }
        self.clear(sequence);
        Err(StateError::Import { bytes: state.len() })
    }

    fn export_rest(&mut self, sequence: Sequence) -> Result<Vec<u8>, StateError> {
        if !self.has_rests() {
            return self.export(sequence, Vec::new());
        }
        let refused = StateError::Export { announced: CELL_BYTES, written: 0 };
        let Rest { end, value } = self.rest(sequence).ok_or(refused)?;
        Ok([end as u64, value].into_iter().flat_map(u64::to_le_bytes).collect())
    }

    fn rewind(&mut self, sequence: Sequence, rest: &[u8], end: usize) -> Result<(), StateError> {
        let refused = StateError::Import { bytes: rest.len() };
        if self.refuses(end) {
            self.clear(sequence);
            return Err(refused);
        }
        if !self.has_rests() {
            self.import(sequence, rest)?;
        } else if let Ok(&rest) = <&[u8; CELL_BYTES]>::try_from(rest) {
            let [of, value] = [0, 8].map(|at| {
                u64::from_le_bytes(*rest[at..].first_chunk().expect("there are 16 bytes"))
            });
            let bit = self.bit(sequence);
            for cell in self.cells.iter_mut().filter(|cell| cell.position >= end) {
                cell.sequences &= !bit;
            }
            let is_last = |cell: &&mut Cell| cell.sequences & bit != 0 && cell.position + 1 == end;
            if let Some(last) = self.cells.iter_mut().find(is_last) {
                last.rest = Some(value);
            }
            let of = usize::try_from(of).map_err(|_| refused.clone())?;
            *self.rest(sequence) = Some(Rest { end: of, value });
        }
        if self.end(sequence) == end && self.cells_end(sequence) == end {
            return Ok(());
        }
        self.clear(sequence);
        Err(refused)
    }

    fn positions(&self, sequence: Sequence) -> Option<Vec<usize>> {
        Some(self.cells_of(sequence).iter().map(|cell| cell.position).collect())
    }

    fn embed(&mut self, tokens: &[Token]) -> Result<Vec<f32>, DecodeError> {
        if self.model.facts.pooling.is_none() {
            return Err(DecodeError::Failed("this model does not make embeddings".to_owned()));
        }
        let in_parts = self.model.facts.embeds_in_parts;
        assert!(in_parts || tokens.len() <= self.shape.micro_batch, "a text is one micro-batch");
        let mut values = vec![0.0f32; 8];
        for (index, token) in tokens.iter().enumerate() {
            values[index % 8] += token.0 as f32;
        }
        if self.model.facts.pooling.as_deref() == Some(RANK) {
            return Ok(vec![values.iter().sum::<f32>() % 97.0]);
        }
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-6);
        Ok(values.into_iter().map(|value| value / length).collect())
    }
}
