//! Subscribes to the system's file events, or says that files must be polled.
//!
//! - Directories are watched without their subdirectories.
//! - When the system runs out of watches, all of them are given back and everything is polled.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecursiveMode};
use tokio::sync::mpsc::UnboundedSender;

/// Between two comparisons where the system reports no events.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By the system's events; by polling every [`POLL_INTERVAL`] where there are none.
    #[default]
    Events,
    /// By polling only: for network file systems, and for tests.
    Polled(Duration),
}

/// What the system reports. A hint: the file is compared or read before anything is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEvent {
    Path {
        path: PathBuf,
        /// It was created, renamed or removed: a watch on it may be one on its predecessor.
        replaced: bool,
    },
    /// Events were lost.
    Unknown,
}

pub struct Watcher {
    /// `None`: polled.
    system: Option<Box<dyn notify::Watcher + Send>>,
    poll_interval: Duration,
    watched: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Watches no directory yet.
    pub fn open(mode: Mode, events: UnboundedSender<FileEvent>) -> Self {
        let (system, poll_interval) = match mode {
            Mode::Polled(interval) => (None, interval),
            Mode::Events => (system_watcher(events), POLL_INTERVAL),
        };
        Self { system, poll_interval, watched: BTreeSet::new() }
    }

    /// `Some` while the system reports nothing.
    pub fn poll_interval(&self) -> Option<Duration> {
        self.system.is_none().then_some(self.poll_interval)
    }

    /// Watches these directories and no others. Returns whether any of them is new.
    pub fn set_paths(&mut self, directories: &BTreeSet<PathBuf>) -> bool {
        let before = self.watched.clone();
        for directory in before.difference(directories) {
            self.unwatch(directory);
        }
        for directory in directories {
            match self.watch(directory) {
                Ok(()) => {}
                Err(error) if is_shortage(&error) => {
                    warn_of_polling(&error);
                    self.system = None;
                    self.watched.clear();
                    return true;
                }
                Err(error) => {
                    tracing::debug!(directory = %directory.display(), %error, "not watched");
                }
            }
        }
        !self.watched.is_subset(&before)
    }

    /// Ends the watches at and below `path`; the next [`Watcher::set_paths`] renews them.
    pub fn forget(&mut self, path: &Path) {
        let below: Vec<_> =
            self.watched.iter().filter(|directory| directory.starts_with(path)).cloned().collect();
        for directory in below {
            self.unwatch(&directory);
        }
    }

    fn watch(&mut self, directory: &Path) -> notify::Result<()> {
        if let Some(system) = &mut self.system
            && !self.watched.contains(directory)
        {
            system.watch(directory, RecursiveMode::NonRecursive)?;
            self.watched.insert(directory.to_owned());
        }
        Ok(())
    }

    fn unwatch(&mut self, directory: &Path) {
        if self.watched.remove(directory)
            && let Some(system) = &mut self.system
        {
            let _ = system.unwatch(directory); // An error: the directory is gone, and its watch.
        }
    }
}

fn system_watcher(events: UnboundedSender<FileEvent>) -> Option<Box<dyn notify::Watcher + Send>> {
    let report = move |event| {
        for event in file_events(event) {
            let _ = events.send(event); // An error: the daemon ends.
        }
    };
    match notify::recommended_watcher(report) {
        Ok(watcher) => Some(Box::new(watcher)),
        Err(error) => {
            warn_of_polling(&error);
            None
        }
    }
}

fn warn_of_polling(error: &notify::Error) {
    tracing::warn!(%error, every = ?POLL_INTERVAL, "no file events from the system: files are polled");
}

/// Whether the error is about watches in general, and not about one directory.
fn is_shortage(error: &notify::Error) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => true,
        notify::ErrorKind::Io(error) => !matches!(error.kind(), NotFound | PermissionDenied),
        _ => false,
    }
}

fn file_events(event: notify::Result<Event>) -> Vec<FileEvent> {
    match event {
        Err(_) => vec![FileEvent::Unknown],
        Ok(event) if event.need_rescan() => vec![FileEvent::Unknown],
        Ok(event) => {
            let replaced = match event.kind {
                // hobd itself opens and reads these files.
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
                EventKind::Access(_) => return Vec::new(),
                EventKind::Create(_) | EventKind::Remove(_) => true,
                EventKind::Modify(ModifyKind::Name(_)) => true,
                EventKind::Modify(_) | EventKind::Any | EventKind::Other => false,
            };
            event.paths.into_iter().map(|path| FileEvent::Path { path, replaced }).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_file_is_no_event_and_lost_events_are_about_every_file() {
        let at = |kind| Ok(Event::new(kind).add_path("/p/a.toml".into()));
        assert_eq!(file_events(at(EventKind::Access(AccessKind::Open(AccessMode::Read)))), []);
        let path = PathBuf::from("/p/a.toml");
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert_eq!(file_events(at(written)), [FileEvent::Path { path, replaced: false }]);
        assert_eq!(file_events(Err(notify::Error::generic("?"))), [FileEvent::Unknown]);
    }
}
