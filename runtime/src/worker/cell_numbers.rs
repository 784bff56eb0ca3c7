//! Which cells the positions of a slot have.
//!
//! A cell has a number, which is given out once. Slots that share cells have equal numbers, so the
//! cells in use are the distinct ones: equal tokens that two slots computed apart take two cells.

use std::ops::Range;

/// The numbers of a slot's cells, by position. A position without one is *away*.
#[derive(Debug, Default)]
pub(super) struct CellNumbers {
    /// By position, disjoint; none is empty.
    runs: Vec<Run>,
}

/// Cells of consecutive positions and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    position: usize,
    /// The number of the first.
    pub first: u64,
    len: usize,
}

impl Run {
    pub fn positions(self) -> Range<usize> {
        self.position..self.end()
    }

    fn end(self) -> usize {
        self.position + self.len
    }

    /// The part of it within `range`.
    fn within(self, range: &Range<usize>) -> Option<Self> {
        let (start, end) = (self.position.max(range.start), self.end().min(range.end));
        let skipped = start.checked_sub(self.position)? as u64;
        (start < end).then(|| Self {
            position: start,
            first: self.first + skipped,
            len: end - start,
        })
    }

    fn continues(self, before: Self) -> bool {
        before.end() == self.position && before.first + before.len as u64 == self.first
    }
}

impl CellNumbers {
    /// Adds cells with the numbers from `first` on at positions without cells.
    pub fn put(&mut self, positions: Range<usize>, first: u64) {
        if positions.is_empty() {
            return;
        }
        let run = Run { position: positions.start, first, len: positions.len() };
        let at = self.runs.partition_point(|other| other.position < run.position);
        match at.checked_sub(1).map(|before| &mut self.runs[before]) {
            Some(before) if run.continues(*before) => before.len += run.len,
            _ => self.runs.insert(at, run),
        }
    }

    pub fn runs_within(&self, range: Range<usize>) -> Vec<Run> {
        let first = self.runs.partition_point(|run| run.end() <= range.start);
        self.runs[first..].iter().map_while(|run| run.within(&range)).collect()
    }

    /// The first positions of `range` that have cells, up to one that has none.
    pub fn first_stretch(&self, range: Range<usize>) -> Option<Range<usize>> {
        let mut runs = self.runs_within(range).into_iter().map(|run| run.positions());
        let first = runs.next()?;
        let joined = |stretch: Range<usize>, next: Range<usize>| {
            if stretch.end == next.start { stretch.start..next.end } else { stretch }
        };
        Some(runs.fold(first, joined))
    }

    /// The positions that have cells, in order.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.runs.iter().flat_map(|run| run.positions())
    }

    /// Drops the cells of these positions.
    pub fn remove(&mut self, range: Range<usize>) {
        let behind = self.runs_within(range.end..usize::MAX);
        let first = self.runs.partition_point(|run| run.end() <= range.start);
        let cut = self.runs.get(first).and_then(|run| run.within(&(0..range.start)));
        self.runs.truncate(first);
        self.runs.extend(cut);
        self.runs.extend(behind);
    }

    pub fn truncate(&mut self, len: usize) {
        self.remove(len..usize::MAX);
    }

    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// The positions below `len` without cells, in order.
    pub fn away(&self, len: usize) -> Vec<Range<usize>> {
        let (mut away, mut at) = (Vec::new(), 0);
        for run in &self.runs {
            if at < run.position {
                away.push(at..run.position);
            }
            at = run.end();
        }
        if at < len {
            away.push(at..len);
        }
        away
    }

    /// Whether all these positions have cells.
    pub fn has(&self, range: &Range<usize>) -> bool {
        let first = self.runs.partition_point(|run| run.end() <= range.start);
        let mut end = range.start;
        for run in &self.runs[first..] {
            if run.position > end || end >= range.end {
                break;
            }
            end = run.end();
        }
        end >= range.end
    }

    /// Whether none of these positions has a cell.
    pub fn lacks(&self, range: &Range<usize>) -> bool {
        self.runs_within(range.clone()).is_empty()
    }

    /// How many cells several slots have together.
    pub fn count<'a>(slots: impl Iterator<Item = &'a Self>) -> usize {
        let mut runs: Vec<&Run> = slots.flat_map(|slot| &slot.runs).collect();
        runs.sort_by_key(|run| run.first);
        let (mut count, mut counted_to) = (0, 0);
        for run in runs {
            let end = run.first + run.len as u64;
            count += end.saturating_sub(run.first.max(counted_to));
            counted_to = counted_to.max(end);
        }
        count as usize
    }

    /// The end of the last position at which both have the same cell: cells are shared from the first token
    /// on.
    pub fn shared_end(&self, other: &Self) -> usize {
        let same = |run: &Run| {
            let theirs = other.runs_within(run.position..run.end());
            let offset = |theirs: &Run| (theirs.position - run.position) as u64;
            let same =
                theirs.into_iter().filter(|theirs| theirs.first == run.first + offset(theirs));
            same.map(|run| run.end()).max()
        };
        self.runs.iter().filter_map(same).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(runs: &[(Range<usize>, u64)]) -> CellNumbers {
        let mut numbers = CellNumbers::default();
        runs.iter().for_each(|(positions, first)| numbers.put(positions.clone(), *first));
        numbers
    }

    #[test]
    fn shared_cells_count_once_and_equal_tokens_in_other_cells_count() {
        let prefix = numbers(&[(0..100, 0)]);
        let first = |len| CellNumbers { runs: prefix.runs_within(0..len) };
        let mut chats = [first(80), first(60)];
        chats[0].put(80..100, 100);
        chats[1].put(60..90, 120);
        chats[0].put(100..101, 150);
        let all = || std::iter::once(&prefix).chain(&chats);
        assert_eq!(CellNumbers::count(all()), 151);
        assert_eq!(CellNumbers::count(chats.iter()), 131, "the prefix's own 20 are not theirs");
        assert_eq!(chats[0].shared_end(&prefix), 80);
        assert_eq!(chats[0].shared_end(&chats[1]), 60);
        chats[0].truncate(10);
        assert_eq!(CellNumbers::count(chats.iter()), 90);
    }

    #[test]
    fn positions_lose_their_cells_and_get_others() {
        let mut cells = numbers(&[(0..64, 0), (64..200, 64)]);
        assert_eq!((cells.len(), cells.away(200)), (200, vec![]));
        cells.remove(64..128);
        assert_eq!((cells.len(), cells.away(200)), (136, vec![64..128]));
        assert_eq!(cells.away(210), [64..128, 200..210]);
        assert!(cells.has(&(0..64)) && cells.lacks(&(64..128)) && !cells.has(&(60..70)));
        assert_eq!(cells.first_stretch(10..200), Some(10..64));
        assert_eq!(cells.first_stretch(64..128), None);
        cells.put(64..128, 500);
        assert_eq!((cells.len(), cells.away(200)), (200, vec![]));
        assert_eq!(cells.first_stretch(10..190), Some(10..190), "whatever the numbers are");
        cells.remove(0..64);
        cells.truncate(130);
        assert_eq!((cells.len(), cells.away(130)), (66, vec![0..64]));
    }
}
