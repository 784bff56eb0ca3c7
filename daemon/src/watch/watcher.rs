//! What the system tells of files, as touches of paths.
//!
//! - Directories are watched without what is below them.
//! - Where the system cannot watch, or not as much as it should, they are looked at every few seconds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecursiveMode};
use tokio::sync::mpsc::UnboundedSender;

use super::poller::Poller;

/// How often directories are read where the system does not tell.
const POLL: Duration = Duration::from_secs(2);

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The system tells; where it cannot, they are looked for.
    #[default]
    Told,
    /// They are looked for this often: for directories of other machines, say.
    Polled(Duration),
}

/// Something happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEvent {
    /// There.
    Path {
        /// Where.
        path: PathBuf,
        /// It may be another one than it was, or none.
        gone: bool,
    },
    /// Nobody knows where.
    Unknown,
}

/// Watches directories.
pub struct Watcher {
    means: Means,
    watched: BTreeSet<PathBuf>,
    touches: UnboundedSender<FileEvent>,
}

enum Means {
    System(Box<dyn notify::Watcher + Send>),
    Poller(Poller),
    /// Not even a thread was left.
    None,
}

impl Watcher {
    /// Looks at nothing yet.
    pub fn open(sight: Mode, touches: UnboundedSender<FileEvent>) -> Self {
        let means = match sight {
            Mode::Told => match notify::recommended_watcher(teller(&touches)) {
                Ok(watcher) => Means::System(Box::new(watcher)),
                Err(error) => instead(&error, &touches),
            },
            Mode::Polled(interval) => poller(interval, &touches),
        };
        Self { means, watched: BTreeSet::new(), touches }
    }

    /// Watches these directories and no others. Says whether there are new ones among them.
    pub fn set_paths(&mut self, places: BTreeSet<PathBuf>) -> bool {
        let before = self.watched.clone();
        for place in before.difference(&places) {
            self.unwatch(place);
        }
        for place in &places {
            let Err(error) = self.watch(place) else { continue };
            if is_shortage(&error) {
                self.means = instead(&error, &self.touches);
                self.watched.clear();
                return self.set_paths(places);
            }
            tracing::debug!(place = %place.display(), %error, "not watched");
        }
        !self.watched.is_subset(&before)
    }

    /// What was there may be another one: whatever is watched below it is watched anew next time.
    pub fn forget(&mut self, path: &Path) {
        let below: Vec<_> =
            self.watched.iter().filter(|it| it.starts_with(path)).cloned().collect();
        for place in below {
            self.unwatch(&place);
        }
    }

    /// Only the system runs short of watches.
    fn watch(&mut self, place: &Path) -> notify::Result<()> {
        if self.watched.contains(place) {
            return Ok(());
        }
        match &mut self.means {
            Means::System(watcher) => watcher.watch(place, RecursiveMode::NonRecursive)?,
            Means::Poller(poller) => poller.watch(place),
            Means::None => return Ok(()),
        }
        self.watched.insert(place.to_owned());
        Ok(())
    }

    fn unwatch(&mut self, place: &Path) {
        if self.watched.remove(place) {
            match &mut self.means {
                // One that is gone is not watched any longer.
                Means::System(watcher) => drop(watcher.unwatch(place)),
                Means::Poller(poller) => poller.unwatch(place),
                Means::None => {}
            }
        }
    }
}

fn instead(error: &notify::Error, touches: &UnboundedSender<FileEvent>) -> Means {
    tracing::warn!(%error, every = ?POLL, "the system cannot watch files: they are looked at");
    poller(POLL, touches)
}

fn poller(every: Duration, touches: &UnboundedSender<FileEvent>) -> Means {
    match Poller::start(every, touches.clone()) {
        Ok(poller) => Means::Poller(poller),
        Err(error) => {
            tracing::warn!(%error, "changes of files will not be noticed");
            Means::None
        }
    }
}

/// The system has watches, and has given them all away.
fn is_shortage(error: &notify::Error) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => true,
        notify::ErrorKind::Io(error) => !matches!(error.kind(), NotFound | PermissionDenied),
        _ => false,
    }
}

fn teller(
    touches: &UnboundedSender<FileEvent>,
) -> impl FnMut(notify::Result<Event>) + Send + 'static {
    let touches = touches.clone();
    move |event| {
        for touch in told(event) {
            let _ = touches.send(touch); // Nobody listens any longer: the daemon ends.
        }
    }
}

fn told(event: notify::Result<Event>) -> Vec<FileEvent> {
    match event {
        Err(_) => vec![FileEvent::Unknown],
        Ok(event) if event.need_rescan() => vec![FileEvent::Unknown],
        Ok(event) => {
            let gone = match event.kind {
                // We read these files ourselves.
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
                EventKind::Access(_) => return Vec::new(),
                EventKind::Create(_) | EventKind::Remove(_) => true,
                EventKind::Modify(ModifyKind::Name(_)) => true,
                EventKind::Modify(_) | EventKind::Any | EventKind::Other => false,
            };
            event.paths.into_iter().map(|path| FileEvent::Path { path, gone }).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_file_is_no_touch_and_lost_events_touch_everything() {
        let at = |kind| Ok(Event::new(kind).add_path("/p/a.toml".into()));
        assert_eq!(told(at(EventKind::Access(AccessKind::Open(AccessMode::Read)))), []);
        let path = PathBuf::from("/p/a.toml");
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert_eq!(told(at(written)), [FileEvent::Path { path, gone: false }]);
        assert_eq!(told(Err(notify::Error::generic("?"))), [FileEvent::Unknown]);
    }
}
