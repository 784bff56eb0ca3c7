//! Tells when profiles or the model's file have changed.
//!
//! Reading order: [`watch`], the loop that holds the clock; `watcher`, what the system tells of files;
//! [`hob_prewarm::watch`] decides when a change is worth a look.
//!
//! - What the system tells is a hint. Whether something changed is decided by reading it, so a hint
//!   too many costs a glance and nothing else.
//! - Directories need not be there yet, and may leave and come back.
//! - A model's file is told once it is whole and has been left alone.

mod poller;
mod targets;
mod watcher;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hob_prewarm::{Debounce, Patience};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::service::{ProfileChange, Service};
use targets::{Group, Targets};
pub use watcher::Mode;
use watcher::{FileEvent, Watcher};

/// An editor writes a file in a few steps that follow each other at once.
const PROFILES: Patience = Patience {
    silence: Duration::from_millis(300),
    longest: Some(Duration::from_secs(3)),
    retry: Duration::from_millis(500),
};
/// A download pauses now and then, and a part of a model is of no use.
const MODEL: Patience =
    Patience { silence: Duration::from_secs(2), longest: None, retry: Duration::from_secs(5) };

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These profiles have other prefixes than before.
    ProfilesChanged(Vec<ProfileChange>),
    /// There is another file where the model's was, and it is whole.
    ModelChanged,
}

/// Watches the service's profiles and these files of a model until nobody listens any longer.
/// Profiles are read anew before their change is told.
pub fn watch(
    service: Service,
    model_files: Vec<PathBuf>,
    sight: Mode,
) -> UnboundedReceiver<Change> {
    let (changes, told) = unbounded_channel();
    let (touches, touched) = unbounded_channel();
    let watch = Watching {
        watcher: Watcher::open(sight, touches),
        targets: Targets::default(),
        profiles: Debounce::new(PROFILES),
        model: Debounce::new(MODEL),
        stamps: stamps(&model_files),
        model_files,
        service,
        changes,
    };
    tokio::spawn(watch.run(touched));
    told
}

/// Has changed prefixes made warm and `swapped` notified of another model, and says so.
pub async fn tell(service: Service, mut changes: UnboundedReceiver<Change>, swapped: Arc<Notify>) {
    while let Some(change) = changes.recv().await {
        match change {
            Change::ProfilesChanged(changes) => {
                for ProfileChange { name, kind } in &changes {
                    tracing::info!(profile = %name, ?kind, "profile");
                }
                service.warm_changed(&changes);
            }
            Change::ModelChanged => {
                tracing::info!("the model's file is another one now: starting over with it");
                swapped.notify_one();
            }
        }
    }
}

struct Watching {
    service: Service,
    model_files: Vec<PathBuf>,
    stamps: Stamps,
    watcher: Watcher,
    targets: Targets,
    profiles: Debounce,
    model: Debounce,
    changes: UnboundedSender<Change>,
}

impl Watching {
    async fn run(mut self, mut touched: UnboundedReceiver<FileEvent>) {
        self.set_paths();
        loop {
            let wake = [self.profiles.next_wake(), self.model.next_wake()];
            let wake = wake.into_iter().flatten().min();
            tokio::select! {
                () = self.changes.closed() => return,
                touch = touched.recv() => match touch {
                    Some(touch) => self.hear(touch),
                    None => return,
                },
                () = sleep_until(wake) => {}
            }
            if self.profiles.take(Instant::now()) {
                self.look_at_profiles().await;
            }
            if self.model.take(Instant::now()) {
                self.look_at_model().await;
            }
        }
    }

    fn hear(&mut self, touch: FileEvent) {
        let now = Instant::now();
        let touched = match &touch {
            FileEvent::Path { path, gone } => {
                if *gone {
                    self.watcher.forget(path);
                }
                self.targets.touched(path)
            }
            FileEvent::Unknown => vec![Group::Profiles, Group::Model],
        };
        for group in touched {
            match group {
                Group::Profiles => self.profiles.touch(now),
                Group::Model => self.model.touch(now),
            }
        }
    }

    async fn look_at_profiles(&mut self) {
        let changed = self.service.reload_profiles().await;
        match self.service.has_broken_profiles() {
            true => self.profiles.failed(Instant::now()),
            false => self.profiles.succeeded(),
        }
        if !changed.is_empty() {
            let _ = self.changes.send(Change::ProfilesChanged(changed));
        }
        self.set_paths();
    }

    async fn look_at_model(&mut self) {
        self.set_paths();
        let files = self.model_files.clone();
        let look = move || {
            let is_whole =
                files.first().is_some_and(|file| hob_models::ModelFile::open(file).is_ok());
            (stamps(&files), is_whole)
        };
        // An error: the daemon ends.
        let Ok((stamps, is_whole)) = tokio::task::spawn_blocking(look).await else { return };
        if stamps == self.stamps {
            return self.model.succeeded();
        }
        match is_whole {
            true => {
                self.model.succeeded();
                self.stamps = stamps;
                let _ = self.changes.send(Change::ModelChanged);
            }
            false => self.model.failed(Instant::now()),
        }
    }

    /// Looks where the profiles and the model are now. Where nobody looked before, something may
    /// have changed before we did.
    fn set_paths(&mut self) {
        let (directory, files) = self.service.profile_files();
        self.targets = Targets::new(directory, files, &self.model_files);
        if self.watcher.set_paths(self.targets.places()) {
            let now = Instant::now();
            self.profiles.touch(now);
            self.model.touch(now);
        }
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}

/// What tells a file from another one at the same place.
type Stamps = BTreeMap<PathBuf, Option<(u64, SystemTime)>>;

fn stamps(files: &[PathBuf]) -> Stamps {
    let stamp = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    files.iter().map(|file| (file.clone(), stamp(file))).collect()
}
