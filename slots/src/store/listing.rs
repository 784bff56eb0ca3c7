//! Lists the directory from the first bytes of each slot file.
//!
//! Several threads open the files: that takes longer than reading them.

use std::collections::{BTreeSet, HashMap};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use super::error::{Miss, Rejected, StoreError};
use super::files::{Kind, read_all, read_range};
use super::layout::parse_slot_name;
use super::rank::{Rank, rank};
use super::reader::StoreReader;
use super::write;
use crate::ageing::AdjustedTime;
use crate::format::{Seal, SlotHeader, SlotTable, check_length};
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::time::Timestamp;
use crate::ttl::{Lifetimes, TtlClass};

/// Enough for the header and table of most slot files.
const LIKELY_HEAD_BYTES: usize = 4096;

/// The minimum number of files of a thread.
const FILES_PER_THREAD: usize = 512;

/// Saved conversations, and files that cannot be used.
#[derive(Debug)]
pub struct Listing<T = SavedEntry> {
    pub slots: Vec<T>,
    /// Older files of listed conversations: a crash during a class change leaves two.
    pub superseded: Vec<T>,
    pub rejected: Vec<Rejected>,
}

/// A saved conversation, from the header of its slot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedEntry {
    pub model: ModelHash,
    pub conversation: ConversationId,
    pub class: TtlClass,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    pub turns: u32,
    pub tokens: u32,
    pub blocks: u32,
    pub snapshots: u32,
    /// Bytes of its raw objects, shared ones included.
    pub object_bytes: u64,
    pub file_bytes: u64,
    pub path: PathBuf,
}

impl SavedEntry {
    pub fn is_expired(&self, now: &AdjustedTime, lifetimes: &Lifetimes) -> bool {
        lifetimes.of(self.class).is_some_and(|lifetime| now.age(self.used_at) > lifetime)
    }

    fn rank(&self) -> Rank {
        rank(self.used_at, self.turns, self.class)
    }
}

/// A saved conversation and its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedContents {
    pub entry: SavedEntry,
    /// The lengths are those of raw files.
    pub objects: Vec<(BlockId, u64)>,
}

impl StoreReader {
    /// The saved conversations of `model`, in order.
    pub fn slots(&self, model: ModelHash) -> Result<Listing, StoreError> {
        self.list(model, |path, class| self.entry_of(path, class))
    }

    /// The saved conversations of every model.
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

    /// The saved conversations of `model` with their objects.
    pub fn contents(&self, model: ModelHash) -> Result<Listing<SavedContents>, StoreError> {
        self.list(model, |path, class| {
            let (head, file_bytes) = self.head(path)?;
            let table = SlotTable::decode(&head)?;
            let objects = table.objects().collect();
            Ok(SavedContents { entry: entry(table.header, class, file_bytes, path), objects })
        })
    }

    /// The entry of one conversation.
    pub fn slot(&self, model: ModelHash, conversation: &ConversationId) -> Option<SavedEntry> {
        let candidates = self.layout.slot_candidates(model, conversation).into_iter();
        let entries = candidates.filter_map(|(path, class)| {
            let entry = self.entry_of(&path, class).ok()?;
            (entry.model == model && entry.conversation == *conversation).then_some(entry)
        });
        entries.max_by_key(SavedEntry::rank)
    }

    /// The members of `conversations` that have a slot file under any model, also a rejected one; and the first
    /// directory that could not be listed, which does not hide the files in others. Opens no file, and lists two
    /// directories of each model.
    pub fn saved_among(
        &self,
        conversations: &[ConversationId],
    ) -> (BTreeSet<ConversationId>, Result<(), StoreError>) {
        let (mut saved, mut listed) = (BTreeSet::new(), Ok(()));
        let models = match self.models() {
            Ok(models) => models,
            Err(error) => return (saved, Err(error)),
        };
        let stems: HashMap<String, &ConversationId> =
            conversations.iter().map(|id| (self.layout.stem(id), id)).collect();
        let dirs = models
            .iter()
            .flat_map(|&model| [self.layout.model(model), self.layout.quarantine(model)]);
        for dir in dirs {
            match write::list(&*self.files, &dir) {
                Ok(entries) => {
                    let names = entries.iter().filter_map(|entry| entry.name.to_str());
                    let found = names.filter_map(|name| stems.get(parse_slot_name(name)?.0));
                    saved.extend(found.map(|&id| id.clone()));
                }
                Err(error) => listed = listed.and(Err(error)),
            }
        }
        (saved, listed)
    }

    pub(super) fn entry_of(&self, path: &Path, class: TtlClass) -> Result<SavedEntry, Miss> {
        let (head, file_bytes) = self.head(path)?;
        Ok(entry(SlotHeader::decode(&head)?, class, file_bytes, path))
    }

    /// `None`, the lowest rank, when the file cannot be read.
    pub(super) fn rank_of(&self, path: &Path) -> Option<Rank> {
        let (head, _) = self.head(path).ok()?;
        let header = SlotHeader::decode(&head).ok()?;
        let (_, class) = parse_slot_name(path.file_name()?.to_str()?)?;
        Some(rank(header.used_at, header.turns, class))
    }

    /// The header and table of a slot file, and the length of the file.
    fn head(&self, path: &Path) -> Result<(Vec<u8>, u64), Miss> {
        let file = self.files.open(path)?;
        let mut head = vec![0; LIKELY_HEAD_BYTES];
        let filled = read_range(&*file, &mut head, 0)?;
        head.truncate(filled);
        // The whole file was read: its length is known.
        let file_bytes =
            if filled < LIKELY_HEAD_BYTES { filled as u64 } else { file.facts()?.bytes };
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
                Err(Miss::Absent) => {}
                Err(miss) => listing.rejected.push(Rejected { path: path.clone(), miss }),
            }
        }
        // The newest file of a conversation first: it is the one that is read.
        listing.slots.sort_by(|a, b| {
            let (a, b) = (a.as_ref(), b.as_ref());
            a.conversation.cmp(&b.conversation).then_with(|| b.rank().cmp(&a.rank()))
        });
        let (newest, older) = newest_of_each(listing.slots);
        (listing.slots, listing.superseded) = (newest, older);
        listing.rejected.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// The files of `model` with the name of a slot file.
    pub(super) fn slot_files(&self, model: ModelHash) -> Result<Vec<PathBuf>, StoreError> {
        let dir = self.layout.model(model);
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

/// Splits the first of each run of one conversation from the others.
fn newest_of_each<T: AsRef<SavedEntry>>(slots: Vec<T>) -> (Vec<T>, Vec<T>) {
    let (mut first, mut others) = (Vec::<T>::with_capacity(slots.len()), Vec::new());
    for slot in slots {
        let is_same = |last: &T| last.as_ref().conversation == slot.as_ref().conversation;
        if first.last().is_some_and(is_same) { others.push(slot) } else { first.push(slot) }
    }
    (first, others)
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), superseded: Vec::new(), rejected: Vec::new() }
    }
}

/// Applies `act` to all items on several threads. Results are in order.
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
