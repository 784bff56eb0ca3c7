//! What was recorded: requests with the names of their blocks, never their text.

mod claude_code;
mod mooncake;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use hob_slots::evict::Ended;

/// A recorded request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Milliseconds since the session's, or else the trace's, first one.
    pub at_millis: u64,
    /// From the answer before to this request.
    pub think_millis: u64,
    /// Until its answer was complete, where that is known.
    pub answer_millis: u64,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Whole blocks of the prompt, by names that stand for all that comes before, too.
    pub blocks: Vec<u64>,
    /// How the answer ended.
    pub ended: Ended,
}

/// A recorded trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Trace {
    /// Sessions, each of which begins when a workload says so. No two share a block.
    Sessions(Vec<Vec<Request>>),
    /// Requests in the order in which they arrived.
    Arrivals(Vec<Request>),
}

/// Why a trace was not read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of it.
    #[error("line {line} of the trace is not understood: {source}")]
    Line {
        /// From 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// A line that is well-formed and makes no sense.
    #[error("line {line} of the trace keeps {kept} blocks of the {before} before it")]
    Keeps {
        /// From 1.
        line: usize,
        /// What it keeps.
        kept: usize,
        /// What there is.
        before: usize,
    },
    /// It holds no request.
    #[error("the trace holds no request; it must be one of Mooncake or of Claude Code sessions")]
    Empty,
}

impl Trace {
    /// Reads a file, which may be compressed with gzip.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Io { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?;
        Self::parse(&bytes).map_err(|error| match error {
            TraceError::Io { source, .. } => failed(source),
            other => other,
        })
    }

    /// Reads the content of a file. Which trace it is shows in its first line.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, TraceError> {
        let reader: Box<dyn Read + '_> = match bytes.starts_with(&[0x1f, 0x8b]) {
            true => Box::new(MultiGzDecoder::new(bytes)),
            false => Box::new(bytes),
        };
        let lines: Result<Vec<_>, _> = BufReader::new(reader).lines().collect();
        let lines = lines.map_err(|source| TraceError::Io { path: PathBuf::new(), source })?;
        let first = lines.first().ok_or(TraceError::Empty)?;
        if first.contains("\"hash_ids\"") {
            mooncake::parse(&lines).map(Self::Arrivals)
        } else {
            claude_code::parse(&lines).map(Self::Sessions)
        }
    }
}
