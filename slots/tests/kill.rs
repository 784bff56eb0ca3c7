//! Kills a process that saves, sweeps and prunes, at random times; every second one once it has begun some actions.
//!
//! - 300 kills; with `HOB_TEST_ALL=1` 10,000.
//! - The process is this program. It logs each action to a journal before and after doing it.
//!   Whenever it is killed, the next process finds the old conversation or the new one with all of
//!   its objects, and no unfinished file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use hob_slots::format::{BlockRef, Object, ObjectKind, SlotRecord};
use hob_slots::store::{Miss, SAVE_GRACE, Store};
use hob_slots::sweep::{NoEngine, Quota, Rules, Sweeper};
use hob_slots::{
    AdjustedTime, BlockId, ConversationId, ModelHash, Payload, Timestamp, Token, TtlClass,
};

const MODEL: ModelHash = ModelHash([3; 8]);
const CONVERSATIONS: u64 = 6;
/// Set in the process to kill: directory and seed.
const VICTIM: &str = "HOB_TEST_VICTIM";

#[test]
fn a_killed_process_leaves_no_torn_file() {
    let rounds = if std::env::var("HOB_TEST_ALL").is_ok() { 10_000 } else { 300 };
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut known = PossibleStates::default();
    let mut actions = 0;
    for round in 0..rounds {
        let journal = dir.path().join("journal");
        fs::write(&journal, "").unwrap();
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_victim", "--ignored"])
            .env(VICTIM, format!("{}|{}", dir.path().display(), random.next()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Half of them may be killed before they have begun an action: while they open the store.
        if round % 2 == 1 {
            until_it_acts(&journal);
        }
        std::thread::sleep(Duration::from_micros(random.below(25_000)));
        victim.kill().unwrap();
        victim.wait().unwrap();

        let done = fs::read_to_string(&journal).unwrap();
        actions += known.read(&done);
        known.check(dir.path(), round);
    }
    println!("{rounds} kills in {actions} actions");
    assert!(actions > rounds, "the victims did something before they died");
}

/// Waits until the victim has begun three actions: all together are more than the kills then.
fn until_it_acts(journal: &Path) {
    let began = Instant::now();
    while fs::read_to_string(journal).unwrap().lines().count() < 4 {
        assert!(began.elapsed() < Duration::from_secs(60), "the victim does nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The possible states of each conversation.
#[derive(Default)]
struct PossibleStates(BTreeMap<u64, Vec<Option<u64>>>);

impl PossibleStates {
    /// Reads the victim's journal. Returns the number of actions.
    fn read(&mut self, journal: &str) -> u64 {
        let mut actions = 0;
        // The last line may be torn: its action had not begun.
        let whole = journal.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            actions += 1;
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            match words[0] {
                "saving" => self.0.entry(number(1)).or_insert(vec![None]).push(Some(number(2))),
                "saved" => drop(self.0.insert(number(1), vec![Some(number(2))])),
                "leaving" => self.0.entry(number(1)).or_default().push(None),
                "left" => drop(self.0.insert(number(1), vec![None])),
                // A sweep may remove any conversation, also one that was not finished.
                "sweeping" => self.0.values_mut().for_each(|states| states.push(None)),
                other => panic!("{other}"),
            }
        }
        actions
    }

    fn check(&mut self, dir: &Path, round: u64) {
        let store = Store::open(slots(dir)).unwrap();
        let unfinished = fs::read_dir(slots(dir).join(MODEL.to_string()).join("tmp"));
        let unfinished = unfinished.map_or(0, Iterator::count);
        assert_eq!(unfinished, 0, "round {round}: no file is left unfinished");
        for (&who, states) in &mut self.0 {
            let found = match store.get_slot(MODEL, &name(who)) {
                Ok(record) => {
                    let version = u64::try_from(record.tokens[0].0).unwrap();
                    assert_eq!(record.tokens, expected(who, version).tokens, "round {round}");
                    whole(&store, who, version, &record);
                    Some(version)
                }
                Err(Miss::Absent) => None,
                Err(miss) => panic!("round {round}: {who}: {miss}"),
            };
            assert!(
                states.contains(&found),
                "round {round}: {who} is {found:?}, not of {states:?}"
            );
            *states = vec![found];
        }
        let rejected = store.quarantined(MODEL).unwrap();
        assert!(rejected.is_empty(), "round {round}: {rejected:?}");
    }
}

fn whole(store: &Store, who: u64, version: u64, record: &SlotRecord) {
    for (block, object) in record.blocks.iter().zip(objects(who, version)) {
        let found = store.get_object(MODEL, block.id, ObjectKind::Block);
        assert_eq!(found.expect("what a slot file names is there"), object);
    }
}

/// Runs only as the process to kill.
#[test]
#[ignore = "it works until it is killed"]
fn the_victim() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let (dir, seed) = told.rsplit_once('|').unwrap();
    let (dir, mut random) = (PathBuf::from(dir), Random(seed.parse::<u64>().unwrap() | 1));
    let mut journal = OpenOptions::new().append(true).open(dir.join("journal")).unwrap();
    let store = Store::open(slots(&dir)).unwrap();
    loop {
        act(&store, &mut random, &mut journal);
    }
}

fn act(store: &Store, random: &mut Random, journal: &mut File) {
    let mut say = |what: String| journal.write_all(format!("{what}\n").as_bytes()).unwrap();
    let who = random.below(CONVERSATIONS);
    match random.below(10) {
        0..7 => {
            let version = 1 + random.below(1 << 30);
            say(format!("saving {who} {version}"));
            for object in objects(who, version) {
                store.put_object(MODEL, object.id(), &object).unwrap();
            }
            store.put_slot(MODEL, &expected(who, version)).unwrap();
            say(format!("saved {who} {version}"));
        }
        7 => {
            say(format!("leaving {who}"));
            let named = store.get_slot(MODEL, &name(who)).map(|record| record.objects().collect());
            let named: Vec<(BlockId, u64)> = named.unwrap_or_default();
            let named = named.into_iter().map(|(id, _)| id).collect();
            store.forget(MODEL, &name(who), &named).unwrap();
            say(format!("left {who}"));
        }
        _ => {
            say("sweeping".to_owned());
            let rules = Rules {
                compress_after: Some(Duration::ZERO),
                quota: Quota::Bytes(200_000),
                ..Rules::default()
            };
            let later = SystemTime::now() + SAVE_GRACE + Duration::from_secs(random.below(7_200));
            let now = AdjustedTime::from(Timestamp::from(later));
            let swept = Sweeper::new(rules).sweep(store, &now, &NoEngine);
            assert!(swept.errors.is_empty(), "{:?}", swept.errors);
        }
    }
}

fn expected(who: u64, version: u64) -> SlotRecord {
    let blocks = objects(who, version).into_iter().zip(1..).map(|(object, n)| BlockRef {
        end: 64 * n,
        id: object.id(),
        bytes: object.file_bytes(),
    });
    let classes = TtlClass::ALL;
    let now = Timestamp::from(SystemTime::now());
    let blocks: Vec<BlockRef> = blocks.collect();
    SlotRecord {
        turns: 1,
        tokens: vec![Token(version as i32); 64 * blocks.len()],
        blocks,
        ..SlotRecord::empty(name(who), classes[(version % 4) as usize], now)
    }
}

/// A prefix that all share, a middle of the conversation, an end of the version.
fn objects(who: u64, version: u64) -> Vec<Object> {
    let mut parent = BlockId::root(MODEL);
    let block = |(at, word): (usize, u64)| {
        let object = Object {
            kind: ObjectKind::Block,
            model: MODEL,
            parent,
            start: 64 * at as u32,
            tokens: vec![Token(word as i32); 64],
            payload: Payload::from(vec![word as u8; 20_000]),
        };
        parent = object.id();
        object
    };
    [7, 100 + who, version].into_iter().enumerate().map(block).collect()
}

fn slots(dir: &Path) -> PathBuf {
    dir.join("slots")
}

fn name(who: u64) -> ConversationId {
    format!("chat.{who}").parse().unwrap()
}

/// Xorshift64*: enough to choose times and actions.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
