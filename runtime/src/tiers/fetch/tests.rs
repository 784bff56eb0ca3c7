//! The order of jobs and deliveries. No object is read here.

use std::sync::mpsc::{Receiver, channel};

use hob_slots::{Block, BlockId};

use super::*;
use crate::tiers::plan::Sought;

const SLOW: u64 = 1;
const OTHER: u64 = 2;

const GROUP_BLOCKS: usize = 2;

/// Planned restores of `groups` groups each.
fn queue<const N: usize>(
    groups: [usize; N],
) -> (Arc<Queue>, Vec<FetchHandle>, Vec<Receiver<FetchEvent>>) {
    let queue = Arc::new(Queue::default());
    let (handles, inboxes) = groups.into_iter().map(|groups| submit(&queue, groups)).unzip();
    (queue, handles, inboxes)
}

fn submit(queue: &Arc<Queue>, groups: usize) -> (FetchHandle, Receiver<FetchEvent>) {
    let request = FetchRequest {
        views: Vec::new(),
        room: usize::MAX,
        conversation: None,
        number: 0,
        adapters: Default::default(),
        prompt: Vec::new(),
        segments: Vec::new(),
        hot: 0,
        limit: 0,
        prefix_ends: Vec::new(),
        record_only: false,
        accepts_moved: false,
        accepts_lossy: true,
    };
    let (outbox, inbox) = channel();
    let deliver = move |event| outbox.send(event).unwrap_or(());
    let handle = Queue::submit(queue, Request::Sequel(request), Box::new(deliver));
    let mut state = queue.state.lock();
    let restore = state.restores.get_mut(&handle.number).unwrap();
    restore.threads.active = 1; // A thread plans.
    drop(state);
    queue.planned(handle.number, plan(groups * GROUP_BLOCKS), Findings::default());
    (handle, inbox)
}

fn plan(blocks: usize) -> Plan {
    let id = BlockId([0; 32]);
    let block = |n: usize| Block {
        view: hob_slots::View::WHOLE,
        id,
        parent: id,
        range: n * 64..(n + 1) * 64,
    };
    Plan {
        goes_back: false,
        views: Vec::new(),
        hot: 0,
        limit: blocks * 64,
        expected: 0,
        record: None,
        branch_ends: Vec::new(),
        snapshots: Vec::new(),
        sought: Sought::Blocks((0..blocks).map(block).collect()),
        partials: Vec::new(),
        group_blocks: GROUP_BLOCKS,
        miss: None,
    }
}

fn begin(queue: &Queue) -> Option<(u64, Group)> {
    let (number, job) = queue.state.lock().begin_next()?;
    let Job::Read(_, group) = job else { panic!("everything is planned") };
    Some((number, *group))
}

fn deliveries(inbox: &Receiver<FetchEvent>) -> (usize, bool) {
    let all: Vec<FetchEvent> = inbox.try_iter().collect();
    let ended = matches!(all.last(), Some(FetchEvent::End(_)));
    (all.len() - usize::from(ended), ended)
}

#[test]
fn a_restore_without_a_thread_comes_first() {
    let (queue, mut handles, _inboxes) = queue([5]);
    let (_, first) = begin(&queue).unwrap();
    assert_eq!(begin(&queue).unwrap().0, SLOW, "alone, it has every thread");
    let (handle, _inbox) = submit(&queue, 5);
    handles.push(handle);
    queue.group_read(SLOW, first);
    let (number, group) = begin(&queue).unwrap();
    assert_eq!(number, OTHER);
    queue.group_read(OTHER, group);
    assert_eq!(begin(&queue).unwrap().0, OTHER, "the slow one still has a thread");
}

#[test]
fn groups_arrive_in_the_order_of_positions_whichever_was_read_first() {
    let (queue, _handles, inboxes) = queue([3]);
    let [first, second, third] = [(); 3].map(|()| begin(&queue).unwrap().1);
    queue.group_read(SLOW, third);
    queue.group_read(SLOW, second);
    assert_eq!(deliveries(&inboxes[0]), (0, false));
    queue.group_read(SLOW, first);
    assert_eq!(deliveries(&inboxes[0]), (3, true));
}

#[test]
fn a_restore_stays_within_max_ahead_of_the_engine() {
    let (queue, handles, _inboxes) = queue([100]);
    let begun: Vec<_> = std::iter::from_fn(|| begin(&queue)).collect();
    assert_eq!(begun.len(), MAX_AHEAD);
    begun.into_iter().for_each(|(_, group)| queue.group_read(SLOW, group));
    assert!(begin(&queue).is_none(), "delivered, and not imported yet");
    handles[0].consumed(Vec::new());
    assert_eq!(begin(&queue).unwrap().1.number, MAX_AHEAD);
    assert!(begin(&queue).is_none());
}

#[test]
fn no_group_follows_a_missing_object() {
    let (queue, _handles, inboxes) = queue([4]);
    let [first, mut second, third] = [(); 3].map(|()| begin(&queue).unwrap().1);
    queue.group_read(SLOW, third);
    second.last = true; // An object is missing.
    queue.group_read(SLOW, second);
    assert!(begin(&queue).is_none());
    queue.group_read(SLOW, first);
    assert_eq!(deliveries(&inboxes[0]), (2, true));
}

#[test]
fn a_dropped_handle_cancels_its_restore() {
    let (queue, mut handles, inboxes) = queue([4]);
    let (_, first) = begin(&queue).unwrap();
    handles.clear();
    assert!(begin(&queue).is_none());
    queue.group_read(SLOW, first);
    assert_eq!(deliveries(&inboxes[0]), (0, false));
}

#[test]
fn an_interrupted_group_is_finished_before_another_begins() {
    let (queue, _handles, _inboxes) = queue([4]);
    let (_, group) = begin(&queue).unwrap();
    {
        let mut state = queue.state.lock();
        let restore = state.restores.get_mut(&SLOW).unwrap();
        restore.threads.active -= 1;
        restore.groups.as_mut().unwrap().interrupted.push(group);
    }
    assert_eq!(begin(&queue).unwrap().1.number, 0);
    assert_eq!(begin(&queue).unwrap().1.number, 1);
}
