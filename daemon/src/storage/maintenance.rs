//! The saved KV: listed, pruned, collected, removed; and the files in quarantine.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hob_runtime::{EngineStatus, SlotState, Tier};
use hob_slots::maintenance::{
    self, ClassChange, Context, Live, MaintenanceError, Reclassed, Report, Request,
    SavedConversation, SetClass,
};
use hob_slots::store::SAVE_GRACE;
use hob_slots::usage::{total_bytes, usage};
use hob_slots::{Lifetimes, Listing, ModelHash, Quarantined, Rejected, StoreError, TtlClass};

use super::{Storage, failed};
use crate::blocking::compute;
use crate::engine_status::engine_status;
use crate::error::{ApiError, ErrorKind};

/// The saved KV of one model or of all.
pub struct SavedSlots {
    pub dir: PathBuf,
    pub slots: Vec<SavedConversation>,
    /// Files that cannot be used.
    pub rejected: Vec<Rejected>,
    /// Bytes of slot files and raw objects.
    pub bytes: u64,
    /// Over all models.
    pub quota_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
    pub lifetimes: Lifetimes,
}

impl Storage {
    /// Lists the saved conversations and where each one's KV is.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub async fn slots(&self, model: Option<ModelHash>) -> Result<SavedSlots, ApiError> {
        let reader = self.reader()?;
        let engine = &self.options().engine;
        let live = live(engine.fingerprint(), engine_status(engine).await?);
        let (now, lifetimes) = (self.adjusted_now(), self.options().lifetimes);
        let quota = self.quota().get();
        compute(move || {
            let mut list = Listing::default();
            let mut used_bytes = 0;
            for known in reader.models()? {
                let Listing { slots, rejected, .. } = reader.contents(known)?;
                used_bytes += total_bytes(&slots);
                if model.is_none_or(|model| model == known) {
                    list.slots.extend(slots);
                    list.rejected.extend(rejected);
                }
            }
            let free_bytes = reader.free_bytes()?;
            let info = |usage| SavedConversation::new(usage, &now, &lifetimes, Some(&live));
            Ok(SavedSlots {
                dir: reader.dir().to_owned(),
                slots: usage(&list.slots).iter().map(info).collect(),
                bytes: total_bytes(&list.slots),
                rejected: list.rejected,
                quota_bytes: quota.bytes(used_bytes, free_bytes),
                free_bytes,
                lifetimes,
            })
        })
        .await
        .map_err(|error: StoreError| failed(&error))
    }

    /// Prunes, collects, removes or changes a class.
    ///
    /// # Errors
    /// When the store fails, or a slot file that must change is unusable.
    pub async fn maintain(&self, request: Request) -> Result<Report, ApiError> {
        let lifetimes = self.options().lifetimes;
        let done = self.with_store(move |store, live_refs, now| {
            let context = Context { now: now.clone(), lifetimes, grace: SAVE_GRACE };
            maintenance::run(store, live_refs, &request, &context)
        });
        done.await?.map_err(|error| match error {
            MaintenanceError::Store(error) => failed(&error),
            MaintenanceError::Unusable { .. } => {
                ApiError::new(ErrorKind::Invalid, error.to_string()).code("slot_unusable")
            }
        })
    }

    /// Changes the class of a conversation. One in a slot or in the queue gets it with its next record.
    ///
    /// # Errors
    /// As [`Storage::maintain`].
    pub async fn set_class(&self, request: SetClass) -> Result<Reclassed, ApiError> {
        let SetClass { conversation, class: to, .. } = request.clone();
        let Report::Reclassed(mut report) = self.maintain(request.into()).await? else {
            unreachable!("a request to set a class is answered so");
        };
        let engine = &self.options().engine;
        let model = engine.fingerprint();
        let skipped: BTreeSet<ModelHash> = report.skipped.iter().map(|it| it.fingerprint).collect();
        if !skipped.contains(&model) {
            return Ok(report);
        }
        // The engine sets the class of both.
        let models = [Some(model), engine.draft_fingerprint()].into_iter().flatten();
        let models: Vec<ModelHash> = models.filter(|model| skipped.contains(model)).collect();
        // Before the engine writes other records, under the names of their new class.
        let (reader, of) = (self.reader()?, conversation.clone());
        let class = move |model| Some((model, reader.get_slot(model, &of).ok()?.class));
        let before: Vec<(ModelHash, TtlClass)> =
            compute(move || models.into_iter().filter_map(class).collect()).await;
        if engine.set_class(conversation, to).await? {
            for (fingerprint, from) in before {
                report.skipped.retain(|skipped| skipped.fingerprint != fingerprint);
                report.changed.push(ClassChange { fingerprint, from, to });
            }
        }
        Ok(report)
    }

    /// The files in quarantine, the newest first.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub async fn quarantine(&self, model: Option<ModelHash>) -> Result<Vec<Quarantined>, ApiError> {
        let reader = self.reader()?;
        let listed = compute(move || {
            let mut files = Vec::new();
            for known in reader.models()? {
                if model.is_none_or(|model| model == known) {
                    files.extend(reader.quarantined(known)?);
                }
            }
            files.sort_by_key(|file| std::cmp::Reverse(file.since));
            Ok(files)
        });
        listed.await.map_err(|error: StoreError| failed(&error))
    }

    /// Deletes the files in quarantine. Returns their number and bytes; a dry run deletes none.
    ///
    /// # Errors
    /// When the directory cannot be read or written.
    pub async fn empty_quarantine(
        &self,
        model: Option<ModelHash>,
        dry_run: bool,
    ) -> Result<(usize, u64), ApiError> {
        if dry_run {
            let files = self.quarantine(model).await?;
            return Ok((files.len(), files.iter().map(|file| file.bytes).sum()));
        }
        let emptied = self.with_store(move |store, _, _| {
            let (mut files, mut bytes) = (0, 0);
            for known in store.models()? {
                if model.is_none_or(|model| model == known) {
                    let (model_files, model_bytes) = store.empty_quarantine(known)?;
                    (files, bytes) = (files + model_files, bytes + model_bytes);
                }
            }
            Ok((files, bytes))
        });
        emptied.await?.map_err(|error: StoreError| failed(&error))
    }
}

fn live(fingerprint: ModelHash, status: EngineStatus) -> Live {
    let is_active = |state| !matches!(state, SlotState::Free | SlotState::Idle);
    let slots = status.slots.iter().chain(&status.prefixes);
    Live {
        fingerprint,
        open: slots
            .clone()
            .filter(|slot| is_active(slot.state))
            .filter_map(|slot| slot.conversation.clone())
            .collect(),
        hot: slots.filter_map(|slot| slot.conversation.clone()).collect(),
        warm: status
            .parked
            .into_iter()
            .filter(|saved| saved.tier() == Tier::Memory)
            .map(|saved| saved.conversation)
            .collect(),
    }
}
