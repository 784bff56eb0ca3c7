//! Daemons whose database or whole data directory is a copy of an earlier one.

use std::fs;
use std::path::PathBuf;

use hob_testkit::{files, wait};

use super::{World, messages, say};

#[test]
fn a_database_from_a_backup_gets_what_its_daemon_has_published_since() {
    let world = World::new();
    let launch = world.daemon("one");
    let data = world.place("one").join("data");
    let database = || {
        let is_of_database =
            |file: &PathBuf| file.to_string_lossy().contains("/transcripts.sqlite");
        files::below(&data).into_iter().filter(is_of_database)
    };
    let mut first = launch.start();
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    first.process.terminate(wait::PATIENCE);
    let backup: Vec<_> = database().map(|file| (file.clone(), fs::read(file).unwrap())).collect();

    let mut first = launch.start();
    say(&first.client, "talk", 1);
    say(&first.client, "later", 0);
    world.until_published(&first.client, 2);
    first.process.terminate(wait::PATIENCE);
    database().for_each(|file| fs::remove_file(file).unwrap());
    for (file, bytes) in backup {
        fs::write(file, bytes).unwrap();
    }
    let first = launch.start();
    say(&first.client, "talk", 2);
    assert_eq!(messages(&first.client, "talk"), 6);
    assert_eq!(messages(&first.client, "later"), 2, "the backup does not have it");
    world.until_published(&first.client, 1);
    assert_eq!(messages(&world.start("two").client, "talk"), 6);
}

#[test]
fn two_daemons_of_which_one_began_with_a_copy_of_the_others_data_lose_nothing() {
    let world = World::new();
    let launch = world.daemon("one");
    let mut first = launch.start();
    say(&first.client, "talk", 0);
    world.until_published(&first.client, 1);
    first.process.terminate(wait::PATIENCE);
    for file in files::below(&world.place("one").join("data")) {
        let copy = world.place("two").join(file.strip_prefix(world.place("one")).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
    let (first, second) = (launch.start(), world.start("two"));
    say(&first.client, "talk", 1);
    world.until_published(&first.client, 1);
    say(&second.client, "talk", 2);
    assert_eq!(messages(&second.client, "talk"), 6);
    world.until_published(&second.client, 1);
    say(&first.client, "talk", 3);
    assert_eq!(messages(&first.client, "talk"), 8);
}
