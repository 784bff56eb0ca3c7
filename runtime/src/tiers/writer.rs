//! The writer thread (write-behind): writes and removes in the order of the calls. A record is
//! written after its objects, and an object that is put again after its removal exists.
//!
//! - An object leaves memory before disk, while no new record can name it: a slot that still has it
//!   in cells exports it again.
//! - An object that a slot file of an earlier process names is not removed.
//! - A job that panics is counted and ends alone: its object or record stays in memory, its caller
//!   gets an error, and the thread goes on with the next job.
//! - What could not be written is written again, see `retries`.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use hob_slots::format::{Object, ObjectKind, SlotRecord};
use hob_slots::store::{Miss, Store, StoreError};
use hob_slots::{BlockId, ConversationId, ModelHash, Timestamp};
use tracing::{debug, error, warn};

use super::background::behind_answers;
use super::job::{Job, Unread};
use super::locked::{LockedSteps, MAX_IDS};
use super::maintenance;
use super::retries::{Retries, Unwritten};
use super::shared::{Counters, Known, Shared, cleared};
use super::successor;
use crate::fault::{self, Place};

/// Objects removed at a time: no restore reads objects meanwhile.
const MAX_REMOVED: usize = 16;

pub(super) struct Writer<'s> {
    shared: &'s Shared,
    steps: &'s LockedSteps,
    on_room: Box<dyn Fn() + Send>,
    named_before: OnceCell<BTreeSet<BlockId>>,
    retries: RefCell<Retries>,
    /// What is left unwritten if the work at hand panics.
    at_hand: RefCell<Unwritten>,
}

impl<'s> Writer<'s> {
    pub fn new(shared: &'s Shared, steps: &'s LockedSteps, on_room: Box<dyn Fn() + Send>) -> Self {
        let (named_before, retries, at_hand) = Default::default();
        Self { shared, steps, on_room, named_before, retries, at_hand }
    }

    /// Works at a low priority until the engine stops. From then on a caller waits for the disk, and
    /// no answer needs the cores: the rest is done at the priority of this thread.
    pub fn run(&mut self, jobs: &mut Receiver<Job>) {
        let (writer, inbox) = (&mut *self, &mut *jobs);
        let next = behind_answers(move || writer.serve(None, inbox, true));
        if next.is_some() {
            self.serve(next, jobs, false);
        }
        self.shared.save_history(self.steps, true);
    }

    /// Does `first` and the jobs after it, up to the last one. `until_stop`: or until the engine
    /// stops. Returns the job that was received then.
    fn serve(&self, first: Option<Job>, jobs: &Receiver<Job>, until_stop: bool) -> Option<Job> {
        for job in first.into_iter().chain(jobs) {
            if until_stop && self.shared.stopping.load(Ordering::SeqCst) {
                return Some(job);
            }
            if self.work_and_retry(job).is_break() {
                break;
            }
        }
        None
    }

    /// Does one job and what it gives another chance. Breaks at the last one.
    fn work_and_retry(&self, job: Job) -> ControlFlow<()> {
        if matches!(job, Job::Record { .. } | Job::Flush(_)) {
            self.write_again();
        }
        let may_make_room = matches!(job, Job::Maintain(_));
        let unwritten = Unwritten::of(&job);
        let done = self.catch(unwritten, || self.work(job));
        if may_make_room {
            self.write_again();
        }
        done.unwrap_or(ControlFlow::Continue(()))
    }

    /// The result of `work`; `None` when it panicked.
    fn catch<T>(&self, unwritten: Unwritten, work: impl FnOnce() -> T) -> Option<T> {
        self.at_hand.replace(unwritten);
        let done = catch_unwind(AssertUnwindSafe(work)).ok();
        let unwritten = self.at_hand.take();
        if done.is_none() {
            self.panicked(unwritten);
        }
        done
    }

    /// Writes what could not be written before, up to the first error of each kind.
    fn write_again(&self) {
        loop {
            let object = self.retries.borrow_mut().next_object();
            let Some((id, object)) = object else { break };
            let work = || self.write_object_again(id, *object);
            if self.catch(Unwritten::Retried, work) != Some(true) {
                break;
            }
        }
        loop {
            let record = self.retries.borrow_mut().next_record();
            let Some((record, unread)) = record else { return };
            let failed = record.clone();
            if self.steps.run(move |shared| shared.records().mark_pending(&failed)) {
                let unwritten = Unwritten::Record(record.clone(), unread);
                let work = || self.write_successor(record, unread, Vec::new());
                if self.catch(unwritten, work) != Some(true) {
                    return;
                }
            }
        }
    }

    /// Returns whether to go on.
    fn write_object_again(&self, id: BlockId, object: Object) -> bool {
        let payload = self.steps.run(move |shared| shared.pool().get(&id));
        payload.is_none_or(|payload| self.write_object(id, &Object { payload, ..object }))
    }

    /// Does one job. Breaks at the last one.
    fn work(&self, job: Job) -> ControlFlow<()> {
        match job {
            Job::Object(id, object) => {
                self.write_object(id, &object);
            }
            Job::Record { record, dropped, unread } => {
                self.write_successor(record, unread, dropped);
                self.shared.save_history(self.steps, false);
            }
            Job::Forget(conversation, named, done) => done(self.forget(&conversation, named)),
            Job::Renew(conversation, at) => self.renew(&conversation, at),
            Job::Maintain(_) if self.shared.stopping.load(Ordering::SeqCst) => {}
            Job::Maintain(job) => {
                fault::point(Place::Maintenance);
                job(self.shared, self.steps);
            }
            Job::Drop(dropped) => self.drop_objects(&dropped),
            Job::Flush(done) => done(),
            Job::Close => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// The panic's hook has reported what panicked.
    fn panicked(&self, unwritten: Unwritten) {
        let counters = &self.shared.counters;
        Counters::add(&counters.panics, 1);
        match unwritten {
            Unwritten::Object(id, object) => {
                Counters::add(&counters.write_errors, 1);
                error!(%id, "the writer panicked: the object stays in memory");
                self.retries.borrow_mut().add_object(id, &object);
                self.left_queue(id, None);
            }
            Unwritten::Record(record, unread) => {
                Counters::add(&counters.write_errors, 1);
                let conversation = &record.conversation;
                error!(%conversation, "the writer panicked: the record stays in memory");
                self.not_written(record, unread);
            }
            Unwritten::Retried => {
                Counters::add(&counters.write_errors, 1);
                error!("the writer panicked again: an object stays in memory alone");
            }
            Unwritten::Renewal(conversation) => {
                error!(%conversation, "the writer panicked: the time of use was not written");
                self.end_renewal(&conversation);
            }
            Unwritten::Nothing => error!("a job of the writer panicked"),
        }
    }

    /// The object waits for the disk no longer. `written`: it is there.
    fn left_queue(&self, id: BlockId, written: Option<Known>) {
        let has_room = self.steps.run(move |shared| {
            if let Some(known) = written {
                shared.objects().insert(id, known);
            }
            // Also after an error: memory must not grow without bound.
            shared.pool().mark_saved(&id);
            shared.fewer_unsaved.notify_all();
            !shared.is_full() && shared.engine_waits.swap(false, Ordering::SeqCst)
        });
        if has_room {
            (self.on_room)();
        }
    }

    /// Returns whether the object is on disk.
    fn write_object(&self, id: BlockId, object: &Object) -> bool {
        let shared = self.shared;
        let Some(store) = &shared.store else { return false };
        fault::point(Place::Writer);
        let file_bytes = object.file_bytes();
        let written = store.put_object(shared.fingerprint, id, object);
        let on_disk = written.is_ok();
        match written {
            Ok(bytes) => shared.count_written(bytes),
            Err(error) => {
                Counters::add(&shared.counters.write_errors, 1);
                warn!(%id, %error, "object not written");
                self.retries.borrow_mut().add_object(id, object);
            }
        }
        self.left_queue(id, on_disk.then(|| Known::on_disk(file_bytes)));
        if object.kind == ObjectKind::Block {
            let bytes = object.payload.len();
            while bytes > 0 && self.steps.run(Shared::needs_spare) {
                let spare = cleared(bytes);
                self.steps.run(move |shared| shared.spares.lock().push(spare));
            }
        }
        on_disk
    }

    /// Writes the record, or what takes its place given the slot file. Returns whether it is on disk.
    fn write_successor(
        &self,
        record: Arc<SlotRecord>,
        unread: Option<Unread>,
        dropped: Vec<BlockId>,
    ) -> bool {
        let record = match unread {
            Some(unread) => self.successor(record, unread),
            None => record,
        };
        self.at_hand.replace(Unwritten::Record(record.clone(), unread));
        self.write_record(record, unread, dropped)
    }

    /// The record to write in place of `record`, given the slot file, which may cover it and has
    /// the class that was asked for.
    fn successor(&self, record: Arc<SlotRecord>, unread: Unread) -> Arc<SlotRecord> {
        let shared = self.shared;
        let Some(store) = &shared.store else { return record };
        let before = store.get_slot(shared.fingerprint, &record.conversation);
        let Ok(before) = before else { return record };
        let class = if unread.is_default_class { before.class } else { record.class };
        let covers = before.covers(&record.tokens);
        if !covers && class == record.class {
            return record;
        }
        self.steps.run(move |shared| {
            let mut next = SlotRecord { class, ..(*record).clone() };
            if covers {
                shared.learn_names(before.objects().map(|(id, _)| id));
                next = successor::of_unread(&before, next, |id| shared.holds(id));
            }
            let next = Arc::new(next);
            shared.records().replace(&record, next.clone());
            next
        })
    }

    fn write_record(
        &self,
        record: Arc<SlotRecord>,
        unread: Option<Unread>,
        dropped: Vec<BlockId>,
    ) -> bool {
        let shared = self.shared;
        if let Some(store) = &shared.store {
            let mut written = SlotRecord::clone(&record);
            // A branch may have been lost with a damaged file; it is computed again when needed.
            written.branches.retain(|object| store.has_object(shared.fingerprint, object.id));
            match store.put_slot(shared.fingerprint, &written) {
                Ok(bytes) => {
                    shared.count_written(bytes);
                    let tokens = record.tokens.len();
                    debug!(conversation = %record.conversation, tokens, "saved");
                    self.steps.run(move |shared| shared.records().mark_saved(&record));
                }
                Err(error) => {
                    Counters::add(&shared.counters.write_errors, 1);
                    warn!(conversation = %record.conversation, %error, "slot file not written");
                    self.not_written(record, unread);
                    return false; // The record before still names them.
                }
            }
        }
        self.drop_objects(&dropped);
        true
    }

    /// The record stays in memory, and is written again.
    fn not_written(&self, record: Arc<SlotRecord>, unread: Option<Unread>) {
        self.retries.borrow_mut().add_record(record.clone(), unread);
        self.steps.run(move |shared| shared.records().mark_failed(&record));
    }

    fn drop_objects(&self, dropped: &[BlockId]) {
        let shared = self.shared;
        if !dropped.is_empty() {
            self.remove(dropped, |store, ids| match self.named_before(store) {
                Some(named) => store.remove_objects(shared.fingerprint, ids.difference(named)),
                None => Ok(Vec::new()),
            });
        }
    }

    /// Rewrites the conversation's slot file with a later time of use, if it has a slot file.
    fn renew(&self, conversation: &ConversationId, at: Timestamp) {
        let shared = self.shared;
        let written = shared.store.as_ref().and_then(|store| {
            let record = store.get_slot(shared.fingerprint, conversation).ok()?;
            let is_older = record.used_at < at;
            let renewed = SlotRecord { used_at: at, ..record };
            is_older.then(|| store.put_slot(shared.fingerprint, &renewed))
        });
        match written {
            None => {} // There is no slot file, or a save has renewed it meanwhile.
            Some(Ok(bytes)) => shared.count_written(bytes),
            Some(Err(error)) => {
                Counters::add(&shared.counters.write_errors, 1);
                warn!(%conversation, %error, "the time of use was not written");
            }
        }
        self.end_renewal(conversation);
    }

    fn end_renewal(&self, conversation: &ConversationId) {
        let conversation = conversation.clone();
        self.steps.run(move |shared| shared.renewing.lock().remove(&conversation));
    }

    /// Removes a conversation's files under every model, and the objects that no conversation
    /// refers to any more: those of all its branches.
    fn forget(&self, conversation: &ConversationId, named: Vec<BlockId>) -> Result<(), String> {
        let shared = self.shared;
        self.retries.borrow_mut().forget(conversation, &named);
        let Some(store) = &shared.store else {
            self.drop_from_memory(named);
            let conversation = conversation.clone();
            self.steps.run(move |shared| shared.records().forgotten(&conversation));
            return Ok(());
        };
        let removed = store.models().and_then(|models| {
            let removed: Vec<_> = models
                .into_iter()
                .map(|model| self.forget_under(store, model, conversation, &named))
                .collect();
            removed.into_iter().collect()
        });
        {
            // A reader that found the slot file before has ended: none brings the record back.
            let _no_reads = shared.removing();
            let conversation = conversation.clone();
            self.steps.run(move |shared| shared.records().forgotten(&conversation));
        }
        removed.map_err(|error: StoreError| {
            warn!(%conversation, %error, "saved KV not removed");
            error.to_string()
        })
    }

    /// `named`: objects of the running model that the conversation referred to.
    fn forget_under(
        &self,
        store: &Store,
        model: ModelHash,
        conversation: &ConversationId,
        named: &[BlockId],
    ) -> Result<(), StoreError> {
        let is_ours = model == self.shared.fingerprint;
        if is_ours {
            self.shared.marks.forget(store, model, conversation)?;
        } else {
            store.unmark_use(model, conversation)?;
        }
        let record = store.get_slot(model, conversation);
        if !is_ours
            && matches!(record, Err(Miss::Absent))
            && store.rejected(model, conversation).is_none()
        {
            return Ok(());
        }
        let on_disk = record.iter().flat_map(SlotRecord::objects).map(|(id, _)| id);
        if is_ours {
            let named: BTreeSet<BlockId> = on_disk.chain(named.iter().copied()).collect();
            self.drop_from_memory(named.iter().copied());
            store.remove_slot(model, conversation)?;
            store.forget_quarantined(model, conversation, &named)?;
        } else {
            store.forget(model, conversation, &on_disk.collect())?;
        }
        maintenance::collect(self.shared, self.steps, store, model)
    }

    /// Removes the candidates that no conversation refers to, from memory and then from disk.
    fn remove(
        &self,
        candidates: &[BlockId],
        from_disk: impl Fn(&Store, &BTreeSet<BlockId>) -> Result<Vec<BlockId>, StoreError>,
    ) {
        for candidates in candidates.chunks(MAX_REMOVED) {
            let _no_reads = self.shared.removing();
            let unreferenced = self.drop_from_memory(candidates.iter().copied());
            match self.shared.store.as_ref().map(|store| from_disk(store, &unreferenced)) {
                Some(Ok(removed)) => debug!(objects = removed.len(), "removed"),
                Some(Err(error)) => warn!(%error, "objects not removed"),
                None => {}
            }
        }
    }

    /// Drops the candidates that no conversation refers to from the memory tier. Returns them.
    fn drop_from_memory(&self, candidates: impl IntoIterator<Item = BlockId>) -> BTreeSet<BlockId> {
        let candidates: Vec<BlockId> = candidates.into_iter().collect();
        let mut all = BTreeSet::new();
        for ids in candidates.chunks(MAX_IDS).map(<[_]>::to_vec) {
            let (unreferenced, _freed) = self.steps.run(move |shared| {
                // While this is held, no new record can name the objects.
                let records = shared.records();
                let unreferenced = records.unreferenced(ids);
                let mut freed = Vec::new();
                for id in &unreferenced {
                    freed.extend(shared.pool().remove(id));
                    shared.objects().remove(id);
                }
                (unreferenced, freed)
            });
            all.extend(unreferenced);
        }
        all
    }

    /// The objects that slot files named at the first call; `None` when they cannot be read.
    fn named_before(&self, store: &Store) -> Option<&BTreeSet<BlockId>> {
        if self.named_before.get().is_none() {
            match store.needed_objects(self.shared.fingerprint) {
                Ok(named) => self.named_before.set(named).expect("it was not set before"),
                Err(error) => warn!(%error, "slot files cannot be read: superseded objects stay"),
            }
        }
        self.named_before.get()
    }
}
