//! The tables of the harness, in the order in which they are measured, one file each.

mod agent_day;
mod bytes;
mod first_token;
mod footprint;
mod http;
mod streams;

use anyhow::Result;

use super::bench::{Bench, Sheet};

pub struct Table {
    /// For `--only`.
    pub name: &'static str,
    pub measure: fn(&Bench) -> Result<Sheet>,
}

pub const ALL: [Table; 6] = [
    Table { name: "first-token", measure: first_token::measure },
    Table { name: "streams", measure: streams::measure },
    Table { name: "agent-day", measure: agent_day::measure },
    Table { name: "bytes", measure: bytes::measure },
    Table { name: "http", measure: http::measure },
    Table { name: "footprint", measure: footprint::measure },
];
