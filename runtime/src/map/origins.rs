//! How the tokens of a timeline came into their cells, as run lengths.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The cell is shared with another slot.
    Shared,
    /// Imported from host memory.
    Memory,
    /// Imported from disk.
    Disk,
    /// Computed as part of a prompt.
    Computed,
    Generated,
}

impl Origin {
    pub const ALL: [Self; 5] =
        [Self::Shared, Self::Memory, Self::Disk, Self::Computed, Self::Generated];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Computed => "computed",
            Self::Generated => "generated",
        }
    }
}

/// One origin for each token of a timeline that grows at its end and is sometimes cut back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    // The end of each run, without gaps; neighbours differ.
    runs: Vec<(usize, Origin)>,
}

impl Origins {
    /// `count` tokens of one origin.
    pub fn of(count: usize, origin: Origin) -> Self {
        let mut origins = Self::default();
        origins.push(count, origin);
        origins
    }

    pub fn len(&self) -> usize {
        self.runs.last().map_or(0, |(end, _)| *end)
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn push(&mut self, count: usize, origin: Origin) {
        let end = self.len() + count;
        match self.runs.last_mut() {
            Some(last) if last.1 == origin => last.0 = end,
            _ if count > 0 => self.runs.push((end, origin)),
            _ => {}
        }
    }

    /// Appends the origins of another timeline.
    pub fn append(&mut self, more: &Self) {
        let start = self.len();
        for &(end, origin) in &more.runs {
            self.push(start + end - self.len(), origin);
        }
    }

    /// Replaces the origins of the tokens in `range`.
    pub fn replace(&mut self, range: Range<usize>, origins: &Self) {
        debug_assert_eq!(range.len(), origins.len());
        let mut replaced = self.part(0..range.start);
        replaced.append(origins);
        replaced.append(&self.part(range.end..self.len()));
        *self = replaced;
    }

    fn part(&self, range: Range<usize>) -> Self {
        let mut part = Self::default();
        let mut start = 0;
        for &(end, origin) in &self.runs {
            part.push(end.min(range.end).saturating_sub(start.max(range.start)), origin);
            start = end;
        }
        part
    }

    /// Keeps the first `len` tokens, or all when there are fewer.
    pub fn truncate(&mut self, len: usize) {
        let whole = self.runs.partition_point(|(end, _)| *end <= len);
        let kept = self.runs[..whole].last().map_or(0, |(end, _)| *end);
        self.runs.truncate(whole + usize::from(kept < len));
        if let Some(last) = self.runs.last_mut() {
            last.0 = last.0.min(len);
        }
    }

    pub fn count(&self, origin: Origin) -> usize {
        self.within(&(0..self.len()), origin)
    }

    /// The origin of most tokens of `range`; on a tie the later in [`Origin::ALL`].
    pub fn majority(&self, range: &Range<usize>) -> Origin {
        let most = Origin::ALL.into_iter().max_by_key(|&origin| self.within(range, origin));
        most.expect("there are origins")
    }

    /// The number of tokens of `range` with this origin.
    pub fn within(&self, range: &Range<usize>, origin: Origin) -> usize {
        let first = self.runs.partition_point(|(end, _)| *end <= range.start);
        let (mut start, mut count) = (range.start, 0);
        for &(end, of_run) in &self.runs[first..] {
            let end = end.min(range.end);
            count += if of_run == origin { end - start } else { 0 };
            start = end;
            if end == range.end {
                break;
            }
        }
        count
    }
}
