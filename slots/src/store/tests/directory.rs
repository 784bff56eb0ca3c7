use super::*;

#[test]
fn saved_objects_are_read_back_after_a_restart() {
    let mut world = World::new();
    for object in [block(1), snapshot()] {
        assert_eq!(world.put(&object), object.file_bytes());
    }
    let record = slot("chat", &[&block(1), &snapshot()]);
    assert!(world.store.put_slot(MODEL, &record).unwrap() > 0);
    for _ in 0..2 {
        assert_eq!(world.get(&block(1)).unwrap(), block(1));
        assert_eq!(world.get(&snapshot()).unwrap(), snapshot());
        assert_eq!(world.store.get_slot(MODEL, &id("chat")).unwrap(), record);
        world = world.restarted();
    }
}

#[test]
fn a_missing_object_is_absent() {
    let world = World::new();
    assert!(matches!(world.get(&block(1)), Err(Miss::Absent)));
    assert!(matches!(world.store.get_slot(MODEL, &id("chat")), Err(Miss::Absent)));
    assert!(world.store.slots(MODEL).unwrap().slots.is_empty());
    assert!(!world.store.remove_slot(MODEL, &id("chat")).unwrap());
    assert_eq!(world.collect(&now().into(), SAVE_GRACE).unwrap(), Garbage::default());
}

#[test]
fn files_have_the_names_of_the_format_and_no_others_are_left() {
    let world = World::new();
    world.put(&block(1));
    world.store.put_slot(MODEL, &slot("v1.2", &[&block(1)])).unwrap();
    let name = block(1).id().to_string();
    let object = format!("aaaaaaaaaaaaaaaa/objects/{}/{name}.kv", &name[..2]);
    assert_eq!(world.files(), [object, "aaaaaaaaaaaaaaaa/v1%2E2.long.bin".into()].into());
}

#[test]
fn opening_removes_unfinished_files_of_a_dead_writer() {
    let world = World::new();
    world.put(&block(1));
    let kept = world.files();
    fs::write(world.path(&format!("{MODEL}/tmp/1-1")), "half an object").unwrap();
    assert_eq!(world.restarted().files(), kept);
}

#[test]
fn a_write_that_fails_leaves_the_old_file_and_no_other() {
    let world = World::new();
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    // A directory in place of the object's file: the rename fails.
    fs::create_dir_all(world.object_path(&block(1))).unwrap();
    assert!(world.store.put_object(MODEL, block(1).id(), &block(1)).is_err());
    assert_eq!(world.files(), [format!("{MODEL}/chat.long.bin")].into());
}

#[test]
fn a_second_owner_is_refused_with_the_name_of_the_first() {
    let world = World::new();
    let error = Store::open(world.path("")).unwrap_err();
    let StoreError::Owned { owner, .. } = &error else { panic!("{error}") };
    assert_eq!(*owner, format!("pid {}", std::process::id()));
}

#[test]
fn a_directory_is_free_again_when_its_owner_is_gone() {
    let world = World::new().restarted();
    assert!(StoreReader::open(world.path("")).is_ok());
}

#[test]
fn a_reader_needs_a_directory_that_is_there() {
    let world = World::new();
    assert!(matches!(StoreReader::open(world.path("nowhere")), Err(StoreError::Io { .. })));
}

#[test]
fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.put(&block(1));
    world.store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for file in world.files() {
        assert_eq!(mode(&world.path(&file)), 0o600, "{file}");
    }
    for dir in ["", "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa/objects", "aaaaaaaaaaaaaaaa/tmp"] {
        assert_eq!(mode(&world.path(dir)), 0o700, "{dir}");
    }
}

#[test]
fn the_fingerprint_of_a_model_is_saved_in_its_directory() {
    let world = World::new();
    let fingerprint = Fingerprint {
        model_sha256: FileDigest([1; 32]),
        drafts: false,
        cache_type_k: "f16".into(),
        cache_type_v: "f16".into(),
        flash_attention: true,
        swa_full: false,
        state_format: "llama.cpp seq 2".into(),
        rope: Rope::default(),
        loras: Vec::new(),
    };
    let model = fingerprint.hash();
    world.store.write_model_toml(&fingerprint).unwrap();
    assert_eq!(world.store.read_model_toml(model).unwrap(), fingerprint);
    assert_eq!(world.store.models().unwrap(), [model]);

    let copied = world.path(&format!("{MODEL}/model.toml"));
    fs::create_dir(copied.parent().unwrap()).unwrap();
    fs::copy(world.path(&format!("{model}/model.toml")), copied).unwrap();
    assert!(matches!(world.store.read_model_toml(MODEL), Err(Miss::OtherModel { .. })));
    assert!(matches!(world.store.read_model_toml(OTHER_MODEL), Err(Miss::Absent)));
}
