//! Power cuts after every call of the store, which undo any part of the unsynced changes.
//!
//! - Every possible image can be opened and then has no temporary file.
//! - Each conversation reads as before or as after the step, with all of its objects; after the
//!   store has reported success, as after.
//! - No file is damaged: unsynced content has no name yet.
//!
//! `HOB_TEST_ALL=1` tests more than 50,000 images.

mod images;
mod steps;
#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use hob_slots::store::files::Files;
use hob_slots::{ConversationId, SlotRecord, Store, TtlClass};

use images::images;
use steps::{Steps, TALKS};
use support::bounded;
use support::memory::{Disk, EPOCH, MemoryFiles};
use support::random::Random;
use support::scenarios::{SCENARIOS, Scenario};
use support::talk::{MODEL, Readings, Talk, contents, id, missing_objects, readings, start};

const DIR: &str = "/slots";

/// The possible states of each conversation.
type Possible = BTreeMap<ConversationId, Vec<Option<SlotRecord>>>;

#[test]
fn a_power_cut_after_any_call_leaves_the_old_or_the_new() {
    let mut total = 0;
    for scenario in SCENARIOS {
        let (disks, old, new) = disks_after_calls(scenario, |_| {});
        let last = disks.len() - 1;
        let per_disk = bounded(250, 6_000) / disks.len() + 2;
        let (mut random, mut seen) = (Random::new(7), HashSet::new());
        for (at, disk) in disks.iter().enumerate() {
            let possible = if at == last { only(&new) } else { either(&old, &new) };
            for image in images(disk, per_disk, &mut random) {
                if seen.insert((image.digest(), at == last)) {
                    let judged = judge(scenario.damaged, image, &possible);
                    judged
                        .unwrap_or_else(|why| panic!("{}, after call {at}: {why}", scenario.name));
                }
            }
        }
        println!("{:6} images after {last:3} calls: {}", seen.len(), scenario.name);
        total += seen.len();
    }
    println!("{total} images of {} scenarios", SCENARIOS.len());
    assert!(total >= bounded(1_000, 6_000), "fewer images than there were: {total}");
}

#[test]
fn a_power_cut_at_any_call_of_a_history_leaves_the_state_before_or_after_the_step() {
    const STEPS: usize = 12;
    let names: Vec<_> = TALKS.iter().map(|name| id(name)).collect();
    let (histories, per_call) = bounded((30, 2), (250, 6));
    let mut total = 0;
    for number in 0..histories {
        let files = MemoryFiles::new();
        let store = Store::open_on(Arc::new(files.clone()), DIR).unwrap();
        let (mut steps, mut random) = (Steps::new(number, EPOCH), Random::new(!number));
        let mut seen = HashSet::new();
        for step in 0..STEPS {
            let old = readings(&store, &names);
            files.record();
            steps.step(&store);
            let disks = files.recorded();
            let new = readings(&store, &names);
            for (at, disk) in disks.iter().enumerate() {
                let done = at == disks.len() - 1;
                let possible = if done { only(&new) } else { either(&old, &new) };
                for image in images(disk, per_call, &mut random) {
                    if seen.insert((image.digest(), done)) {
                        let judged = judge(false, image, &possible);
                        let what = format!("history {number}, step {step}, after call {at}");
                        judged.unwrap_or_else(|why| panic!("{what}: {why}"));
                    }
                }
            }
        }
        total += seen.len();
    }
    println!("{total} images of {histories} histories");
    assert!(total >= bounded(3_000, 50_000), "fewer images than there were: {total}");
}

#[test]
fn an_acknowledged_change_after_a_failed_call_survives_a_power_cut() {
    let mut total = 0;
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.at_will.is_empty()) {
        let (before, _, new) = disks_after_calls(scenario, |_| {});
        for call in 0.. {
            let files = MemoryFiles::on(before[0].clone());
            let store = Store::open_on(Arc::new(files.clone()), DIR).unwrap();
            let opened = files.calls();
            files.fail_after(call);
            let first = (scenario.act)(&store);
            if files.calls() - opened <= call {
                break;
            }
            if first.is_err() {
                (scenario.act)(&store).expect(scenario.name);
            }
            let mut random = Random::new(call as u64);
            for image in images(&files.disk(), bounded(12, 200), &mut random) {
                let judged = judge(scenario.damaged, image, &only(&new));
                judged.unwrap_or_else(|why| panic!("{}, call {call} failed: {why}", scenario.name));
                total += 1;
            }
        }
    }
    println!("{total} images after a failure and another try");
}

#[test]
fn a_disk_that_does_not_sync_fails_every_scenario() {
    // The clock is not a conversation, and quarantine need not survive.
    for scenario in
        SCENARIOS.iter().filter(|scenario| !scenario.damaged && !scenario.name.contains("clock"))
    {
        let (disks, old, new) = disks_after_calls(scenario, MemoryFiles::ignore_syncs);
        let mut random = Random::new(7);
        let mut judged = disks.iter().enumerate().flat_map(|(at, disk)| {
            let last = at == disks.len() - 1;
            let possible = if last { only(&new) } else { either(&old, &new) };
            let images = images(disk, 40, &mut random).into_iter();
            images.map(|image| judge(scenario.damaged, image, &possible)).collect::<Vec<_>>()
        });
        assert!(judged.any(|judged| judged.is_err()), "{}", scenario.name);
    }
}

/// The images after each call of opening the directory and running the scenario, and the states before
/// and after.
fn disks_after_calls(
    scenario: &Scenario,
    trouble: impl Fn(&MemoryFiles),
) -> (Vec<Disk>, Readings, Readings) {
    let files = MemoryFiles::new();
    let names: Vec<_> = scenario.talks.iter().map(|name| id(name)).collect();
    let store = Store::open_on(Arc::new(files.clone()), DIR).unwrap();
    (scenario.prepare)(&store, &files);
    let old = names
        .iter()
        .map(|name| (name.clone(), store.reader().get_slot(MODEL, name).ok()))
        .collect();
    leave_unfinished(&files);
    drop(store);
    files.settle();
    trouble(&files);
    files.record();
    let store = Store::open_on(Arc::new(files.clone()), DIR).unwrap();
    (scenario.act)(&store).expect(scenario.name);
    let disks = files.recorded();
    let new = readings(&store, &names);
    (disks, old, new)
}

/// The unfinished files of a killed writer.
fn leave_unfinished(files: &MemoryFiles) {
    for dir in [Path::new(DIR).join("tmp"), Path::new(DIR).join(format!("{MODEL}/tmp"))] {
        let _ = files.make_dir(&dir); // It may be there, or have nowhere to be.
        if let Ok(mut file) = files.create(&dir.join("1-1")) {
            file.write(b"half").unwrap();
        }
    }
}

/// Checks an image. `damaged`: some file is damaged on purpose.
fn judge(damaged: bool, image: Disk, possible: &Possible) -> Result<(), String> {
    let files = MemoryFiles::on(image);
    let store = Store::open_on(Arc::new(files.clone()), DIR).map_err(|e| format!("open: {e}"))?;
    let temporary = |path: &Path| path.components().any(|part| part.as_os_str() == "tmp");
    if let Some((path, _)) = files.disk().files().iter().find(|(path, _)| temporary(path)) {
        return Err(format!("{} is left", path.display()));
    }
    for (name, possible) in possible {
        let read = store.get_slot(MODEL, name).ok();
        if !possible.contains(&read) {
            return Err(format!("{name} reads {read:?}"));
        }
        let missing = read.map_or(Vec::new(), |record| missing_objects(&store, &record));
        if !missing.is_empty() {
            return Err(format!("{name} needs {missing:?}"));
        }
    }
    let rejected = store.quarantined(MODEL).map_err(|error| error.to_string())?;
    if !damaged && !rejected.is_empty() {
        return Err(format!("{rejected:?}"));
    }
    let next = Talk::new("next", TtlClass::Long, start(), &[1, 2, 77]);
    next.save(&store).map_err(|error| format!("the next save: {error}"))?;
    let read = store.get_slot(MODEL, &id("next")).map_err(|miss| format!("the next: {miss}"))?;
    let listed = contents(&store).map_err(|error| error.to_string())?;
    match read == next.record && missing_objects(&store, &read).is_empty() {
        true if listed.rejected.is_empty() || damaged => Ok(()),
        _ => Err(format!("the next save reads {read:?}, {:?}", listed.rejected)),
    }
}

fn only(readings: &Readings) -> Possible {
    readings.iter().map(|(name, read)| (name.clone(), vec![read.clone()])).collect()
}

fn either(old: &Readings, new: &Readings) -> Possible {
    let both = |name: &ConversationId| vec![old[name].clone(), new[name].clone()];
    old.keys().map(|name| (name.clone(), both(name))).collect()
}
