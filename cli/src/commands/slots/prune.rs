//! `hob slots prune`
//!
//! - A dry run unless `--yes`: what would go is listed, nothing is touched, nothing is owned.
//! - Besides the chosen conversations, objects that no conversation needs go.

use std::io::Write;
use std::time::Duration;

use hob_config::parse::{self, Raw};
use hob_slots::maintenance::{self, Pruned, SlotState};
use hob_slots::prune::Selection;
use hob_slots::{ConversationId, ModelHash, NoEngine, SAVE_GRACE, TtlClass};
use serde_json::json;

use super::hand::{self, Hand};
use super::{live, ls};
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

    /// Only this class: short, long, extended or kept
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
    let selection = args.selection();
    let Some(reader) = super::reader(context)? else {
        return report(&Pruned { dry_run: !args.yes, ..Pruned::default() }, context);
    };
    let (moment, lifetimes) = (reader.moment(context.now.into()), context.lifetimes());
    // The directory is ours, so no save is under way, unless a daemon runs.
    let terms =
        maintenance::Context { moment: &moment, lifetimes: &lifetimes, grace: Duration::ZERO };
    let pruned: Pruned = if !args.yes {
        let running = super::daemon_of(&context.settings).is_some();
        let live = live::ask(&context.settings);
        let is_open = |model, id: &ConversationId| {
            let state = live.as_ref().and_then(|live| live.state(model, id));
            matches!(state, Some(SlotState::Open | SlotState::Hot))
        };
        let grace = if running { SAVE_GRACE } else { Duration::ZERO };
        maintenance::plan_prune(
            &reader,
            &selection,
            maintenance::Context { grace, ..terms },
            &is_open,
        )?
    } else {
        match hand::take(context)? {
            Hand::Own(store) => maintenance::prune(&store, &NoEngine, &selection, terms)?,
            Hand::Daemon(client) => {
                let body = json!({
                    "expired": selection.expired,
                    "older_than_secs": selection.older_than.map(|age| age.as_secs()),
                    "class": selection.class,
                    "larger_than": selection.larger_than,
                    "fingerprint": selection.fingerprint,
                    "conversation": selection.conversation,
                    "dry_run": false,
                });
                hand::ask(&client, "/v1/slots/prune", &body)?
            }
        }
    };
    report(&pruned, context)
}

impl Args {
    fn selection(&self) -> Selection {
        let selection = Selection {
            expired: self.expired,
            older_than: self.older_than,
            class: self.class,
            larger_than: self.larger_than,
            fingerprint: self.fingerprint,
            conversation: self.conversation.clone(),
        };
        match selection == Selection::default() {
            true => Selection { expired: true, ..selection },
            false => selection,
        }
    }
}

fn report(pruned: &Pruned, context: &mut Context) -> Result<(), Failure> {
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
    match pruned.dry_run {
        false => writeln!(context.out, "removed {chosen}, {freed} freed{unneeded}")?,
        true => writeln!(context.out, "would remove {chosen} and free {freed}{unneeded}{hint}")?,
    }
    context.out.flush()?;
    hand::tell(&pruned.skipped);
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
