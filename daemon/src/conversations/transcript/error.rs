//! Why text could not be read or written.

use std::io;
use std::path::{Path, PathBuf};

use hob_runtime::turn::TurnError;
use rusqlite::{Connection, ErrorCode};

use crate::error::{ApiError, ErrorKind};

#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    #[error("transcript database: {0}")]
    Sql(#[from] rusqlite::Error),
    /// SQLite found no room for a write.
    #[error("transcript database in {}: {source}", directory.display())]
    DiskFull { directory: PathBuf, source: rusqlite::Error },
    #[error("cannot open {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "the transcript database has version {found}, this hobd knows up to {known}: \
         use the newer hobd"
    )]
    Newer { found: usize, known: usize },
    /// An append of no messages to an empty conversation, or to an answer.
    #[error("there is nothing to answer")]
    NothingToAnswer,
    /// A continuation of what is no answer, or of one that messages follow.
    #[error("there is no answer to go on with")]
    NothingToContinue,
    /// A change of messages while an answer grows.
    #[error("the conversation is being answered: stop the answer, or wait for it")]
    Answering,
    #[error("the conversation is on disk")]
    OnDisk,
    #[error("the conversation has no message {id}")]
    NoSuchMessage { id: i64 },
    /// Between the reading of a history and its answer.
    #[error("a message that the answer follows was deleted meanwhile")]
    MessageDeleted,
    #[error("the conversation was deleted")]
    Deleted,
    /// The daemon is shutting down.
    #[error("hobd is stopping: try again once it has started")]
    Stopped,
}

impl From<TranscriptError> for ApiError {
    fn from(error: TranscriptError) -> Self {
        if matches!(error, TranscriptError::Deleted) {
            return TurnError::Forgotten.into();
        }
        if matches!(error, TranscriptError::MessageDeleted) {
            return Self::new(ErrorKind::Conflict, error.to_string()).code("message_deleted");
        }
        if matches!(error, TranscriptError::Answering) {
            return Self::new(ErrorKind::Conflict, error.to_string()).code("answering");
        }
        tracing::error!(%error, "transcript");
        Self::internal(format!("the conversation could not be stored or read: {error}"))
            .code("transcript")
            .unless_disk_full(&error)
    }
}

impl TranscriptError {
    /// The refusal of a request that names a message in `field`.
    pub fn in_field(self, field: &str) -> ApiError {
        match self {
            Self::NoSuchMessage { .. } => ApiError::field(field, self.to_string()),
            error => error.into(),
        }
    }

    /// Names the directory where there is no room.
    pub(super) fn in_database(self, database: &Connection) -> Self {
        match self {
            Self::Sql(source) if source.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                let file = Path::new(database.path().unwrap_or_default());
                let directory = file.parent().unwrap_or(file).to_owned();
                Self::DiskFull { directory, source }
            }
            error => error,
        }
    }
}
