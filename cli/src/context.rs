//! The surroundings of a command: settings, the time, the terminal, standard output.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use hob_config::{Resolved, Settings};
use hob_models::Roots;
use hob_slots::Lifetimes;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Markdown, page, plain};

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
    /// The command that shows long texts; empty for none.
    pub pager: String,
}

/// Which streams are connected to a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    pub input: bool,
    pub output: bool,
    pub error: bool,
    /// It knows no control sequences: no line can be edited or replaced.
    pub is_dumb: bool,
    /// It is not dumb, and `NO_COLOR` is not set.
    pub colour: bool,
    /// Columns and rows of standard output, where it is a terminal that knows them.
    pub size: Option<(usize, usize)>,
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

    /// The columns of the terminal; `None`: lines may be as long as they are.
    pub fn columns(&self) -> Option<usize> {
        self.terminal.size.map(|(columns, _)| columns)
    }

    /// Prints a text, through the pager where it is longer than the terminal. At a dumb one, no pager can move.
    pub fn show(&mut self, text: &str) -> Result<(), Failure> {
        let rows = self.terminal.size.map_or(usize::MAX, |(_, rows)| rows);
        let is_long = text.lines().count() >= rows && !self.pager.is_empty();
        if is_long && !self.terminal.is_dumb && page(&self.pager, text) {
            return Ok(());
        }
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Renders Markdown on a terminal with colours.
    pub fn markdown(&self, text: &str) -> String {
        if self.terminal.output && self.terminal.colour {
            Markdown::whole(&plain(text), self.columns())
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
