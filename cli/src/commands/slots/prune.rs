//! `hob slots prune`
//!
//! - A dry run unless `--yes`: it lists what it would remove, and does not own the directory.
//! - Besides the selected conversations it removes objects that no conversation references.

use std::io::Write;
use std::time::Duration;

use hob_config::parse::{self, Raw};
use hob_slots::maintenance::{Prune, Pruned};
use hob_slots::{ConversationId, ModelHash, TtlClass};

use super::{access, dir, live, ls, named};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{conversations, size};

/// Remove saved KV by age, class or size; without --yes, only list it
///
/// Without any criterion it removes expired KV. Conversation texts stay.
#[derive(clap::Args)]
pub struct Args {
    /// Remove it; without this flag nothing changes
    #[arg(long)]
    yes: bool,

    /// Only KV unused for longer than this: 30m, 12h, 7d
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,

    /// Only this class: short, long, extended or permanent
    #[arg(long, value_name = "CLASS")]
    class: Option<TtlClass>,

    /// Only KV larger than this: 500MB, 2GiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    larger_than: Option<u64>,

    /// Only KV of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,

    /// Only this conversation: its id, its title, or the beginning of one
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,

    /// Only expired KV
    #[arg(long)]
    expired: bool,
}

impl Args {
    pub fn request(&self, context: &Context) -> Result<Prune, Failure> {
        let conversation = self.conversation.as_ref().map(|name| match dir::reader(context)? {
            Some(reader) => named::one(&reader, name, context),
            None => ConversationId::new(name).map_err(|_| dir::absent(name, context)),
        });
        Ok(Prune {
            expired: self.expired,
            older_than_secs: self.older_than.map(|age| age.as_secs()),
            class: self.class,
            larger_than: self.larger_than,
            fingerprint: self.fingerprint,
            conversation: conversation.transpose()?,
            dry_run: !self.yes,
        })
    }
}

pub fn show(pruned: &Pruned, context: &mut Context) -> Result<(), Failure> {
    if context.json {
        return context.write_json(pruned);
    }
    if !pruned.slots.is_empty() {
        let titles = live::titles(&context.settings);
        let table = ls::table(&pruned.slots, &titles, &context.lifetimes());
        let text = table.text(context.columns());
        context.out.write_all(text.as_bytes())?;
        writeln!(context.out)?;
    }
    let chosen = conversations(pruned.slots.len());
    let unreferenced = match pruned.unneeded_bytes {
        0 => String::new(),
        bytes => format!(" ({} of it referenced by no conversation)", size(bytes)),
    };
    let freed = size(pruned.freed_bytes);
    let nothing = pruned.slots.is_empty() && pruned.freed_bytes == 0;
    let hint = if nothing { "" } else { "; --yes does it" };
    if pruned.dry_run {
        writeln!(context.out, "would remove {chosen} and free {freed}{unreferenced}{hint}")?;
    } else {
        writeln!(context.out, "removed {chosen}, {freed} freed{unreferenced}")?;
    }
    context.out.flush()?;
    access::warn_skipped(&pruned.skipped);
    Ok(())
}

fn age(text: &str) -> Result<Duration, String> {
    let age = parse::duration(&Raw::Text(text.to_owned()));
    age.map_err(|complaint| format!("{}; {}", complaint.problem, complaint.remedy))
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = parse::bytes(&Raw::Text(text.to_owned()), 0..=u64::MAX);
    bytes.map_err(|complaint| format!("{}; {}", complaint.problem, complaint.remedy))
}
