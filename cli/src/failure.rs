//! The failures of commands, each with its remedy and its exit code.

use std::io;
use std::path::PathBuf;

use hob_config::ConfigError;
use hob_models::ModelError;
use hob_slots::StoreError;
use hob_slots::archive::ArchiveError;
use hob_slots::maintenance::MaintenanceError;

use crate::exit::Exit;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The settings cannot be resolved.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A model is missing or cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The slots directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A daemon owns the directory.
    #[error(
        "{} is in use by {owner}; stop it first, or use the daemon: \
         `hob conversations rm` removes text and KV",
        dir.display()
    )]
    Owned { dir: PathBuf, owner: String },
    /// No daemon answers at the address.
    #[error("no daemon answers at {address}; start one with `hobd` (or `cargo xtask run`)")]
    NotRunning { address: String },
    /// A daemon accepts the connection, and answers nothing.
    #[error("the daemon at {address} has answered nothing for {seconds} s: it hangs; restart hobd")]
    Hangs { address: String, seconds: u64 },
    /// The access token cannot be read.
    #[error(
        "cannot read the token file {}: {source}; name it with --token-file",
        path.display()
    )]
    Token { path: PathBuf, source: io::Error },
    /// The daemon answered with an error: it refuses the request, is busy, or has failed.
    #[error("{}", refusal(*.status, .message))]
    Refused {
        /// The HTTP status.
        status: u16,
        message: String,
        /// The reason as a word, where the daemon gives one.
        code: Option<String>,
    },
    /// The daemon has no such route.
    #[error("the daemon does not know {path}: it is from before this hob; restart hobd")]
    NoRoute { path: &'static str },
    /// The connection broke, or the answer is not what the API promises.
    #[error("the daemon's answer broke off: {0}")]
    BrokenAnswer(String),
    /// [`Self::BrokenAnswer`] to a request that changes what is saved.
    #[error(
        "the daemon's answer broke off: {0}; it may have made the change, a part of it or nothing: \
         `hob slots ls` lists what is saved, and the same command makes the rest of the change"
    )]
    Unconfirmed(String),
    /// Nothing has that name.
    #[error("{0}")]
    NotFound(String),
    /// Files are damaged.
    #[error("{0}")]
    Damaged(String),
    /// A conversation was skipped because it is in use.
    #[error("{0}")]
    InUse(String),
    /// An archive cannot be written or imported.
    #[error("{}: {source}", path.display())]
    Archive { path: PathBuf, source: ArchiveError },
    /// No program here shows a page.
    #[error("no browser can be opened here; `hob open --print` prints the address")]
    NoBrowser,
    /// A check failed.
    #[error("{0}")]
    Unhealthy(String),
    /// Measured figures miss their bars.
    #[error("{missed} of {of} figures miss their bar")]
    Missed { missed: usize, of: usize },
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// A verb: `read`.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Standard input could not be read.
    #[error("cannot read standard input: {0}")]
    Input(io::Error),
    /// Standard output could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl From<MaintenanceError> for Failure {
    fn from(error: MaintenanceError) -> Self {
        match error {
            MaintenanceError::Store(error) => error.into(),
            MaintenanceError::Unusable { .. } => Self::Damaged(error.to_string()),
        }
    }
}

impl Failure {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Usage(_) => Exit::Usage,
            Self::NotRunning { .. } | Self::Hangs { .. } => Exit::NotRunning,
            Self::NotFound(_) | Self::Refused { status: 404, .. } => Exit::NotFound,
            Self::Model(error) => match error {
                ModelError::Missing { .. } | ModelError::Unknown { .. } => Exit::NotFound,
                ModelError::Ambiguous { .. } => Exit::Usage,
                ModelError::Invalid { .. } | ModelError::ShardsMissing { .. } => Exit::Damaged,
                _ => Exit::Failure,
            },
            Self::Damaged(_) => Exit::Damaged,
            Self::Owned { .. } | Self::InUse(_) | Self::Store(StoreError::Owned { .. }) => {
                Exit::Busy
            }
            Self::Archive { source, .. } => match source {
                ArchiveError::Absent { .. } => Exit::NotFound,
                ArchiveError::Ambiguous { .. } | ArchiveError::OtherModel { .. } => Exit::Usage,
                ArchiveError::Foreign { .. } | ArchiveError::Newer { .. } => Exit::Refused,
                ArchiveError::NotABundle { .. }
                | ArchiveError::Damaged { .. }
                | ArchiveError::NotWhole { .. } => Exit::Damaged,
                ArchiveError::Store(_) | ArchiveError::Io(_) => Exit::Failure,
            },
            Self::Refused { status: 503, .. } => Exit::Busy,
            Self::Refused { status: 500 | 502 | 504.., .. } => Exit::Failure,
            Self::Refused { .. } | Self::NoRoute { .. } => Exit::Refused,
            _ => Exit::Failure,
        }
    }

    /// This failure, of a request whose path names nothing that may be absent: only a daemon without this route
    /// answers it with 404.
    pub fn of_route(self, path: &'static str) -> Self {
        match self {
            Self::Refused { status: 404, .. } => Self::NoRoute { path },
            other => other,
        }
    }
}

fn refusal(status: u16, message: &str) -> String {
    match status {
        401 => format!("the daemon does not accept the token: {message}; see --token-file"),
        503 => format!("the daemon is busy: {message}; try again in a moment"),
        // 501: it is not configured for it.
        500 | 502 | 504.. => format!("the daemon failed: {message}"),
        _ => format!("the daemon refuses: {message}"),
    }
}
