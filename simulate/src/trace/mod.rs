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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SESSIONS: &str = r#"
{"s":"a","th":"0","t":0.0,"in":1100,"out":9,"keep":0,"add":[[1,17]],"stop":"tool_use","api":2.5}
{"s":"a","th":"0/x","t":3.0,"in":512,"out":9,"keep":0,"add":[[40,8]],"stop":"","think":0.5}
{"s":"a","th":"0","t":4.5,"in":1100,"out":9,"keep":12,"add":[[50,2],[60,3]],"stop":"end_turn"}
{"s":"b","th":"0","t":0.0,"in":600,"out":9,"keep":0,"add":[[1,9]],"stop":"end_turn"}"#;

    fn parse(text: &str) -> Result<Trace, TraceError> {
        Trace::parse(text.trim_start().as_bytes())
    }

    #[test]
    fn eight_small_blocks_are_one_and_threads_go_on_where_they_were() {
        let Trace::Sessions(sessions) = parse(SESSIONS).unwrap() else { panic!("sessions") };
        let blocks = |session: usize, request: usize| -> Vec<u64> {
            sessions[session][request].blocks.iter().map(|id| id & 0xffff_ffff).collect()
        };
        assert_eq!((blocks(0, 0), blocks(0, 1)), (vec![8, 16], vec![47]));
        assert_eq!((blocks(0, 2), blocks(1, 0)), (vec![8, 61], vec![8]));
        assert_ne!(sessions[0][0].blocks[0], sessions[1][0].blocks[0], "sessions share nothing");
        let first = &sessions[0][0];
        assert_eq!((first.answer_millis, first.ended), (2_500, Ended::ToolCall));
        assert_eq!((sessions[0][2].at_millis, sessions[0][1].think_millis), (4_500, 500));
    }

    #[test]
    fn arrivals_are_read_plain_and_compressed() {
        let line =
            r#"{"timestamp": 27, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}"#;
        let plain = parse(line).unwrap();
        let Trace::Arrivals(requests) = &plain else { panic!("arrivals") };
        assert_eq!((requests[0].at_millis, &requests[0].blocks), (27, &vec![0, 1]));

        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(line.as_bytes()).unwrap();
        assert_eq!(Trace::parse(&gzip.finish().unwrap()).unwrap(), plain);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("").contains("holds no request"));
        assert!(message("hello").starts_with("line 1 of the trace is not understood"));
        let broken = SESSIONS.replace("\"keep\":12", "\"keep\":18");
        assert_eq!(message(&broken), "line 3 of the trace keeps 18 blocks of the 17 before it");
        let cut = &SESSIONS[..SESSIONS.len() - 20];
        assert!(message(cut).starts_with("line 4"));
    }
}
