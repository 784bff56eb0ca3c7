//! The objects of one conversation.

use std::collections::HashMap;
use std::ops::Range;

use hob_slots::{BlockId, Miss, ModelHash, ObjectKind, SegmentRef, SlotRecord, StoreReader};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{line, size};
use crate::progress;

/// Hex digits that a table shows of an object's name.
const NAME_DIGITS: usize = 12;

pub struct Parts {
    pub blocks: Vec<Part>,
    pub snapshots: Vec<Part>,
    /// Objects of earlier branches.
    pub branches: Vec<Part>,
}

/// A block or a snapshot.
pub struct Part {
    pub id: BlockId,
    /// Positions in the timeline.
    pub tokens: Range<u32>,
    /// The part of the prompt at its first token.
    pub segment: Option<SegmentRef>,
    /// The length of the raw object.
    pub raw_bytes: u64,
    /// The length of its file; `None` when it is missing.
    pub stored_bytes: Option<u64>,
    /// Number of other conversations that reference it.
    pub shared_with: usize,
    /// The part's tokens had no cells when the conversation was saved.
    pub is_away: bool,
    /// The part's tokens, or some before them, were computed while others were away.
    pub is_impure: bool,
    /// A segment that it touches always stays in the cells.
    pub is_pinned: bool,
    /// The largest weight of the segments that it touches, as the engine has it.
    pub weight: u8,
    /// The damage that verifying found.
    pub damage: Option<String>,
}

impl Parts {
    /// Looks up every object; with `verify`, reads it.
    pub fn of(
        reader: &StoreReader,
        model: ModelHash,
        record: &SlotRecord,
        verify: bool,
        on_terminal: bool,
    ) -> Result<Self, Failure> {
        let mut references: HashMap<BlockId, usize> = HashMap::new();
        for slot in reader.contents(model)?.slots {
            if slot.entry.conversation != record.conversation {
                slot.objects.iter().for_each(|(id, _)| *references.entry(*id).or_default() += 1);
            }
        }
        let total = record.objects().map(|(_, bytes)| bytes).sum();
        let bar = progress::bytes(total, "verifying", verify && on_terminal);
        let part = |id, raw_bytes, tokens: Range<u32>, kind, segment| {
            let mut stored_bytes = reader.object_bytes(model, id);
            let mut damage = None;
            if verify {
                match reader.get_object(model, id, kind) {
                    Ok(_) => {}
                    Err(Miss::Absent) => stored_bytes = None,
                    Err(miss) => damage = Some(miss.to_string()),
                }
                bar.inc(raw_bytes);
            }
            let shared_with = references.get(&id).copied().unwrap_or_default();
            let (is_away, is_impure, is_pinned) = (false, false, false);
            Part {
                id,
                tokens,
                segment,
                raw_bytes,
                stored_bytes,
                shared_with,
                is_away,
                is_impure,
                is_pinned,
                weight: SegmentRef::DEFAULT_WEIGHT,
                damage,
            }
        };
        let pure = record.lineage.pure_tokens(record.tokens.len() as u32);
        let mut start = 0;
        let blocks = record.blocks.iter().map(|block| {
            let tokens = start..block.end;
            start = block.end;
            let segment = segment_at(&record.segments, tokens.start);
            let is_away = record.lineage.is_away(&tokens);
            let is_impure = tokens.end > pure;
            let touched = segments_of(&record.segments, &tokens);
            let is_pinned = touched.iter().any(|segment| segment.pinned);
            let weight = touched.iter().map(|segment| segment.weight).max();
            let weight = weight.unwrap_or(SegmentRef::DEFAULT_WEIGHT);
            let part = part(block.id, block.bytes, tokens, ObjectKind::Block, segment);
            Part { is_away, is_impure, is_pinned, weight, ..part }
        });
        let blocks = blocks.collect();
        let snapshots = record.snapshots.iter().map(|snapshot| {
            let tokens = 0..snapshot.position;
            let is_impure = tokens.end > pure;
            let part = part(snapshot.id, snapshot.bytes, tokens, ObjectKind::Snapshot, None);
            Part { is_impure, ..part }
        });
        let snapshots = snapshots.collect();
        let branches = record.branches.iter().map(|object| {
            let tokens = object.start..object.end;
            part(object.id, object.bytes, tokens, object.kind, None)
        });
        let branches = branches.collect();
        bar.finish_and_clear();
        Ok(Self { blocks, snapshots, branches })
    }

    fn all(&self) -> impl Iterator<Item = &Part> {
        self.blocks.iter().chain(&self.snapshots).chain(&self.branches)
    }

    /// Objects that exist and cannot be used.
    pub fn damaged(&self) -> impl Iterator<Item = (&Part, &str)> {
        self.all().filter_map(|part| Some((part, part.damage.as_deref()?)))
    }

    /// The number of missing objects.
    pub fn missing(&self) -> usize {
        self.all().filter(|part| part.stored_bytes.is_none()).count()
    }

    pub fn stored_bytes(&self) -> u64 {
        self.all().filter_map(|part| part.stored_bytes).sum()
    }
}

impl Part {
    /// Whether the part is away, impure, pinned or of another weight, in words; empty where it is none of these.
    pub fn state(&self) -> String {
        let words =
            [(self.is_away, "away"), (self.is_impure, "impure"), (self.is_pinned, "pinned")];
        let words = words.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word.to_owned());
        let weight = self.own_weight().map(|weight| format!("weight {weight}"));
        words.chain(weight).collect::<Vec<_>>().join(", ")
    }

    /// The weight of the part, where a request has set one.
    fn own_weight(&self) -> Option<u8> {
        Some(self.weight).filter(|weight| *weight != SegmentRef::DEFAULT_WEIGHT)
    }

    pub fn row(&self) -> Vec<String> {
        let Range { start, end } = self.tokens;
        let stored = match (&self.damage, self.stored_bytes) {
            (Some(_), _) => "damaged".to_owned(),
            (None, None) => "missing".to_owned(),
            (None, Some(bytes)) => size(bytes),
        };
        let segment = self.segment.as_ref().map_or("-".to_owned(), |segment| {
            line(&format!("{} {}", layer(segment), segment.key), 40)
        });
        let shared = match self.shared_with {
            0 => "no".to_owned(),
            others => format!("with {others}"),
        };
        let name = self.id.to_string()[..NAME_DIGITS].to_owned();
        let last = end.saturating_sub(1);
        vec![format!("{start}–{last}"), name, segment, size(self.raw_bytes), stored, shared]
    }

    /// `start` and `end` name the fields of its positions; an empty name leaves the field out.
    pub fn to_json(&self, start: &str, end: &str) -> Value {
        let mut value = json!({});
        if !start.is_empty() {
            value[start] = self.tokens.start.into();
        }
        value[end] = self.tokens.end.into();
        value["id"] = self.id.to_string().into();
        value["bytes"] = self.raw_bytes.into();
        value["stored_bytes"] = self.stored_bytes.into();
        value["compressed"] = self.stored_bytes.is_some_and(|bytes| bytes < self.raw_bytes).into();
        value["shared_with"] = self.shared_with.into();
        let states =
            [("away", self.is_away), ("impure", self.is_impure), ("pinned", self.is_pinned)];
        for (name, _) in states.into_iter().filter(|(_, is_so)| *is_so) {
            value[name] = true.into();
        }
        if let Some(weight) = self.own_weight() {
            value["weight"] = weight.into();
        }
        if let Some(segment) = &self.segment {
            value["layer"] = layer(segment).into();
            value["key"] = segment.key.as_str().into();
        }
        value
    }
}

/// The segments that the tokens touch; segments are contiguous from 0.
fn segments_of<'s>(segments: &'s [SegmentRef], tokens: &Range<u32>) -> &'s [SegmentRef] {
    let first = segments.partition_point(|segment| segment.end <= tokens.start);
    let rest = &segments[first..];
    // The last one reaches the end of the tokens.
    let count = rest.partition_point(|segment| segment.end < tokens.end) + 1;
    &rest[..count.min(rest.len())]
}

/// The first segment that ends behind the token.
fn segment_at(segments: &[SegmentRef], token: u32) -> Option<SegmentRef> {
    let at = segments.partition_point(|segment| segment.end <= token);
    segments.get(at).cloned()
}

fn layer(segment: &SegmentRef) -> String {
    match serde_json::to_value(segment.layer) {
        Ok(Value::String(layer)) => layer,
        other => unreachable!("a layer is written as a word, not as {other:?}"),
    }
}
