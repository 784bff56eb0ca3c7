//! `hob slots prune`
//!
//! - A dry run unless `--yes`: what would go is listed, nothing is touched, nothing is owned.
//! - Besides the chosen conversations, objects that no conversation needs go.

use std::io::Write;
use std::time::Duration;

use hob_config::parse::{self, Raw};
use hob_slots::prune::{Selection, SlotUsage, select, usage};
use hob_slots::upkeep::SlotInfo;
use hob_slots::{ConversationId, ModelHash, StoreReader, TtlClass};
use serde_json::json;

use super::{ls, rm};
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

/// What goes, or would.
#[derive(Default)]
struct Plan {
    slots: Vec<SlotInfo>,
    /// Of the conversations.
    freed_bytes: u64,
    /// Of objects that no conversation needs, whatever is chosen.
    unneeded_bytes: u64,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let selection = args.selection();
    let Some(reader) = super::reader(context)? else {
        return report(&Plan::default(), false, context);
    };
    if !args.yes {
        return report(&plan(&reader, &selection, context)?, false, context);
    }
    let store = super::own(context)?;
    let mut plan = plan(&store, &selection, context)?;
    for slot in &plan.slots {
        let id = slot.conversation.parse().expect("it was listed");
        store.remove_slot(slot.fingerprint, &id)?;
    }
    let models = super::models(&store, selection.fingerprint)?;
    let files: u64 = plan.slots.iter().map(|slot| slot.file_bytes).sum();
    let freed = files + rm::collect(&store, &models, context)?;
    plan.freed_bytes = freed.saturating_sub(plan.unneeded_bytes);
    report(&plan, true, context)
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

fn plan(reader: &StoreReader, selection: &Selection, context: &Context) -> Result<Plan, Failure> {
    let (moment, lifetimes) = (reader.moment(context.now.into()), context.lifetimes());
    let (mut slots, mut unneeded_bytes) = (Vec::new(), 0);
    for model in super::models(reader, selection.fingerprint)? {
        slots.extend(reader.contents(model)?.slots);
        unneeded_bytes += reader.find_garbage(model, &moment, Duration::ZERO)?.bytes;
    }
    let choice = select(selection, &slots, &moment, &lifetimes);
    let mut slots = usage(&slots);
    slots.retain(|slot| choice.slots.contains(&slot.entry));
    let info = |slot: &SlotUsage| SlotInfo::new(slot, &moment, &lifetimes, None);
    let slots = slots.iter().map(info).collect();
    Ok(Plan { slots, freed_bytes: choice.freed_bytes, unneeded_bytes })
}

fn report(plan: &Plan, done: bool, context: &mut Context) -> Result<(), Failure> {
    let freed_bytes = plan.freed_bytes + plan.unneeded_bytes;
    if context.json {
        return context.write_json(&json!({
            "dry_run": !done,
            "slots": plan.slots,
            "unneeded_bytes": plan.unneeded_bytes,
            "freed_bytes": freed_bytes,
        }));
    }
    if !plan.slots.is_empty() {
        ls::table(&plan.slots).write(&mut *context.out)?;
        writeln!(context.out)?;
    }
    let chosen = conversations(plan.slots.len());
    let unneeded = match plan.unneeded_bytes {
        0 => String::new(),
        bytes => format!(" ({} of it needed by no conversation)", size(bytes)),
    };
    let freed = size(freed_bytes);
    let nothing = plan.slots.is_empty() && freed_bytes == 0;
    let hint = if nothing { "" } else { "; --yes does it" };
    match done {
        true => writeln!(context.out, "removed {chosen}, {freed} freed{unneeded}")?,
        false => writeln!(context.out, "would remove {chosen} and free {freed}{unneeded}{hint}")?,
    }
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
