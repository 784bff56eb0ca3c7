//! `hob slots class`

use std::io::Write;

use hob_slots::maintenance::{Reclassed, SetClass};
use hob_slots::{ConversationId, ModelHash, TtlClass};

use super::dir;
use super::rm::in_use;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::plain;

/// Change the retention class of a conversation
#[derive(clap::Args)]
pub struct Args {
    /// The conversation
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
        let conversation =
            ConversationId::new(conversation).map_err(|_| dir::absent(conversation, context))?;
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
