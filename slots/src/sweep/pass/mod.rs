//! The steps of one sweep, in order.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::{LiveRefs, Remover, Rules, Swept, quota};
use crate::ageing::AdjustedTime;
use crate::id::{BlockId, ConversationId, ModelHash};
use crate::store::{
    Hidden, Listing, MAX_QUARANTINE_BYTES, Miss, ObjectName, Rejected, SavedContents, Store,
    StoreError,
};

mod lossy;

pub use lossy::Rounding;

pub struct Pass<'s> {
    store: &'s Store,
    live_refs: &'s dyn LiveRefs,
    now: &'s AdjustedTime,
    rules: Rules,
    swept: Swept,
    removals: usize,
    models: Vec<ModelContents>,
}

/// The saved conversations of a model.
struct ModelContents {
    model: ModelHash,
    slots: Vec<SavedContents>,
    /// Whether all slot files could be read, but for those that keep what is `hidden`.
    listed: bool,
    hidden: Hidden,
    /// Bytes of the objects' files, each once. Raw lengths are an upper bound that needs no file
    /// system call.
    object_bytes: u64,
}

impl<'s> Pass<'s> {
    pub fn new(
        store: &'s Store,
        now: &'s AdjustedTime,
        live_refs: &'s dyn LiveRefs,
        rules: Rules,
    ) -> Self {
        let (swept, models) = (Swept::default(), Vec::new());
        Self { store, live_refs, now, rules, swept, removals: 0, models }
    }

    pub fn done(self) -> Swept {
        self.swept
    }

    /// Lists the directory.
    pub fn read(&mut self) {
        let models = self.try_to(|pass| pass.store.models()).unwrap_or_default();
        for model in models {
            let listing = self.try_to(|pass| pass.store.contents(model));
            let Some(Listing { slots, superseded, rejected }) = listing else { continue };
            // First of all: when the newer file expires, the older one must not reappear without
            // its objects.
            let mut all_gone = true;
            for older in &superseded {
                let removed = self.try_to(|pass| pass.store.remove_listed(&older.entry));
                all_gone &= removed.is_some();
            }
            if !superseded.is_empty() {
                all_gone &= self.try_to(|pass| pass.store.sync_slots(model)).is_some();
            }
            let rejected = self.unreadable(model, rejected);
            // An unreadable slot file may reference any object.
            let undecided = rejected.iter().any(|file| file.miss.hides_objects());
            let (listed, hidden) = (all_gone && !undecided, self.store.hidden(&rejected));
            let is_later = |file: &&Rejected| matches!(file.miss, Miss::Newer { .. });
            self.swept.later += rejected.iter().filter(is_later).count();
            let object_bytes = 0;
            self.models.push(ModelContents { model, slots, listed, hidden, object_bytes });
            let (failed, rejected): (Vec<_>, Vec<_>) =
                rejected.into_iter().partition(|file| matches!(file.miss, Miss::Io { .. }));
            let failed = failed.into_iter();
            self.swept.errors.extend(
                failed.map(|Rejected { path, miss }| StoreError::Unreadable { path, miss }),
            );
            self.swept.rejected += self.store.reject_all(model, rejected);
        }
    }

    /// Removes sealed files and files of a later version whose class expired since they were written, and clear files
    /// in a sealed directory. Returns the rest.
    fn unreadable(&mut self, model: ModelHash, rejected: Vec<Rejected>) -> Vec<Rejected> {
        let mut rest = Vec::new();
        for file in rejected {
            let over = match file.miss {
                Miss::Unsealed => true,
                Miss::Sealed | Miss::Newer { .. } => {
                    self.store.written(&file.path).is_some_and(|(class, written)| {
                        let lifetime = self.rules.lifetimes.of(class);
                        lifetime.is_some_and(|lifetime| self.now.age(written) > lifetime)
                    })
                }
                _ => false,
            };
            if over && self.must_leave() {
                self.swept.left = true;
            } else if over {
                let path = &file.path;
                let removed = self.try_to(|pass| pass.store.remove_file(model, path));
                if removed.is_some() {
                    self.removals += 1;
                    self.swept.expired += 1;
                    continue;
                }
            }
            rest.push(file);
        }
        rest
    }

    /// Removes expired conversations.
    pub fn expire(&mut self) {
        let is_over = |pass: &Self, model: ModelHash, slot: &SavedContents| {
            slot.entry.is_expired(pass.now, &pass.rules.lifetimes)
                && !pass.live_refs.is_open(model, &slot.entry.conversation)
        };
        for at in 0..self.models.len() {
            let (model, before) = (self.models[at].model, self.removals);
            let slots = std::mem::take(&mut self.models[at].slots);
            let (over, mut live): (Vec<_>, Vec<_>) =
                slots.into_iter().partition(|slot| is_over(self, model, slot));
            for slot in over {
                if self.remove_slot(model, &slot) {
                    self.swept.expired += 1
                } else {
                    live.push(slot)
                }
            }
            self.models[at].slots = live;
            if self.removals > before {
                self.try_to(|pass| pass.store.sync_slots(model));
            }
        }
    }

    /// Removes unreferenced objects, but for those that the sweep before has rounded for a slot file to come.
    pub fn collect(&mut self, rounding: &Rounding) {
        for at in 0..self.models.len() {
            let contents = &mut self.models[at];
            let objects = contents.objects();
            contents.object_bytes = objects.values().sum();
            let ModelContents { model, listed, hidden, .. } = *contents;
            let freed = self.try_to(|pass| pass.store.remove_clear_leftovers(model));
            self.swept.freed_bytes += freed.unwrap_or_default();
            if !listed {
                continue;
            }
            let mut needed: HashSet<ObjectName> = self.store.names(objects.keys());
            needed.extend(self.store.names::<Vec<_>>(rounding.begun_objects(model)));
            let (now, grace) = (self.now, self.rules.grace);
            let found = self.try_to(|pass| pass.store.unneeded(model, &needed, hidden, now, grace));
            let unneeded = found.map_or(Vec::new(), |garbage| garbage.objects);
            self.remove_objects(model, unneeded, grace);
            let most = MAX_QUARANTINE_BYTES;
            let freed = self.try_to(|pass| pass.store.trim_quarantine(model, most));
            self.swept.freed_bytes += freed.unwrap_or_default();
        }
    }

    /// Compresses objects whose conversations were all unused for long enough.
    pub fn compress(&mut self, settled: &mut HashSet<(ModelHash, ObjectName)>) {
        let Some(after) = self.rules.compress_after else { return };
        let mut budget = self.rules.max_compressed_bytes;
        for at in 0..self.models.len() {
            let ModelContents { model, slots, .. } = &self.models[at];
            let model = *model;
            let (aged, busy): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| {
                self.now.age(slot.entry.used_at) > after
                    && !self.live_refs.is_open(model, &slot.entry.conversation)
            });
            let ids = |slots: Vec<&'_ SavedContents>| -> HashSet<BlockId> {
                slots.into_iter().flat_map(|slot| &slot.objects).map(|&(id, _)| id).collect()
            };
            let aged = ids(aged);
            let busy = if aged.is_empty() { HashSet::new() } else { ids(busy) };
            let names: BTreeSet<ObjectName> = self.store.names(aged.difference(&busy));
            settled.retain(|(of, name)| *of != model || names.contains(name));
            for name in names {
                if settled.contains(&(model, name)) {
                    continue;
                }
                if budget == 0 || self.live_refs.is_stopping() {
                    self.swept.left = true;
                    return;
                }
                let Some(done) = self.try_to(|pass| pass.store.compress_object(model, name)) else {
                    continue;
                };
                if done.read_bytes > 0 {
                    settled.insert((model, name)); // One that could not be read is tried again.
                }
                budget = budget.saturating_sub(done.read_bytes);
                self.swept.compressed += usize::from(done.saved_bytes > 0);
                self.swept.freed_bytes += done.saved_bytes;
            }
        }
    }

    /// Removes the conversations that are cheapest to rebuild per byte until the rest fits.
    pub fn hold_quota(&mut self) {
        let free_bytes = self.try_to(|pass| pass.store.free_bytes()).unwrap_or(u64::MAX);
        let mut used_bytes = self.used_bytes();
        if used_bytes > self.rules.quota.bytes(used_bytes, free_bytes) {
            self.measure();
            used_bytes = self.used_bytes();
        }
        self.swept.quota_bytes = self.rules.quota.bytes(used_bytes, free_bytes);
        self.swept.used_bytes = used_bytes;
        self.swept.no_room = self.rules.quota.no_room(used_bytes, free_bytes);
        let surplus = used_bytes.saturating_sub(self.swept.quota_bytes);
        if surplus > 0 {
            let freed = self.evict(surplus);
            self.swept.used_bytes = used_bytes.saturating_sub(freed);
        }
    }

    /// Bytes of all files, over all models.
    fn used_bytes(&self) -> u64 {
        self.models.iter().map(ModelContents::bytes).sum()
    }

    /// Replaces the raw lengths of objects by those of their files.
    fn measure(&mut self) {
        for at in 0..self.models.len() {
            let model = self.models[at].model;
            if let Some(lengths) = self.try_to(|pass| pass.store.object_lengths(model)) {
                self.models[at].measure(self.store, &lengths);
            }
        }
    }

    /// Removes conversations, and the objects that only they reference, to free `surplus_bytes`. Returns the
    /// bytes freed.
    fn evict(&mut self, surplus_bytes: u64) -> u64 {
        let freed_before = self.swept.freed_bytes;
        let mut closed: Vec<SavedContents> = Vec::new();
        for contents in self.models.iter().filter(|contents| contents.listed) {
            let is_closed = |slot: &&SavedContents| {
                !self.live_refs.is_open(contents.model, slot.conversation())
            };
            let slots = contents.slots.iter().filter(is_closed).cloned();
            closed.extend(slots.filter_map(|slot| contents.freed_by(self.store, slot)));
        }
        let all = self.models.iter().flat_map(|contents| &contents.slots);
        let leaving = quota::leaving(all, &closed, surplus_bytes, self.now);
        let mut gone = leaving.into_iter().map(|leaving| &closed[leaving]).collect::<Vec<_>>();
        gone.retain(|slot| self.remove_slot(slot.entry.model, slot));
        self.swept.evicted += gone.len();
        for at in 0..self.models.len() {
            let model = self.models[at].model;
            let gone = gone.iter().filter(|slot| slot.entry.model == model);
            let names: BTreeSet<_> = gone.clone().map(|slot| slot.conversation()).collect();
            if names.is_empty() {
                continue;
            }
            self.models[at].slots.retain(|slot| !names.contains(slot.conversation()));
            // Objects are removed when the removal of their slot files is durable.
            if self.try_to(|pass| pass.store.sync_slots(model)).is_none() {
                continue;
            }
            let needed = self.models[at].objects();
            let own = gone.flat_map(|slot| &slot.objects).map(|(id, _)| id);
            let own: BTreeSet<_> = self.store.names(own.filter(|id| !needed.contains_key(id)));
            // Whatever their age: no save is about to name what the engine does not reference.
            self.remove_objects(model, own.into_iter().collect(), Duration::ZERO);
        }
        self.swept.freed_bytes - freed_before
    }

    /// Whether the rest is for the next sweep.
    fn must_leave(&self) -> bool {
        self.removals >= self.rules.max_removals || self.live_refs.is_stopping()
    }

    /// Returns whether it was removed.
    fn remove_slot(&mut self, model: ModelHash, slot: &SavedContents) -> bool {
        if self.must_leave() {
            self.swept.left = true;
            return false;
        }
        let id = slot.conversation();
        // A turn may have opened it since the sweep has chosen it.
        if self.live_refs.is_open(model, id) {
            return false;
        }
        let removed = self.try_to(|pass| pass.store.remove_listed(&slot.entry)) == Some(true);
        if removed {
            self.removals += 1;
            self.swept.freed_bytes += slot.entry.file_bytes;
            self.live_refs.slot_file_removed(model, id);
        }
        removed
    }

    fn remove_objects(&mut self, model: ModelHash, names: Vec<ObjectName>, grace: Duration) {
        let room = self.rules.max_removals - self.removals;
        let Self { store, live_refs, now, .. } = *self;
        let removal = Remover { store, live_refs, model, now, grace }.remove(names, room);
        self.removals += removal.objects;
        self.swept.collected += removal.objects;
        self.swept.freed_bytes += removal.bytes;
        self.swept.left |= removal.left;
        self.swept.errors.extend(removal.errors);
    }

    fn try_to<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Option<T> {
        act(self).map_err(|error| self.swept.errors.push(error)).ok()
    }
}

impl ModelContents {
    /// What the removal of a conversation may free of it: no object that a slot file of a later version may reference.
    /// `None`: its slot file alone.
    fn freed_by(&self, store: &Store, mut slot: SavedContents) -> Option<SavedContents> {
        if !self.hidden.has_later() {
            return Some(slot);
        }
        let Self { model, hidden, .. } = *self;
        slot.objects.retain(|&(id, _)| !store.may_be_of_later(model, store.name(id), hidden));
        (!slot.objects.is_empty()).then_some(slot)
    }

    /// Whether `slots` have every reference to objects that are in clear.
    fn is_complete(&self) -> bool {
        self.listed && !self.hidden.has_later()
    }

    /// The objects of all conversations, and the lengths of their files.
    fn objects(&self) -> HashMap<BlockId, u64> {
        self.slots.iter().flat_map(|slot| &slot.objects).copied().collect()
    }

    /// Bytes of all files.
    fn bytes(&self) -> u64 {
        let files: u64 = self.slots.iter().map(|slot| slot.entry.file_bytes).sum();
        files + self.object_bytes
    }

    /// Replaces raw lengths by the actual ones.
    fn measure(&mut self, store: &Store, lengths: &HashMap<ObjectName, u64>) {
        for (id, bytes) in self.slots.iter_mut().flat_map(|slot| &mut slot.objects) {
            *bytes = lengths.get(&store.name(*id)).copied().unwrap_or(0);
        }
        self.object_bytes = self.objects().values().sum();
    }
}

impl SavedContents {
    fn conversation(&self) -> &ConversationId {
        &self.entry.conversation
    }
}
