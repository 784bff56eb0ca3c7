//! Errors of a profile. Each names the file, or the place in it, and the remedy.

use std::io;
use std::path::PathBuf;

/// Why a profile cannot be used. Never quotes the text of a segment.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("line {line}: {problem}")]
    Toml {
        /// Counted from 1.
        line: usize,
        problem: String,
    },
    #[error("segment {number}: {problem}")]
    Segment {
        /// Counted from 1.
        number: usize,
        /// With its remedy.
        problem: &'static str,
    },
    #[error("it has no [[segment]]: write at least one")]
    Nothing,
    #[error("it has {got} segments, and {max} is the maximum: join some of them")]
    TooMany { got: usize, max: usize },
    #[error("{} cannot be read: {source}; correct the path in its segment, or the file's permissions", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is larger than 1 MiB: divide it", path.display())]
    TooLarge { path: PathBuf },
    /// An editor may be writing the file at this moment.
    #[error("{} is empty: fill it, or mark its segment `stable = false`", path.display())]
    EmptyFile { path: PathBuf },
    #[error("{} is not text in UTF-8: save it as UTF-8", path.display())]
    NotText { path: PathBuf },
    #[error("{} is not JSON: {problem}; correct it there", path.display())]
    NotJson { path: PathBuf, problem: String },
    #[error(
        "{} has no tools: write an array of them, as in the `tools` of a chat request",
        path.display()
    )]
    NoTools { path: PathBuf },
}
