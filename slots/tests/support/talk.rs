//! Conversations to save, and their expected content.
//!
//! The payload of an object is a function of its name, so every reader knows the expected bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::{
    BlockId, BlockRef, ConversationId, Lineage, Listing, ModelHash, Object, ObjectKind, Payload,
    SavedContents, SlotRecord, SnapshotRef, Store, StoreError, Timestamp, Token, TtlClass, View,
    ViewRun,
};

pub const MODEL: ModelHash = ModelHash([0xaa; 8]);

/// Short blocks: their length proves nothing.
pub const BLOCK: usize = 4;

/// A time at which no test's save is old: the files' own times are real.
pub fn start() -> Timestamp {
    std::time::SystemTime::now().into()
}

/// A conversation after a turn: its record and objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Talk {
    pub record: SlotRecord,
    pub objects: Vec<Object>,
}

/// The state of each conversation; `None`: absent.
pub type Readings = BTreeMap<ConversationId, Option<SlotRecord>>;

impl Talk {
    /// One block per word. Talks with the same first words share those blocks.
    pub fn new(name: &str, class: TtlClass, used_at: Timestamp, words: &[i32]) -> Self {
        Self::with_pure(name, class, used_at, words, words.len())
    }

    /// The words from word `pure` on, which is not the first, were computed while the first was away, and it
    /// still is.
    pub fn with_pure(
        name: &str,
        class: TtlClass,
        used_at: Timestamp,
        words: &[i32],
        pure: usize,
    ) -> Self {
        let objects = blocks(words, pure);
        let lineage = if pure < words.len() {
            let run = |words: usize, view| ViewRun { end: (words * BLOCK) as u32, view };
            let views = vec![run(pure, View::WHOLE), run(words.len(), view())];
            Lineage { views, away: vec![0..BLOCK as u32] }
        } else {
            Lineage::default()
        };
        let ends = (1..).map(|block| block * BLOCK as u32);
        let block = |(o, end): (&Object, u32)| BlockRef { end, id: o.id(), bytes: o.file_bytes() };
        let record = SlotRecord {
            created_at: Timestamp(1_000),
            turns: words.len() as u32,
            tokens: objects.iter().flat_map(|object| object.tokens.clone()).collect(),
            blocks: objects.iter().zip(ends).map(block).collect(),
            lineage,
            ..SlotRecord::empty(id(name), class, used_at)
        };
        Self { record, objects }
    }

    pub fn with_snapshot(mut self) -> Self {
        let parent = self.objects.last().map_or(BlockId::root(MODEL), Object::id);
        let position = self.record.tokens.len() as u32;
        let id = BlockId::snapshot(parent);
        let object = Object {
            kind: ObjectKind::Snapshot,
            model: MODEL,
            parent,
            start: position,
            tokens: Vec::new(),
            payload: payload(id),
        };
        self.record.snapshots.push(SnapshotRef { position, id, bytes: object.file_bytes() });
        self.objects.push(object);
        self
    }

    /// Objects first, the slot file last.
    pub fn save(&self, store: &Store) -> Result<(), StoreError> {
        for object in &self.objects {
            store.put_object(MODEL, object.id(), object)?;
        }
        store.put_slot(MODEL, &self.record).map(drop)
    }
}

pub fn id(name: &str) -> ConversationId {
    name.parse().expect("the tests' names are good ones")
}

pub fn later(then: Timestamp, minutes: u64) -> Timestamp {
    then.after(Duration::from_secs(60 * minutes))
}

/// Bytes of a payload that was rounded.
pub const ROUNDED_BYTES: usize = 160;

/// The expected bytes of an object, each twice, so that compression is worth it.
pub fn payload(id: BlockId) -> Payload {
    let bytes = id.0.iter().cycle().take(160).enumerate();
    bytes.flat_map(|(at, byte)| [byte.wrapping_add(at as u8 / 32), 7]).collect::<Vec<u8>>().into()
}

/// The current state of these conversations.
pub fn readings(store: &Store, names: &[ConversationId]) -> Readings {
    names.iter().map(|name| (name.clone(), store.get_slot(MODEL, name).ok())).collect()
}

/// The conversations of every model, with their objects.
pub fn contents(store: &Store) -> Result<Listing<SavedContents>, StoreError> {
    let mut all = Listing::default();
    for model in store.models()? {
        let Listing { slots, superseded, rejected } = store.contents(model)?;
        all.slots.extend(slots);
        all.superseded.extend(superseded);
        all.rejected.extend(rejected);
    }
    Ok(all)
}

/// Reads every object of `record`. Returns the missing ones; panics on a wrong one.
pub fn missing_objects(store: &Store, record: &SlotRecord) -> Vec<BlockId> {
    let blocks = record.blocks.iter().map(|block| (block.id, ObjectKind::Block));
    let snapshots = record.snapshots.iter().map(|snapshot| (snapshot.id, ObjectKind::Snapshot));
    let missing = |&(id, kind): &(BlockId, ObjectKind)| match store.get_object(MODEL, id, kind) {
        Ok(object) => {
            assert_eq!(object.id(), id, "an object is what its name says");
            if object.kind == ObjectKind::Lossy {
                assert_eq!(object.payload.len(), ROUNDED_BYTES, "{id}");
                return false;
            }
            assert_eq!(object.payload, payload(id), "a payload is the one that was saved");
            false
        }
        Err(_) => true,
    };
    blocks.chain(snapshots).filter(missing).map(|(id, _)| id).collect()
}

/// Of tokens that did not see the first block.
fn view() -> View {
    View::without([0..BLOCK])
}

fn blocks(words: &[i32], pure: usize) -> Vec<Object> {
    let mut before = BlockId::root(MODEL);
    let block = |(at, &word): (usize, &i32)| {
        let tokens = vec![Token(word); BLOCK];
        let parent = if at < pure { before } else { view().parent(before) };
        let id = BlockId::child(parent, &tokens);
        let object = Object {
            kind: ObjectKind::Block,
            model: MODEL,
            parent,
            start: (at * BLOCK) as u32,
            tokens,
            payload: payload(id),
        };
        before = id;
        object
    };
    words.iter().enumerate().map(block).collect()
}
