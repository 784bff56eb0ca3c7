//! `hob slots gc`: a dry run unless `--yes`, as with `hob slots prune`.

use std::io::Write;
use std::time::Duration;

use hob_slots::maintenance::{self, Collected};
use hob_slots::{ModelHash, NoEngine, SAVE_GRACE};
use serde_json::json;

use super::hand::{self, Hand};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, count, size};

/// Remove objects that no conversation needs; only shows them unless --yes is given
///
/// While a daemon runs, those of the last ten minutes stay: it may be about to name them.
#[derive(clap::Args)]
pub struct Args {
    /// Remove them; without this flag nothing is changed
    #[arg(long)]
    yes: bool,

    /// Only those of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let Args { yes, fingerprint } = args;
    let report: Collected = match super::reader(context)? {
        None => Collected { dry_run: !yes, ..Collected::default() },
        Some(reader) if !yes => {
            let (moment, lifetimes) = (reader.moment(context.now.into()), context.lifetimes());
            let running = super::daemon_of(&context.settings).is_some();
            let grace = if running { SAVE_GRACE } else { Duration::ZERO };
            let terms = maintenance::Context { moment: &moment, lifetimes: &lifetimes, grace };
            maintenance::plan_collect(&reader, *fingerprint, terms)?
        }
        Some(_) => match hand::take(context)? {
            Hand::Own(store) => {
                let (moment, lifetimes) = (store.moment(context.now.into()), context.lifetimes());
                let grace = Duration::ZERO; // The directory is ours: no save is under way.
                let terms = maintenance::Context { moment: &moment, lifetimes: &lifetimes, grace };
                maintenance::collect(&store, &NoEngine, *fingerprint, terms)?
            }
            Hand::Daemon(client) => {
                let body = json!({"fingerprint": fingerprint, "dry_run": false});
                hand::ask(&client, "/v1/slots/gc", &body)?
            }
        },
    };
    if context.json {
        return context.write_json(&report);
    }
    if !report.models.is_empty() {
        let columns =
            [("FINGERPRINT", Align::Left), ("OBJECTS", Align::Right), ("BYTES", Align::Right)];
        let mut table = Table::new(&columns);
        for of in &report.models {
            let objects = count(of.objects as u64);
            table.row(vec![of.fingerprint.to_string(), objects, size(of.bytes)]);
        }
        table.write(&mut *context.out)?;
        writeln!(context.out)?;
    }
    let objects: usize = report.models.iter().map(|of| of.objects).sum();
    let plural = if objects == 1 { "" } else { "s" };
    let what = format!("{} object{plural} that nobody needs", count(objects as u64));
    let freed = size(report.freed_bytes);
    match (yes, objects) {
        (true, _) => writeln!(context.out, "removed {what}, {freed} freed")?,
        (false, 0) => writeln!(context.out, "would remove {what}")?,
        (false, _) => writeln!(context.out, "would remove {what} and free {freed}; --yes does it")?,
    }
    Ok(context.out.flush()?)
}
