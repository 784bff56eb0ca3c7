//! Why a profile cannot be used. Each names the file, or the place in it, and the remedy.

use std::io;
use std::path::PathBuf;

/// Why a profile cannot be used. Texts of segments are never quoted.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file is not TOML, or has a field that no profile has.
    #[error("line {line}: {problem}")]
    Toml {
        /// Counted from 1.
        line: usize,
        /// What the parser says.
        problem: String,
    },
    /// A segment contradicts itself.
    #[error("segment {number}: {problem}")]
    Segment {
        /// Counted from 1.
        number: usize,
        /// What is wrong, and what to write.
        problem: &'static str,
    },
    /// There is nothing in it.
    #[error("it has no [[segment]]: write at least one")]
    Nothing,
    /// There is too much in it.
    #[error("it has {got} segments: {most} are the most")]
    TooMany {
        /// How many.
        got: usize,
        /// How many there may be.
        most: usize,
    },
    /// A file is missing, or not ours to read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is larger than a prompt should be.
    #[error("{} is larger than 1 MiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file is empty; perhaps somebody writes it just now.
    #[error("{} is empty: fill it, or mark its segment `stable = false`", path.display())]
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
    /// A file is not UTF-8.
    #[error("{} is not text in UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A tool file is not JSON.
    #[error("{} is not JSON: {problem}", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        problem: String,
    },
    /// A tool file holds something else.
    #[error(
        "{} holds no tools: write an array of them, as in the `tools` of a chat request",
        path.display()
    )]
    NoTools {
        /// The file.
        path: PathBuf,
    },
}
