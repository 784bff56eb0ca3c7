//! `hob config`, and `hob config show`

use clap::Subcommand;
use hob_config::Key;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, plain, wrapped};

/// Show the settings and the origin of each
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// List every setting, its value and its origin
    Show,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    match args.action.as_ref().unwrap_or(&Action::Show) {
        Action::Show => show(context),
    }
}

fn show(context: &mut Context) -> Result<(), Failure> {
    let entries = context.resolved.entries.clone();
    if context.json {
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| {
                json!({"key": entry.key.name(), "value": entry.value, "from": entry.origin})
            })
            .collect();
        return context.write_json(&entries);
    }
    let columns = [("KEY", Align::Left), ("VALUE", Align::Left), ("FROM", Align::Left)];
    let mut table = Table::new(&columns).wrap(1).wrap(2);
    for entry in &entries {
        let (name, value) = (entry.key.name().to_owned(), plain(&entry.written()));
        table.row(vec![name, value, plain(&entry.origin.to_string())]);
    }
    let columns = context.columns();
    let mut text = table.text(columns);
    if entries[Key::Config as usize].value.is_null() {
        let file = context.resolved.config_file();
        let hint = format!("\nno file: hob and hobd would read {}\n", file.display());
        text += &wrapped(&hint, columns);
    }
    context.show(&text)
}
