//! `hob status`

mod fields;
mod overview;

use std::collections::BTreeMap;

use hob_api::Status;
use serde_json::Value;

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::names;

/// Show the state of the daemon: model, slots, conversations that are ready, memory
#[derive(clap::Args)]
pub struct Args {
    /// Show every field of the daemon's answer
    #[arg(long)]
    all: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let client = Client::find(context)?;
    let status: Value = client.get("/v1/status")?;
    if context.json {
        return context.write_json(&status);
    }
    if args.all {
        return fields::write(&client, status, context);
    }
    let status: Status =
        serde_json::from_value(status).map_err(|error| Failure::BrokenAnswer(error.to_string()))?;
    // A daemon that cannot list them knows no titles.
    let known = names::of_daemon(&client).unwrap_or_default().into_iter();
    let titles: BTreeMap<_, _> = known.filter_map(|known| Some((known.id, known.title?))).collect();
    overview::write(&client, &status, &titles, context)
}
