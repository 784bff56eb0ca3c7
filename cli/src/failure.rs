//! Why a command failed, which decides its exit code.

use std::io;
use std::path::PathBuf;

use hob_config::ConfigError;
use hob_models::ModelError;
use hob_slots::StoreError;
use hob_slots::archive::ArchiveError;
use hob_slots::maintenance::MaintenanceError;

use crate::exit::Exit;

/// What went wrong, with the remedy.
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
    /// The directory of kept KV cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A daemon owns the directory.
    #[error(
        "{} is in use by {owner}; stop it first, or let it do the work: \
         `hob conversations rm` removes text and KV",
        dir.display()
    )]
    Owned {
        /// The directory.
        dir: PathBuf,
        /// Who owns it.
        owner: String,
    },
    /// Nobody answers at the daemon's address.
    #[error("no daemon answers at {address}; start one with `hobd` (or `cargo xtask run`)")]
    NotRunning {
        /// Where it should be.
        address: String,
    },
    /// The access token cannot be read.
    #[error(
        "cannot read the token file {}: {source}; name it with --token-file",
        path.display()
    )]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The daemon answered with an error.
    #[error("{}", refusal(*.status, .message))]
    Refused {
        /// HTTP's status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// The connection broke, or what came over it makes no sense.
    #[error("the daemon's answer broke off: {0}")]
    BrokenAnswer(String),
    /// There is nothing of that name.
    #[error("{0}")]
    NotFound(String),
    /// Files are damaged.
    #[error("{0}")]
    Damaged(String),
    /// Something that was asked for was left alone, because it is in use.
    #[error("{0}")]
    InUse(String),
    /// An archive cannot be made or taken in.
    #[error("{}: {source}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// Why.
        source: ArchiveError,
    },
    /// A check failed.
    #[error("{0}")]
    Unhealthy(String),
    /// A measured figure is not what it has to be.
    #[error("{missed} of {of} figures are missed")]
    Missed {
        /// How many.
        missed: usize,
        /// Of how many.
        of: usize,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
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
    /// The exit code for it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Usage(_) => Exit::Usage,
            Self::NotRunning { .. } => Exit::NotRunning,
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
                ArchiveError::Ambiguous { .. } => Exit::Usage,
                ArchiveError::Foreign { .. } | ArchiveError::Newer { .. } => Exit::Refused,
                ArchiveError::NotABundle { .. }
                | ArchiveError::Damaged { .. }
                | ArchiveError::NotWhole { .. } => Exit::Damaged,
                ArchiveError::Store(_) | ArchiveError::Io(_) => Exit::Failure,
            },
            Self::Refused { status: 503, .. } => Exit::Busy,
            Self::Refused { .. } => Exit::Refused,
            _ => Exit::Failure,
        }
    }
}

fn refusal(status: u16, message: &str) -> String {
    match status {
        401 => format!("the daemon does not accept the token: {message}; see --token-file"),
        503 => format!("the daemon is busy: {message}; try again in a moment"),
        _ => format!("the daemon refuses: {message}"),
    }
}
