//! `hob slots rm`

use std::io::Write;

use hob_slots::ModelHash;
use hob_slots::maintenance::{Remove, Removed};

use super::{dir, named};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{plain, size};

/// Remove the saved KV of conversations; their texts stay
#[derive(clap::Args)]
pub struct Args {
    /// The conversations: ids, titles, or beginnings of them
    #[arg(required = true)]
    conversations: Vec<String>,

    /// Only KV of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

impl Args {
    pub fn request(&self, context: &Context) -> Result<Remove, Failure> {
        let conversations = named::ids(&self.conversations, context)?;
        Ok(Remove { conversations, fingerprint: self.fingerprint })
    }
}

pub fn show(report: &Removed, context: &mut Context) -> Result<(), Failure> {
    if context.json {
        context.write_json(report)?;
    } else {
        for id in &report.removed {
            writeln!(context.out, "removed {}", plain(id))?;
        }
        if !report.removed.is_empty() {
            writeln!(context.out, "{} freed", size(report.freed_bytes))?;
        }
        context.out.flush()?;
    }
    match (report.missing.first(), report.skipped.first()) {
        (Some(id), _) => Err(dir::absent(id, context)),
        (None, Some(skipped)) => Err(in_use(&skipped.conversation, &skipped.reason)),
        (None, None) => Ok(()),
    }
}

pub fn in_use(conversation: &str, reason: &str) -> Failure {
    Failure::InUse(format!(
        "`{conversation}` skipped: {reason}; try again when it is idle, or remove its text and KV \
         at once with `hob conversations rm`"
    ))
}
