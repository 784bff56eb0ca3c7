//! Recorded requests with the names of their blocks, never their text.

mod claude_code;
mod mooncake;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use hob_slots::evict::AnswerEnd;

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Since the first request of the session, or else of the trace.
    pub at_millis: u64,
    /// From the previous answer to this request.
    pub think_millis: u64,
    /// Until the answer was complete; 0 when unknown.
    pub answer_millis: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Whole blocks of the prompt. A name covers all blocks before it too.
    pub blocks: Vec<u64>,
    pub ended: AnswerEnd,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Trace {
    /// Sessions, which a workload starts. No two share a block.
    Sessions(Vec<Vec<Request>>),
    /// Requests in order of arrival.
    Arrivals(Vec<Request>),
}

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("line {line} of the trace cannot be parsed: {source}")]
    Line { line: usize, source: serde_json::Error },
    /// A valid line that contradicts the lines before.
    #[error("line {line} of the trace keeps {kept} blocks of the {before} before it")]
    Keeps { line: usize, kept: usize, before: usize },
    #[error("the trace holds no request; it must be one of Mooncake or of Claude Code sessions")]
    Empty,
}

impl Trace {
    /// Reads a file, plain or compressed with gzip.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Io { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?;
        Self::parse(&bytes).map_err(|error| match error {
            TraceError::Io { source, .. } => failed(source),
            other => other,
        })
    }

    /// Its first line shows which trace it is.
    pub fn parse(bytes: &[u8]) -> Result<Self, TraceError> {
        let reader: Box<dyn Read + '_> = if bytes.starts_with(&[0x1f, 0x8b]) {
            Box::new(MultiGzDecoder::new(bytes))
        } else {
            Box::new(bytes)
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
    fn eight_small_blocks_are_one_and_threads_continue() {
        let Trace::Sessions(sessions) = parse(SESSIONS).unwrap() else { panic!("sessions") };
        let blocks = |session: usize, request: usize| -> Vec<u64> {
            sessions[session][request].blocks.iter().map(|id| id & 0xffff_ffff).collect()
        };
        assert_eq!((blocks(0, 0), blocks(0, 1)), (vec![8, 16], vec![47]));
        assert_eq!((blocks(0, 2), blocks(1, 0)), (vec![8, 61], vec![8]));
        assert_ne!(sessions[0][0].blocks[0], sessions[1][0].blocks[0], "sessions share nothing");
        let first = &sessions[0][0];
        assert_eq!((first.answer_millis, first.ended), (2_500, AnswerEnd::ToolCall));
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
    fn an_invalid_trace_is_refused_with_its_line() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("").contains("holds no request"));
        assert!(message("hello").starts_with("line 1 of the trace cannot be parsed"));
        let broken = SESSIONS.replace("\"keep\":12", "\"keep\":18");
        assert_eq!(message(&broken), "line 3 of the trace keeps 18 blocks of the 17 before it");
        let cut = &SESSIONS[..SESSIONS.len() - 20];
        assert!(message(cut).starts_with("line 4"));
    }
}
