//! `hob config show`

use clap::Subcommand;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, plain};

/// Show the settings and the origin of each
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List every setting, its value and its origin
    Show,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    match args.action {
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
    let mut table =
        Table::new(&[("KEY", Align::Left), ("VALUE", Align::Left), ("FROM", Align::Left)]);
    for entry in &entries {
        let value = match &entry.value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            Value::Array(items) if items.is_empty() => "-".to_owned(),
            other => other.to_string(),
        };
        table.row(vec![entry.key.name().to_owned(), plain(&value), entry.origin.to_string()]);
    }
    Ok(table.write(&mut *context.out)?)
}
