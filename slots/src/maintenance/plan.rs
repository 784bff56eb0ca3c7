//! Prune, collect, remove, change a class: plans a request on a listing, then applies the plan.
//!
//! - [`plan`] only reads. [`apply`] removes exactly what the plan lists, so a dry run reports what
//!   the same request would free.
//! - A conversation in use is never changed; the report lists it as skipped. Whether it is in use is asked for the
//!   plan, and again right before its file is changed.
//! - Slot files are removed before the objects that only they referenced. An object that a running
//!   engine references stays, see [`LiveRefs`].

use std::collections::BTreeSet;
use std::time::Duration;

use super::report::Freed;
use super::{
    ClassChange, Collected, Pruned, Reclassed, Removed, Report, Request, SavedConversation,
    SetClass, Skipped,
};
use crate::ageing::AdjustedTime;
use crate::format::SlotRecord;
use crate::id::{ConversationId, ModelHash};
use crate::store::{
    Garbage, Listing, Miss, ObjectName, SavedContents, SavedEntry, Store, StoreError, StoreReader,
};
use crate::sweep::{LiveRefs, Remover, replace_slot};
use crate::ttl::Lifetimes;
use crate::usage::{Choice, choose, usage};

/// The time and the limits by which a request is carried out.
#[derive(Clone, Debug)]
pub struct Context {
    pub now: AdjustedTime,
    pub lifetimes: Lifetimes,
    /// Unreferenced objects younger than this stay: a save may be about to reference them.
    pub grace: Duration,
}

/// Why a request cannot be planned or applied.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    #[error("the KV of `{conversation}` cannot be used: {miss}")]
    Unusable { conversation: ConversationId, miss: Miss },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a request changes, and the report of it.
#[derive(Debug)]
pub struct Plan {
    models: Vec<ModelPlan>,
    report: Report,
}

/// What changes in the directory of one model.
#[derive(Debug)]
struct ModelPlan {
    model: ModelHash,
    slots: Vec<SavedEntry>,
    /// Conversations whose slot files cannot be read, and bytes of these files. What they reference stays for the sweep.
    unusable: Vec<(ConversationId, u64)>,
    /// Objects that only `slots` reference. They are removed whatever their age.
    own_objects: BTreeSet<ObjectName>,
    own_bytes: u64,
    garbage: Garbage,
    /// Replaces the slot file of its conversation.
    record: Option<SlotRecord>,
}

/// Plans `request` and, unless it is a dry run, applies the plan.
pub fn run(
    store: &Store,
    live_refs: &dyn LiveRefs,
    request: &Request,
    context: &Context,
) -> Result<Report, MaintenanceError> {
    let plan = plan(store, request, context, &|model, id| live_refs.is_open(model, id))?;
    if request.is_dry_run() {
        return Ok(plan.into_report());
    }
    Ok(apply(store, live_refs, plan, context)?)
}

/// What `request` would change. `is_open`: whether a conversation is in use.
pub fn plan(
    reader: &StoreReader,
    request: &Request,
    context: &Context,
    is_open: &dyn Fn(ModelHash, &ConversationId) -> bool,
) -> Result<Plan, MaintenanceError> {
    let mut models = reader.models()?;
    models.retain(|model| request.fingerprint().is_none_or(|wanted| wanted == *model));
    let planner = Planner { reader, context, is_open };
    match request {
        Request::Prune(prune) => planner.remove_where(
            &models,
            |slot| prune.selects(slot, &context.now, &context.lifetimes),
            true,
            |slots, skipped| Report::Pruned(Pruned { slots, skipped, ..Pruned::default() }),
        ),
        Request::Collect(_) => planner.collect(&models),
        Request::Remove(remove) => {
            let names: BTreeSet<&str> = remove.conversations.iter().map(String::as_str).collect();
            let mut plan = planner.remove_where(
                &models,
                |slot| names.contains(slot.entry.conversation.as_str()),
                false,
                |slots, skipped| Report::Removed(removed(&names, &slots, skipped)),
            )?;
            planner.remove_unusable(&mut plan);
            Ok(plan)
        }
        Request::SetClass(set_class) => planner.set_class(&models, set_class),
    }
}

/// Does what `plan` lists, but for conversations that came into use since.
pub fn apply(
    store: &Store,
    live_refs: &dyn LiveRefs,
    plan: Plan,
    context: &Context,
) -> Result<Report, StoreError> {
    let Plan { models, mut report } = plan;
    let (mut freed, mut in_use, mut removed) = (Vec::new(), Vec::new(), BTreeSet::new());
    for model in &models {
        let (freed_of_model, opened) = model.apply(store, live_refs, context)?;
        freed.push(freed_of_model);
        let slots = model.files().map(|(conversation, _)| conversation);
        removed.extend(slots.filter(|id| !opened.contains(id)).map(ConversationId::as_str));
        in_use.extend(opened.iter().map(|id| Skipped::in_use(model.model, id)));
    }
    report.skip(in_use, &removed);
    Ok(report.with_freed(false, &freed))
}

impl Plan {
    /// What applying it would report.
    pub fn into_report(self) -> Report {
        let freed: Vec<Freed> = self.models.iter().map(ModelPlan::freed).collect();
        self.report.with_freed(true, &freed)
    }
}

struct Planner<'a> {
    reader: &'a StoreReader,
    context: &'a Context,
    is_open: &'a dyn Fn(ModelHash, &ConversationId) -> bool,
}

impl Planner<'_> {
    /// Removes what is selected and not in use.
    fn remove_where(
        &self,
        models: &[ModelHash],
        selects: impl Fn(&SavedContents) -> bool,
        with_garbage: bool,
        report: impl FnOnce(Vec<SavedConversation>, Vec<Skipped>) -> Report,
    ) -> Result<Plan, MaintenanceError> {
        let (mut plans, mut infos, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for &model in models {
            let listing = self.reader.contents(model)?;
            let selected = listing.slots.iter().filter(|slot| selects(slot));
            let selected = selected.map(|slot| &slot.entry.conversation);
            let in_use: BTreeSet<&ConversationId> =
                selected.filter(|id| (self.is_open)(model, id)).collect();
            skipped.extend(in_use.iter().map(|id| Skipped::in_use(model, id)));
            let is_open = |slot: &SavedContents| in_use.contains(&slot.entry.conversation);
            let choice = choose(&listing.slots, |slot| selects(slot) && !is_open(slot));
            infos.extend(self.infos(&listing.slots, &choice));
            plans.push(self.removal(model, &listing, choice, with_garbage)?);
        }
        Ok(Plan { models: plans, report: report(infos, skipped) })
    }

    fn removal(
        &self,
        model: ModelHash,
        listing: &Listing<SavedContents>,
        choice: Choice,
        with_garbage: bool,
    ) -> Result<ModelPlan, StoreError> {
        let mut plan = ModelPlan { slots: choice.slots, ..ModelPlan::new(model) };
        // A file that cannot be read now may reference any object.
        if listing.rejected.iter().any(|file| file.miss.hides_objects()) {
            return Ok(plan);
        }
        for &(_, id, _) in &choice.freed_objects {
            plan.own_objects.insert(self.reader.name(id));
            plan.own_bytes += self.reader.object_bytes(model, id).unwrap_or(0);
        }
        if with_garbage {
            plan.garbage = self.garbage(model)?;
        }
        Ok(plan)
    }

    /// Removes the slot files that cannot be read of the conversations that the report misses.
    fn remove_unusable(&self, plan: &mut Plan) {
        let Plan { models, report: Report::Removed(report) } = plan else { return };
        for name in std::mem::take(&mut report.missing) {
            let id = ConversationId::new(&name).ok();
            let (mut is_removed, mut is_skipped) = (false, false);
            for model in models.iter_mut() {
                let Some(id) = &id else { continue };
                let Some(bytes) = self.reader.slot_file_bytes(model.model, id) else { continue };
                if (self.is_open)(model.model, id) {
                    report.skipped.push(Skipped::in_use(model.model, id));
                    is_skipped = true;
                } else {
                    model.unusable.push((id.clone(), bytes));
                    is_removed = true;
                }
            }
            match (is_removed, is_skipped) {
                (true, _) => report.removed.push(name),
                (false, true) => {}
                (false, false) => report.missing.push(name),
            }
        }
        report.removed.sort();
    }

    fn collect(&self, models: &[ModelHash]) -> Result<Plan, MaintenanceError> {
        let mut plans = Vec::new();
        for &model in models {
            plans.push(ModelPlan { garbage: self.garbage(model)?, ..ModelPlan::new(model) });
        }
        Ok(Plan { models: plans, report: Report::Collected(Collected::default()) })
    }

    fn set_class(
        &self,
        models: &[ModelHash],
        request: &SetClass,
    ) -> Result<Plan, MaintenanceError> {
        let SetClass { conversation, class, .. } = request;
        let (mut plans, mut report, mut unusable) = (Vec::new(), Reclassed::default(), None);
        for &model in models {
            let record = match self.reader.get_slot(model, conversation) {
                Ok(record) => record,
                Err(Miss::Absent) => continue,
                Err(miss) => {
                    unusable = Some(miss);
                    continue;
                }
            };
            if (self.is_open)(model, conversation) {
                report.skipped.push(Skipped::in_use(model, conversation));
                continue;
            }
            let (from, to) = (record.class, *class);
            report.changed.push(ClassChange { fingerprint: model, from, to });
            let record = Some(SlotRecord { class: to, ..record });
            plans.push(ModelPlan { record, ..ModelPlan::new(model) });
        }
        match unusable {
            Some(miss) if report.is_missing() => {
                Err(MaintenanceError::Unusable { conversation: conversation.clone(), miss })
            }
            _ => Ok(Plan { models: plans, report: Report::Reclassed(report) }),
        }
    }

    fn garbage(&self, model: ModelHash) -> Result<Garbage, StoreError> {
        self.reader.find_garbage(model, &self.context.now, self.context.grace)
    }

    fn infos(&self, slots: &[SavedContents], choice: &Choice) -> Vec<SavedConversation> {
        let chosen: BTreeSet<&ConversationId> =
            choice.slots.iter().map(|slot| &slot.conversation).collect();
        let Context { now, lifetimes, .. } = self.context;
        let usage = usage(slots).into_iter();
        let chosen = usage.filter(|slot| chosen.contains(&slot.entry.conversation));
        chosen.map(|slot| SavedConversation::new(&slot, now, lifetimes, None)).collect()
    }
}

impl ModelPlan {
    fn new(model: ModelHash) -> Self {
        Self {
            model,
            slots: Vec::new(),
            unusable: Vec::new(),
            own_objects: BTreeSet::new(),
            own_bytes: 0,
            garbage: Garbage::default(),
            record: None,
        }
    }

    /// The conversations whose slot files are removed, and bytes of these.
    fn files(&self) -> impl Iterator<Item = (&ConversationId, u64)> {
        let slots = self.slots.iter().map(|slot| (&slot.conversation, slot.file_bytes));
        slots.chain(self.unusable.iter().map(|(conversation, bytes)| (conversation, *bytes)))
    }

    /// What applying it frees.
    fn freed(&self) -> Freed {
        let slot_bytes: u64 = self.files().map(|(_, bytes)| bytes).sum();
        Freed {
            model: self.model,
            saved_bytes: slot_bytes + self.own_bytes,
            garbage_objects: self.garbage.objects.len(),
            garbage_bytes: self.garbage.bytes,
        }
    }

    /// Returns what it has freed, and the conversations that it left because they came into use.
    fn apply(
        &self,
        store: &Store,
        live_refs: &dyn LiveRefs,
        context: &Context,
    ) -> Result<(Freed, Vec<ConversationId>), StoreError> {
        let model = self.model;
        let (mut saved_bytes, mut in_use) = (0, Vec::new());
        for (conversation, bytes) in self.files() {
            if live_refs.is_open(model, conversation) {
                in_use.push(conversation.clone());
            } else if store.remove_slot(model, conversation)? {
                saved_bytes += bytes;
                live_refs.slot_file_removed(model, conversation);
            }
        }
        if let Some(record) = &self.record {
            if live_refs.is_open(model, &record.conversation) {
                in_use.push(record.conversation.clone());
            } else {
                replace_slot(store, live_refs, model, record)?;
            }
        }
        let mut own_objects = self.own_objects.clone();
        for conversation in &in_use {
            match store.get_slot(model, conversation) {
                Ok(record) => {
                    for (id, _) in record.objects() {
                        own_objects.remove(&store.name(id));
                    }
                }
                Err(_) => own_objects.clear(), // It may name any of them.
            }
        }
        let now = &context.now;
        let remove = |names: Vec<ObjectName>, grace| {
            Remover { store, live_refs, model, now, grace }.remove_all(names)
        };
        let garbage = remove(self.garbage.objects.clone(), context.grace)?;
        let own = remove(own_objects.into_iter().collect(), Duration::ZERO)?;
        let freed = Freed {
            model,
            saved_bytes: saved_bytes + own.bytes,
            garbage_objects: garbage.objects,
            garbage_bytes: garbage.bytes,
        };
        Ok((freed, in_use))
    }
}

fn removed(names: &BTreeSet<&str>, slots: &[SavedConversation], skipped: Vec<Skipped>) -> Removed {
    let found: BTreeSet<&str> = slots.iter().map(|slot| slot.conversation.as_str()).collect();
    let in_use: BTreeSet<&str> = skipped.iter().map(|slot| slot.conversation.as_str()).collect();
    let is_missing = |id: &&&str| !found.contains(**id) && !in_use.contains(**id);
    Removed {
        removed: found.iter().map(|&id| id.to_owned()).collect(),
        missing: names.iter().filter(is_missing).map(|&id| id.to_owned()).collect(),
        skipped,
        freed_bytes: 0,
    }
}
