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

/// The group of each segment: the parts of a document, a call and its results; 0 for none.
fn groups(segments: &[SegmentRef]) -> Vec<u64> {
    let mut groups: Vec<u64> = Vec::with_capacity(segments.len());
    for (at, segment) in segments.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| (segments[before].layer, before));
        let group = match (segment.layer, before) {
            (Layer::Document, _) => hash(&segment.key),
            (Layer::Tool, Some((Layer::Tool, before))) => groups[before],
            (Layer::Tool, Some((Layer::Assistant, call))) => {
                groups[call] = hash(&("call", call));
                groups[call]
            }
            _ => 0,
        };
        groups.push(group);
    }
    groups
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}
