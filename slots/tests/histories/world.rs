//! A store, its naive model, and the steps.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hob_slots::{
    AdjustedTime, BlockId, ConversationId, Lifetimes, LiveRefs, ModelHash, NoEngine, Quota, Rules,
    SAVE_GRACE, SlotRecord, Store, Sweeper, Swept, Timestamp, TtlClass,
};

use crate::remembered::Remembered;
use crate::support::memory::{EPOCH, MemoryFiles};
use crate::support::random::Random;
use crate::support::talk::{BLOCK, MODEL, Talk, id, later, missing_objects};

const DIR: &str = "/slots";
const NAMES: [&str; 5] = ["ada", "ben", "cleo.2", "dan", "eve"];

/// Counts of steps, to show what a run has covered.
#[derive(Debug, Default)]
pub struct Counts {
    saves: usize,
    restores: usize,
    sweeps: usize,
    left: usize,
    compressed: usize,
    power_cuts: usize,
    kills: usize,
    damages: usize,
    objects_read: usize,
}

impl Counts {
    pub fn add(&mut self, more: Self) {
        self.saves += more.saves;
        self.restores += more.restores;
        self.sweeps += more.sweeps;
        self.left += more.left;
        self.compressed += more.compressed;
        self.power_cuts += more.power_cuts;
        self.kills += more.kills;
        self.damages += more.damages;
        self.objects_read += more.objects_read;
    }
}

pub struct World {
    files: MemoryFiles,
    store: Store,
    sweeper: Sweeper,
    random: Random,
    minute: u64,
    talks: BTreeMap<ConversationId, Remembered>,
    open: BTreeSet<ConversationId>,
    /// Damaged objects may be missing.
    damaged: BTreeSet<String>,
    counts: Counts,
    /// Prints each step.
    tells: bool,
}

/// The state that a step would leave of each of its conversations.
type Outcome = Vec<(ConversationId, Option<SlotRecord>)>;

impl World {
    pub fn new(seed: u64, tells: bool) -> Self {
        let files = MemoryFiles::new();
        Self {
            store: Store::open_on(Arc::new(files.clone()), DIR).expect("a new disk works"),
            files,
            sweeper: Sweeper::new(Rules::default()),
            random: Random::new(seed),
            minute: 100,
            talks: NAMES.iter().map(|name| (id(name), Remembered::default())).collect(),
            open: BTreeSet::new(),
            damaged: BTreeSet::new(),
            counts: Counts::default(),
            tells,
        }
    }

    /// Runs a step, sometimes with a crash in the middle.
    pub fn step(&mut self) {
        self.minute += self.random.below(30) as u64;
        self.files.set_time(self.now());
        let crashes = self.random.once_in(4);
        if crashes {
            self.files.cut_after(self.random.below(70));
        }
        let name = id(NAMES[self.random.below(NAMES.len())]);
        match self.random.below(16) {
            0..6 => self.turn(name),
            6 => self.fork(name),
            7 => self.class_changes(name),
            8 | 9 => self.is_restored(name, crashes),
            10 => drop(self.open.remove(&name)),
            11..14 => self.is_swept(crashes),
            14 => self.is_forgotten(name),
            _ if !crashes => self.corrupts(name),
            _ => {}
        }
        if crashes {
            self.crashes();
        }
        self.assert_remembered();
    }

    /// Removes everything and checks that no file is left.
    pub fn end(mut self) -> Counts {
        self.minute += 100 * 24 * 60;
        let rules = Rules { quota: Quota::Bytes(0), grace: Duration::ZERO, ..Rules::default() };
        let now = AdjustedTime::from(self.now());
        let swept = Sweeper::new(rules).sweep(&self.store, &now, &NoEngine);
        assert!(swept.errors.is_empty() && !swept.left, "{swept:?}");
        let mut files = self.files.disk().files();
        files.retain(|(path, _)| !path.components().any(|part| part.as_os_str() == "quarantine"));
        let files: Vec<PathBuf> = files.into_iter().map(|(path, _)| path).collect();
        assert_eq!(files, [PathBuf::from("/slots/owner.lock")], "left over");
        self.counts
    }

    /// A turn, sometimes after a rewind.
    fn turn(&mut self, name: ConversationId) {
        let mut words = self.talks[&name].now.as_ref().map_or(Vec::new(), words_of);
        if self.random.once_in(4) {
            words.truncate(self.random.below(words.len() + 1));
        }
        self.speaks(name, words);
    }

    fn fork(&mut self, name: ConversationId) {
        let other = id(NAMES[self.random.below(NAMES.len())]);
        let mut words = self.talks[&other].now.as_ref().map_or(Vec::new(), words_of);
        words.truncate(1 + self.random.below(words.len() + 1));
        self.speaks(name, words);
    }

    fn speaks(&mut self, name: ConversationId, mut words: Vec<i32>) {
        for _ in 0..=self.random.below(3) {
            words.push(self.random.below(3) as i32);
        }
        words.truncate(12);
        let before = self.talks[&name].now.as_ref().map(|record| record.class);
        let class = match before {
            Some(class) if !self.random.once_in(4) => class,
            _ => *self.random.choose(&TtlClass::ALL),
        };
        let pure =
            if self.random.once_in(3) { 1 + self.random.below(words.len()) } else { words.len() };
        let mut talk = Talk::with_pure(name.as_str(), class, self.now(), &words, pure);
        if self.random.once_in(3) {
            talk = talk.with_snapshot();
        }
        self.open.insert(name.clone());
        self.saves(name, &talk);
    }

    /// Only the class changes.
    fn class_changes(&mut self, name: ConversationId) {
        let Some(before) = &self.talks[&name].now else { return };
        let class = *self.random.choose(&TtlClass::ALL);
        let record = SlotRecord { class, ..before.clone() };
        let whole = self.talks[&name].whole;
        self.saves(name.clone(), &Talk { record, objects: Vec::new() });
        self.remember(&name).whole = whole;
    }

    fn saves(&mut self, name: ConversationId, talk: &Talk) {
        self.counts.saves += 1;
        let saved = talk.save(&self.store).map_err(|error| error.to_string());
        self.leaves(saved, vec![(name, Some(talk.record.clone()))]);
    }

    fn is_restored(&mut self, name: ConversationId, crashes: bool) {
        self.counts.restores += 1;
        self.open.insert(name.clone());
        let read = self.store.get_slot(MODEL, &name).ok();
        let remembered = &self.talks[&name].now;
        assert!(read == *remembered || (crashes && read.is_none()), "{name} reads {read:?}");
    }

    fn is_forgotten(&mut self, name: ConversationId) {
        self.open.remove(&name);
        let now = self.talks[&name].now.iter();
        let named: BTreeSet<BlockId> =
            now.flat_map(SlotRecord::objects).map(|(object, _)| object).collect();
        let forgotten = self.store.forget(MODEL, &name, &named).map_err(|error| error.to_string());
        self.leaves(forgotten.map(drop), vec![(name, None)]);
    }

    fn is_swept(&mut self, crashes: bool) {
        self.counts.sweeps += 1;
        let rules = Rules {
            quota: *self.random.choose(&[
                Quota::Bytes(u64::MAX),
                Quota::Automatic,
                Quota::Bytes(10_000),
                Quota::Bytes(3_000),
            ]),
            compress_after: *self.random.choose(&[None, Some(Duration::from_secs(30 * 60))]),
            grace: *self.random.choose(&[Duration::ZERO, SAVE_GRACE]),
            ..Rules::default()
        };
        if *self.sweeper.rules() != rules || self.random.once_in(2) {
            self.sweeper = Sweeper::new(rules);
        }
        let engine = Engine { open: &self.open, left: RefCell::default() };
        let swept = self.sweeper.sweep(&self.store, &AdjustedTime::from(self.now()), &engine);
        let left = engine.left.into_inner();
        assert!(left.is_disjoint(&self.open), "{left:?} left while {:?} are open", self.open);
        if self.tells {
            println!("minute {}: {rules:?} {swept:?}, {left:?} left", self.minute);
        }
        self.counts.left += left.len();
        self.counts.compressed += swept.compressed;
        if !swept.errors.is_empty() {
            assert!(crashes, "{:?}", swept.errors);
            let closed: Vec<_> =
                self.talks.keys().filter(|name| !self.open.contains(name)).cloned().collect();
            let outcome = closed.into_iter().map(|name| (name, None)).collect();
            return self.leaves(Err("interrupted".into()), outcome);
        }
        if !crashes {
            self.assert_swept(&swept, &left, rules);
        }
        for (name, remembered) in &mut self.talks {
            if left.contains(name) { remembered.is_now(None) } else { remembered.is_settled() }
        }
    }

    /// Expired conversations are gone, no other one is, and the quota holds.
    fn assert_swept(&self, swept: &Swept, left: &BTreeSet<ConversationId>, rules: Rules) {
        for (name, remembered) in &self.talks {
            let Some(record) = &remembered.now else { continue };
            let lifetime = Lifetimes::default().of(record.class);
            let is_over =
                lifetime.is_some_and(|lifetime| record.used_at.age(self.now()) > lifetime);
            let is_open = self.open.contains(name);
            assert!(left.contains(name) || !is_over || is_open, "{name} is over: {record:?}");
            let may_leave = is_over || rules.quota != Quota::Bytes(u64::MAX);
            assert!(may_leave || !left.contains(name), "{name} left: {record:?}");
        }
        let closed_stay = self.talks.iter().any(|(name, remembered)| {
            remembered.now.is_some() && !left.contains(name) && !self.open.contains(name)
        });
        let quota = swept.quota_bytes;
        let kept = self.used_bytes();
        assert!(kept <= quota || !closed_stay, "{kept} bytes are kept of {quota}: {swept:?}");
    }

    fn used_bytes(&self) -> u64 {
        let slots = self.store.contents(MODEL).expect("the disk works").slots;
        let files: u64 = slots.iter().map(|slot| slot.entry.file_bytes).sum();
        let objects: BTreeSet<BlockId> =
            slots.iter().flat_map(|slot| &slot.objects).map(|(object, _)| *object).collect();
        let bytes = |&object| self.store.object_bytes(MODEL, object).unwrap_or(0);
        files + objects.iter().map(bytes).sum::<u64>()
    }

    /// Flips a bit of a file, or truncates it.
    fn corrupts(&mut self, name: ConversationId) {
        let Some(record) = self.talks[&name].now.clone() else { return };
        let objects: Vec<BlockId> = record.objects().map(|(object, _)| object).collect();
        let (slot, at) = (self.random.once_in(3), self.random.below(100_000));
        let path = if slot {
            format!("{DIR}/{MODEL}/{}.{}.bin", name.file_stem(), record.class.file_word())
        } else {
            let object = self.random.choose(&objects).to_string();
            let path = format!("{DIR}/{MODEL}/objects/{}/{object}.kv", &object[..2]);
            self.damaged.insert(object);
            path
        };
        let path = PathBuf::from(path);
        if self.files.disk().find(&path).is_err() {
            return; // Damaged before, and in quarantine.
        }
        let cut = self.random.once_in(3);
        self.files.corrupt(&path, |bytes| match at % bytes.len() {
            at if cut => bytes.truncate(at),
            // A file of a later version is valid and stops the collector.
            8 | 9 => bytes.truncate(8),
            at => bytes[at] ^= 1 << (at % 8),
        });
        self.counts.damages += 1;
        if self.tells {
            println!("minute {}: {} corrupted", self.minute, path.display());
        }
        if slot {
            // An older file may appear behind the damaged one.
            let read = self.store.get_slot(MODEL, &name).ok();
            let remembered = self.remember(&name);
            remembered.may_become(None);
            remembered.reads(read, name.as_str());
            remembered.whole = false;
        }
    }

    /// A crash of the process, or of the machine, and a restart.
    fn crashes(&mut self) {
        let disk = self.files.disk();
        let disk = if self.random.once_in(3) {
            self.counts.kills += 1;
            disk
        } else {
            self.counts.power_cuts += 1;
            let ways = disk.ways();
            let left: Vec<usize> = ways.iter().map(|&ways| self.random.below(ways)).collect();
            disk.left(&left)
        };
        self.files = MemoryFiles::on(disk);
        self.files.set_time(self.now());
        if self.tells {
            println!("minute {}: a crash", self.minute);
        }
        self.store = Store::open_on(Arc::new(self.files.clone()), DIR).expect("it opens");
        self.sweeper = Sweeper::new(Rules::default());
        self.open.clear();
        for (name, remembered) in &mut self.talks {
            remembered.reads(self.store.get_slot(MODEL, name).ok(), name.as_str());
        }
        let files = self.files.disk().files();
        let temporary = files.iter().find(|(path, _)| path.iter().any(|part| part == "tmp"));
        assert!(temporary.is_none(), "{temporary:?} is left");
    }

    /// Every conversation and the listing equal the model.
    fn assert_remembered(&mut self) {
        let listing = self.store.contents(MODEL).expect("the disk works");
        let listed: BTreeMap<_, _> =
            listing.slots.iter().map(|slot| (&slot.entry.conversation, slot)).collect();
        for (name, remembered) in &self.talks {
            let read = self.store.get_slot(MODEL, name).ok();
            assert!(read == remembered.now, "{name} reads {read:?} instead of {remembered:?}");
            let Some(record) = read else {
                assert!(!listed.contains_key(name), "{name} is listed and cannot be read");
                continue;
            };
            let entry = &listed.get(name).expect("what reads is listed").entry;
            assert_eq!((entry.class, entry.used_at), (record.class, record.used_at), "{name}");
            self.counts.objects_read += record.objects().count();
            let missing = missing_objects(&self.store, &record);
            let lost = missing.iter().find(|object| !self.damaged.contains(&object.to_string()));
            assert!(lost.is_none() || !remembered.whole, "{name} needs {lost:?}");
        }
    }

    /// A step succeeded or crashed.
    fn leaves(&mut self, ended: Result<(), String>, outcome: Outcome) {
        if self.tells {
            let outcome = outcome.iter().map(|(name, left)| (name, left.as_ref().map(told)));
            println!("minute {}: {ended:?} {:?}", self.minute, outcome.collect::<Vec<_>>());
        }
        let interrupted = match ended {
            Ok(()) => false,
            Err(why) => {
                assert!(why.contains("the power is out") || why == "interrupted", "{why}");
                true
            }
        };
        for (name, record) in outcome {
            let remembered = self.remember(&name);
            if interrupted { remembered.may_become(record) } else { remembered.is_now(record) }
        }
    }

    fn remember(&mut self, name: &ConversationId) -> &mut Remembered {
        self.talks.get_mut(name).expect("every conversation is remembered")
    }

    fn now(&self) -> Timestamp {
        later(EPOCH, self.minute)
    }
}

/// A short description of a record.
fn told(record: &SlotRecord) -> String {
    format!("{} {:?} at {}", record.class, words_of(record), record.used_at.0 / 60_000 % 100_000)
}

/// The words of a timeline.
fn words_of(record: &SlotRecord) -> Vec<i32> {
    record.tokens.chunks(BLOCK).map(|block| block[0].0).collect()
}

/// An engine with open conversations.
struct Engine<'w> {
    open: &'w BTreeSet<ConversationId>,
    left: RefCell<BTreeSet<ConversationId>>,
}

impl LiveRefs for Engine<'_> {
    fn is_open(&self, _: ModelHash, conversation: &ConversationId) -> bool {
        self.open.contains(conversation)
    }

    fn slot_file_removed(&self, _: ModelHash, conversation: &ConversationId) {
        self.left.borrow_mut().insert(conversation.clone());
    }

    hob_slots::as_without_engine!(
        is_stopping,
        slot_file_replaced,
        while_none_reads,
        objects_lost,
        can_round,
        rounded,
        block_renamed,
        with_unreferenced
    );
}
