//! `hob slots class`

use std::io::Write;

use hob_slots::maintenance::{Reclassed, SetClass};
use hob_slots::{ConversationId, ModelHash, TtlClass};

use super::rm::in_use;
use super::{dir, named};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::plain;

/// Change the TTL class of a conversation
#[derive(clap::Args)]
pub struct Args {
    /// The conversation: its id, its title, or the beginning of one
    conversation: String,

    /// Its new class: short, long, extended or permanent
    class: TtlClass,

    /// Only KV of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

impl Args {
    pub fn request(&self, context: &Context) -> Result<SetClass, Failure> {
        let &Self { ref conversation, class, fingerprint } = self;
        let absent = || dir::absent(conversation, context);
        let conversation = match dir::reader(context)? {
            Some(reader) => named::one(&reader, conversation, context)?,
            None => ConversationId::new(conversation).map_err(|_| absent())?,
        };
        Ok(SetClass { conversation, class, fingerprint })
    }
}

pub fn show(
    report: &Reclassed,
    conversation: &ConversationId,
    context: &mut Context,
) -> Result<(), Failure> {
    let conversation = conversation.as_str();
    if report.is_missing() {
        return Err(dir::absent(conversation, context));
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
