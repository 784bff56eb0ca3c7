//! `hob slots rm`

use std::io::Write;

use hob_slots::maintenance::{self, Removed};
use hob_slots::{ModelHash, NoEngine};
use serde_json::json;

use super::hand::{self, Hand};
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
    // Opening as owner makes the directory: not for a slip of the pen.
    if super::reader(context)?.is_none() {
        return Err(super::absent(&conversations[0], context));
    }
    let report: Removed = match hand::take(context)? {
        Hand::Own(store) => {
            let moment = store.moment(context.now.into());
            maintenance::remove(&store, &NoEngine, conversations, *fingerprint, &moment)?
        }
        Hand::Daemon(client) => {
            let body = json!({"conversations": conversations, "fingerprint": fingerprint});
            hand::ask(&client, "/v1/slots/remove", &body)?
        }
    };
    if context.json {
        context.write_json(&report)?;
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

/// What was asked for by name is in use.
pub fn in_use(conversation: &str, reason: &str) -> Failure {
    Failure::InUse(format!(
        "`{conversation}` was left alone: {reason}; once it was silent for a while its slot is \
         given up, and `hob conversations rm` removes text and KV at once"
    ))
}
