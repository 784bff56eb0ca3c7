//! `hob slots class`

use std::io::Write;

use hob_slots::maintenance::{self, ClassError, Reclassed};
use hob_slots::{ConversationId, ModelHash, NoEngine, TtlClass};
use serde_json::json;

use super::hand::{self, Hand};
use super::rm::in_use;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::plain;

/// Change how long the KV of a conversation is kept
#[derive(clap::Args)]
pub struct Args {
    /// The conversation
    conversation: String,

    /// Its class: short, long, extended or kept
    class: TtlClass,

    /// Only that of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let Args { conversation, class, fingerprint } = args;
    let absent = || super::absent(conversation, context);
    let id = ConversationId::new(conversation).map_err(|_| absent())?;
    if super::reader(context)?.is_none() {
        return Err(absent());
    }
    let report: Reclassed = match hand::take(context)? {
        Hand::Own(store) => maintenance::set_class(&store, &NoEngine, &id, *class, *fingerprint)
            .map_err(|error| match error {
                ClassError::Store(error) => error.into(),
                ClassError::Unusable(miss) => {
                    Failure::Damaged(format!("the KV of `{id}` cannot be used: {miss}"))
                }
            })?,
        Hand::Daemon(client) => {
            let body =
                json!({"conversation": conversation, "class": class, "fingerprint": fingerprint});
            let asked = hand::ask(&client, "/v1/slots/class", &body);
            asked.map_err(|failure| match failure {
                Failure::Refused { status: 404, .. } => absent(),
                failure => failure,
            })?
        }
    };
    if report.changed.is_empty() && report.skipped.is_empty() {
        return Err(absent());
    }
    if context.json {
        context.write_json(&report)?;
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
