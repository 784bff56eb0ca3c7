//! Everything that changes a directory, as scenarios: a state and an action.
//!
//! A fault or power cut during a scenario may leave each conversation as before or as after, and
//! nothing else.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use hob_slots::store::files::{Files, read_all, write_all};
use hob_slots::{
    AdjustedTime, ClockTracker, LiveRefs, Lossy, ModelHash, NoEngine, ObjectKind, Quota, Rules,
    Store, Sweeper, Timestamp, TtlClass,
};

use super::talk::{MODEL, ROUNDED_BYTES, Talk, id, later, start};

/// The last use of everything saved before a scenario.
static START: LazyLock<Timestamp> = LazyLock::new(start);

pub struct Scenario {
    pub name: &'static str,
    pub talks: &'static [&'static str],
    pub prepare: fn(&Store, &dyn Files),
    /// Can be repeated after a failure, and then succeeds.
    pub act: fn(&Store) -> Result<(), String>,
    /// Whether a file is damaged before.
    pub damaged: bool,
    /// Conversations that a quota may remove when others could not be.
    pub at_will: &'static [&'static str],
}

const PLAIN: Scenario = Scenario {
    name: "",
    talks: &[],
    prepare: |_, _| {},
    act: |_| Ok(()),
    damaged: false,
    at_will: &[],
};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "save the first conversation of all",
        talks: &["chat"],
        act: |store| told(chat(TtlClass::Long, 1, &[1, 2]).with_snapshot().save(store)),
        ..PLAIN
    },
    Scenario {
        name: "save a conversation beside another one that begins alike",
        talks: &["chat", "other"],
        prepare: |store, _| talk("other", TtlClass::Long, &[1, 2, 9]).save(store).unwrap(),
        act: |store| told(chat(TtlClass::Long, 1, &[1, 2, 3]).save(store)),
        ..PLAIN
    },
    Scenario {
        name: "replace a conversation by its next turn",
        talks: &["chat", "other"],
        prepare: |store, _| {
            chat(TtlClass::Long, 0, &[1, 2]).with_snapshot().save(store).unwrap();
            talk("other", TtlClass::Permanent, &[1]).save(store).unwrap();
        },
        act: |store| told(chat(TtlClass::Long, 1, &[1, 2, 3, 4]).with_snapshot().save(store)),
        ..PLAIN
    },
    Scenario {
        name: "change the class of a conversation with a turn",
        talks: &["chat"],
        prepare: |store, _| chat(TtlClass::Permanent, 0, &[1, 2]).save(store).unwrap(),
        act: |store| told(chat(TtlClass::Short, 1, &[1, 2, 3]).save(store)),
        ..PLAIN
    },
    Scenario {
        name: "change the class of a conversation and nothing else",
        talks: &["chat"],
        prepare: |store, _| chat(TtlClass::Short, 0, &[1, 2]).save(store).unwrap(),
        act: |store| told(chat(TtlClass::Permanent, 0, &[1, 2]).save(store)),
        ..PLAIN
    },
    Scenario {
        name: "sweep: expire, collect, compress",
        talks: &["over", "shares", "aged", "fresh"],
        prepare: |store, _| {
            talk("over", TtlClass::Short, &[1, 2, 3]).save(store).unwrap();
            talk("shares", TtlClass::Permanent, &[1, 2, 4, 5]).with_snapshot().save(store).unwrap();
            talk("aged", TtlClass::Extended, &[20, 21, 22, 23, 24, 25]).save(store).unwrap();
            Talk::new("fresh", TtlClass::Long, later(*START, 119), &[1, 50]).save(store).unwrap();
        },
        act: |store| sweep(store, 120, Quota::Bytes(u64::MAX)),
        ..PLAIN
    },
    Scenario {
        name: "sweep: expire, collect, hold the quota",
        talks: &["over", "dear", "cheap", "other"],
        prepare: |store, _| {
            talk("over", TtlClass::Short, &[1, 2, 3]).save(store).unwrap();
            talk("dear", TtlClass::Permanent, &[30, 31, 32, 33, 34, 35, 36]).save(store).unwrap();
            talk("cheap", TtlClass::Permanent, &[40]).with_snapshot().save(store).unwrap();
            talk("other", TtlClass::Long, &[1, 4]).save(store).unwrap();
        },
        act: |store| sweep(store, 30, Quota::Bytes(4_500)),
        at_will: &["dear", "cheap", "other"],
        ..PLAIN
    },
    Scenario {
        name: "sweep everything away",
        talks: &["over", "aged", "kept"],
        prepare: |store, _| {
            talk("over", TtlClass::Short, &[1, 2]).save(store).unwrap();
            talk("aged", TtlClass::Extended, &[1, 3]).save(store).unwrap();
            talk("kept", TtlClass::Permanent, &[4]).save(store).unwrap();
        },
        act: |store| sweep(store, 120, Quota::Bytes(0)),
        ..PLAIN
    },
    Scenario {
        name: "compress what has aged",
        talks: &["aged", "shares"],
        prepare: |store, _| {
            talk("aged", TtlClass::Permanent, &[1, 2, 3]).with_snapshot().save(store).unwrap();
            talk("shares", TtlClass::Permanent, &[1, 2, 4]).save(store).unwrap();
        },
        act: |store| sweep(store, 120, Quota::Bytes(u64::MAX)),
        ..PLAIN
    },
    Scenario {
        name: "round what has aged",
        talks: &["aged", "shares", "fresh"],
        prepare: |store, _| {
            talk("aged", TtlClass::Permanent, &[1, 2, 3]).save(store).unwrap();
            talk("shares", TtlClass::Permanent, &[1, 2, 4]).save(store).unwrap();
            Talk::new("fresh", TtlClass::Permanent, later(*START, 119), &[1, 5])
                .save(store)
                .unwrap();
        },
        act: |store| {
            let lossy = Some(Lossy::Q8);
            let rules = Rules { lossy, quota: Quota::Bytes(u64::MAX), ..Rules::default() };
            sweep_by(store, 120, Rules { grace: Duration::ZERO, ..rules }, &Rounder)?;
            let is_rounded = |name: &&str| {
                let record = store.get_slot(MODEL, &id(name));
                record.is_ok_and(|it| it.lineage.views.iter().any(|run| run.view.is_lossy()))
            };
            // An object that could not be read is read again by the next sweep.
            let whole = ["aged", "shares"].iter().all(is_rounded);
            whole.then_some(()).ok_or_else(|| "one is not rounded".to_owned())
        },
        ..PLAIN
    },
    Scenario {
        name: "forget a conversation and what it alone needs",
        talks: &["chat", "other"],
        prepare: |store, _| {
            chat(TtlClass::Long, 0, &[1, 2, 3]).with_snapshot().save(store).unwrap();
            talk("other", TtlClass::Long, &[1, 4]).save(store).unwrap();
        },
        act: |store| {
            let chat = chat(TtlClass::Long, 0, &[1, 2, 3]).with_snapshot();
            let named = chat.record.objects().map(|(id, _)| id).collect();
            told(store.forget(MODEL, &id("chat"), &named))
        },
        ..PLAIN
    },
    Scenario {
        name: "prune a conversation and collect",
        talks: &["chat", "other"],
        prepare: |store, _| {
            chat(TtlClass::Extended, 0, &[1, 2, 3]).save(store).unwrap();
            talk("other", TtlClass::Long, &[1, 4]).save(store).unwrap();
        },
        act: |store| {
            told(store.remove_slot(MODEL, &id("chat")))?;
            let (now, grace) = (AdjustedTime::from(later(*START, 60)), Duration::ZERO);
            let garbage = store.find_garbage(MODEL, &now, grace).map_err(|e| e.to_string())?;
            let mut unneeded = garbage.objects.into_iter();
            unneeded.try_for_each(|name| told(store.collect(MODEL, name, &now, grace)))
        },
        ..PLAIN
    },
    Scenario {
        name: "import: every object of a conversation, then its slot file",
        talks: &["chat", "imported"],
        prepare: |store, _| chat(TtlClass::Long, 0, &[1, 2]).save(store).unwrap(),
        act: |store| {
            let imported = talk("imported", TtlClass::Permanent, &[1, 2, 7, 8, 9]).with_snapshot();
            told(imported.save(store))
        },
        ..PLAIN
    },
    Scenario {
        name: "reject a damaged slot file and a damaged object",
        talks: &["chat", "damaged"],
        prepare: |store, files| {
            chat(TtlClass::Long, 0, &[1, 2]).save(store).unwrap();
            talk("damaged", TtlClass::Long, &[5]).save(store).unwrap();
            damage(files, store.dir().join(format!("{MODEL}/damaged.long.bin")));
            let object = talk("damaged", TtlClass::Long, &[5]).objects[0].id().to_string();
            let object = format!("{MODEL}/objects/{}/{object}.kv", &object[..2]);
            damage(files, store.dir().join(object));
        },
        act: |store| {
            let object = talk("damaged", TtlClass::Long, &[5]).objects[0].id();
            store.get_slot(MODEL, &id("damaged")).expect_err("it is damaged");
            store.get_object(MODEL, object, ObjectKind::Block).expect_err("it is damaged");
            told(store.trim_quarantine(MODEL, 0))
        },
        damaged: true,
        ..PLAIN
    },
    Scenario {
        name: "write down what is known of the clock",
        talks: &["chat"],
        prepare: |store, _| {
            chat(TtlClass::Long, 0, &[1]).save(store).unwrap();
            store.write_clock_tracker(&ClockTracker::default()).unwrap();
        },
        act: |store| {
            let mut keeper = ClockTracker::default();
            keeper.observe(*START, Duration::ZERO);
            told(store.write_clock_tracker(&keeper))
        },
        ..PLAIN
    },
    Scenario {
        name: "save, sweep and save again without a pause",
        talks: &["chat", "over", "other"],
        prepare: |store, _| {
            chat(TtlClass::Long, 0, &[1, 2]).save(store).unwrap();
            talk("over", TtlClass::Short, &[1, 2, 3, 4, 5, 6]).save(store).unwrap();
        },
        act: |store| {
            Talk::new("chat", TtlClass::Permanent, later(*START, 119), &[1, 7])
                .save(store)
                .map_err(|error| error.to_string())?;
            sweep(store, 120, Quota::Bytes(u64::MAX))?;
            // Again what was just collected.
            told(talk("other", TtlClass::Permanent, &[1, 2, 3, 4]).save(store))
        },
        ..PLAIN
    },
];

/// The conversation of most scenarios, some minutes after the start.
fn chat(class: TtlClass, minute: u64, words: &[i32]) -> Talk {
    Talk::new("chat", class, later(*START, minute), words)
}

fn talk(name: &str, class: TtlClass, words: &[i32]) -> Talk {
    Talk::new(name, class, *START, words)
}

fn sweep(store: &Store, minute: u64, quota: Quota) -> Result<(), String> {
    let rules = Rules { quota, grace: Duration::ZERO, ..Rules::default() };
    sweep_by(store, minute, rules, &NoEngine)
}

fn sweep_by(
    store: &Store,
    minute: u64,
    rules: Rules,
    live_refs: &dyn LiveRefs,
) -> Result<(), String> {
    let now = AdjustedTime::from(later(*START, minute));
    let swept = Sweeper::new(rules).sweep(store, &now, live_refs);
    swept.errors.first().map_or(Ok(()), |error| Err(error.to_string()))
}

/// An engine that rounds.
struct Rounder;

impl LiveRefs for Rounder {
    fn can_round(&self, _: ModelHash) -> bool {
        true
    }

    fn rounded(&self, payload: &[u8], _: Lossy) -> Option<Vec<u8>> {
        Some(payload[..ROUNDED_BYTES].to_vec())
    }

    hob_slots::as_without_engine!(
        is_open,
        is_stopping,
        slot_file_removed,
        slot_file_replaced,
        while_none_reads,
        objects_lost,
        block_renamed,
        with_unreferenced
    );
}

fn told<T>(result: Result<T, hob_slots::StoreError>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

/// Flips a bit near the end of a file.
fn damage(files: &dyn Files, path: PathBuf) {
    let mut bytes = read_all(&*files.open(&path).unwrap(), u64::MAX).unwrap();
    let at = bytes.len() - 9;
    bytes[at] ^= 1;
    files.remove(&path).unwrap();
    let mut file = files.create(&path).unwrap();
    write_all(&mut *file, &bytes).unwrap();
    file.sync().unwrap();
    files.sync_dir(path.parent().unwrap()).unwrap();
}
