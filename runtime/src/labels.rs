//! What the labels of a prompt's segments say of its blocks.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use hob_slots::Layer;
use hob_slots::away::{BlockFacts, label_stays};
use hob_slots::format::SegmentRef;

/// What the segments say of ranges, asked in ascending order.
pub(crate) struct Labels<'s> {
    segments: &'s [SegmentRef],
    groups: Vec<u64>,
    /// The first segment that the next range may touch.
    first: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct Label {
    pub layer: Layer,
    pub weight: u8,
    pub pinned: bool,
    pub group: u64,
}

impl Label {
    pub fn stays(&self) -> bool {
        label_stays(self.layer, self.pinned)
    }
}

impl<'s> Labels<'s> {
    pub fn new(segments: &'s [SegmentRef]) -> Self {
        Self { segments, groups: groups(segments), first: 0 }
    }

    pub fn of(&mut self, range: &Range<usize>) -> Label {
        while self.segments.get(self.first).is_some_and(|it| it.end as usize <= range.start) {
            self.first += 1;
        }
        // What no segment covers is the answer.
        let answer = Label {
            layer: Layer::Assistant,
            weight: BlockFacts::DEFAULT_WEIGHT,
            pinned: false,
            group: 0,
        };
        let (mut label, mut start): (Option<Label>, _) = (None, range.start);
        for (at, segment) in self.segments.iter().enumerate().skip(self.first) {
            if start >= range.end {
                break;
            }
            let SegmentRef { layer, weight, pinned, .. } = *segment;
            let group = self.groups[at];
            label = Some(label.map_or(Label { layer, weight, pinned, group }, |label| Label {
                layer: label.layer.min(layer),
                weight: label.weight.max(weight),
                pinned: label.pinned || pinned,
                group: if label.group == 0 { group } else { label.group },
            }));
            start = segment.end as usize;
        }
        label.unwrap_or(answer)
    }
}

/// The group of each segment: those with one key, a call and its results; 0 for none.
fn groups(segments: &[SegmentRef]) -> Vec<u64> {
    let mut groups: Vec<u64> = segments.iter().map(of_key).collect();
    let mut call = 0;
    for (at, segment) in segments.iter().enumerate() {
        let before = at.checked_sub(1).filter(|_| segment.layer == Layer::Tool);
        match before.map(|before| (before, segments[before].layer)) {
            Some((_, Layer::Tool)) => {}
            Some((before, Layer::Assistant)) => {
                if groups[before] == 0 {
                    groups[before] = hash(&("call", before));
                }
                call = groups[before];
            }
            _ => call = 0,
        }
        if groups[at] == 0 {
            groups[at] = call;
        }
    }
    groups
}

/// Files and parts of them have keys of their own. Numbered messages have none.
fn of_key(segment: &SegmentRef) -> u64 {
    let is_numbered = segment.layer != Layer::Document && segment.message_number().is_some();
    if is_numbered { 0 } else { hash(&segment.key) }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups_of(segments: &[(Layer, &str)]) -> Vec<u64> {
        let segments = segments.iter().zip(1_u32..);
        let segments = segments.map(|(&(layer, key), at)| SegmentRef::new(64 * at, layer, key));
        let segments: Vec<SegmentRef> = segments.collect();
        let mut labels = Labels::new(&segments);
        (0..segments.len()).map(|at| labels.of(&(64 * at..64 * (at + 1))).group).collect()
    }

    #[test]
    fn messages_with_one_key_are_a_group_whoever_says_them() {
        let groups = groups_of(&[
            (Layer::User, "a.rs"),
            (Layer::Assistant, "message 2"),
            (Layer::User, "b.rs"),
            (Layer::Assistant, "a.rs"),
            (Layer::Document, "a.rs"),
            (Layer::User, "message 6"),
        ]);
        let [first, second, other, third, document, last] = groups[..] else { unreachable!() };
        assert!(first != 0 && other != 0 && first != other, "{groups:?}");
        assert_eq!([third, document], [first, first]);
        assert_eq!([second, last], [0, 0], "a numbered message is none");
    }

    #[test]
    fn a_call_and_its_results_are_a_group_where_they_have_no_keys() {
        let groups = groups_of(&[
            (Layer::User, "message 1"),
            (Layer::Assistant, "message 2"),
            (Layer::Tool, "message 3"),
            (Layer::Tool, "a.rs"),
            (Layer::Tool, "message 5"),
            (Layer::User, "a.rs"),
            (Layer::Tool, "message 7"),
        ]);
        let call = groups[1];
        assert!(call != 0 && groups[3] != call, "{groups:?}");
        assert_eq!(groups, [0, call, call, groups[3], call, groups[3], 0]);
    }
}
