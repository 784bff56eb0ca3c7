//! `hob settings`, and `hob help settings`: the settings as flags.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use hob_config::flags::client_keys;

use crate::failure::Failure;

/// List the settings, which every command takes as flags
#[derive(clap::Args)]
#[command(after_help = text())]
pub struct Args {}

pub fn run() -> Result<(), Failure> {
    Ok(io::stdout().write_all(text().as_bytes())?)
}

const INTRO: &str = "\
Every command takes these flags. A setting may also stand in hob.toml, or in the environment;
`hob config show` prints the value and the origin of each.
";

fn text() -> String {
    let mut text = INTRO.to_owned();
    for key in client_keys() {
        let row = key.row();
        write!(text, "\n  --{} <{}>\n", key.flag(), row.placeholder)
            .and_then(|()| write!(text, "          {} [env: {}]", row.help, key.variable()))
            .expect("writing to a string succeeds");
        if !row.default.is_empty() {
            text += &format!(" [default: {}]", row.default);
        }
        text.push('\n');
    }
    text
}
