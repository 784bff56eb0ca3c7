//! No access for others.
//!
//! - No symbolic link below the directory is followed, so nothing outside is read, written or
//!   removed. The path to the directory itself may contain links.
//! - Files are 0600 and directories 0700, whatever the umask. A strict umask breaks nothing.
mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hob_slots::{
    AdjustedTime, ClockTracker, Miss, NoEngine, ObjectKind, Quota, Rules, Store, Sweeper, TtlClass,
};
use tempfile::TempDir;

use support::talk::{MODEL, Talk, id, later, missing_objects, start};

/// Set in the child with another umask: its directory.
const CHILD_DIR: &str = "HOB_TEST_ACCESS_DIR";

#[test]
fn a_slot_file_that_is_a_link_is_not_followed() {
    let world = World::new();
    let outside = world.replace_by_link(&format!("{MODEL}/chat.long.bin"));
    assert!(matches!(world.store().get_slot(MODEL, &id("chat")), Err(Miss::Io { .. })));
    let listing = world.store().contents(MODEL).unwrap();
    assert_eq!(listing.slots.len(), 1, "the other one");
    world.change_everything();
    world.assert_untouched(&outside);
}

#[test]
fn an_object_that_is_a_link_is_not_followed() {
    let world = World::new();
    let object = chat().objects[0].id();
    let name = object.to_string();
    let outside = world.replace_by_link(&format!("{MODEL}/objects/{}/{name}.kv", &name[..2]));
    assert!(world.store().get_object(MODEL, object, ObjectKind::Block).is_err());
    assert!(!world.store().has_object(MODEL, object));
    world.change_everything();
    world.assert_untouched(&outside);
}

#[test]
fn no_directory_that_is_a_link_is_followed() {
    let name = chat().objects[0].id().to_string();
    let shelf = format!("{MODEL}/objects/{}", &name[..2]);
    for dir in [MODEL.to_string(), format!("{MODEL}/objects"), shelf, format!("{MODEL}/tmp")] {
        let world = World::new();
        let outside = world.replace_by_link(&dir);
        let read = world.store().get_slot(MODEL, &id("chat"));
        let read = read.map(|record| missing_objects(world.store(), &record).len());
        assert!(read.is_err() || read.is_ok_and(|missing| missing > 0 || dir.ends_with("tmp")));
        if dir != format!("{MODEL}/tmp") {
            assert!(!world.store().has_object(MODEL, chat().objects[0].id()), "{dir}");
        }
        world.change_everything();
        world.assert_untouched(&outside);
    }
}

#[test]
fn a_rejected_file_is_not_moved_through_a_link() {
    let world = World::new();
    fs::create_dir(world.path(&format!("{MODEL}/quarantine"))).unwrap();
    let outside = world.replace_by_link(&format!("{MODEL}/quarantine"));
    let file = world.path(&format!("{MODEL}/chat.long.bin"));
    fs::write(&file, "no slot file").unwrap();
    assert!(matches!(world.store().get_slot(MODEL, &id("chat")), Err(Miss::Damaged { .. })));
    assert!(file.exists(), "there is nowhere to move it to");
    world.change_everything();
    world.assert_untouched(&outside);
}

#[test]
fn the_clock_is_not_written_through_a_link() {
    let world = World::new();
    let mut keeper = ClockTracker::default();
    keeper.observe(start(), Duration::ZERO);
    world.store().write_clock_tracker(&ClockTracker::default()).unwrap();
    let outside = world.replace_by_link("clock.toml");
    assert_eq!(world.store().clock_tracker(), ClockTracker::default());
    world.store().write_clock_tracker(&keeper).unwrap();
    assert!(fs::symlink_metadata(world.path("clock.toml")).unwrap().is_file());
    world.assert_untouched(&outside);
}

#[test]
fn a_directory_whose_lock_or_temporary_files_are_a_link_is_refused() {
    for name in ["owner.lock", "tmp"] {
        let mut world = World::new();
        world.store().write_clock_tracker(&ClockTracker::default()).unwrap();
        drop(world.store.take());
        let outside = world.replace_by_link(name);
        let error = Store::open(world.path("")).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        world.assert_untouched(&outside);
    }
}

#[test]
fn the_path_to_the_directory_may_contain_links() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("real")).unwrap();
    symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
    for _ in 0..2 {
        let store = Store::open(dir.path().join("link/hob/slots")).unwrap();
        chat().save(&store).unwrap();
    }
    assert!(dir.path().join(format!("real/hob/slots/{MODEL}/chat.long.bin")).is_file());
}

#[test]
fn permissions_do_not_depend_on_the_umask() {
    if let Some(dir) = std::env::var_os(CHILD_DIR) {
        return do_everything(Path::new(&dir));
    }
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| {
        use std::os::unix::fs::MetadataExt;
        me.uid() == 0
    });
    // Root bypasses permissions, so this would prove nothing.
    for user in [None, is_root.then_some(65_534)] {
        for umask in ["000", "022", "777"] {
            let dir = TempDir::new().unwrap();
            let mut child = Command::new("sh");
            child.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]);
            child.arg(std::env::current_exe().unwrap());
            child.args(["--exact", "permissions_do_not_depend_on_the_umask"]);
            child.env(CHILD_DIR, dir.path()).current_dir("/");
            if let Some(user) = user {
                chown(dir.path(), Some(user), Some(user)).unwrap();
                child.uid(user).gid(user);
            }
            let done = child.output().unwrap();
            let told = String::from_utf8_lossy(&done.stdout);
            if user.is_some() && told.is_empty() && !done.status.success() {
                println!("skipped: another user cannot run this test here");
                continue;
            }
            assert!(done.status.success(), "umask {umask}, user {user:?}: {told}");
            let found = modes(&dir.path().join("slots"));
            assert!(found.len() > 10, "{found:?}");
            for (path, is_dir, mode) in found {
                let right = if is_dir { 0o700 } else { 0o600 };
                assert_eq!(mode, right, "{} under umask {umask}: {mode:o}", path.display());
            }
        }
    }
}

/// Creates one of each kind of file.
fn do_everything(dir: &Path) {
    let store = Store::open(dir.join("slots")).unwrap();
    chat().save(&store).unwrap();
    Talk::new("damaged", TtlClass::Long, start(), &[9]).save(&store).unwrap();
    fs::write(store.dir().join(format!("{MODEL}/damaged.long.bin")), "no slot file").unwrap();
    store.get_slot(MODEL, &id("damaged")).unwrap_err();
    store.write_clock_tracker(&ClockTracker::default()).unwrap();
    let rules = Rules { quota: Quota::Bytes(u64::MAX), ..Rules::default() };
    let now = AdjustedTime::from(later(start(), 30));
    let swept = Sweeper::new(rules).sweep(&store, &now, &NoEngine);
    assert!(swept.errors.is_empty(), "{:?}", swept.errors);
    assert!(missing_objects(&store, &chat().record).is_empty());
    drop(store);
    Store::open(dir.join("slots")).unwrap();
}

/// Every path below `dir`: whether it is a directory, and its mode.
fn modes(dir: &Path) -> Vec<(PathBuf, bool, u32)> {
    let metadata = fs::symlink_metadata(dir).unwrap();
    let mut found =
        vec![(dir.to_owned(), metadata.is_dir(), metadata.permissions().mode() & 0o777)];
    if metadata.is_dir() {
        let entries = fs::read_dir(dir).unwrap();
        found.extend(entries.flat_map(|entry| modes(&entry.unwrap().path())));
    }
    found
}

/// A store, and a directory outside of it.
struct World {
    store: Option<Store>,
    dir: TempDir,
}

/// The moved path, and the content below it.
struct Outside {
    path: PathBuf,
    held: Vec<(PathBuf, Option<Vec<u8>>)>,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        let store = Store::open(dir.path().join("slots")).unwrap();
        chat().save(&store).unwrap();
        Talk::new("other", TtlClass::Long, start(), &[7, 8]).save(&store).unwrap();
        Self { store: Some(store), dir }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn path(&self, within: &str) -> PathBuf {
        self.dir.path().join("slots").join(within)
    }

    /// Moves a file or directory out of the store and links to it from its old place.
    fn replace_by_link(&self, within: &str) -> Outside {
        let path = self.dir.path().join("outside").join("moved");
        fs::rename(self.path(within), &path).unwrap();
        symlink(&path, self.path(within)).unwrap();
        if path.is_dir() {
            fs::write(path.join("foreign"), "of another program").unwrap();
        }
        Outside { held: held(&path), path }
    }

    /// Runs everything that changes a directory. It may fail.
    fn change_everything(&self) {
        let store = self.store();
        let rules = Rules { quota: Quota::Bytes(0), grace: Duration::ZERO, ..Rules::default() };
        let more = Talk::new("chat", TtlClass::Permanent, start(), &[1, 2, 3, 4]);
        let _ = more.save(store);
        let named = more.record.objects().map(|(object, _)| object).collect();
        let _ = store.get_slot(MODEL, &id("chat"));
        let compressing = Rules { quota: Quota::Bytes(u64::MAX), ..rules };
        let hours = |hours: u64| AdjustedTime::from(later(start(), 60 * hours));
        Sweeper::new(compressing).sweep(store, &hours(0), &NoEngine);
        let _ = chat().save(store);
        let _ = store.forget(MODEL, &id("chat"), &named);
        Sweeper::new(rules).sweep(store, &hours(100), &NoEngine);
        let _ = store.trim_quarantine(MODEL, 0);
    }

    fn assert_untouched(&self, outside: &Outside) {
        assert_eq!(held(&outside.path), outside.held, "{}", outside.path.display());
    }
}

/// Every path below `path` and its bytes.
fn held(path: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut held: Vec<_> = modes(path)
        .into_iter()
        .map(|(path, is_dir, _)| (path.clone(), (!is_dir).then(|| fs::read(path).unwrap())))
        .collect();
    held.sort();
    held
}

fn chat() -> Talk {
    Talk::new("chat", TtlClass::Long, start_of_all(), &[1, 2, 3]).with_snapshot()
}

/// Equal for every call, so equal talks are equal.
fn start_of_all() -> hob_slots::Timestamp {
    static START: std::sync::OnceLock<hob_slots::Timestamp> = std::sync::OnceLock::new();
    *START.get_or_init(start)
}
