//! The writer thread (write-behind): writes and removes in the order of the calls. A record is
//! written after its objects, and an object that is put again after its removal exists.
//!
//! - A job that panics is counted and ends alone: its object or record stays in memory, its caller
//!   gets an error, and the thread goes on with the next job.
//! - The writer tries again what could not be written, see `retries`.
//!
//! Reading order: this file (the jobs, and what a panic leaves), `save` (objects and records to
//! disk), `remove` (from memory and disk).

mod remove;
mod save;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::iter;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use hob_slots::BlockId;
use hob_slots::format::Object;
use tracing::error;

use super::counters::Counters;
use super::job::Job;
use super::locked::LockedSteps;
use super::retries::{Retries, Unwritten};
use super::shared::{Known, Shared};
use crate::background::behind_answers;
use crate::fault::{self, Place};

pub(super) struct Writer<'s> {
    shared: &'s Shared,
    steps: &'s LockedSteps,
    on_room: Box<dyn Fn() + Send>,
    /// What slot files name that this process may not have read; `None` until a removal needs it.
    named: RefCell<Option<BTreeSet<BlockId>>>,
    retries: RefCell<Retries>,
    /// What is left unwritten if the work at hand panics.
    at_hand: RefCell<Unwritten>,
}

impl<'s> Writer<'s> {
    pub fn new(shared: &'s Shared, steps: &'s LockedSteps, on_room: Box<dyn Fn() + Send>) -> Self {
        let (named, retries, at_hand) = Default::default();
        Self { shared, steps, on_room, named, retries, at_hand }
    }

    /// Works at a low priority until the engine stops. From then on a caller waits for the disk, and
    /// no answer needs the cores: the rest is done at the priority of this thread.
    pub fn run(&mut self, jobs: &mut Receiver<Job>) {
        let (writer, inbox) = (&mut *self, &mut *jobs);
        let next = behind_answers(move || writer.serve_until_stop(inbox));
        if let Some(next) = next {
            self.serve_from(next, jobs);
        }
        self.shared.save_history(self.steps, true);
    }

    /// Does the jobs up to the last one, or until the engine stops. Returns the job that was received
    /// then.
    fn serve_until_stop(&self, jobs: &Receiver<Job>) -> Option<Job> {
        for job in jobs {
            if self.shared.stopping.load(Ordering::SeqCst) {
                return Some(job);
            }
            if self.work_and_retry(job).is_break() {
                break;
            }
        }
        None
    }

    /// Does `first` and the jobs after it, up to the last one.
    fn serve_from(&self, first: Job, jobs: &Receiver<Job>) {
        for job in iter::once(first).chain(jobs) {
            if self.work_and_retry(job).is_break() {
                break;
            }
        }
    }

    /// Does one job, and tries again what may succeed with it. Breaks at the last job.
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

    /// Does one job. Breaks at the last job.
    fn work(&self, job: Job) -> ControlFlow<()> {
        match job {
            Job::Object(id, object) => {
                self.write_object(id, &object);
            }
            Job::Record { record, dropped, unread } => {
                self.write_successor(record, unread, dropped);
                self.shared.save_history(self.steps, false);
            }
            Job::Forget(conversation, named, done) => done(self.forget(&conversation, &named)),
            Job::Renew(conversation, at) => self.renew(&conversation, at),
            Job::Reclass(conversation, class) => self.reclass(&conversation, class),
            Job::Maintain(_) if self.shared.stopping.load(Ordering::SeqCst) => {}
            Job::Maintain(job) => {
                fault::point(Place::Maintenance);
                job(self.shared, self.steps);
            }
            Job::Drop { objects, slot_file_stays } => {
                if slot_file_stays {
                    self.shared.slot_files_unread.store(true, Ordering::SeqCst);
                }
                self.drop_objects(&objects);
            }
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
}
