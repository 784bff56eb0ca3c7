//! The surroundings of a command: settings, the time, the terminal, standard output.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use hob_config::{Resolved, Settings};
use hob_models::Roots;
use hob_slots::Lifetimes;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Markdown, plain};

pub struct Context {
    pub settings: Settings,
    /// The settings with their origins.
    pub resolved: Resolved,
    /// The directories in which programs on this machine store models.
    pub roots: Roots,
    /// Print JSON.
    pub json: bool,
    /// When the command started.
    pub now: SystemTime,
    pub terminal: Terminal,
    pub out: Box<dyn Write>,
}

/// Which streams are connected to a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    pub input: bool,
    pub output: bool,
    pub error: bool,
    /// `NO_COLOR` is not set.
    pub colour: bool,
}

impl Context {
    pub fn lifetimes(&self) -> Lifetimes {
        let Settings { ttl_short: short, ttl_long: long, ttl_extended: extended, .. } =
            self.settings;
        Lifetimes { short, long, extended }
    }

    pub fn write_json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = if self.terminal.output {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        let text = text.map_err(io::Error::from)?;
        writeln!(self.out, "{text}")?;
        Ok(self.out.flush()?)
    }

    /// Seconds since 1970.
    pub fn now_secs(&self) -> u64 {
        self.now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    /// Renders Markdown on a terminal with colours.
    pub fn markdown(&self, text: &str) -> String {
        if self.terminal.output && self.terminal.colour {
            Markdown::whole(&plain(text))
        } else {
            plain(text)
        }
    }

    /// Dims text on a terminal with colours.
    pub fn dim(&self, text: &str) -> String {
        if self.terminal.output && self.terminal.colour {
            format!("\x1b[2m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
