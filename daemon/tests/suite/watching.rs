//! Files that change while the daemon runs, on a real directory.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hob_daemon::profiles::ChangeKind;
use hob_daemon::watch::{Change, Mode};
use hob_testkit::asset;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::common::{Plan, World};

const POLLED: Mode = Mode::Polled(Duration::from_millis(100));
/// The watcher takes what comes after a longer pause for another change.
const QUIET: Duration = Duration::from_millis(300);
const BRIEF: &str = "[[segment]]\nlayer = 'rules'\nkey = 'tone'\ntext = 'Be brief.'\n";
const HOUSE: &str = "[[segment]]\nlayer = 'context'\nkey = 'house'\nfile = '../house/rooms.md'\n";

#[test]
fn profile_changes_are_reported_by_file_events() {
    profile_life_cycle(Mode::Events);
}

#[test]
fn profile_changes_are_reported_by_polling() {
    profile_life_cycle(POLLED);
}

fn profile_life_cycle(mode: Mode) {
    let world = World::new();
    let mut changes = world.watch(&[], mode);
    sleep(Duration::from_millis(500));

    // Neither the profile directory nor the one that a profile references exists when the watcher
    // starts.
    fs::create_dir(world.directory.join("house")).unwrap();
    fs::write(world.directory.join("house/rooms.md"), "Two rooms.").unwrap();
    fs::create_dir(world.directory.join("profiles")).unwrap();
    world.profile("home", &format!("{BRIEF}{HOUSE}"));
    assert_eq!(next(&world, &mut changes), [("home".to_owned(), ChangeKind::Added)]);

    let changed = |segment: &str| ChangeKind::Changed { segment: segment.to_owned() };
    fs::write(world.directory.join("house/rooms.md"), "Three rooms, and a hall.").unwrap();
    assert_eq!(next(&world, &mut changes), [("home".to_owned(), changed("house"))]);

    // An editor writes a new file and renames it over the old one.
    let new = world.directory.join("profiles/home.toml~");
    fs::write(&new, format!("{BRIEF}{HOUSE}").replace("brief", "loud")).unwrap();
    fs::rename(&new, world.directory.join("profiles/home.toml")).unwrap();
    assert_eq!(next(&world, &mut changes), [("home".to_owned(), changed("tone"))]);

    // The directory is deleted and created again.
    fs::remove_dir_all(world.directory.join("profiles")).unwrap();
    assert_eq!(next(&world, &mut changes), [("home".to_owned(), ChangeKind::Removed)]);
    fs::create_dir(world.directory.join("profiles")).unwrap();
    world.profile("home", BRIEF);
    assert_eq!(next(&world, &mut changes), [("home".to_owned(), ChangeKind::Added)]);
}

#[test]
fn a_profile_that_is_written_in_pieces_is_one_change() {
    let (world, mut changes) = loop {
        let world = World::new();
        fs::create_dir(world.directory.join("profiles")).unwrap();
        let mut changes = world.watch(&[], Mode::Events);
        // Once this one is reported, the watcher has read the directory.
        world.profile("first", BRIEF);
        assert_eq!(next(&world, &mut changes).len(), 1);
        let began = Instant::now();
        for end in [10, 20, 30, BRIEF.len()] {
            world.profile("home", &BRIEF[..end]);
            world.profile(&format!("other-{end}"), BRIEF);
        }
        if began.elapsed() < QUIET {
            break (world, changes);
        }
    };
    assert_eq!(next(&world, &mut changes).len(), 5);
    sleep(Duration::from_secs(1));
    assert!(changes.try_recv().is_err(), "the watcher reported a second change");
    assert!(world.profiles().iter().all(|profile| profile.error.is_none()));
}

#[test]
fn a_changed_segment_costs_its_followers_and_nothing_before_it() {
    let world = Plan::new().with_background().start();
    fs::create_dir(world.directory.join("profiles")).unwrap();
    let long = format!("[[segment]]\nlayer = 'axioms'\ntext = '{}'\n", "Be good. ".repeat(60));
    world.profile("home", &format!("{long}{BRIEF}"));
    let warmed = |world: &World| {
        let prefix = world.get("/v1/status").json()["prefixes"][0].clone();
        let number = |name: &str| prefix[name].as_u64().unwrap_or_default();
        (number("tokens"), number("computed_tokens"))
    };
    world.until("the prefix is warm", |world| warmed(world).0 > 0);
    let (tokens, computed) = warmed(&world);
    assert!(tokens > 540 && computed == tokens, "{computed} of {tokens} tokens computed");

    world.profile("home", &format!("{long}{}", BRIEF.replace("brief", "brave and loud")));
    world.until("the changed prefix is warm", |world| warmed(world).0 == tokens + 9);
    let (_, computed) = warmed(&world);
    assert!((9..60).contains(&computed), "{computed}");
}

#[test]
fn a_replaced_model_is_reported_once_its_file_is_whole() {
    let world = World::new();
    let [old, new] = ["fixtures/qwen2.gguf", "fixtures/qwen3.gguf"]
        .map(|fixture| fs::read(asset(fixture)).unwrap());
    let model: PathBuf = world.directory.join("models/a.gguf");
    fs::create_dir(world.directory.join("models")).unwrap();
    fs::write(&model, old).unwrap();
    let mut changes = world.watch(std::slice::from_ref(&model), Mode::Events);
    sleep(Duration::from_millis(500));

    fs::write(&model, &new[..new.len() / 2]).unwrap();
    sleep(Duration::from_millis(2_500));
    assert!(changes.try_recv().is_err(), "the watcher reported a partly written model");
    fs::write(&model, new).unwrap();
    assert_eq!(world.next_change(&mut changes), Change::ModelChanged);
}

fn next(world: &World, changes: &mut UnboundedReceiver<Change>) -> Vec<(String, ChangeKind)> {
    match world.next_change(changes) {
        Change::ProfilesChanged(changes) => {
            changes.into_iter().map(|change| (change.name.to_string(), change.kind)).collect()
        }
        Change::ModelChanged => panic!("the watcher reported a model change"),
    }
}
