//! Set-ups by name: `mixed-4`, `claude-8`, `mooncake`.

use std::fmt;
use std::str::FromStr;

use crate::bundled::Traces;
use crate::workload::{self, Arrival, Clients, MAX_PAUSE_SECS, MAX_PROMPT_TOKENS};

/// A named workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// This many clients replay Claude Code sessions back to back.
    Claude(usize),
    /// [`Self::Claude`] with a cold prompt that never repeats at each request.
    Mixed(usize),
    /// Recorded arrivals.
    Arrivals,
}

/// Tokens of a cold prompt.
pub const COLD_TOKENS: u64 = 11_264;

impl Setup {
    /// `requests`: total requests of the clients.
    pub fn arrivals(self, traces: &Traces, requests: usize, seed: u64) -> Vec<Arrival> {
        let (count, cold_tokens) = match self {
            Self::Arrivals => return workload::arrivals(&traces.arrivals),
            Self::Claude(count) => (count, 0),
            Self::Mixed(count) => (count, COLD_TOKENS),
        };
        let clients = Clients {
            count,
            cold_tokens,
            requests,
            max_pause_secs: MAX_PAUSE_SECS,
            max_prompt_tokens: MAX_PROMPT_TOKENS,
        };
        workload::clients(&traces.sessions, &clients, seed)
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claude(clients) => write!(f, "claude-{clients}"),
            Self::Mixed(clients) => write!(f, "mixed-{clients}"),
            Self::Arrivals => f.write_str("mooncake"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no set-up is called \"{got}\": it is claude-N or mixed-N, for N clients up to 256, or mooncake"
)]
pub struct ParseSetupError {
    pub got: String,
}

impl FromStr for Setup {
    type Err = ParseSetupError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let clients = |count: &str| count.parse().ok().filter(|count| (1..=256).contains(count));
        let setup = match text.split_once('-') {
            Some(("claude", count)) => clients(count).map(Self::Claude),
            Some(("mixed", count)) => clients(count).map(Self::Mixed),
            None if text == "mooncake" => Some(Self::Arrivals),
            _ => None,
        };
        setup.ok_or_else(|| ParseSetupError { got: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_is_found_by_its_name() {
        for setup in [Setup::Claude(8), Setup::Mixed(4), Setup::Arrivals] {
            assert_eq!(setup.to_string().parse(), Ok(setup));
        }
        for wrong in ["claude", "claude-0", "claude-1000", "mixed-x", "mooncake-2", ""] {
            assert_eq!(wrong.parse::<Setup>(), Err(ParseSetupError { got: wrong.to_owned() }));
        }
    }
}
