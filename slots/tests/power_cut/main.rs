//! Power cuts after every call of the store, which undo any part of the unsynced changes.
//!
//! - Every possible image can be opened and then has no temporary file.
//! - Each conversation reads as before or as after the step, with all of its objects; after the
//!   store has reported success, as after.
//! - No file is damaged: unsynced content has no name yet.
//!
//! `HOB_TEST_ALL=1` tests more than 50,000 images.

mod days;
mod images;
#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use hob_slots::store::files::Files;
use hob_slots::{ConversationId, SlotRecord, Store, TtlClass};

use days::{Day, TALKS};
use images::images;
use support::bounded;
use support::memory::{Disk, EPOCH, MemoryFiles};
use support::random::Random;
use support::scenes::{SCENES, Scene};
use support::talk::{MODEL, Readings, Talk, contents, id, missing_objects, readings, start};

const DIR: &str = "/slots";

/// The possible states of each conversation.
type Possible = BTreeMap<ConversationId, Vec<Option<SlotRecord>>>;

#[test]
fn a_power_cut_after_any_call_leaves_the_old_or_the_new() {
    let mut total = 0;
    for scene in SCENES {
        let (film, old, new) = film(scene, |_| {});
        let last = film.len() - 1;
        let per_frame = bounded(250, 6_000) / film.len() + 2;
        let (mut random, mut seen) = (Random::new(7), HashSet::new());
        for (at, frame) in film.iter().enumerate() {
            let possible = if at == last { only(&new) } else { either(&old, &new) };
            for image in images(frame, per_frame, &mut random) {
                if seen.insert((image.digest(), at == last)) {
                    let judged = judge(scene.rotten, image, &possible);
                    judged.unwrap_or_else(|why| panic!("{}, after call {at}: {why}", scene.name));
                }
            }
        }
        println!("{:6} images after {last:3} calls: {}", seen.len(), scene.name);
        total += seen.len();
    }
    println!("{total} images of {} scenes", SCENES.len());
    assert!(total >= bounded(1_000, 6_000), "fewer images than there were: {total}");
}

#[test]
fn a_power_cut_at_any_call_of_a_day_leaves_the_state_before_or_after_the_step() {
    const STEPS: usize = 12;
    let names: Vec<_> = TALKS.iter().map(|name| id(name)).collect();
    let (days, per_call) = bounded((30, 2), (250, 6));
    let mut total = 0;
    for number in 0..days {
        let files = MemoryFiles::new();
        let store = Store::open_on(Arc::new(files.clone()), DIR).unwrap();
        let (mut day, mut random) = (Day::new(number, EPOCH), Random::new(!number));
        let mut seen = HashSet::new();
        for step in 0..STEPS {
            let old = readings(&store, &names);
            files.record();
            day.step(&store);
            let film = files.film();
            let new = readings(&store, &names);
            for (at, frame) in film.iter().enumerate() {
                let done = at == film.len() - 1;
                let possible = if done { only(&new) } else { either(&old, &new) };
                for image in images(frame, per_call, &mut random) {
                    if seen.insert((image.digest(), done)) {
                        let judged = judge(false, image, &possible);
                        let what = format!("day {number}, step {step}, after call {at}");
                        judged.unwrap_or_else(|why| panic!("{what}: {why}"));
                    }
                }
            }
        }
        total += seen.len();
    }
    println!("{total} images of {days} days");
    assert!(total >= bounded(3_000, 50_000), "fewer images than there were: {total}");
}

#[test]
fn an_acknowledged_change_after_a_failed_call_survives_a_power_cut() {
    let mut total = 0;
    for scene in SCENES.iter().filter(|scene| scene.at_will.is_empty()) {
        let (before, _, new) = film(scene, |_| {});
        for call in 0.. {
            let files = MemoryFiles::on(before[0].clone());
            let store = Store::open_on(Arc::new(files.clone()), DIR).unwrap();
            let opened = files.calls();
            files.fail_after(call);
            let first = (scene.act)(&store);
            if files.calls() - opened <= call {
                break;
            }
            if first.is_err() {
                (scene.act)(&store).expect(scene.name);
            }
            let mut random = Random::new(call as u64);
            for image in images(&files.disk(), bounded(12, 200), &mut random) {
                let judged = judge(scene.rotten, image, &only(&new));
                judged.unwrap_or_else(|why| panic!("{}, call {call} failed: {why}", scene.name));
                total += 1;
            }
        }
    }
    println!("{total} images after a failure and another try");
}

#[test]
fn a_disk_that_does_not_sync_fails_every_scene() {
    // The clock is not a conversation, and quarantine need not survive.
    for scene in SCENES.iter().filter(|scene| !scene.rotten && !scene.name.contains("clock")) {
        let (film, old, new) = film(scene, MemoryFiles::lie);
        let mut random = Random::new(7);
        let mut judged = film.iter().enumerate().flat_map(|(at, frame)| {
            let last = at == film.len() - 1;
            let possible = if last { only(&new) } else { either(&old, &new) };
            let images = images(frame, 40, &mut random).into_iter();
            images.map(|image| judge(scene.rotten, image, &possible)).collect::<Vec<_>>()
        });
        assert!(judged.any(|judged| judged.is_err()), "{}", scene.name);
    }
}

/// The images after each call of opening the directory and running the scene, and the states before
/// and after.
fn film(scene: &Scene, trouble: impl Fn(&MemoryFiles)) -> (Vec<Disk>, Readings, Readings) {
    let files = MemoryFiles::new();
    let names: Vec<_> = scene.talks.iter().map(|name| id(name)).collect();
    let store = Store::open_on(Arc::new(files.clone()), DIR).unwrap();
    (scene.prepare)(&store, &files);
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
    (scene.act)(&store).expect(scene.name);
    let film = files.film();
    let new = readings(&store, &names);
    (film, old, new)
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

/// Checks an image. `rotten`: some file is damaged on purpose.
fn judge(rotten: bool, image: Disk, possible: &Possible) -> Result<(), String> {
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
    if !rotten && !rejected.is_empty() {
        return Err(format!("{rejected:?}"));
    }
    let next = Talk::new("next", TtlClass::Long, start(), &[1, 2, 77]);
    next.save(&store).map_err(|error| format!("the next save: {error}"))?;
    let read = store.get_slot(MODEL, &id("next")).map_err(|miss| format!("the next: {miss}"))?;
    let listed = contents(&store).map_err(|error| error.to_string())?;
    match read == next.record && missing_objects(&store, &read).is_empty() {
        true if listed.rejected.is_empty() || rotten => Ok(()),
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
