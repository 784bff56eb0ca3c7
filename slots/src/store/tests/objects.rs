use super::*;

#[test]
fn putting_an_object_twice_writes_it_once() {
    let world = World::new();
    world.put(&block(1));
    assert_eq!(world.put(&block(1)), 0);
}

#[test]
fn an_object_whose_file_was_cut_short_is_written_again() {
    let world = World::new();
    world.put(&block(1));
    let file = fs::read(world.object_path(&block(1))).unwrap();
    fs::write(world.object_path(&block(1)), &file[..500]).unwrap();
    assert_eq!(world.put(&block(1)), block(1).file_bytes());
    assert_eq!(world.get(&block(1)).unwrap(), block(1));
}

#[test]
#[should_panic(expected = "under its own name")]
fn an_object_is_never_put_under_another_name() {
    let _ = World::new().store.put_object(MODEL, block(2).id(), &block(1));
}

#[test]
fn a_damaged_object_is_a_miss_with_a_reason_once_and_then_absent() {
    let world = World::new();
    world.put(&block(1));
    flip_a_bit(&world.object_path(&block(1)), 700);
    let miss = world.get(&block(1)).unwrap_err();
    assert_eq!(miss.to_string(), "its file is damaged: the checksum of its body is wrong");
    assert!(matches!(world.get(&block(1)), Err(Miss::Absent)));

    let name = format!("{}.kv", block(1).id());
    assert_eq!(world.quarantined(), [name.clone(), format!("{name}.txt")]);
    let why = world.path(&format!("{MODEL}/quarantine/{name}.txt"));
    assert_eq!(fs::read_to_string(why).unwrap().trim_end(), miss.to_string());
}

#[test]
fn a_quarantined_object_can_be_put_again() {
    let world = World::new();
    world.put(&block(1));
    flip_a_bit(&world.object_path(&block(1)), 700);
    world.get(&block(1)).unwrap_err();
    assert_eq!(world.put(&block(1)), block(1).file_bytes());
    assert_eq!(world.get(&block(1)).unwrap(), block(1));
}

#[test]
fn a_truncated_object_is_a_miss_with_its_length() {
    let world = World::new();
    world.put(&block(1));
    let file = fs::read(world.object_path(&block(1))).unwrap();
    fs::write(world.object_path(&block(1)), &file[..1_000]).unwrap();
    let miss = world.get(&block(1)).unwrap_err();
    assert_eq!(miss.to_string(), "its file is damaged: it ends after 1000 of 1360 bytes");
    assert_eq!(world.quarantined().len(), 2);
}

#[test]
fn a_renamed_object_is_a_miss() {
    let world = World::new();
    world.put(&block(1));
    world.put(&block(2));
    fs::rename(world.object_path(&block(1)), world.object_path(&block(2))).unwrap();
    assert!(matches!(world.get(&block(2)), Err(Miss::Misnamed { .. })));
    assert_eq!(world.quarantined().len(), 2);
}

#[test]
fn an_object_of_another_model_is_a_miss() {
    let world = World::new();
    let foreign = Object { model: OTHER_MODEL, ..block(1) };
    world.put(&block(1));
    fs::write(world.object_path(&block(1)), foreign.encode()).unwrap();
    let miss = world.get(&block(1)).unwrap_err();
    assert_eq!(
        miss.to_string(),
        "its file belongs to model bbbbbbbbbbbbbbbb, not to aaaaaaaaaaaaaaaa"
    );
    assert_eq!(world.quarantined().len(), 2);
}

#[test]
fn an_object_of_another_kind_is_a_miss() {
    let world = World::new();
    world.put(&snapshot());
    let found = world.store.get_object(MODEL, snapshot().id(), ObjectKind::Block);
    assert!(matches!(found, Err(Miss::Misnamed { .. })));
}

#[test]
fn a_file_of_a_later_version_is_a_miss_and_stays() {
    let world = World::new();
    world.put(&block(1));
    let mut file = block(1).encode();
    file[8] = 9;
    fs::write(world.object_path(&block(1)), file).unwrap();
    assert!(matches!(world.get(&block(1)), Err(Miss::Newer { version: 9 })));
    assert!(world.object_path(&block(1)).exists());
}

#[test]
fn a_reader_rejects_without_touching_the_file() {
    let world = World::new();
    world.put(&block(1));
    flip_a_bit(&world.object_path(&block(1)), 700);
    let reader = StoreReader::open(world.path("")).unwrap();
    let read = || reader.get_object(MODEL, block(1).id(), ObjectKind::Block);
    assert!(matches!(read(), Err(Miss::Damaged { .. })));
    assert!(matches!(read(), Err(Miss::Damaged { .. })));
    assert!(world.quarantined().is_empty());
}
