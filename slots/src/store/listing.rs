//! What is in the directory, from the first bytes of each slot file.
//!
//! Many small files are read by several threads: what takes time is opening them.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use super::error::{Miss, Rejected, StoreError};
use super::files::{Kind, read_all, read_range};
use super::layout::parse_slot_name;
use super::reader::StoreReader;
use super::write;
use crate::ageing::AdjustedTime;
use crate::format::{Seal, SlotHeader, SlotTable, check_length};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::time::Timestamp;
use crate::ttl::{Lifetimes, TtlClass};

/// What a listing needs of most slot files is in their first bytes.
const LIKELY_HEAD_BYTES: usize = 4096;

/// Files that one thread reads at least.
const FILES_PER_THREAD: usize = 512;

/// Slot files, by conversation, and those that cannot be used.
#[derive(Debug)]
pub struct Listing<T = SavedEntry> {
    /// What is kept.
    pub slots: Vec<T>,
    /// Older files of conversations that are listed: a crash while a class changed leaves two.
    pub superseded: Vec<T>,
    /// What is there but cannot be used.
    pub rejected: Vec<Rejected>,
}

/// What is known of a conversation without reading its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedEntry {
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
    /// How many turns it has had.
    pub turns: u32,
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
    /// Where its slot file is.
    pub path: PathBuf,
}

impl SavedEntry {
    /// Whether its time is over.
    pub fn is_expired(&self, now: &AdjustedTime, lifetimes: &Lifetimes) -> bool {
        lifetimes.of(self.class).is_some_and(|lifetime| now.age(self.used_at) > lifetime)
    }

    fn rank(&self) -> Rank {
        rank(self.used_at, self.turns, self.class)
    }
}

/// A conversation and the objects that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedContents {
    /// What a listing tells.
    pub entry: SavedEntry,
    /// The names of its objects and the lengths of their files.
    pub objects: Vec<(BlockId, u64)>,
}

impl StoreReader {
    /// The conversations that are kept for `model`, in order.
    pub fn slots(&self, model: ModelHash) -> Result<Listing, StoreError> {
        self.list(model, |path, class| self.entry_of(path, class))
    }

    /// The conversations that are kept for any model, by model.
    pub fn all_conversations(&self) -> Result<Listing, StoreError> {
        let mut all = Listing::default();
        for model in self.models()? {
            let Listing { slots, superseded, rejected } = self.slots(model)?;
            all.slots.extend(slots);
            all.superseded.extend(superseded);
            all.rejected.extend(rejected);
        }
        Ok(all)
    }

    /// The conversations that are kept for `model` and what each is made of.
    pub fn contents(&self, model: ModelHash) -> Result<Listing<SavedContents>, StoreError> {
        self.list(model, |path, class| {
            let (head, file_bytes) = self.head(path)?;
            let table = SlotTable::decode(&head)?;
            let objects = table.objects().collect();
            Ok(SavedContents { entry: entry(table.header, class, file_bytes, path), objects })
        })
    }

    /// What the listing tells of one conversation.
    pub fn slot(&self, model: ModelHash, conversation: &ConversationId) -> Option<SavedEntry> {
        let candidates = self.layout.slot_candidates(model, conversation).into_iter();
        let entries = candidates.filter_map(|(path, class)| {
            let entry = self.entry_of(&path, class).ok()?;
            (entry.model == model && entry.conversation == *conversation).then_some(entry)
        });
        entries.max_by_key(SavedEntry::rank)
    }

    /// What a listing tells of one slot file.
    pub(super) fn entry_of(&self, path: &Path, class: TtlClass) -> Result<SavedEntry, Miss> {
        let (head, file_bytes) = self.head(path)?;
        Ok(entry(SlotHeader::decode(&head)?, class, file_bytes, path))
    }

    /// When a slot file was last used; `None`, which is before all times, when it cannot be read.
    pub(super) fn rank_of(&self, path: &Path) -> Option<Rank> {
        let (head, _) = self.head(path).ok()?;
        let header = SlotHeader::decode(&head).ok()?;
        let (_, class) = parse_slot_name(path.file_name()?.to_str()?)?;
        Some(rank(header.used_at, header.turns, class))
    }

    /// The first part of a slot file, its table included, and the length of the file.
    fn head(&self, path: &Path) -> Result<(Vec<u8>, u64), Miss> {
        let file = self.files.open(path)?;
        let mut head = vec![0; LIKELY_HEAD_BYTES];
        let filled = read_range(&*file, &mut head, 0)?;
        head.truncate(filled);
        // A file that ends here tells its length itself.
        let file_bytes = match filled < LIKELY_HEAD_BYTES {
            true => filled as u64,
            false => file.facts()?.bytes,
        };
        if Seal::is_sealed(&head) || self.layout.seal.is_some() {
            head = self.read(path)?;
            check_length(SlotHeader::decode(&head)?.file_bytes(), head.len() as u64)?;
            return Ok((head, file_bytes));
        }
        let header = SlotHeader::decode(&head)?;
        check_length(header.file_bytes(), file_bytes)?;
        if header.head_bytes() > head.len() as u64 {
            head = read_all(&*file, header.head_bytes())?;
        }
        Ok((head, file_bytes))
    }

    fn list<T: AsRef<SavedEntry> + Send>(
        &self,
        model: ModelHash,
        read: impl Fn(&Path, TtlClass) -> Result<T, Miss> + Sync,
    ) -> Result<Listing<T>, StoreError> {
        let files = self.slot_files(model)?;
        let read_one = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            let (stem, class) = name.and_then(parse_slot_name).expect("slot files are named so");
            read(path, class).and_then(|slot| self.belongs(slot, model, stem))
        };
        let mut listing = Listing::<T>::default();
        for (path, found) in files.iter().zip(in_parallel(&files, read_one)) {
            match found {
                Ok(slot) => listing.slots.push(slot),
                // Removed since the directory was read.
                Err(Miss::Absent) => {}
                Err(miss) => listing.rejected.push(Rejected { path: path.clone(), miss }),
            }
        }
        // The newest first among those of one conversation: only that one is read back.
        listing.slots.sort_by(|a, b| {
            let (a, b) = (a.as_ref(), b.as_ref());
            a.conversation.cmp(&b.conversation).then_with(|| b.rank().cmp(&a.rank()))
        });
        let (newest, older) = newest_of_each(listing.slots);
        (listing.slots, listing.superseded) = (newest, older);
        listing.rejected.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// The files of `model` that are named as slot files are.
    pub(super) fn slot_files(&self, model: ModelHash) -> Result<Vec<PathBuf>, StoreError> {
        let dir = self.layout.model(model);
        // A model that never saved has no directory.
        let entries = write::list(&*self.files, &dir)?.into_iter();
        let named = entries.filter(|entry| {
            entry.kind == Kind::File && entry.name.to_str().and_then(parse_slot_name).is_some()
        });
        Ok(named.map(|entry| dir.join(entry.name)).collect())
    }

    pub(super) fn belongs<T: AsRef<SavedEntry>>(
        &self,
        slot: T,
        model: ModelHash,
        stem: &str,
    ) -> Result<T, Miss> {
        let entry = slot.as_ref();
        if entry.model != model {
            return Err(Miss::OtherModel { expected: model, found: entry.model });
        }
        if self.layout.stem(&entry.conversation) != stem {
            return Err(Miss::Misnamed { found: format!("conversation {}", entry.conversation) });
        }
        Ok(slot)
    }
}

/// The first of each run of equal conversations, and the others.
fn newest_of_each<T: AsRef<SavedEntry>>(slots: Vec<T>) -> (Vec<T>, Vec<T>) {
    let (mut first, mut others) = (Vec::<T>::with_capacity(slots.len()), Vec::new());
    for slot in slots {
        let is_same = |last: &T| last.as_ref().conversation == slot.as_ref().conversation;
        match first.last().is_some_and(is_same) {
            true => others.push(slot),
            false => first.push(slot),
        }
    }
    (first, others)
}

/// Of two files of one conversation, the one with the higher rank is read back.
pub type Rank = (Timestamp, u32, TtlClass);

/// The newest; of those that were used at the same moment, the one with more turns, then the one
/// that lives longer.
pub fn rank(used_at: Timestamp, turns: u32, class: TtlClass) -> Rank {
    (used_at, turns, class)
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), superseded: Vec::new(), rejected: Vec::new() }
    }
}

/// What `act` says of each, in order, found by as many threads as are worth starting.
pub(super) fn in_parallel<I: Sync, T: Send>(items: &[I], act: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(items.len() / FILES_PER_THREAD).max(1);
    if threads == 1 {
        return items.iter().map(act).collect();
    }
    let act = &act;
    std::thread::scope(|scope| {
        let shares = items.chunks(items.len().div_ceil(threads));
        let started: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().map(act).collect::<Vec<T>>()))
            .collect();
        let joined = started.into_iter().map(|thread| thread.join());
        joined.flat_map(|found| found.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

impl AsRef<Self> for SavedEntry {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<SavedEntry> for SavedContents {
    fn as_ref(&self) -> &SavedEntry {
        &self.entry
    }
}

fn entry(header: SlotHeader, class: TtlClass, file_bytes: u64, path: &Path) -> SavedEntry {
    SavedEntry {
        file_bytes,
        path: path.to_owned(),
        model: header.model,
        conversation: header.conversation,
        class,
        created_at: header.created_at,
        used_at: header.used_at,
        turns: header.turns,
        tokens: header.tokens,
        blocks: header.blocks,
        snapshots: header.snapshots,
        object_bytes: header.object_bytes,
    }
}
