//! `hob slots rm`

use std::io::Write;

use hob_slots::ModelHash;
use hob_slots::maintenance::{Remove, Removed};

use super::access;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{plain, size};

/// Remove the KV of conversations; what was said stays
#[derive(clap::Args)]
pub struct Args {
    /// The conversations
    #[arg(required = true)]
    conversations: Vec<String>,

    /// Only that of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let Args { conversations, fingerprint } = args;
    let conversations = conversations.clone();
    access::maintain(Remove { conversations, fingerprint: *fingerprint }, context)
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
        (Some(id), _) => Err(super::absent(id, context)),
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
