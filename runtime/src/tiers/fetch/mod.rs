//! Who reads what next. A few threads serve all restores.
//!
//! - The groups of one restore are read by every thread that is free, and delivered in order.
//! - A restore that nobody reads for comes first, and takes a thread from another after the object
//!   that is just being read: a slow one holds up nobody.
//! - A restore is at most [`AHEAD`] groups ahead of the engine.
//! - When a [`FetchHandle`] is dropped, nothing more is read for it.
//! - Buffers go round, so that the system need not give and clear new memory for every group.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use hob_slots::format::{SlotRecord, SnapshotRef};

use super::find::Finder;
use super::plan::{FetchRequest, Plan};
use super::read::{Group, Piece, PieceState};
use super::{Shared, lock};
use crate::miss::MissReason;

/// Threads that read: one more than two would gain nothing that was measured.
pub(super) const THREADS: usize = 2;

/// Groups that may wait for the engine, those that are being read included. Each takes memory; with
/// three, a restore of 25 MB took 1.17 to 1.25 times as long as llama.cpp's file, with four 1.17 to
/// 1.20.
const AHEAD: usize = 4;

/// What arrives, in order. After [`FetchEvent::End`] nothing does.
#[derive(Debug)]
pub enum FetchEvent {
    /// The next pieces, without gaps from what is hot on; for memories that are not plain one
    /// snapshot from 0 on.
    Pieces(Vec<Piece>),
    /// That was all.
    End(Found),
}

/// What was found besides the pieces.
#[derive(Debug, Default)]
pub struct Found {
    /// Tokens of this prompt that the conversation's record knows.
    pub expected: usize,
    /// The conversation's record.
    pub record: Option<Arc<SlotRecord>>,
    /// Snapshots of the record that still belong to this prompt, by position.
    pub snapshots: Vec<SnapshotRef>,
    /// Why less was found than expected.
    pub miss: Option<MissReason>,
}

/// All restores, and the threads' common memory.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Threads that read for one restore.
    most_threads: usize,
}

/// Every thread may read for any restore.
impl Default for Queue {
    fn default() -> Self {
        Self::of_threads(usize::MAX)
    }
}

#[derive(Default)]
struct State {
    restores: BTreeMap<u64, Restore>,
    numbers: u64,
    /// Times that a thread began something.
    served: u64,
    buffers: Vec<Vec<u8>>,
    closed: bool,
}

type Deliver = Box<dyn Fn(FetchEvent) + Send>;

struct Restore {
    wanted: Arc<FetchRequest>,
    plan: Option<Arc<Plan>>,
    deliver: Deliver,
    /// When a thread came last.
    served: u64,
    threads: usize,
    most_threads: usize,
    /// Groups in all, as far as is known.
    count: usize,
    /// The first group that nobody began.
    next: usize,
    /// Begun, and left for another restore.
    left: Vec<Group>,
    /// Read, while an earlier one is not.
    read: BTreeMap<usize, Group>,
    delivered: usize,
    consumed: usize,
}

enum Job {
    Plan(Arc<FetchRequest>),
    Read(Arc<Plan>, Box<Group>),
}

/// What is asked for goes on being read as long as this lives.
pub struct FetchHandle {
    queue: Arc<Queue>,
    number: u64,
}

impl FetchHandle {
    /// The pieces of one delivery are where they belong; their memory is free.
    pub fn consumed(&self, pieces: Vec<Piece>) {
        let mut state = self.queue.lock();
        let buffers = pieces.into_iter().filter_map(|piece| match piece.state {
            PieceState::Joined(joined) => Some(joined.into_bytes()),
            PieceState::Kept(_) => None,
        });
        state.buffers.extend(buffers);
        state.buffers.truncate(AHEAD);
        if let Some(restore) = state.restores.get_mut(&self.number) {
            restore.consumed += 1;
        }
        self.queue.changed.notify_one();
    }
}

impl Drop for FetchHandle {
    fn drop(&mut self) {
        let restore = self.queue.lock().restores.remove(&self.number);
        drop(restore); // After the lock: it may hold large buffers.
    }
}

impl Queue {
    /// At most so many threads read for one restore.
    pub fn of_threads(most_threads: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), most_threads }
    }

    pub fn submit(queue: &Arc<Self>, wanted: FetchRequest, deliver: Deliver) -> FetchHandle {
        let mut state = queue.lock();
        state.numbers += 1;
        let number = state.numbers;
        let restore = Restore {
            wanted: Arc::new(wanted),
            plan: None,
            deliver,
            served: 0,
            threads: 0,
            most_threads: queue.most_threads,
            count: 0,
            next: 0,
            left: Vec::new(),
            read: BTreeMap::new(),
            delivered: 0,
            consumed: 0,
        };
        state.restores.insert(number, restore);
        queue.changed.notify_one();
        FetchHandle { queue: queue.clone(), number }
    }

    /// Nothing more is read.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Serves until the queue is closed.
    pub fn serve(&self, shared: &Shared) {
        let mut finder = Finder::new(shared);
        while let Some((number, job)) = self.next_job() {
            match job {
                Job::Plan(wanted) => self.planned(number, Plan::of(shared, &wanted)),
                Job::Read(plan, group) => {
                    let last = group.last;
                    self.read(&mut finder, number, &plan, group);
                    if last {
                        // The turn that goes on now will keep what it computes.
                        shared.make_spares(shared.block_bytes.load(Ordering::Relaxed));
                    }
                }
            }
        }
    }

    fn next_job(&self) -> Option<(u64, Job)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(found) = state.begin_next() {
                if state.restores.values().any(Restore::has_work) {
                    self.changed.notify_one();
                }
                return Some(found);
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn planned(&self, number: u64, plan: Plan) {
        let mut state = self.lock();
        let Some(restore) = state.restores.get_mut(&number) else { return };
        restore.threads -= 1;
        restore.count = Group::count(&plan);
        restore.plan = Some(Arc::new(plan));
        let ended = restore.deliver_in_order();
        state.forget_if(number, ended);
        self.changed.notify_all();
    }

    fn read(&self, finder: &mut Finder<'_>, number: u64, plan: &Plan, mut group: Box<Group>) {
        loop {
            group.read_next(finder, plan);
            if group.is_read() {
                return self.group_read(number, *group);
            }
            let mut state = self.lock();
            let starves = |(other, restore): (&u64, &Restore)| {
                *other != number && restore.threads == 0 && restore.has_work()
            };
            let gives_way = state.restores.iter().any(starves);
            let closed = state.closed;
            let Some(restore) = state.restores.get_mut(&number) else { return };
            let wanted = group.number < restore.count && !closed;
            if wanted && !gives_way {
                continue;
            }
            restore.threads -= 1;
            if wanted {
                restore.left.push(*group);
            }
            return;
        }
    }

    fn group_read(&self, number: u64, mut group: Group) {
        let mut state = self.lock();
        state.buffers.extend(Some(group.take_buffer()).filter(|buffer| buffer.capacity() > 0));
        let Some(restore) = state.restores.get_mut(&number) else { return };
        restore.threads -= 1;
        if group.last {
            restore.count = restore.count.min(group.number + 1);
        }
        restore.read.insert(group.number, group);
        let ended = restore.deliver_in_order();
        state.forget_if(number, ended);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Of the restores that have work: the one with the fewest threads, and of those the one that
    /// waits longest.
    fn begin_next(&mut self) -> Option<(u64, Job)> {
        let waiting = self.restores.iter_mut().filter(|(_, restore)| restore.has_work());
        let (&number, restore) = waiting.min_by_key(|(_, r)| (r.threads, r.served))?;
        self.served += 1;
        restore.served = self.served;
        restore.threads += 1;
        let Some(plan) = restore.plan.clone() else {
            return Some((number, Job::Plan(restore.wanted.clone())));
        };
        let group = restore.left.pop().unwrap_or_else(|| {
            restore.next += 1;
            let buffer = self.buffers.pop().unwrap_or_default();
            Group::new(&plan, restore.next - 1, buffer)
        });
        Some((number, Job::Read(plan, Box::new(group))))
    }

    fn forget_if(&mut self, number: u64, ended: bool) {
        if ended {
            self.restores.remove(&number);
        }
    }
}

impl Restore {
    /// Whether another thread would find something to do.
    fn has_work(&self) -> bool {
        match &self.plan {
            None => self.threads == 0,
            Some(_) => {
                let begins = self.next < self.count && self.next < self.consumed + AHEAD;
                self.threads < self.most_threads && (begins || !self.left.is_empty())
            }
        }
    }

    /// Delivers what is read and has nothing missing before it. Returns whether that was the end.
    fn deliver_in_order(&mut self) -> bool {
        let Some(plan) = self.plan.clone() else { return false };
        let mut miss = None;
        while self.delivered < self.count
            && let Some(group) = self.read.remove(&self.delivered)
        {
            self.delivered += 1;
            miss = group.miss;
            (self.deliver)(FetchEvent::Pieces(group.pieces));
        }
        if self.delivered < self.count {
            return false;
        }
        (self.deliver)(FetchEvent::End(Found {
            expected: plan.expected,
            record: plan.record.clone(),
            snapshots: plan.snapshots(),
            miss: miss.or_else(|| plan.miss.clone()),
        }));
        true
    }
}

/// Threads that read for one restore: the engine brings in what they read on a core of its own. With
/// two of them on two cores 403 MB took 1.03 times as long as llama.cpp's file, with one 0.93.
pub(super) fn most_for_one() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.saturating_sub(1).clamp(1, THREADS)
}

#[cfg(test)]
mod tests;
