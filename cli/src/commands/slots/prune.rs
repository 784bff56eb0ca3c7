//! `hob slots prune`
//!
//! - A dry run unless `--yes`: what would go is listed, nothing is touched, nothing is owned.
//! - Besides the chosen conversations, objects that no conversation needs go.

use std::io::Write;
use std::time::Duration;

use hob_config::parse::{self, Raw};
use hob_slots::maintenance::{Prune, Pruned};
use hob_slots::{ConversationId, ModelHash, TtlClass};

use super::{access, ls};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{conversations, size};

/// Remove KV by age, class or size; only shows what would go unless --yes is given
///
/// Without any criterion it chooses what has expired. What was said stays.
#[derive(clap::Args)]
pub struct Args {
    /// Remove it; without this flag nothing is changed
    #[arg(long)]
    yes: bool,

    /// Only what was last used longer ago: 30m, 12h, 7d
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,

    /// Only this class: short, long, extended or permanent
    #[arg(long, value_name = "CLASS")]
    class: Option<TtlClass>,

    /// Only what takes more: 500MB, 2GiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    larger_than: Option<u64>,

    /// Only that of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,

    /// Only this conversation
    #[arg(long, value_name = "ID")]
    conversation: Option<ConversationId>,

    /// Only what has expired
    #[arg(long)]
    expired: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let prune = Prune {
        expired: args.expired,
        older_than_secs: args.older_than.map(|age| age.as_secs()),
        class: args.class,
        larger_than: args.larger_than,
        fingerprint: args.fingerprint,
        conversation: args.conversation.clone(),
        dry_run: !args.yes,
    };
    access::maintain(prune, context)
}

pub fn show(pruned: &Pruned, context: &mut Context) -> Result<(), Failure> {
    if context.json {
        return context.write_json(pruned);
    }
    if !pruned.slots.is_empty() {
        ls::table(&pruned.slots).write(&mut *context.out)?;
        writeln!(context.out)?;
    }
    let chosen = conversations(pruned.slots.len());
    let unneeded = match pruned.unneeded_bytes {
        0 => String::new(),
        bytes => format!(" ({} of it needed by no conversation)", size(bytes)),
    };
    let freed = size(pruned.freed_bytes);
    let nothing = pruned.slots.is_empty() && pruned.freed_bytes == 0;
    let hint = if nothing { "" } else { "; --yes does it" };
    if pruned.dry_run {
        writeln!(context.out, "would remove {chosen} and free {freed}{unneeded}{hint}")?;
    } else {
        writeln!(context.out, "removed {chosen}, {freed} freed{unneeded}")?;
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
