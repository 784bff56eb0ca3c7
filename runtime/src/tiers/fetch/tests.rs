//! Who is served, and in which order: nothing is read here.

use std::sync::mpsc::{Receiver, channel};

use hob_slots::{Block, BlockId, Use};

use super::*;
use crate::tiers::plan::Sought;
use crate::tiers::read::GROUP_BLOCKS;

const SLOW: u64 = 1;
const OTHER: u64 = 2;

/// Restores of so many groups, planned already.
fn queue<const N: usize>(
    groups: [usize; N],
) -> (Arc<Queue>, Vec<FetchHandle>, Vec<Receiver<FetchEvent>>) {
    let queue = Arc::new(Queue::default());
    let (tickets, inboxes) = groups.into_iter().map(|groups| submit(&queue, groups)).unzip();
    (queue, tickets, inboxes)
}

fn submit(queue: &Arc<Queue>, groups: usize) -> (FetchHandle, Receiver<FetchEvent>) {
    let wanted = FetchRequest {
        conversation: None,
        prompt: Vec::new(),
        hot: 0,
        limit: 0,
        prefixes: Vec::new(),
        cold: false,
        used: Use::default(),
    };
    let (outbox, inbox) = channel();
    let deliver = move |event| outbox.send(event).unwrap_or(());
    let handle = Queue::submit(queue, wanted, Box::new(deliver));
    let mut state = queue.lock();
    let restore = state.restores.get_mut(&handle.number).unwrap();
    restore.threads = 1; // Somebody plans.
    drop(state);
    queue.planned(handle.number, plan(groups * GROUP_BLOCKS));
    (handle, inbox)
}

fn plan(blocks: usize) -> Plan {
    let id = BlockId([0; 32]);
    let block = |n: usize| Block { id, parent: id, range: n * 64..(n + 1) * 64 };
    Plan {
        hot: 0,
        limit: blocks * 64,
        expected: 0,
        record: None,
        sought: Sought::Blocks((0..blocks).map(block).collect()),
        used: Use::default(),
        group_blocks: GROUP_BLOCKS,
        miss: None,
    }
}

fn begin(queue: &Queue) -> Option<(u64, Group)> {
    let (number, job) = queue.lock().begin_next()?;
    let Job::Read(_, group) = job else { panic!("everything is planned") };
    Some((number, *group))
}

fn deliveries(inbox: &Receiver<FetchEvent>) -> (usize, bool) {
    let all: Vec<FetchEvent> = inbox.try_iter().collect();
    let ended = matches!(all.last(), Some(FetchEvent::End(_)));
    (all.len() - usize::from(ended), ended)
}

#[test]
fn a_restore_that_nobody_reads_for_comes_first() {
    let (queue, mut tickets, _inboxes) = queue([5]);
    let (_, first) = begin(&queue).unwrap();
    assert_eq!(begin(&queue).unwrap().0, SLOW, "alone, it has every thread");
    let (handle, _inbox) = submit(&queue, 5);
    tickets.push(handle);
    queue.group_read(SLOW, first);
    let (number, group) = begin(&queue).unwrap();
    assert_eq!(number, OTHER);
    queue.group_read(OTHER, group);
    assert_eq!(begin(&queue).unwrap().0, OTHER, "the slow one still has a thread");
}

#[test]
fn groups_arrive_in_the_order_of_positions_whichever_was_read_first() {
    let (queue, _tickets, inboxes) = queue([3]);
    let [first, second, third] = [(); 3].map(|()| begin(&queue).unwrap().1);
    queue.group_read(SLOW, third);
    queue.group_read(SLOW, second);
    assert_eq!(deliveries(&inboxes[0]), (0, false));
    queue.group_read(SLOW, first);
    assert_eq!(deliveries(&inboxes[0]), (3, true));
}

#[test]
fn no_restore_is_further_ahead_than_the_engine_allows() {
    let (queue, tickets, _inboxes) = queue([100]);
    let begun: Vec<_> = std::iter::from_fn(|| begin(&queue)).collect();
    assert_eq!(begun.len(), AHEAD);
    begun.into_iter().for_each(|(_, group)| queue.group_read(SLOW, group));
    assert!(begin(&queue).is_none(), "it was delivered, and is not in the cells yet");
    tickets[0].consumed(Vec::new());
    assert_eq!(begin(&queue).unwrap().1.number, AHEAD);
    assert!(begin(&queue).is_none());
}

#[test]
fn nothing_follows_what_is_missing() {
    let (queue, _tickets, inboxes) = queue([4]);
    let [first, mut second, third] = [(); 3].map(|()| begin(&queue).unwrap().1);
    queue.group_read(SLOW, third);
    second.last = true; // An object was not there.
    queue.group_read(SLOW, second);
    assert!(begin(&queue).is_none());
    queue.group_read(SLOW, first);
    assert_eq!(deliveries(&inboxes[0]), (2, true));
}

#[test]
fn nothing_is_read_for_a_ticket_that_was_dropped() {
    let (queue, mut tickets, inboxes) = queue([4]);
    let (_, first) = begin(&queue).unwrap();
    tickets.clear();
    assert!(begin(&queue).is_none());
    queue.group_read(SLOW, first);
    assert_eq!(deliveries(&inboxes[0]), (0, false));
}

#[test]
fn a_group_that_was_left_is_taken_up_before_another_is_begun() {
    let (queue, _tickets, _inboxes) = queue([4]);
    let (_, group) = begin(&queue).unwrap();
    {
        let mut state = queue.lock();
        let restore = state.restores.get_mut(&SLOW).unwrap();
        restore.threads -= 1;
        restore.left.push(group);
    }
    assert_eq!(begin(&queue).unwrap().1.number, 0);
    assert_eq!(begin(&queue).unwrap().1.number, 1);
}
