//! A damaged file in whose place another is put while it is read.

use std::io;

use super::*;
use crate::store::files::{HookedDisk, Hooks};

/// What `next` says takes the place of a file as soon as that is opened.
#[derive(Debug, Default)]
struct Racing {
    next: Mutex<Option<(PathBuf, Vec<u8>)>>,
}

impl Hooks for Racing {
    fn opened(&self, path: &Path) -> io::Result<()> {
        let next = self.next.lock().take_if(|(replaced, _)| replaced.as_path() == path);
        let Some((replaced, bytes)) = next else { return Ok(()) };
        let beside = replaced.with_extension("next");
        fs::write(&beside, bytes)?;
        fs::rename(&beside, &replaced)
    }
}

#[test]
fn a_file_that_has_taken_the_place_of_a_damaged_one_is_read_and_stays() {
    let (disk, world) = one_saved();
    let (object, record) = (block(1), slot("chat", &[&block(1)]));

    damage(&disk, &world.object_path(&object), 700);
    assert_eq!(world.get(&object).unwrap(), object);
    let slot_file = world.store.layout.slot(MODEL, &record.conversation, record.class);
    damage(&disk, &slot_file, 133);
    assert_eq!(world.store.get_slot(MODEL, &record.conversation).unwrap(), record);
    assert!(disk.next.lock().is_none(), "both were replaced");
    assert!(world.quarantined().is_empty());
}

#[test]
fn a_file_that_has_taken_the_place_of_one_that_was_rejected_stays() {
    let (disk, world) = one_saved();
    let files = world.store.stored_files(MODEL).unwrap();
    let [slot_file, object_file] = &files[..] else { panic!("one of each: {files:?}") };

    damage(&disk, &slot_file.path, 32); // In the header: a listing reads no tokens.
    let rejected = world.store.contents(MODEL).unwrap().rejected;
    assert_eq!(rejected.len(), 1);
    assert_eq!(world.store.reject_all(MODEL, rejected), 0);
    damage(&disk, &object_file.path, 700);
    assert!(world.store.check(object_file).is_err());
    assert!(!world.store.reject_file(object_file));
    assert!(disk.next.lock().is_none(), "both were replaced");
    assert!(world.quarantined().is_empty());
}

/// A slot file and its object on a racing disk.
fn one_saved() -> (Arc<Racing>, World) {
    let (disk, dir) = (Arc::new(Racing::default()), TempDir::new().unwrap());
    let hooked = Arc::new(HookedDisk(disk.clone()));
    let store = Store::open_on(hooked, dir.path().join("slots")).unwrap();
    let world = World { store, dir };
    world.put(&block(1));
    world.store.put_slot(MODEL, &slot("chat", &[&block(1)])).unwrap();
    (disk, world)
}

/// Damages a file, whose place the whole one takes as soon as it is opened.
fn damage(disk: &Racing, path: &Path, at: usize) {
    let whole = fs::read(path).unwrap();
    flip_a_bit(path, at);
    *disk.next.lock() = Some((path.to_owned(), whole));
}
