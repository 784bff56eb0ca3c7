//! Learns when the blocks of each class are reused.
//!
//! - Sees every use, also of blocks that are not cached, so a class that is never cached is still
//!   measured.
//! - Blocks that a run used last age together, as a number. A run counts as one, whatever its
//!   length.
//! - A run may report a block several times: when it is inserted, and when the answer has ended.
//!   Only the first counts as a use; a later one may change the block's class.
//! - Memory is bounded by several budgets.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use super::super::{AnswerEnd, BlockMeta, Name, Run};
use super::classes::Class;
use super::histogram::{self, AGES, Density, Histogram};
use super::history::History;
use super::observed::Observed;
use crate::time::Timestamp;

/// Budgets of remembered blocks.
const REMEMBERED_BUDGETS: u64 = 16;

/// Conversations with a remembered last run.
const MAX_CONVERSATIONS: usize = 8_192;

/// A group has this many names, or twice as many as blocks.
const MAX_NAMES: usize = 8;

/// A period: after this many runs densities are recomputed and older observations fade.
const REFRESH_RUNS: u64 = 32;

#[derive(Clone, Debug)]
pub struct Learned<Id> {
    remembered: HashMap<Id, Remembered>,
    groups: BTreeMap<u64, Group<Id>>,
    // The groups of each age, oldest first. May name removed groups.
    aging: [VecDeque<u64>; AGES],
    // The groups of the current run, as it is labelled now.
    current: [Option<u64>; 2],
    ended: AnswerEnd,
    groups_begun: u64,
    bytes: u64,
    max_bytes: u64,
    run: LatestRun,
    // The last run of each conversation, in the newer and the older half.
    latest: [HashMap<u64, LatestRun>; 2],
    runs: u64,
    observed: Observed,
    densities: Vec<Option<(u64, [Density; AGES])>>,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    group: u64,
    bytes: u64,
    conversation: u64,
    run: u64,
    shared: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LatestRun {
    number: u64,
    conversation: u64,
    turn: u32,
    begun_at: Timestamp,
    gap_secs: Option<u64>,
}

/// Blocks of one class that one run used last.
#[derive(Clone, Debug)]
struct Group<Id> {
    class: Class,
    used_at: Timestamp,
    // The weight of one block.
    weight: f32,
    // Blocks not used since.
    blocks: u32,
    // Theirs, and some of blocks that were.
    ids: Vec<Id>,
}

impl<Id: Name> Learned<Id> {
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            remembered: HashMap::new(),
            groups: BTreeMap::new(),
            aging: std::array::from_fn(|_| VecDeque::new()),
            current: [None; 2],
            ended: AnswerEnd::default(),
            groups_begun: 0,
            bytes: 0,
            max_bytes: budget_bytes.saturating_mul(REMEMBERED_BUDGETS),
            run: LatestRun::default(),
            latest: [HashMap::new(), HashMap::new()],
            runs: 0,
            observed: Observed::default(),
            densities: vec![None; Class::COUNT],
        }
    }

    /// Learns from `history` before the first run.
    pub fn with_history(mut self, history: &History) -> Self {
        self.observed.add(history);
        self
    }

    /// What was learned until now.
    pub fn history(&self) -> History {
        self.observed.history(self.period())
    }

    /// Runs since the start.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Whether this run has used the block before.
    pub fn is_again(&self, id: &Id, run: &Run) -> bool {
        run.number != 0 && self.remembered.get(id).is_some_and(|before| before.run == run.number)
    }

    /// A run uses a block, cached or not. Returns the block's new class.
    pub fn used(&mut self, id: Id, meta: &BlockMeta<Id>, now: Timestamp) -> Class {
        self.enter_run(&meta.run, now);
        let Run { number: run, conversation, .. } = meta.run;
        let before = self.remembered.get(&id).copied();
        let shared =
            before.is_some_and(|before| before.shared || before.conversation != conversation);
        if let Some(before) = before {
            if self.current.contains(&Some(before.group)) {
                return self.groups[&before.group].class;
            }
            let is_again = run != 0 && before.run == run;
            self.leave_group(before, now, !is_again);
        } else {
            self.bytes += meta.bytes;
        }
        let number = self.current_group(shared, meta, now);
        let bytes = before.map_or(meta.bytes, |before| before.bytes);
        let remembered = Remembered { group: number, bytes, conversation, run, shared };
        self.remembered.insert(id, remembered);
        let group = self.groups.get_mut(&number).expect("the current group is here");
        group.blocks += 1;
        group.ids.push(id);
        let class = group.class;
        self.forget_the_oldest();
        class
    }

    /// The class of a recently used block.
    pub fn class(&self, id: &Id) -> Option<Class> {
        Some(self.groups.get(&self.remembered.get(id)?.group)?.class)
    }

    /// The density of a class at this age, and the minimum over younger ages.
    pub fn density(&mut self, class: Class, age: Duration) -> Density {
        // Spread over time.
        let version = (self.runs + class.index() as u64) / REFRESH_RUNS;
        let period = self.period();
        let known = &mut self.densities[class.index()];
        let densities = match known {
            Some((of, densities)) if *of == version => densities,
            _ => {
                let chances = self.observed.chances(class, period);
                &mut known.insert((version, histogram::densities(&chances))).1
            }
        };
        densities[histogram::bucket(age)]
    }

    /// A run: the uses of one turn of a conversation; without a conversation, of one time.
    fn enter_run(&mut self, run: &Run, now: Timestamp) {
        let (conversation, turn) = (run.conversation, run.turn);
        let same = (self.run.number, self.run.conversation, self.run.turn)
            == (run.number, conversation, turn);
        if self.runs > 0 && same && (conversation != 0 || self.run.begun_at == now) {
            if std::mem::replace(&mut self.ended, run.ended) != run.ended {
                self.current = [None; 2];
            }
            return;
        }
        self.ended = run.ended;
        let [newer, older] = &self.latest;
        let before = newer.get(&conversation).or_else(|| older.get(&conversation)).copied();
        self.run = match before.filter(|_| conversation != 0) {
            // The turn continues after another run.
            Some(before) if before.turn == turn => LatestRun { number: run.number, ..before },
            before => {
                let gap_secs = before.map(|before| before.begun_at.age(now).as_secs());
                LatestRun { number: run.number, conversation, turn, begun_at: now, gap_secs }
            }
        };
        if self.latest[0].len() == MAX_CONVERSATIONS / 2 {
            self.latest[1] = std::mem::take(&mut self.latest[0]);
        }
        self.latest[0].insert(conversation, self.run);
        self.current = [None; 2];
        self.runs += 1;
        self.age_groups(now);
    }

    fn current_group(&mut self, shared: bool, meta: &BlockMeta<Id>, now: Timestamp) -> u64 {
        if let Some(number) = self.current[usize::from(shared)] {
            return number;
        }
        self.groups_begun += 1;
        let number = self.groups_begun;
        let class = Class::of(&meta.run, self.run.gap_secs, shared);
        let weight = 1.0 / meta.run.blocks.max(1) as f32;
        let group = Group { class, used_at: now, weight, blocks: 0, ids: Vec::new() };
        self.groups.insert(number, group);
        self.aging[0].push_back(number);
        self.current[usize::from(shared)] = Some(number);
        number
    }

    /// The block leaves the group of its last use. `counts`: because it was used again.
    fn leave_group(&mut self, before: Remembered, now: Timestamp, counts: bool) {
        let group = self.groups.get_mut(&before.group).expect("a remembered block has a group");
        let (class, weight) = (group.class, group.weight);
        let bucket = histogram::bucket(group.used_at.age(now));
        group.blocks -= 1;
        if group.blocks == 0 {
            self.groups.remove(&before.group);
        } else if group.ids.len() > MAX_NAMES.max(2 * group.blocks as usize) {
            // The last block of a prompt is never used again, because the next turn's is longer: its group stays.
            let remembered = &self.remembered;
            let is_here = |id: &Id| remembered.get(id).is_some_and(|it| it.group == before.group);
            group.ids.retain(is_here);
            group.ids.shrink_to_fit();
        }
        if counts {
            self.observe(class, |histogram| histogram.add_used(bucket, weight));
        }
    }

    /// Counts blocks that survived a bucket.
    fn age_groups(&mut self, now: Timestamp) {
        for bucket in 0..AGES - 1 {
            let end = histogram::end(bucket).expect("all but the last bucket end");
            while let Some(&number) = self.aging[bucket].front() {
                if let Some(group) = self.groups.get(&number) {
                    if group.used_at.age(now) < end {
                        break;
                    }
                    let (class, weight) = (group.class, group.weight * group.blocks as f32);
                    self.aging[bucket + 1].push_back(number);
                    self.observe(class, |histogram| histogram.add_survived(bucket, weight));
                }
                self.aging[bucket].pop_front();
            }
        }
        while let Some(number) = self.aging[AGES - 1].front()
            && !self.groups.contains_key(number)
        {
            self.aging[AGES - 1].pop_front();
        }
    }

    fn observe(&mut self, class: Class, change: impl Fn(&mut Histogram)) {
        let period = self.period();
        self.observed.change(class, period, change);
    }

    fn period(&self) -> u64 {
        self.runs / REFRESH_RUNS
    }

    fn forget_the_oldest(&mut self) {
        while self.bytes > self.max_bytes {
            let Some((number, group)) = self.groups.pop_first() else { return };
            for slot in &mut self.current {
                *slot = slot.filter(|&current| current != number);
            }
            for id in group.ids {
                if self.remembered.get(&id).is_some_and(|block| block.group == number) {
                    let block = self.remembered.remove(&id).expect("it was just found");
                    self.bytes -= block.bytes;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_never_used_again_keeps_no_names_of_others() {
        const TURNS: u32 = 100;
        let mut learned: Learned<u64> = Learned::new(u64::MAX);
        for turn in 1..=TURNS {
            let number = u64::from(turn);
            let run = Run { number, conversation: 1, turn, blocks: 101, ..Run::default() };
            let meta = BlockMeta { run, ..BlockMeta::new(None, 1) };
            for id in (0..100).chain([1_000 + number]) {
                learned.used(id, &meta, Timestamp(number * 1_000));
            }
        }
        assert_eq!(learned.remembered.len(), 100 + TURNS as usize);
        let names: usize = learned.groups.values().map(|group| group.ids.len()).sum();
        let most = 2 * learned.remembered.len() + MAX_NAMES * learned.groups.len();
        assert!(names <= most, "{names} names of {most} at most");
    }
}
