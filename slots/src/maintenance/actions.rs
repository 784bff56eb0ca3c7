//! Remove, collect, change a class: what people ask for, as opposed to what the sweep does.
//!
//! - What is open is never touched, it is told as skipped.
//! - A conversation leaves first, then the objects that nobody needs any more. What a save may be
//!   about to name again leaves only with the consent of whoever has it in memory.
//! - A plan promises what doing it frees, in bytes of files.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SlotInfo;
use crate::ageing::AdjustedTime;
use crate::format::SlotRecord;
use crate::id::{ConversationId, ModelHash};
use crate::prune::{Choice, Selection, choose, usage};
use crate::store::{Listing, Miss, ObjectName, SlotContents, Store, StoreError, StoreReader};
use crate::sweep::LiveRefs;
use crate::ttl::{Lifetimes, TtlClass};

/// Objects that leave at a time: while they go, memory cannot be asked for others.
const AT_A_TIME: usize = 64;

/// By what people's wishes are carried out.
#[derive(Clone, Copy, Debug)]
pub struct Context<'t> {
    /// When it is.
    pub moment: &'t AdjustedTime,
    /// When each class is over.
    pub lifetimes: &'t Lifetimes,
    /// Objects that nobody names and that are younger than this may be about to be named.
    pub grace: Duration,
}

/// A conversation that was left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Whose it is.
    pub conversation: String,
    /// The model that its objects belong to.
    pub fingerprint: ModelHash,
    /// Why.
    pub reason: String,
}

/// What pruning removes, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// Nothing was changed.
    pub dry_run: bool,
    /// The conversations.
    pub slots: Vec<SlotInfo>,
    /// Those that were chosen and left alone.
    pub skipped: Vec<Skipped>,
    /// Bytes of objects that no conversation needs, whatever was chosen.
    pub unneeded_bytes: u64,
    /// Bytes of files, those included.
    pub freed_bytes: u64,
}

/// What collecting removes, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// Nothing was changed.
    pub dry_run: bool,
    /// By model; those without any are left out.
    pub models: Vec<CollectedOf>,
    /// Bytes of files.
    pub freed_bytes: u64,
}

/// What is collected of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedOf {
    /// The model.
    pub fingerprint: ModelHash,
    /// How many objects.
    pub objects: usize,
    /// Bytes of their files.
    pub bytes: u64,
}

/// What removing conversations by name did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Those that were there and are gone.
    pub removed: Vec<String>,
    /// Those of which nothing was kept.
    pub missing: Vec<String>,
    /// Those that were left alone.
    pub skipped: Vec<Skipped>,
    /// Bytes of files.
    pub freed_bytes: u64,
}

/// What changing a class did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclassed {
    /// What was changed, one for each model that keeps the conversation.
    pub changed: Vec<ClassChange>,
    /// What was left alone.
    pub skipped: Vec<Skipped>,
}

/// A conversation's class has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassChange {
    /// The model that its objects belong to.
    pub fingerprint: ModelHash,
    /// What it was.
    pub from: TtlClass,
    /// What it is.
    pub to: TtlClass,
}

impl Skipped {
    /// It is in use.
    pub fn open(model: ModelHash, conversation: &ConversationId) -> Self {
        let reason = "it is open: in a slot of the daemon, or it spoke a moment ago".to_owned();
        Self { conversation: conversation.as_str().to_owned(), fingerprint: model, reason }
    }
}

/// What [`prune`] would do; `is_open`: as far as whoever only reads can tell.
pub fn plan_prune(
    reader: &StoreReader,
    selection: &Selection,
    context: Context<'_>,
    is_open: &dyn Fn(ModelHash, &ConversationId) -> bool,
) -> Result<Pruned, StoreError> {
    let mut plan = Pruned { dry_run: true, ..Pruned::default() };
    for model in models(reader, selection.fingerprint)? {
        let Listing { slots, rejected, .. } = reader.contents(model)?;
        let chosen = chosen(&slots, selection, context, is_open);
        plan.skipped.extend(chosen.skipped);
        plan.slots.extend(infos(&slots, &chosen.choice, context));
        plan.freed_bytes += chosen.choice.slots.iter().map(|slot| slot.file_bytes).sum::<u64>();
        if rejected.iter().any(|file| !file.miss.condemns_the_file()) {
            continue; // Nobody knows which objects may go.
        }
        let freed = chosen.choice.freed_objects.iter();
        let real = freed.filter_map(|&(model, id, _)| reader.object_bytes(model, id));
        plan.freed_bytes += real.sum::<u64>();
        plan.unneeded_bytes += reader.find_garbage(model, context.moment, context.grace)?.bytes;
    }
    plan.freed_bytes += plan.unneeded_bytes;
    Ok(plan)
}

/// Removes what `selection` chooses, and objects that nobody needs.
pub fn prune(
    store: &Store,
    live_refs: &dyn LiveRefs,
    selection: &Selection,
    context: Context<'_>,
) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    let is_open = |model, id: &ConversationId| live_refs.is_open(model, id);
    for model in models(store, selection.fingerprint)? {
        let Listing { slots, rejected, .. } = store.contents(model)?;
        let Chosen { choice, skipped } = chosen(&slots, selection, context, &is_open);
        pruned.skipped.extend(skipped);
        pruned.slots.extend(infos(&slots, &choice, context));
        pruned.freed_bytes += remove_slots(store, live_refs, &choice)?;
        if rejected.iter().any(|file| !file.miss.condemns_the_file()) {
            continue;
        }
        let unneeded = store.find_garbage(model, context.moment, context.grace)?.objects;
        let own: BTreeSet<ObjectName> = names(store, &choice);
        let unneeded = unneeded.into_iter().filter(|name| !own.contains(name));
        pruned.unneeded_bytes +=
            remove_objects(store, live_refs, model, unneeded, context.moment, context.grace)?.1;
        // What only the removed ones named is gone with them, whatever its age.
        pruned.freed_bytes +=
            remove_objects(store, live_refs, model, own, context.moment, Duration::ZERO)?.1;
    }
    pruned.freed_bytes += pruned.unneeded_bytes;
    Ok(pruned)
}

/// Removes conversations, and objects that nobody needs without them.
pub fn remove(
    store: &Store,
    live_refs: &dyn LiveRefs,
    conversations: &[String],
    model: Option<ModelHash>,
    moment: &AdjustedTime,
) -> Result<Removed, StoreError> {
    let mut report = Removed::default();
    let wanted: BTreeSet<&str> = conversations.iter().map(String::as_str).collect();
    let (mut gone, mut open) = (BTreeSet::new(), BTreeSet::new());
    for model in models(store, model)? {
        let Listing { slots, rejected, .. } = store.contents(model)?;
        let named = |slot: &SlotContents| wanted.contains(slot.entry.conversation.as_str());
        let is_open = |slot: &SlotContents| live_refs.is_open(model, &slot.entry.conversation);
        for slot in slots.iter().filter(|slot| named(slot) && is_open(slot)) {
            report.skipped.push(Skipped::open(model, &slot.entry.conversation));
            open.insert(slot.entry.conversation.as_str().to_owned());
        }
        let choice = choose(&slots, |slot| named(slot) && !is_open(slot));
        report.freed_bytes += remove_slots(store, live_refs, &choice)?;
        if rejected.iter().all(|file| file.miss.condemns_the_file()) {
            let own = names(store, &choice);
            report.freed_bytes +=
                remove_objects(store, live_refs, model, own, moment, Duration::ZERO)?.1;
        }
        gone.extend(choice.slots.iter().map(|slot| slot.conversation.as_str().to_owned()));
    }
    for id in wanted {
        match (gone.contains(id), open.contains(id)) {
            (true, _) => report.removed.push(id.to_owned()),
            (false, true) => {}
            (false, false) => report.missing.push(id.to_owned()),
        }
    }
    Ok(report)
}

/// What [`collect`] would do.
pub fn plan_collect(
    reader: &StoreReader,
    model: Option<ModelHash>,
    context: Context<'_>,
) -> Result<Collected, StoreError> {
    let mut plan = Collected { dry_run: true, ..Collected::default() };
    for fingerprint in models(reader, model)? {
        let garbage = reader.find_garbage(fingerprint, context.moment, context.grace)?;
        plan.add(fingerprint, garbage.objects.len(), garbage.bytes);
    }
    Ok(plan)
}

/// Removes objects that no conversation needs.
pub fn collect(
    store: &Store,
    live_refs: &dyn LiveRefs,
    model: Option<ModelHash>,
    context: Context<'_>,
) -> Result<Collected, StoreError> {
    let mut collected = Collected::default();
    for model in models(store, model)? {
        let Context { moment, grace, .. } = context;
        let unneeded = store.find_garbage(model, moment, grace)?.objects;
        let (objects, bytes) = remove_objects(store, live_refs, model, unneeded, moment, grace)?;
        collected.add(model, objects, bytes);
    }
    Ok(collected)
}

/// Gives a conversation another class. It is no younger for that.
pub fn set_class(
    store: &Store,
    live_refs: &dyn LiveRefs,
    conversation: &ConversationId,
    class: TtlClass,
    model: Option<ModelHash>,
) -> Result<Reclassed, ClassError> {
    let mut report = Reclassed::default();
    let mut refused = None;
    for fingerprint in models(store, model)? {
        let record = match store.reader().get_slot(fingerprint, conversation) {
            Ok(record) => record,
            Err(Miss::Absent) => continue,
            Err(miss) => {
                refused = Some(miss);
                continue;
            }
        };
        if live_refs.is_open(fingerprint, conversation) {
            report.skipped.push(Skipped::open(fingerprint, conversation));
            continue;
        }
        report.changed.push(ClassChange { fingerprint, from: record.class, to: class });
        store.put_slot(fingerprint, &SlotRecord { class, ..record })?;
        live_refs.slot_changed(fingerprint, conversation);
    }
    match (report.changed.is_empty() && report.skipped.is_empty(), refused) {
        (true, Some(miss)) => Err(ClassError::Unusable(miss)),
        _ => Ok(report),
    }
}

/// Why a class cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum ClassError {
    /// What is kept of the conversation cannot be used.
    #[error("what is kept of it cannot be used: {0}")]
    Unusable(Miss),
    /// The directory cannot be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The conversations that leave, and those that are open.
struct Chosen {
    choice: Choice,
    skipped: Vec<Skipped>,
}

fn chosen(
    slots: &[SlotContents],
    selection: &Selection,
    context: Context<'_>,
    is_open: &dyn Fn(ModelHash, &ConversationId) -> bool,
) -> Chosen {
    let Context { moment, lifetimes, .. } = context;
    let open = |slot: &SlotContents| is_open(slot.entry.model, &slot.entry.conversation);
    let chooses = |slot: &SlotContents| selection.chooses(slot, moment, lifetimes);
    let skipped = slots.iter().filter(|slot| chooses(slot) && open(slot));
    let skipped = skipped.map(|slot| Skipped::open(slot.entry.model, &slot.entry.conversation));
    Chosen {
        skipped: skipped.collect(),
        choice: choose(slots, |slot| chooses(slot) && !open(slot)),
    }
}

fn infos(slots: &[SlotContents], choice: &Choice, context: Context<'_>) -> Vec<SlotInfo> {
    let chosen: BTreeSet<&ConversationId> =
        choice.slots.iter().map(|slot| &slot.conversation).collect();
    let usage = usage(slots).into_iter();
    let leaving = usage.filter(|slot| chosen.contains(&slot.entry.conversation));
    leaving.map(|slot| SlotInfo::new(&slot, context.moment, context.lifetimes, None)).collect()
}

/// Removes slot files. Returns their length.
fn remove_slots(
    store: &Store,
    live_refs: &dyn LiveRefs,
    choice: &Choice,
) -> Result<u64, StoreError> {
    let mut freed_bytes = 0;
    for slot in &choice.slots {
        if store.remove_slot(slot.model, &slot.conversation)? {
            freed_bytes += slot.file_bytes;
            live_refs.slot_left(slot.model, &slot.conversation);
        }
    }
    Ok(freed_bytes)
}

/// Removes objects with the consent of whoever has them. Returns how many, and their length.
fn remove_objects(
    store: &Store,
    live_refs: &dyn LiveRefs,
    model: ModelHash,
    objects: impl IntoIterator<Item = ObjectName>,
    moment: &AdjustedTime,
    grace: Duration,
) -> Result<(usize, u64), StoreError> {
    let objects: Vec<ObjectName> = objects.into_iter().collect();
    let (mut removed, mut freed_bytes, mut failed) = (0, 0, None);
    for few in objects.chunks(AT_A_TIME) {
        live_refs.with_unreferenced(store, model, few.iter().copied().collect(), &mut |released| {
            for &name in released {
                match store.collect(model, name, moment, grace) {
                    Ok(0) => {}
                    Ok(bytes) => {
                        removed += 1;
                        freed_bytes += bytes;
                    }
                    Err(error) => failed = Some(error),
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok((removed, freed_bytes))
}

fn names(store: &Store, choice: &Choice) -> BTreeSet<ObjectName> {
    choice.freed_objects.iter().map(|&(_, id, _)| store.name(id)).collect()
}

fn models(reader: &StoreReader, wanted: Option<ModelHash>) -> Result<Vec<ModelHash>, StoreError> {
    let mut models = reader.models()?;
    models.retain(|model| wanted.is_none_or(|wanted| wanted == *model));
    Ok(models)
}

impl Collected {
    fn add(&mut self, fingerprint: ModelHash, objects: usize, bytes: u64) {
        if objects > 0 {
            self.models.push(CollectedOf { fingerprint, objects, bytes });
            self.freed_bytes += bytes;
        }
    }
}
