//! One file per subcommand: its arguments and its work.

pub mod ask;
pub mod chat;
pub mod completions;
pub mod config;
pub mod conversations;
pub mod doctor;
pub mod documents;
pub mod explain;
pub mod import;
pub mod man;
pub mod models;
pub mod open;
pub mod prefixes;
pub mod settings;
pub mod simulate;
pub mod slots;
pub mod status;
mod stream;
mod turn;
pub mod verify_correctness;

use std::path::Path;

use clap::CommandFactory;
use hob_api::List;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::{Args, Command};
use crate::client::{self, Client};
use crate::context::Context;
use crate::failure::Failure;

/// Runs a command that needs settings.
pub fn run(command: Command, context: &mut Context) -> Result<(), Failure> {
    match command {
        Command::Chat(args) => chat::run(&args, context),
        Command::Ask(args) => ask::run(&args, context),
        Command::Conversations(args) => conversations::run(&args, context),
        Command::Documents(args) => documents::run(&args, context),
        Command::Import(args) => import::run(&args, context),
        Command::Explain(args) => explain::run(&args, context),
        Command::Slots(args) => slots::run(&args, context),
        Command::Open(args) => open::run(&args, context),
        Command::Prefixes(args) => prefixes::run(&args, context),
        Command::Models(args) => models::run(&args, context),
        Command::Simulate(args) => simulate::run(&args, context),
        Command::Status(args) => status::run(&args, context),
        Command::VerifyCorrectness(args) => verify_correctness::run(&args, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Settings(_) => settings::run(context.json),
        Command::Config(args) => config::run(&args, context),
        Command::Completions(args) => completions::run(&args, Args::command()),
        Command::Man(args) => man::run(&args, Args::command()),
    }
}

/// The entries of the list at `path`; `None`: `--json` has printed them.
fn listed<T: DeserializeOwned>(
    client: &Client,
    path: &'static str,
    context: &mut Context,
) -> Result<Option<Vec<T>>, Failure> {
    let answer: Value = client.get(path).map_err(|failure| failure.of_route(path))?;
    if context.json {
        context.write_json(&answer["data"])?;
        return Ok(None);
    }
    Ok(Some(client::parse::<List<T>>(answer)?.data))
}

/// What `table` has for the ending of the file's name.
///
/// # Errors
/// [`Failure::Usage`] for another ending.
fn of_ending(path: &Path, table: &[(&str, &'static str)]) -> Result<&'static str, Failure> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let found = table.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = table.iter().map(|(ending, _)| format!(".{ending}")).collect();
        let known = known.join(", ");
        Failure::Usage(format!("{}: the name must end in one of {known}", path.display()))
    })
}

/// Does this with each name. Goes on after one that nothing has: the first such failure is the one in
/// the end.
fn with_each(
    names: &[String],
    mut act: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut missing = None;
    for name in names {
        match act(name) {
            Err(failure @ Failure::NotFound(_)) => {
                missing.get_or_insert(failure);
            }
            done => done?,
        }
    }
    missing.map_or(Ok(()), Err)
}
