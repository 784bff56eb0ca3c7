//! What moved during a turn, and in speculations before it: parts of its conversation that left the cells,
//! or came back.
//!
//! - Blocks of one segment that are adjacent, and moved the same way for the same reason, are one part.
//! - A block that left and is back is none.

use std::ops::Range;

use hob_api::turn::MovedPart;
use hob_runtime::turn::{BackReason, Moved, Way};
use hob_slots::format::SegmentRef;

#[derive(Clone, Debug, Default)]
pub struct Moves {
    /// Segments of the prompt.
    segments: Vec<SegmentRef>,
    blocks: Vec<Moved>,
}

struct Part {
    /// The number of its segment; that behind the last one is the answer.
    segment: usize,
    range: Range<usize>,
    way: Way,
}

impl Moves {
    pub fn of(segments: Vec<SegmentRef>) -> Self {
        Self { segments, blocks: Vec::new() }
    }

    pub fn segments(&self) -> &[SegmentRef] {
        &self.segments
    }

    /// Adds a block that has moved.
    pub fn add(&mut self, moved: Moved) {
        let has_left = |it: &Moved| it.way == Way::Out && it.range == moved.range;
        match self.blocks.iter().position(has_left) {
            Some(left) if moved.way != Way::Out => drop(self.blocks.remove(left)),
            _ => self.blocks.push(moved),
        }
    }

    /// Adds what had moved before the turn began.
    pub fn add_earlier(&mut self, earlier: Vec<Moved>) {
        let later = std::mem::replace(&mut self.blocks, earlier);
        later.into_iter().for_each(|moved| self.add(moved));
    }

    /// In the order in which the first block of each moved.
    pub fn to_api(&self) -> Vec<MovedPart> {
        let mut parts: Vec<Part> = Vec::new();
        for Moved { range, way, .. } in &self.blocks {
            let segment = self.segments.partition_point(|it| it.end as usize <= range.start);
            let adjacent = |part: &&mut Part| {
                let is_beside = part.range.end == range.start || part.range.start == range.end;
                part.segment == segment && part.way == *way && is_beside
            };
            match parts.iter_mut().rev().find(adjacent) {
                Some(part) => {
                    part.range = part.range.start.min(range.start)..part.range.end.max(range.end);
                }
                None => parts.push(Part { segment, range: range.clone(), way: *way }),
            }
        }
        let part = |part: &Part| {
            let (way, why) = words(part.way);
            MovedPart {
                key: self.segments.get(part.segment).map(|segment| segment.key.clone()),
                tokens: part.range.len(),
                way: way.into(),
                why: why.into(),
            }
        };
        parts.iter().map(part).collect()
    }
}

/// The way, and why.
fn words(way: Way) -> (&'static str, &'static str) {
    match way {
        Way::Out => ("out", "budget"),
        Way::Back(why) => (
            "back",
            match why {
                BackReason::Room => "room",
                BackReason::Stays => "stays",
                BackReason::Mention => "mention",
                BackReason::Words => "words",
                BackReason::Meaning => "meaning",
                BackReason::Group => "group",
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::Layer;

    use super::*;

    fn moved(range: Range<usize>, way: Way) -> Moved {
        Moved { at: 500, range, way }
    }

    #[test]
    fn adjacent_blocks_of_one_segment_are_one_part() {
        let segments = [(100, "a.rs"), (300, "b.rs")];
        let segments = segments.map(|(end, key)| SegmentRef::new(end, Layer::User, key));
        let mut moves = Moves::of(segments.into());
        let words = Way::Back(BackReason::Words);
        for (range, way) in [
            (36..100, Way::Out),
            (0..36, Way::Out),
            (100..164, Way::Out),
            (228..292, Way::Out),
            (164..200, words),
            (200..228, Way::Back(BackReason::Stays)),
            (300..364, Way::Out),
        ] {
            moves.add(moved(range, way));
        }
        let expected = [
            (Some("a.rs"), 100, "out", "budget"),
            (Some("b.rs"), 64, "out", "budget"),
            (Some("b.rs"), 64, "out", "budget"),
            (Some("b.rs"), 36, "back", "words"),
            (Some("b.rs"), 28, "back", "stays"),
            (None, 64, "out", "budget"),
        ];
        assert_eq!(
            parts(&moves),
            expected.map(|(key, tokens, way, why)| part(key, tokens, way, why))
        );
    }

    #[test]
    fn a_block_that_left_and_is_back_has_not_moved() {
        let words = Way::Back(BackReason::Words);
        let mut moves = Moves::of(vec![SegmentRef::new(300, Layer::User, "a.rs")]);
        moves.add(moved(0..64, words));
        moves.add(moved(64..128, words));
        moves.add(moved(64..128, Way::Out));
        // Before this turn, a speculation let one leave.
        moves.add_earlier(vec![moved(0..64, Way::Out), moved(200..264, words)]);
        let expected = [(64, "back", "words"), (64, "back", "words"), (64, "out", "budget")];
        let expected = expected.map(|(tokens, way, why)| part(Some("a.rs"), tokens, way, why));
        assert_eq!(parts(&moves), expected, "what came back and left again was of use between");
    }

    type PartRow = (Option<String>, usize, String, String);

    fn part(key: Option<&str>, tokens: usize, way: &str, why: &str) -> PartRow {
        (key.map(str::to_owned), tokens, way.to_owned(), why.to_owned())
    }

    fn parts(moves: &Moves) -> Vec<PartRow> {
        let row = |it: MovedPart| (it.key, it.tokens, it.way.into_owned(), it.why.into_owned());
        moves.to_api().into_iter().map(row).collect()
    }
}
