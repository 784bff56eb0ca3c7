//! Reports changed profiles and a replaced model file.
//!
//! Reading order: [`watch`] (the loop, which holds the clock), `watcher` (the system's file events),
//! `targets` (which files matter), `stamps` (comparing them); [`hob_prewarm::watch`] decides when a
//! change is due.
//!
//! - File events are hints: what changed is decided by reading the files. Where the system reports
//!   none, the metadata of the files is compared every 2 s.
//! - Directories may be missing at the start, disappear and reappear.
//! - A model file is reported once it is whole and has not changed for 2 s.

mod stamps;
mod targets;
mod watcher;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hob_prewarm::{Debounce, DebounceTimes};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;

use crate::profiles::{ProfileChange, Profiles};
use stamps::Stamps;
use targets::{Group, Targets};
pub use watcher::Mode;
use watcher::{FileEvent, Watcher};

/// An editor saves a file in several quick steps.
const PROFILES: DebounceTimes = DebounceTimes {
    quiet: Duration::from_millis(300),
    max_wait: Some(Duration::from_secs(3)),
    first_retry: Duration::from_millis(500),
};
/// A download pauses now and then, and a part of a model is of no use.
const MODEL: DebounceTimes = DebounceTimes {
    quiet: Duration::from_secs(2),
    max_wait: None,
    first_retry: Duration::from_secs(5),
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These profiles have other prefixes than before; they are reloaded already.
    ProfilesChanged(Vec<ProfileChange>),
    /// The model's path has another file, and it is whole.
    ModelChanged,
}

/// Watches the profiles and the files of the model until the receiver is dropped.
pub fn watch(
    profiles: Profiles,
    model_files: Vec<PathBuf>,
    mode: Mode,
) -> UnboundedReceiver<Change> {
    let (changes, receiver) = unbounded_channel();
    let (event_sender, events) = unbounded_channel();
    let watch = WatchLoop {
        watcher: Watcher::open(mode, event_sender),
        targets: Targets::default(),
        seen: Targets::default().stamps(),
        next_poll: None,
        profiles_due: Debounce::new(PROFILES),
        model_due: Debounce::new(MODEL),
        model_stamps: stamps::of_files(&model_files),
        model_files,
        profiles,
        changes,
    };
    tokio::spawn(watch.run(events));
    receiver
}

/// Warms changed prefixes again, and notifies `model_changed` of a replaced model.
pub async fn apply(
    profiles: Profiles,
    mut changes: UnboundedReceiver<Change>,
    model_changed: Arc<Notify>,
) {
    while let Some(change) = changes.recv().await {
        match change {
            Change::ProfilesChanged(changes) => {
                for ProfileChange { name, kind } in &changes {
                    tracing::info!(profile = %name, ?kind, "profile changed");
                }
                profiles.warm_changed(&changes);
            }
            Change::ModelChanged => {
                tracing::info!("the model file was replaced: restarting with it");
                model_changed.notify_one();
            }
        }
    }
}

struct WatchLoop {
    profiles: Profiles,
    model_files: Vec<PathBuf>,
    /// Stamps of the model files that the daemon runs with.
    model_stamps: Stamps,
    watcher: Watcher,
    targets: Targets,
    /// The stamps of the last poll.
    seen: [(Group, Stamps); 2],
    /// `None` while the system reports events.
    next_poll: Option<Instant>,
    profiles_due: Debounce,
    model_due: Debounce,
    changes: UnboundedSender<Change>,
}

impl WatchLoop {
    async fn run(mut self, mut events: UnboundedReceiver<FileEvent>) {
        // The files may have changed since they were loaded.
        self.touch(Group::Profiles);
        self.touch(Group::Model);
        self.set_paths();
        loop {
            tokio::select! {
                () = self.changes.closed() => return,
                Some(event) = events.recv() => self.receive(event),
                () = sleep_until(self.next_wake()) => {}
            }
            if self.next_poll.is_some_and(|poll| poll <= Instant::now()) {
                self.poll().await;
            }
            if self.profiles_due.take_due(Instant::now()) {
                self.reload_profiles().await;
            }
            if self.model_due.take_due(Instant::now()) {
                self.check_model().await;
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let wakes = [self.next_poll, self.profiles_due.next_wake(), self.model_due.next_wake()];
        wakes.into_iter().flatten().min()
    }

    fn receive(&mut self, event: FileEvent) {
        let touched = match &event {
            FileEvent::Path { path, replaced } => {
                if *replaced {
                    self.watcher.forget(path);
                }
                self.targets.touched(path)
            }
            FileEvent::Unknown => vec![Group::Profiles, Group::Model],
        };
        touched.into_iter().for_each(|group| self.touch(group));
    }

    fn touch(&mut self, group: Group) {
        let now = Instant::now();
        match group {
            Group::Profiles => self.profiles_due.touch(now),
            Group::Model => self.model_due.touch(now),
        }
    }

    async fn poll(&mut self) {
        let targets = self.targets.clone();
        // An error: the daemon ends.
        let Ok(stamps) = spawn_blocking(move || targets.stamps()).await else { return };
        let before = std::mem::replace(&mut self.seen, stamps);
        let pairs = self.seen.iter().zip(&before);
        let touched: Vec<_> =
            pairs.filter(|(now, before)| now != before).map(|(now, _)| now.0).collect();
        touched.into_iter().for_each(|group| self.touch(group));
        self.next_poll = self.watcher.poll_interval().map(|interval| Instant::now() + interval);
    }

    async fn reload_profiles(&mut self) {
        let changed = self.profiles.reload().await;
        if self.profiles.has_broken() {
            self.profiles_due.failed(Instant::now());
        } else {
            self.profiles_due.succeeded();
        }
        if !changed.is_empty() {
            let _ = self.changes.send(Change::ProfilesChanged(changed));
        }
        self.set_paths();
    }

    async fn check_model(&mut self) {
        self.set_paths();
        let files = self.model_files.clone();
        let check = move || {
            let is_whole =
                files.first().is_some_and(|file| hob_models::ModelFile::open(file).is_ok());
            (stamps::of_files(&files), is_whole)
        };
        // An error: the daemon ends.
        let Ok((stamps, is_whole)) = spawn_blocking(check).await else { return };
        if stamps == self.model_stamps {
            self.model_due.succeeded();
        } else if is_whole {
            self.model_due.succeeded();
            self.model_stamps = stamps;
            let _ = self.changes.send(Change::ModelChanged);
        } else {
            self.model_due.failed(Instant::now());
        }
    }

    /// Watches where the profiles and the model are now. A file in a new directory may have changed
    /// before its watch began.
    fn set_paths(&mut self) {
        self.targets =
            Targets::new(self.profiles.directory(), &self.profiles.files(), &self.model_files);
        if self.watcher.set_paths(&self.targets.directories()) {
            self.touch(Group::Profiles);
            self.touch(Group::Model);
        }
        if let Some(interval) = self.watcher.poll_interval() {
            self.next_poll.get_or_insert_with(|| Instant::now() + interval);
        }
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
