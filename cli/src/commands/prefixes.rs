//! `hob prefixes`

use std::io::Write;

use clap::Subcommand;
use hob_api::LearnedPrefix;
use serde_json::Value;

use super::{listed, with_each};
use crate::client::{Client, path_segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, ago, count, line, plain, state};

const PATH: &str = "/v1/learned";

/// List and forget learned prefixes: what many prompts begin with
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// List learned prefixes
    #[command(visible_alias = "ls")]
    List,
    /// Forget learned prefixes and their KV
    #[command(visible_alias = "rm")]
    Forget {
        /// Their names
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// All of them
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    match args.action.as_ref().unwrap_or(&Action::List) {
        Action::List => list(&client, context),
        Action::Forget { all: true, .. } => forget(&client, PATH, context),
        Action::Forget { names, .. } => forget_each(&client, names, context),
    }
}

fn list(client: &Client, context: &mut Context) -> Result<(), Failure> {
    let Some(prefixes) = listed::<LearnedPrefix>(client, PATH, context)? else { return Ok(()) };
    if prefixes.is_empty() {
        writeln!(context.out, "no prefix is learned: three conversations must begin alike")?;
        return Ok(());
    }
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("TOKENS", Align::Right),
        ("CONVERSATIONS", Align::Right),
        ("PLACE", Align::Left),
        ("USED", Align::Left),
        ("BEGINS", Align::Left),
    ])
    .cut(5)
    .spare([2, 4, 3]);
    for prefix in &prefixes {
        table.row(vec![
            line(&prefix.name, 16),
            count(prefix.tokens as u64),
            count(prefix.conversations as u64),
            line(if prefix.place == "none" { "none" } else { state(&prefix.place) }, 12),
            ago(context.now_secs().saturating_sub(prefix.used_at)),
            line(&prefix.text, 48),
        ]);
    }
    let text = table.text(context.columns());
    context.show(&text)
}

fn forget_each(client: &Client, names: &[String], context: &mut Context) -> Result<(), Failure> {
    with_each(names, |name| {
        match forget(client, &format!("{PATH}/{}", path_segment(name)), context) {
            // 400: a name that no prefix can have.
            Err(Failure::Refused { status: 400 | 404, .. }) => {
                let name = plain(name);
                let message =
                    format!("there is no learned prefix `{name}`; `hob prefixes` lists them");
                Err(Failure::NotFound(message))
            }
            other => other,
        }
    })
}

fn forget(client: &Client, path: &str, context: &mut Context) -> Result<(), Failure> {
    let answer: Value = client.delete(path)?;
    if context.json {
        return context.write_json(&answer["forgotten"]);
    }
    let forgotten = answer["forgotten"].as_array().map_or(&[][..], Vec::as_slice);
    if forgotten.is_empty() {
        writeln!(context.out, "no prefix was learned")?;
    }
    for name in forgotten {
        let name = line(name.as_str().unwrap_or_default(), 16);
        writeln!(context.out, "forgot {name}")?;
    }
    Ok(())
}
