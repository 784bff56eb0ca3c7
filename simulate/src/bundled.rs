//! The extracts that come with Hob, see `assets/traces/README.md`.

use crate::trace::{Request, Trace};

const SESSIONS: &[u8] = include_bytes!("../../assets/traces/claude_code_sessions.jsonl.gz");
const ARRIVALS: &[u8] = include_bytes!("../../assets/traces/mooncake_conversation.jsonl.gz");

/// What set-ups are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// Sessions for lanes to play.
    pub sessions: Vec<Vec<Request>>,
    /// Requests as they arrived.
    pub arrivals: Vec<Request>,
}

impl Traces {
    /// The extracts.
    pub fn bundled() -> Self {
        let mut traces = Self { sessions: Vec::new(), arrivals: Vec::new() };
        for bytes in [SESSIONS, ARRIVALS] {
            traces.replace(Trace::parse(bytes).expect("the bundled traces are well-formed"));
        }
        traces
    }

    /// Takes a trace in the place of the one of its kind.
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
