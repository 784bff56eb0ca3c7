use super::*;

/// A process uses the conversation's KV and ends during the turn.
fn crash(world: World, stage: UseStage, known: bool) -> (World, Vec<ConversationId>) {
    world.store.mark_use(MODEL, &id("chat"), stage).unwrap();
    let world = world.restarted();
    let given_up = world.store.count_crashes(MODEL, known).unwrap();
    (world, given_up)
}

fn saved() -> World {
    let world = World::new();
    world.put(&block(1));
    world.put(&block(100));
    world.store.put_slot(MODEL, &slot("chat", &[&block(1)])).unwrap();
    world.store.put_slot(MODEL, &slot("other", &[&block(100)])).unwrap();
    world
}

#[test]
fn three_crashes_in_a_row_quarantine_the_conversations_files_with_the_reason() {
    let (world, first) = crash(saved(), UseStage::Restoring, false);
    let (world, second) = crash(world, UseStage::Answering, true);
    assert_eq!((first, second), (vec![], vec![]));
    assert!(world.get(&block(1)).is_ok());

    let (world, third) = crash(world, UseStage::Restoring, true);
    assert_eq!(third, [id("chat")]);
    assert!(matches!(world.get(&block(1)), Err(Miss::Absent)));
    assert!(matches!(world.store.get_slot(MODEL, &id("chat")), Err(Miss::Absent)));
    let reason = world.store.rejected(MODEL, &id("chat")).unwrap();
    assert_eq!(reason, "the engine crashed 3 times in a row while it used it");
    assert_eq!(world.quarantined().len(), 4, "slot file and object, each with its reason");
    assert!(world.get(&block(100)).is_ok(), "another conversation's block stays");
    assert_eq!(world.store.count_crashes(MODEL, true).unwrap(), []);
}

#[test]
fn deleting_a_conversation_that_crashes_have_condemned_removes_its_objects_from_quarantine() {
    let mut world = saved();
    for _ in 0..MAX_CRASHES {
        (world, _) = crash(world, UseStage::Restoring, true);
    }
    assert_eq!(world.quarantined().len(), 4, "slot file and object, each with its reason");
    world.store.forget(MODEL, &id("chat"), &BTreeSet::new()).unwrap();
    assert_eq!(world.quarantined(), Vec::<String>::new());
    assert!(world.get(&block(100)).is_ok());
}

#[test]
fn a_turn_that_ends_well_starts_the_count_again() {
    let (world, _) = crash(saved(), UseStage::Restoring, false);
    let (world, _) = crash(world, UseStage::Restoring, false);
    world.store.mark_use(MODEL, &id("chat"), UseStage::Restoring).unwrap();
    world.store.unmark_use(MODEL, &id("chat")).unwrap();
    let (_, given_up) = crash(world, UseStage::Restoring, false);
    assert_eq!(given_up, []);
}

#[test]
fn a_process_that_was_killed_during_an_answer_did_not_crash() {
    let mut world = saved();
    for _ in 0..5 {
        let (restarted, given_up) = crash(world, UseStage::Answering, false);
        assert_eq!(given_up, []);
        world = restarted;
    }
    assert!(world.get(&block(1)).is_ok());
}

#[test]
fn a_sealed_directory_counts_crashes_without_names() {
    let world = World::new();
    let key = Key::load_or_make(&world.dir.path().join("key")).unwrap();
    let store = world.store.sealed(&key).unwrap();
    store.put_slot(MODEL, &slot("chat", &[])).unwrap();
    store.mark_use(MODEL, &id("chat"), UseStage::Restoring).unwrap();
    let marks = fs::read_dir(store.layout.crash_marks(MODEL)).unwrap();
    let names: Vec<_> = marks.map(|mark| mark.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1);
    assert!(!names[0].to_str().unwrap().contains("chat"), "{names:?}");
    for crashes in 1..=MAX_CRASHES {
        let given_up = store.count_crashes(MODEL, false).unwrap();
        assert_eq!(given_up.len(), usize::from(crashes == MAX_CRASHES));
        store.mark_use(MODEL, &id("chat"), UseStage::Restoring).unwrap();
    }
}
