//! `hob slots class`

use std::io::Write;

use hob_slots::maintenance::{Reclassed, SetClass};
use hob_slots::{ConversationId, ModelHash, TtlClass};

use super::access;
use super::rm::in_use;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::plain;

/// Change how long the KV of a conversation is kept
#[derive(clap::Args)]
pub struct Args {
    /// The conversation
    conversation: String,

    /// Its class: short, long, extended or permanent
    class: TtlClass,

    /// Only that of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let Args { conversation, class, fingerprint } = args;
    let conversation =
        ConversationId::new(conversation).map_err(|_| super::absent(conversation, context))?;
    access::maintain(SetClass { conversation, class: *class, fingerprint: *fingerprint }, context)
}

pub fn show(
    report: &Reclassed,
    conversation: &ConversationId,
    context: &mut Context,
) -> Result<(), Failure> {
    let conversation = conversation.as_str();
    if report.is_missing() {
        return Err(super::absent(conversation, context));
    }
    if context.json {
        context.write_json(report)?;
    } else {
        for change in &report.changed {
            let (from, to) = (change.from, change.to);
            writeln!(context.out, "{}: {to} instead of {from}", plain(conversation))?;
        }
        context.out.flush()?;
    }
    match report.skipped.first() {
        Some(skipped) => Err(in_use(conversation, &skipped.reason)),
        None => Ok(()),
    }
}
