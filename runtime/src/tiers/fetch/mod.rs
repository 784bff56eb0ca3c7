//! Schedules reads: a few reader threads serve all restores.
//!
//! - All free threads read the groups of one restore; groups are delivered in order.
//! - A restore without a thread comes first. It takes a thread from another restore after the
//!   object that is being read, so a slow restore does not hold up others.
//! - A restore is at most [`MAX_AHEAD`] groups ahead of the engine. `restore` counts them.
//! - Dropping a [`FetchHandle`] cancels its restore.
//! - A job that panics ends its restore alone; the thread goes on with the next job.
//! - Buffers are reused, so that the system does not clear new memory for every group.

mod restore;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hob_slots::ViewRun;
use hob_slots::content::Import;
use hob_slots::format::{SlotRecord, SnapshotRef};
use parking_lot::{Condvar, Mutex};
use tracing::error;

use super::chunks::{self, ChunkRequest};
use super::counters::Counters;
use super::find::Finder;
use super::plan::{FetchRequest, Plan};
use super::read::{Group, Piece, PieceState};
use super::recall::{self, RecallRequest, Recalled};
use super::shared::Shared;
use crate::miss::MissReason;

use restore::{Deliver, Groups, MAX_AHEAD, Restore};

/// Reader threads. On two cores, a third one gained nothing that could be measured.
pub(super) fn threads() -> usize {
    (cores() / 4).clamp(2, 4)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Events arrive in order. [`FetchEvent::End`] or [`FetchEvent::Failed`] is the last one.
#[derive(Debug)]
pub enum FetchEvent {
    /// The slot goes back to this many of its first tokens before the first piece: the pieces are of another
    /// lineage than the slot's tokens behind.
    GoesBack(usize),
    /// The views of the tokens that the pieces may have, before the first of them; absent where all are
    /// pure.
    Views(Vec<ViewRun>),
    /// Why the pieces come back, before the first of them; absent where they were not away.
    Recalled(Recalled),
    /// What of the prompt is saved at another place.
    Chunks(Vec<Import>),
    /// The next pieces, in order; what is between them stays away. Of a memory with a rest, the rest comes
    /// last. Of one that is not saved in blocks: one snapshot from 0 on.
    Pieces(Vec<Piece>),
    End(FetchSummary),
    /// A reader panicked: nothing more arrives.
    Failed(String),
}

/// What a fetch has found besides the pieces.
#[derive(Debug, Default)]
pub struct FetchSummary {
    /// Tokens of this prompt that the conversation's record covers.
    pub expected: usize,
    /// The conversation's record.
    pub record: Option<Arc<SlotRecord>>,
    /// Snapshots of the record that match this prompt, by position.
    pub snapshots: Vec<SnapshotRef>,
    /// Why less was found than expected.
    pub miss: Option<MissReason>,
}

/// All restores, and the buffers that the threads share.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Threads that may read for one restore.
    max_threads: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self::of_threads(usize::MAX)
    }
}

#[derive(Default)]
struct State {
    restores: BTreeMap<u64, Restore>,
    /// Restores so far; numbers the next one.
    submitted: u64,
    /// Jobs so far.
    jobs: u64,
    buffers: Vec<Vec<u8>>,
    closed: bool,
}

/// What to restore.
#[derive(Debug)]
pub(super) enum Request {
    /// What is saved of a prompt behind its hot tokens.
    Sequel(FetchRequest),
    /// Fetches the blocks without cells that the new text asks for.
    Recall(RecallRequest),
    /// Where parts of a prompt are saved.
    Find(ChunkRequest),
    /// Fetches such a part.
    Chunk(Import),
}

/// What planning a request has found besides the pieces; it is delivered before them.
#[derive(Debug, Default)]
struct Findings {
    recalled: Recalled,
    chunks: Vec<Import>,
}

enum Job {
    Plan(Arc<Request>),
    Read(Arc<Plan>, Box<Group>),
}

/// Dropping the handle cancels the fetch.
pub struct FetchHandle {
    queue: Arc<Queue>,
    number: u64,
}

impl FetchHandle {
    /// Returns the memory of pieces that were imported.
    pub fn consumed(&self, pieces: Vec<Piece>) {
        let mut state = self.queue.state.lock();
        let buffers = pieces.into_iter().filter_map(|piece| match piece.state {
            PieceState::Joined(joined) => Some(joined.into_bytes()),
            PieceState::Single(_) => None,
        });
        state.buffers.extend(buffers);
        state.buffers.truncate(MAX_AHEAD);
        if let Some(groups) = state.groups(self.number) {
            groups.consumed += 1;
        }
        self.queue.changed.notify_one();
    }
}

impl Drop for FetchHandle {
    fn drop(&mut self) {
        let restore = self.queue.state.lock().restores.remove(&self.number);
        drop(restore); // After the lock: the restore may hold large buffers.
    }
}

impl Queue {
    pub fn of_threads(max_threads: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), max_threads }
    }

    pub fn submit(queue: &Arc<Self>, request: Request, deliver: Deliver) -> FetchHandle {
        let mut state = queue.state.lock();
        state.submitted += 1;
        let number = state.submitted;
        state.restores.insert(number, Restore::new(request, deliver, queue.max_threads));
        queue.changed.notify_one();
        FetchHandle { queue: queue.clone(), number }
    }

    /// Ends the threads.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Serves until the queue is closed.
    pub fn serve(&self, shared: &Shared) {
        let mut finder = Finder::new(shared);
        while let Some((number, job)) = self.next_job() {
            let work = AssertUnwindSafe(|| self.work(&mut finder, number, job));
            if catch_unwind(work).is_err() {
                Counters::add(&shared.counters.panics, 1);
                error!("a reader panicked: the rest of a prompt is computed");
                finder = Finder::new(shared);
                self.fail(number);
            }
        }
    }

    fn work(&self, finder: &mut Finder<'_>, number: u64, job: Job) {
        let shared = finder.shared;
        match job {
            Job::Plan(request) => {
                let is_wanted = || self.state.lock().restores.contains_key(&number);
                let mut findings = Findings::default();
                let plan = match &*request {
                    Request::Sequel(request) => Plan::of(shared, request, is_wanted),
                    Request::Recall(request) => {
                        let (plan, recalled) = recall::plan(shared, request, is_wanted);
                        findings.recalled = recalled;
                        plan
                    }
                    Request::Find(request) => {
                        findings.chunks = chunks::find(shared, request, is_wanted);
                        Plan::of_blocks(shared, Vec::new(), 0)
                    }
                    Request::Chunk(import) => Plan::of_chunk(shared, import),
                };
                self.planned(number, plan, findings);
            }
            Job::Read(plan, group) => {
                let last = group.last;
                self.read(finder, number, &plan, group);
                if last {
                    // The turn that continues now will export what it computes.
                    shared.make_spares(shared.block_bytes.load(Ordering::Relaxed));
                }
            }
        }
    }

    /// Ends a restore whose reader panicked. Another thread that reads for this restore finds it gone.
    fn fail(&self, number: u64) {
        let restore = self.state.lock().restores.remove(&number);
        if let Some(restore) = restore {
            (restore.deliver)(FetchEvent::Failed("the reader of the saved KV panicked".to_owned()));
        }
    }

    fn next_job(&self) -> Option<(u64, Job)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.begin_next() {
                if state.restores.values().any(Restore::has_work) {
                    self.changed.notify_one();
                }
                return Some(job);
            }
            self.changed.wait(&mut state);
        }
    }

    fn planned(&self, number: u64, plan: Plan, findings: Findings) {
        let mut state = self.state.lock();
        let Some(restore) = state.restores.get_mut(&number) else { return };
        restore.threads.active -= 1;
        if plan.goes_back {
            (restore.deliver)(FetchEvent::GoesBack(plan.hot));
        }
        if !plan.views.is_empty() {
            (restore.deliver)(FetchEvent::Views(plan.views.clone()));
        }
        if !findings.recalled.is_empty() {
            (restore.deliver)(FetchEvent::Recalled(findings.recalled));
        }
        if !findings.chunks.is_empty() {
            (restore.deliver)(FetchEvent::Chunks(findings.chunks));
        }
        restore.groups = Some(Groups::of(plan));
        let ended = restore.deliver_in_order();
        state.remove_if(number, ended);
        self.changed.notify_all();
    }

    fn read(&self, finder: &mut Finder<'_>, number: u64, plan: &Plan, mut group: Box<Group>) {
        loop {
            group.read_next(finder, plan);
            if group.is_read() {
                return self.group_read(number, *group);
            }
            let mut state = self.state.lock();
            let starves = |(other, restore): (&u64, &Restore)| {
                *other != number && restore.threads.active == 0 && restore.has_work()
            };
            let yields = state.restores.iter().any(starves);
            let closed = state.closed;
            let Some(restore) = state.restores.get_mut(&number) else { return };
            let Some(groups) = &mut restore.groups else { return };
            let wanted = group.number < groups.count && !closed;
            if wanted && !yields {
                continue;
            }
            restore.threads.active -= 1;
            if wanted {
                groups.interrupted.push(*group);
            }
            return;
        }
    }

    fn group_read(&self, number: u64, mut group: Group) {
        let mut state = self.state.lock();
        state.buffers.extend(Some(group.take_buffer()).filter(|buffer| buffer.capacity() > 0));
        let Some(restore) = state.restores.get_mut(&number) else { return };
        restore.threads.active -= 1;
        if let Some(groups) = &mut restore.groups {
            groups.add_read(group);
        }
        let ended = restore.deliver_in_order();
        state.remove_if(number, ended);
    }
}

impl State {
    /// Takes a job of the restore with the fewest threads among those that have work; among equals, of the one
    /// whose latest job is the oldest.
    fn begin_next(&mut self) -> Option<(u64, Job)> {
        let waiting = self.restores.iter_mut().filter(|(_, restore)| restore.has_work());
        let (&number, restore) =
            waiting.min_by_key(|(_, r)| (r.threads.active, r.threads.last_job))?;
        self.jobs += 1;
        restore.threads.last_job = self.jobs;
        restore.threads.active += 1;
        let Some(groups) = &mut restore.groups else {
            return Some((number, Job::Plan(restore.request.clone())));
        };
        let group = groups.interrupted.pop().unwrap_or_else(|| {
            groups.next += 1;
            let buffer = self.buffers.pop().unwrap_or_default();
            Group::new(&groups.plan, groups.next - 1, buffer)
        });
        Some((number, Job::Read(groups.plan.clone(), Box::new(group))))
    }

    fn groups(&mut self, number: u64) -> Option<&mut Groups> {
        self.restores.get_mut(&number)?.groups.as_mut()
    }

    fn remove_if(&mut self, number: u64, ended: bool) {
        if ended {
            self.restores.remove(&number);
        }
    }
}

/// Maximum threads that read for one restore: one core stays free for the engine, which imports
/// what they read. With two threads on two cores 403 MB took 1.03 times as long as llama.cpp's
/// file, with one 0.93.
pub(super) fn max_threads_per_restore() -> usize {
    cores().saturating_sub(1).clamp(1, threads())
}

#[cfg(test)]
mod tests;
