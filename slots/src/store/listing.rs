//! What is in the directory, from the first bytes of each slot file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::error::{Miss, Rejected, StoreError, io_error};
use super::layout::parse_slot_name;
use super::reader::StoreReader;
use crate::format::{SlotHeader, SlotRecord, check_length};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::time::Timestamp;
use crate::ttl::TtlClass;

/// Slot files, by conversation, and those that cannot be used.
#[derive(Debug)]
pub struct Listing<T = SlotEntry> {
    /// What is kept.
    pub slots: Vec<T>,
    /// What is there but cannot be used.
    pub rejected: Vec<Rejected>,
}

/// What is known of a conversation without reading its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotEntry {
    /// The model that its objects belong to.
    pub model: ModelHash,
    /// Whose it is.
    pub conversation: ConversationId,
    /// How long it deserves its disk space.
    pub class: TtlClass,
    /// When it was first saved.
    pub created_at: Timestamp,
    /// When it was last used.
    pub used_at: Timestamp,
    /// How long its timeline is.
    pub tokens: u32,
    /// How many blocks are kept.
    pub blocks: u32,
    /// How many snapshots are kept.
    pub snapshots: u32,
    /// The length of its objects' files, those that it shares with others included.
    pub object_bytes: u64,
    /// The length of its slot file.
    pub file_bytes: u64,
}

impl SlotEntry {
    /// Whether its time is over at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.class.lifetime().is_some_and(|lifetime| self.used_at.age(now) > lifetime)
    }
}

/// A conversation and the objects that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotContents {
    /// What a listing tells.
    pub entry: SlotEntry,
    /// The names of its objects and the lengths of their files.
    pub objects: Vec<(BlockId, u64)>,
}

impl StoreReader {
    /// The conversations that are kept for `model`, in order.
    pub fn slots(&self, model: ModelHash) -> Result<Listing, StoreError> {
        self.list(model, |path, class| {
            let mut head = Vec::with_capacity(SlotHeader::MAX_BYTES);
            let file = File::open(path)?;
            let file_bytes = file.metadata()?.len();
            file.take(SlotHeader::MAX_BYTES as u64).read_to_end(&mut head)?;
            let header = SlotHeader::decode(&head)?;
            check_length(header.file_bytes(), file_bytes)?;
            Ok(entry(header, class))
        })
    }

    /// The conversations that are kept for any model, by model.
    pub fn all_slots(&self) -> Result<Listing, StoreError> {
        self.of_all_models(Self::slots)
    }

    /// The conversations that are kept for `model` and what each is made of. Reads every slot file
    /// whole.
    pub fn contents(&self, model: ModelHash) -> Result<Listing<SlotContents>, StoreError> {
        self.list(model, |path, class| {
            let file = fs::read(path)?;
            let (_, record) = SlotRecord::decode(&file)?;
            let entry = entry(SlotHeader::decode(&file)?, class);
            Ok(SlotContents { entry, objects: record.objects().collect() })
        })
    }

    /// The conversations that are kept for any model and what each is made of, by model.
    pub fn all_contents(&self) -> Result<Listing<SlotContents>, StoreError> {
        self.of_all_models(Self::contents)
    }

    fn of_all_models<T>(
        &self,
        list: impl Fn(&Self, ModelHash) -> Result<Listing<T>, StoreError>,
    ) -> Result<Listing<T>, StoreError> {
        let mut all = Listing { slots: Vec::new(), rejected: Vec::new() };
        for model in self.models()? {
            let Listing { slots, rejected } = list(self, model)?;
            all.slots.extend(slots);
            all.rejected.extend(rejected);
        }
        Ok(all)
    }

    fn list<T: AsRef<SlotEntry>>(
        &self,
        model: ModelHash,
        read: impl Fn(&Path, TtlClass) -> Result<T, Miss>,
    ) -> Result<Listing<T>, StoreError> {
        let dir = self.layout.model(model);
        let mut listing = Listing { slots: Vec::<T>::new(), rejected: Vec::new() };
        let files = match fs::read_dir(&dir) {
            // A model that never saved has no directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            files => files.map_err(io_error("read", &dir))?,
        };
        for file in files {
            let path = file.map_err(io_error("read", &dir))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some((stem, class)) = name.and_then(parse_slot_name) else { continue };
            match read(&path, class).and_then(|slot| belongs(slot, model, stem)) {
                Ok(slot) => listing.slots.push(slot),
                // Removed since the directory was read.
                Err(Miss::Absent) => {}
                Err(miss) => listing.rejected.push(Rejected { path, miss }),
            }
        }
        // The newest first among those of one conversation: a crash while its class changed leaves
        // two, and only that one is read back.
        let by_use = |slot: &T| std::cmp::Reverse(slot.as_ref().used_at);
        listing.slots.sort_by_key(by_use);
        listing.slots.sort_by(|a, b| a.as_ref().conversation.cmp(&b.as_ref().conversation));
        listing.slots.dedup_by(|a, b| a.as_ref().conversation == b.as_ref().conversation);
        listing.rejected.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }
}

impl AsRef<Self> for SlotEntry {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<SlotEntry> for SlotContents {
    fn as_ref(&self) -> &SlotEntry {
        &self.entry
    }
}

fn entry(header: SlotHeader, class: TtlClass) -> SlotEntry {
    SlotEntry {
        file_bytes: header.file_bytes(),
        model: header.model,
        conversation: header.conversation,
        class,
        created_at: header.created_at,
        used_at: header.used_at,
        tokens: header.tokens,
        blocks: header.blocks,
        snapshots: header.snapshots,
        object_bytes: header.object_bytes,
    }
}

fn belongs<T: AsRef<SlotEntry>>(slot: T, model: ModelHash, stem: &str) -> Result<T, Miss> {
    let entry = slot.as_ref();
    if entry.model != model {
        return Err(Miss::OtherModel { expected: model, found: entry.model });
    }
    if entry.conversation.file_stem() != stem {
        return Err(Miss::Misnamed { found: format!("conversation {}", entry.conversation) });
    }
    Ok(slot)
}
