//! The bundled extracts, see `assets/traces/README.md`.

use crate::trace::{Request, Trace};

const SESSIONS: &[u8] = include_bytes!("../../assets/traces/claude_code_sessions.jsonl.gz");
const ARRIVALS: &[u8] = include_bytes!("../../assets/traces/mooncake_conversation.jsonl.gz");

/// The traces of the set-ups.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    pub sessions: Vec<Vec<Request>>,
    pub arrivals: Vec<Request>,
}

impl Traces {
    pub fn bundled() -> Self {
        let mut traces = Self { sessions: Vec::new(), arrivals: Vec::new() };
        for bytes in [SESSIONS, ARRIVALS] {
            traces.replace(Trace::parse(bytes).expect("the bundled traces are well-formed"));
        }
        traces
    }

    /// Replaces the trace of the same kind.
    pub fn replace(&mut self, trace: Trace) {
        match trace {
            Trace::Sessions(sessions) => self.sessions = sessions,
            Trace::Arrivals(arrivals) => self.arrivals = arrivals,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_extracts_hold_what_their_readme_says() {
        let traces = Traces::bundled();
        assert_eq!(traces.sessions.len(), 135);
        assert_eq!(traces.sessions.iter().map(Vec::len).sum::<usize>(), 7_973);
        assert_eq!(traces.arrivals.len(), 3_000);
        let longest = traces.sessions.iter().flatten().map(|request| request.input_tokens).max();
        assert!(longest.unwrap() <= 200_000);
    }
}
