//! Looks at directories again and again, for where the system does not tell.
//!
//! - A file is another one when its length, its time to the last digit, or what it is differs. Times
//!   may go back: a file can be replaced by an older one.
//! - Nothing is opened: a directory with models in it costs as much as any other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::UnboundedSender;

use super::watcher::FileEvent;

/// What tells a file from another one of its name.
type Stamp = (u64, Option<SystemTime>, bool);
/// What is in a directory; nothing when it is gone.
type Listing = BTreeMap<PathBuf, Stamp>;

/// Looks until it is dropped.
pub struct Poller {
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen(Mutex<BTreeMap<PathBuf, Listing>>);

impl Poller {
    /// Begins to look, at nothing yet.
    ///
    /// # Errors
    /// When there are no threads left.
    pub fn start(every: Duration, touches: UnboundedSender<FileEvent>) -> std::io::Result<Self> {
        let seen = Arc::new(Seen::default());
        let weak = Arc::downgrade(&seen);
        let thread = std::thread::Builder::new().name("hob-poller".to_owned());
        thread.spawn(move || look_on(&weak, every, &touches))?;
        Ok(Self { seen })
    }

    /// Tells from now on what changes in the directory.
    pub fn watch(&self, directory: &Path) {
        self.seen.lock().insert(directory.to_owned(), listing(directory));
    }

    /// Tells no more of it.
    pub fn unwatch(&self, directory: &Path) {
        self.seen.lock().remove(directory);
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Listing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> Vec<FileEvent> {
        let mut touches = Vec::new();
        for (directory, before) in self.lock().iter_mut() {
            let now = listing(directory);
            touches.extend(differences(before, &now));
            *before = now;
        }
        touches
    }
}

fn look_on(seen: &Weak<Seen>, every: Duration, touches: &UnboundedSender<FileEvent>) {
    loop {
        std::thread::sleep(every);
        let Some(seen) = seen.upgrade() else { return };
        for touch in seen.look() {
            if touches.send(touch).is_err() {
                return;
            }
        }
    }
}

/// The directory itself counts as one of its files, so that it is told when it leaves. Its time
/// does not: it changes with every file in it.
fn listing(directory: &Path) -> Listing {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = files.filter_map(|entry| stamped(entry.path()));
    let own = directory.is_dir().then(|| (directory.to_owned(), (0, None, true)));
    files.chain(own).collect()
}

fn stamped(path: PathBuf) -> Option<(PathBuf, Stamp)> {
    // Of what a link leads to.
    let metadata = std::fs::metadata(&path).or_else(|_| path.symlink_metadata()).ok()?;
    let stamp = (metadata.len(), metadata.modified().ok(), metadata.is_dir());
    Some((path, stamp))
}

fn differences(before: &Listing, now: &Listing) -> Vec<FileEvent> {
    let touch = |path: &PathBuf, gone| FileEvent::Path { path: path.clone(), gone };
    let left = before.keys().filter(|path| !now.contains_key(*path)).map(|path| touch(path, true));
    let other = now.iter().filter_map(|(path, stamp)| match before.get(path) {
        None => Some(touch(path, true)),
        Some(known) => (known != stamp).then(|| touch(path, false)),
    });
    left.chain(other).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_comes_changes_and_leaves_is_told_once() {
        let root = tempfile::tempdir().unwrap();
        let (directory, file) = (root.path().join("d"), root.path().join("d/a"));
        let seen = Seen::default();
        seen.lock().insert(directory.clone(), listing(&directory));
        let told = |path: &Path, gone| FileEvent::Path { path: path.to_owned(), gone };

        fs::create_dir(&directory).unwrap();
        fs::write(&file, "one").unwrap();
        assert_eq!(seen.look(), [told(&directory, true), told(&file, true)]);
        assert_eq!(seen.look(), []);

        fs::write(&file, "four").unwrap();
        assert_eq!(seen.look(), [told(&file, false)]);
        let older = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        fs::File::options().append(true).open(&file).unwrap().set_modified(older).unwrap();
        assert_eq!(seen.look(), [told(&file, false)]);

        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(seen.look(), [told(&directory, true), told(&file, true)]);
        assert_eq!(seen.look(), []);
    }
}
