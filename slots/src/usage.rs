//! Which bytes each conversation of a listing needs, and what removing some of them frees.
//!
//! - Bytes are a conversation's *own* when no other conversation of its model needs them, else
//!   *shared*.
//! - Removing one conversation frees its own bytes; removing all that share an object frees the
//!   object too, so freed bytes are counted for the whole choice.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::id::{BlockId, ModelHash};
use crate::store::{SavedContents, SavedEntry};

/// A saved conversation and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedUsage {
    pub entry: SavedEntry,
    /// The slot file and the objects that only this conversation references.
    pub own_bytes: u64,
    /// Objects that other conversations reference too.
    pub shared_bytes: u64,
}

/// What removing some conversations frees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub slots: Vec<SavedEntry>,
    /// Objects that no other conversation references, and the lengths of their raw files.
    pub freed_objects: Vec<(ModelHash, BlockId, u64)>,
    /// Bytes of those objects and of the slot files.
    pub freed_bytes: u64,
}

pub fn usage(slots: &[SavedContents]) -> Vec<SavedUsage> {
    let needs = needs_of(slots.iter());
    let usage = |slot: &SavedContents| {
        let (mut own_bytes, mut shared_bytes) = (slot.entry.file_bytes, 0);
        for (object, bytes) in objects_of(slot) {
            match needs[&object] {
                1 => own_bytes += bytes,
                _ => shared_bytes += bytes,
            }
        }
        SavedUsage { entry: slot.entry.clone(), own_bytes, shared_bytes }
    };
    slots.iter().map(usage).collect()
}

/// Bytes of all slot files and of the raw objects that they reference, each once.
pub fn total_bytes(slots: &[SavedContents]) -> u64 {
    let mut seen: HashSet<Object, ById> = HashSet::default();
    let files: u64 = slots.iter().map(|slot| slot.entry.file_bytes).sum();
    let objects = slots
        .iter()
        .flat_map(|slot| slot.objects.iter().map(|&(id, bytes)| ((slot.entry.model, id), bytes)));
    objects.fold(files, |sum, (object, bytes)| sum + if seen.insert(object) { bytes } else { 0 })
}

/// What removing the conversations frees for which `chooses` is true.
pub fn choose(slots: &[SavedContents], chooses: impl Fn(&SavedContents) -> bool) -> Choice {
    let (chosen, kept): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| chooses(slot));
    let needed = needs_of(kept.into_iter());
    let mut seen: HashSet<Object, ById> = HashSet::default();
    let mut choice = Choice::default();
    for slot in chosen {
        choice.freed_bytes += slot.entry.file_bytes;
        for (object, bytes) in objects_of(slot) {
            if !needed.contains_key(&object) && seen.insert(object) {
                choice.freed_bytes += bytes;
                choice.freed_objects.push((object.0, object.1, bytes));
            }
        }
        choice.slots.push(slot.entry.clone());
    }
    choice
}

/// Objects of different models never share a file.
type Object = (ModelHash, BlockId);

/// Each object once, even if a slot file references it twice.
fn objects_of(slot: &SavedContents) -> Vec<(Object, u64)> {
    let mut objects: Vec<_> =
        slot.objects.iter().map(|&(id, bytes)| ((slot.entry.model, id), bytes)).collect();
    objects.sort_unstable();
    objects.dedup_by_key(|(object, _)| *object);
    objects
}

fn needs_of<'s>(slots: impl Iterator<Item = &'s SavedContents>) -> HashMap<Object, u32, ById> {
    let mut needs = HashMap::default();
    for (object, _) in slots.flat_map(objects_of) {
        *needs.entry(object).or_default() += 1;
    }
    needs
}

/// Names are hashes: their first bytes hash well enough.
#[derive(Default)]
struct NameHasher(u64);

type ById = BuildHasherDefault<NameHasher>;

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 ^= u64::from_le_bytes(*first);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::maintenance::Prune;
    use crate::time::Timestamp;
    use crate::ttl::{Lifetimes, TtlClass};

    const MODEL: ModelHash = ModelHash([1; 8]);
    const OTHER_MODEL: ModelHash = ModelHash([2; 8]);
    const NOW: Timestamp = Timestamp(100 * 3_600_000);

    #[test]
    fn bytes_that_two_conversations_need_are_shared_by_both() {
        let slots =
            [slot("a").needs([(1, 100), (2, 20)]).done(), slot("b").needs([(1, 100)]).done()];
        let usage = usage(&slots);
        assert_eq!((usage[0].own_bytes, usage[0].shared_bytes), (20 + 7, 100));
        assert_eq!((usage[1].own_bytes, usage[1].shared_bytes), (7, 100));
    }

    #[test]
    fn models_share_nothing() {
        let slots = [
            slot("a").needs([(1, 100)]).done(),
            slot("a").of(OTHER_MODEL).needs([(1, 100)]).done(),
        ];
        assert!(usage(&slots).iter().all(|usage| usage.shared_bytes == 0));
    }

    #[test]
    fn an_empty_selection_chooses_nothing() {
        let slots = [slot("a").unused_for_hours(90).done()];
        assert_eq!(chosen_by(&Prune::default(), &slots, NOW), Choice::default());
    }

    #[test]
    fn removing_one_of_two_that_share_frees_only_its_own() {
        let slots =
            [slot("a").needs([(1, 100), (2, 20)]).done(), slot("b").needs([(1, 100)]).done()];
        let only_a = Prune { conversation: Some("a".parse().unwrap()), ..Prune::default() };
        let choice = chosen_by(&only_a, &slots, NOW);
        assert_eq!(names(&choice), ["a"]);
        assert_eq!((choice.freed_objects.len(), choice.freed_bytes), (1, 20 + 7));
    }

    #[test]
    fn removing_both_frees_what_they_shared_once() {
        let slots =
            [slot("a").needs([(1, 100), (2, 20)]).done(), slot("b").needs([(1, 100)]).done()];
        let all = Prune { fingerprint: Some(MODEL), ..Prune::default() };
        let choice = chosen_by(&all, &slots, NOW);
        assert_eq!((choice.freed_objects.len(), choice.freed_bytes), (2, 120 + 2 * 7));
        assert_eq!(total_bytes(&slots), choice.freed_bytes);
    }

    #[test]
    fn each_criterion_narrows_the_choice() {
        let slots = [
            slot("young").done(),
            slot("old").unused_for_hours(50).done(),
            slot("old-kept").unused_for_hours(50).class(TtlClass::Permanent).done(),
            slot("old-large").unused_for_hours(50).needs([(1, 5_000)]).done(),
            slot("old-elsewhere").unused_for_hours(50).of(OTHER_MODEL).done(),
        ];
        let chosen = |selection: &Prune| names(&chosen_by(selection, &slots, NOW));

        let mut selection = Prune { older_than_secs: Some(49 * 3_600), ..Prune::default() };
        assert_eq!(chosen(&selection), ["old", "old-kept", "old-large", "old-elsewhere"]);
        selection.expired = true;
        assert_eq!(chosen(&selection), ["old", "old-large", "old-elsewhere"]);
        selection.fingerprint = Some(MODEL);
        assert_eq!(chosen(&selection), ["old", "old-large"]);
        selection.larger_than = Some(1_000);
        assert_eq!(chosen(&selection), ["old-large"]);
        selection.class = Some(TtlClass::Short);
        assert!(chosen(&selection).is_empty());
    }

    #[test]
    fn a_clock_that_stepped_back_chooses_nothing_by_age() {
        let slots = [slot("a").done()];
        let old = Prune { older_than_secs: Some(0), ..Prune::default() };
        assert!(chosen_by(&old, &slots, Timestamp(0)).slots.is_empty());
    }

    fn chosen_by(selection: &Prune, slots: &[SavedContents], now: Timestamp) -> Choice {
        let (now, lifetimes) = (now.into(), Lifetimes::default());
        choose(slots, |slot| selection.selects(slot, &now, &lifetimes))
    }

    fn names(choice: &Choice) -> Vec<String> {
        choice.slots.iter().map(|entry| entry.conversation.to_string()).collect()
    }

    struct Slot(SavedContents);

    /// A conversation that was just used, with a slot file of 7 bytes.
    fn slot(name: &str) -> Slot {
        let entry = SavedEntry {
            model: MODEL,
            conversation: name.parse().unwrap(),
            class: TtlClass::Long,
            created_at: Timestamp(0),
            used_at: NOW,
            turns: 1,
            tokens: 0,
            blocks: 0,
            snapshots: 0,
            object_bytes: 0,
            file_bytes: 7,
            path: PathBuf::new(),
        };
        Slot(SavedContents { entry, objects: Vec::new() })
    }

    impl Slot {
        fn of(mut self, model: ModelHash) -> Self {
            self.0.entry.model = model;
            self
        }

        fn class(mut self, class: TtlClass) -> Self {
            self.0.entry.class = class;
            self
        }

        fn unused_for_hours(mut self, hours: u64) -> Self {
            self.0.entry.used_at = Timestamp(NOW.0 - hours * 3_600_000);
            self
        }

        fn needs<const N: usize>(mut self, objects: [(u8, u64); N]) -> Self {
            self.0.entry.object_bytes = objects.iter().map(|(_, bytes)| bytes).sum();
            self.0.objects = objects.map(|(n, bytes)| (BlockId([n; 32]), bytes)).into();
            self
        }

        fn done(self) -> SavedContents {
            self.0
        }
    }
}
