use super::*;
use crate::sweep::{NoEngine, collect_now};

#[test]
fn unreferenced_objects_are_collected() {
    let world = World::new();
    for object in [&block(1), &block(65), &snapshot()] {
        world.put(object);
    }
    world.store.put_slot(MODEL, &slot("chat", &[&block(1), &snapshot()])).unwrap();
    let later = AdjustedTime::from(now().after(SAVE_GRACE));
    let expected = Garbage { objects: vec![name_of(&block(65))], bytes: 1_360 };
    assert_eq!(world.store.find_garbage(MODEL, &later, SAVE_GRACE).unwrap(), expected);
    assert_eq!(world.collect(&later, SAVE_GRACE).unwrap(), expected);
    assert!(matches!(world.get(&block(65)), Err(Miss::Absent)));
    assert!(world.get(&block(1)).is_ok() && world.get(&snapshot()).is_ok());
}

#[test]
fn a_shared_object_stays_until_its_last_conversation_is_gone() {
    let world = World::new();
    world.put(&block(1));
    for name in ["one", "two"] {
        world.store.put_slot(MODEL, &slot(name, &[&block(1)])).unwrap();
    }
    let collect = || world.collect(&now().into(), Duration::ZERO).unwrap();
    world.store.remove_slot(MODEL, &id("one")).unwrap();
    assert_eq!(collect(), Garbage::default());
    world.store.remove_slot(MODEL, &id("two")).unwrap();
    assert_eq!(collect().objects, [name_of(&block(1))]);
}

#[test]
fn forgetting_a_conversation_removes_the_objects_that_it_alone_referenced() {
    let world = World::new();
    for object in [&block(1), &block(65), &block(129)] {
        world.put(object);
    }
    world.store.put_slot(MODEL, &slot("one", &[&block(1), &block(65)])).unwrap();
    world.store.put_slot(MODEL, &slot("two", &[&block(1)])).unwrap();
    let named = [block(1).id(), block(65).id()].into();
    assert_eq!(world.store.forget(MODEL, &id("one"), &named).unwrap(), [block(65).id()]);
    assert!(matches!(world.store.get_slot(MODEL, &id("one")), Err(Miss::Absent)));
    assert!(world.get(&block(1)).is_ok() && world.get(&block(129)).is_ok());
}

#[test]
fn a_young_object_is_not_collected() {
    let world = World::new();
    world.put(&block(1));
    let age = |object: &Object| {
        let file = File::options().write(true).open(world.object_path(object)).unwrap();
        file.set_modified(SystemTime::now() - 2 * SAVE_GRACE).unwrap();
    };
    let collect = || world.collect(&now().into(), SAVE_GRACE).unwrap().objects;
    assert_eq!(collect(), [], "it was just written");
    age(&block(1));
    assert_eq!(world.put(&block(1)), 0);
    assert_eq!(collect(), [], "it was just asked for again");
    age(&block(1));
    assert_eq!(collect(), [name_of(&block(1))]);
}

/// Makes the slot file one of a later version. Returns its path.
fn make_later(world: &World, name: &str) -> PathBuf {
    let path = world.path(&format!("{MODEL}/{name}.long.bin"));
    let mut file = fs::read(&path).unwrap();
    file[8] = 9;
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_slot_file_of_a_later_version_keeps_the_objects_that_are_no_younger() {
    let world = World::new();
    world.put(&block(1));
    world.store.put_slot(MODEL, &slot("chat", &[&block(1)])).unwrap();
    let path = make_later(&world, "chat");
    world.put(&block(65));
    let written = fs::metadata(path).unwrap().modified().unwrap();
    let younger = File::options().write(true).open(world.object_path(&block(65))).unwrap();
    younger.set_modified(written + Duration::from_secs(1)).unwrap();
    let garbage = world.collect(&now().into(), Duration::ZERO).unwrap();
    assert_eq!(garbage.objects, [name_of(&block(65))]);
    assert!(world.get(&block(1)).is_ok());
}

#[test]
fn a_deletion_removes_what_a_slot_file_of_a_later_version_may_reference() {
    let world = World::new();
    for object in [&block(1), &block(65)] {
        world.put(object);
    }
    world.store.put_slot(MODEL, &slot("later", &[&block(65)])).unwrap();
    make_later(&world, "later");
    let deleted = [block(1).id()].into();
    collect_now(&world.store, &NoEngine, MODEL, &deleted).unwrap();
    assert!(matches!(world.get(&block(1)), Err(Miss::Absent)));
    assert!(world.get(&block(65)).is_ok());
    world.store.forget(MODEL, &id("nobody"), &[block(65).id()].into()).unwrap();
    assert!(matches!(world.get(&block(65)), Err(Miss::Absent)));
}
