//! What the system tells of files, as touches of paths.
//!
//! - Directories are watched without what is below them.
//! - Where the system cannot watch, or not as much as it should, they are read every few seconds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Config, Event, EventKind, PollWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::UnboundedSender;

/// How often directories are read where the system does not tell.
const POLL: Duration = Duration::from_secs(2);

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// The system tells; where it cannot, they are looked for.
    #[default]
    Told,
    /// They are looked for this often: for directories of other machines, say.
    Polled(Duration),
}

/// Something happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touch {
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
pub struct Eyes {
    watcher: Option<Box<dyn Watcher + Send>>,
    sight: Sight,
    watched: BTreeSet<PathBuf>,
    touches: UnboundedSender<Touch>,
}

impl Eyes {
    /// Looks at nothing yet.
    pub fn open(sight: Sight, touches: UnboundedSender<Touch>) -> Self {
        let mut eyes = Self { watcher: None, sight, watched: BTreeSet::new(), touches };
        eyes.watcher = match sight {
            Sight::Told => match notify::recommended_watcher(teller(&eyes.touches)) {
                Ok(watcher) => Some(Box::new(watcher)),
                Err(error) => eyes.polling(POLL, &error),
            },
            Sight::Polled(interval) => eyes.poller(interval),
        };
        eyes
    }

    /// Watches these directories and no others. Says whether there are new ones among them.
    pub fn aim(&mut self, places: BTreeSet<PathBuf>) -> bool {
        let before = self.watched.clone();
        for place in before.difference(&places) {
            self.unwatch(place);
        }
        for place in &places {
            let Err(error) = self.watch(place) else { continue };
            if self.sight == Sight::Told && is_shortage(&error) {
                self.watcher = self.polling(POLL, &error);
                self.watched.clear();
                return self.aim(places);
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

    fn watch(&mut self, place: &Path) -> notify::Result<()> {
        if let Some(watcher) = &mut self.watcher
            && !self.watched.contains(place)
        {
            watcher.watch(place, RecursiveMode::NonRecursive)?;
            self.watched.insert(place.to_owned());
        }
        Ok(())
    }

    fn unwatch(&mut self, place: &Path) {
        if self.watched.remove(place)
            && let Some(watcher) = &mut self.watcher
        {
            let _ = watcher.unwatch(place); // One that is gone is not watched any longer.
        }
    }

    fn polling(
        &mut self,
        every: Duration,
        error: &notify::Error,
    ) -> Option<Box<dyn Watcher + Send>> {
        tracing::warn!(%error, ?every, "the system cannot watch files: they are looked at");
        self.sight = Sight::Polled(every);
        self.poller(every)
    }

    fn poller(&self, every: Duration) -> Option<Box<dyn Watcher + Send>> {
        let config = Config::default().with_poll_interval(every);
        match PollWatcher::new(teller(&self.touches), config) {
            Ok(watcher) => Some(Box::new(watcher)),
            Err(error) => {
                tracing::warn!(%error, "changes of files will not be noticed");
                None
            }
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

fn teller(touches: &UnboundedSender<Touch>) -> impl FnMut(notify::Result<Event>) + Send + 'static {
    let touches = touches.clone();
    move |event| {
        for touch in told(event) {
            let _ = touches.send(touch); // Nobody listens any longer: the daemon ends.
        }
    }
}

fn told(event: notify::Result<Event>) -> Vec<Touch> {
    match event {
        Err(_) => vec![Touch::Unknown],
        Ok(event) if event.need_rescan() => vec![Touch::Unknown],
        Ok(event) => {
            let gone = match event.kind {
                // We read these files ourselves.
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
                EventKind::Access(_) => return Vec::new(),
                EventKind::Create(_) | EventKind::Remove(_) => true,
                EventKind::Modify(ModifyKind::Name(_)) => true,
                EventKind::Modify(_) | EventKind::Any | EventKind::Other => false,
            };
            event.paths.into_iter().map(|path| Touch::Path { path, gone }).collect()
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
        assert_eq!(told(at(written)), [Touch::Path { path, gone: false }]);
        assert_eq!(told(Err(notify::Error::generic("?"))), [Touch::Unknown]);
    }
}
