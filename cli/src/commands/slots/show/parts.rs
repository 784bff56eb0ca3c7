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
    /// Its tokens had no cells when the conversation was saved.
    pub is_away: bool,
    /// Its tokens, or some before them, were computed while others were away.
    pub is_impure: bool,
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
            let (is_away, is_impure) = (false, false);
            Part {
                id,
                tokens,
                segment,
                raw_bytes,
                stored_bytes,
                shared_with,
                is_away,
                is_impure,
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
            let part = part(block.id, block.bytes, tokens, ObjectKind::Block, segment);
            Part { is_away, is_impure, ..part }
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
    /// Whether it is away or impure, in words; empty where it is neither.
    pub fn state(&self) -> &'static str {
        match (self.is_away, self.is_impure) {
            (false, false) => "",
            (true, false) => "away",
            (false, true) => "impure",
            (true, true) => "away, impure",
        }
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
        for (name, is_so) in [("away", self.is_away), ("impure", self.is_impure)] {
            if is_so {
                value[name] = true.into();
            }
        }
        if let Some(segment) = &self.segment {
            value["layer"] = layer(segment).into();
            value["key"] = segment.key.as_str().into();
        }
        value
    }
}

/// The first segment that ends behind the token; segments are contiguous from 0.
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
