//! `hob slots gc`: a dry run unless `--yes`, as with `hob slots prune`.

use std::io::Write;

use hob_slots::ModelHash;
use hob_slots::maintenance::{Collect, Collected};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, count, size};

/// Remove objects that no conversation references; without --yes, only count them
///
/// While a daemon runs, objects of the last ten minutes stay: the slot file that references them may
/// not be written yet.
#[derive(clap::Args)]
pub struct Args {
    /// Remove them; without this flag nothing changes
    #[arg(long)]
    yes: bool,

    /// Only objects of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

impl Args {
    pub fn request(&self) -> Collect {
        Collect { fingerprint: self.fingerprint, dry_run: !self.yes }
    }
}

pub fn show(report: &Collected, context: &mut Context) -> Result<(), Failure> {
    if context.json {
        return context.write_json(report);
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
    let what = format!("{} unreferenced object{plural}", count(objects as u64));
    let freed = size(report.freed_bytes);
    match (report.dry_run, objects) {
        (false, _) => writeln!(context.out, "removed {what}, {freed} freed")?,
        (true, 0) => writeln!(context.out, "would remove {what}")?,
        (true, _) => writeln!(context.out, "would remove {what} and free {freed}; --yes does it")?,
    }
    Ok(context.out.flush()?)
}
