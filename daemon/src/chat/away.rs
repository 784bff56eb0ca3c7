//! Which parts of a conversation have no cells at the end of an answer: those away when its first token was
//! sampled, and those that have left or come back since.

use std::ops::Range;

use hob_api::turn::AwayPart;
use hob_runtime::turn::{Moved, Way};
use hob_slots::Layer;
use hob_slots::format::SegmentRef;

#[derive(Clone, Debug, Default)]
pub struct Away {
    /// `None` before the first token.
    ranges: Option<Vec<Range<usize>>>,
}

impl Away {
    /// The first token was sampled without these.
    pub fn begin(&mut self, ranges: Vec<Range<usize>>) {
        self.ranges = Some(ranges);
    }

    /// Adds a block that has moved.
    pub fn add(&mut self, moved: &Moved) {
        let Some(ranges) = &mut self.ranges else { return };
        *ranges = ranges.iter().flat_map(|range| without(range, &moved.range)).collect();
        if moved.way == Way::Out {
            ranges.push(moved.range.clone());
        }
    }

    /// In the order of the prompt. `segments`: of the prompt; the answer follows.
    pub fn to_api(&self, segments: &[SegmentRef]) -> Vec<AwayPart> {
        let ranges = self.ranges.as_deref().unwrap_or_default();
        let tokens = |part: Range<usize>| -> usize {
            let within =
                |it: &Range<usize>| it.end.min(part.end).saturating_sub(it.start.max(part.start));
            ranges.iter().map(within).sum()
        };
        let mut start = 0;
        let mut parts = Vec::new();
        for (segment, messages_behind) in segments.iter().zip(messages_behind(segments)) {
            let end = segment.end as usize;
            let tokens = tokens(std::mem::replace(&mut start, end)..end);
            parts.push(AwayPart { key: Some(segment.key.clone()), messages_behind, tokens });
        }
        parts.push(AwayPart { tokens: tokens(start..usize::MAX), ..AwayPart::default() });
        parts.retain(|part| part.tokens > 0);
        parts
    }
}

/// The parts of `range` that are not in `taken`.
fn without(range: &Range<usize>, taken: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let before = range.start..range.end.min(taken.start);
    let behind = range.start.max(taken.end)..range.end;
    [before, behind].into_iter().filter(|part| !part.is_empty())
}

/// How many messages of the prompt follow each segment that is one, or a document of one. A segment may
/// have several, where the template joins them: numbers tell it.
fn messages_behind(segments: &[SegmentRef]) -> Vec<Option<usize>> {
    let mut all = vec![None; segments.len()];
    let mut next: Option<(usize, Option<usize>)> = None;
    for (behind, segment) in all.iter_mut().zip(segments).rev() {
        match segment.layer {
            Layer::Document => *behind = next.map(|(behind, _)| behind),
            Layer::User | Layer::Assistant | Layer::Tool => {
                let number = segment.message_number();
                let since = |(behind, next): (usize, Option<usize>)| {
                    let apart = next.zip(number).map(|(next, this)| next.saturating_sub(this));
                    behind + apart.unwrap_or(1)
                };
                let count = next.map_or(0, since);
                (*behind, next) = (Some(count), Some((count, number)));
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use hob_runtime::turn::BackReason;

    use super::*;

    fn away_of(
        away: &Away,
        segments: &[SegmentRef],
    ) -> Vec<(Option<String>, Option<usize>, usize)> {
        let parts = away.to_api(segments).into_iter();
        parts.map(|part| (part.key, part.messages_behind, part.tokens)).collect()
    }

    #[test]
    fn what_was_away_at_the_first_token_left_or_came_back_since() {
        let segments = [(100, "message 1"), (200, "message 2"), (300, "message 3")];
        let segments = segments.map(|(end, key)| SegmentRef::new(end, Layer::User, key));
        let moved = |range, way| Moved { at: 400, range, way };
        let mut away = Away::default();
        away.add(&moved(100..200, Way::Out)); // Before the first token, which tells all.
        away.begin(vec![20..90, 110..130]);
        away.add(&moved(40..60, Way::Back(BackReason::Words)));
        away.add(&moved(250..320, Way::Out));
        away.add(&moved(110..130, Way::Back(BackReason::Room)));
        let key = |n: usize| Some(format!("message {n}"));
        assert_eq!(
            away_of(&away, &segments),
            [(key(1), Some(2), 50), (key(3), Some(0), 50), (None, None, 20)]
        );
    }

    #[test]
    fn messages_are_counted_from_the_end_whatever_stands_in_front_of_them() {
        let segment = |(at, (layer, key)): (usize, &(Layer, &str))| {
            SegmentRef::new(10 * (at as u32 + 1), *layer, *key)
        };
        let segments: Vec<SegmentRef> = [
            (Layer::Rules, "rules"),
            (Layer::User, "message 2"),
            (Layer::Document, "a file"),
            (Layer::User, "own"),
            (Layer::Assistant, "message 5"),
            (Layer::Tool, "message 6"), // Two results in one turn.
            (Layer::User, "message 8"),
        ]
        .iter()
        .enumerate()
        .map(segment)
        .collect();
        let expected = [None, Some(5), Some(4), Some(4), Some(3), Some(2), Some(0)];
        assert_eq!(messages_behind(&segments), expected);
    }
}
