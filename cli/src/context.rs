//! What every command gets: settings, the time, the terminal, and where results go.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use hob_config::{Resolved, Settings};
use hob_models::Roots;
use hob_slots::Lifetimes;
use serde::Serialize;

use crate::failure::Failure;

/// The surroundings of a command.
pub struct Context {
    /// The resolved settings.
    pub settings: Settings,
    /// And where each came from.
    pub resolved: Resolved,
    /// Where the programs on this machine keep their models.
    pub roots: Roots,
    /// Results are JSON.
    pub json: bool,
    /// When the command began.
    pub now: SystemTime,
    /// What is connected to a person.
    pub terminal: Terminal,
    /// Standard output.
    pub out: Box<dyn Write>,
}

/// Which streams are connected to a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Standard input.
    pub input: bool,
    /// Standard output.
    pub output: bool,
    /// Standard error.
    pub error: bool,
    /// Colours are welcome.
    pub colour: bool,
}

impl Context {
    /// When each class of kept KV is over.
    pub fn lifetimes(&self) -> Lifetimes {
        let Settings { ttl_short: short, ttl_long: long, ttl_extended: extended, .. } =
            self.settings;
        Lifetimes { short, long, extended }
    }

    /// Writes a JSON document.
    pub fn write_json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = match self.terminal.output {
            true => serde_json::to_string_pretty(value),
            false => serde_json::to_string(value),
        };
        let text = text.map_err(io::Error::from)?;
        writeln!(self.out, "{text}")?;
        Ok(self.out.flush()?)
    }

    /// Seconds since 1970.
    pub fn now_secs(&self) -> u64 {
        self.now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    /// Text in a quiet colour, when a person reads it.
    pub fn dim(&self, text: &str) -> String {
        match self.terminal.output && self.terminal.colour {
            true => format!("\x1b[2m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}
