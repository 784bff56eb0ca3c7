//! `hob settings`, and `hob help settings`: the settings as flags.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use hob_config::Key;
use hob_config::flags::client_keys;
use hob_config::key::Row;
use serde_json::{Value, json};

use crate::failure::Failure;

/// List the settings, which every command takes as flags
#[derive(clap::Args)]
#[command(after_help = text())]
pub struct Args {}

pub fn run(is_json: bool) -> Result<(), Failure> {
    let text = if is_json { format!("{}\n", rows()) } else { text() };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

const INTRO: &str = "\
Every command takes these flags. A setting may also stand in hob.toml, or in the environment;
`hob config show` prints the value and the origin of each.
";

/// The settings for programs. `default`: null where there is none, or where it depends on the user's directories.
fn rows() -> Value {
    let row = |key: Key| {
        let Row { placeholder, help, default, .. } = key.row();
        json!({
            "key": key.name(),
            "flag": format!("--{}", key.flag()),
            "variable": key.variable(),
            "value": placeholder,
            "default": Some(default).filter(|default| !default.is_empty()),
            "help": help,
        })
    };
    client_keys().map(row).collect()
}

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
