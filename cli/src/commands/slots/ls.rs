//! `hob slots ls`

use std::collections::BTreeMap;
use std::io::Write;

use hob_slots::prune::{SlotUsage, usage};
use hob_slots::{Lifetimes, Listing, ModelHash, Moment, Timestamp};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, ago, conversations, count, line, plain, size};

/// List the conversations whose KV is kept
#[derive(clap::Args)]
pub struct Args {
    /// Only those of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let mut listing = Listing { slots: Vec::new(), rejected: Vec::new() };
    let mut disk_bytes = 0;
    if let Some(reader) = super::reader(context)? {
        for model in super::models(&reader, args.fingerprint)? {
            let Listing { slots, rejected } = reader.contents(model)?;
            listing.slots.extend(usage(&slots));
            listing.rejected.extend(rejected);
            // Objects that several conversations share lie on the disk once.
            disk_bytes += slots.iter().map(|slot| slot.entry.file_bytes).sum::<u64>();
            let objects: BTreeMap<_, _> = slots.into_iter().flat_map(|s| s.objects).collect();
            disk_bytes += objects.values().sum::<u64>();
        }
    }
    let moment = match super::reader(context)? {
        Some(reader) => reader.moment(context.now.into()),
        None => Timestamp::from(context.now).into(),
    };
    let lifetimes = context.lifetimes();
    if context.json {
        let rejected = listing.rejected.iter().map(
            |file| json!({"path": file.path.to_string_lossy(), "reason": file.miss.to_string()}),
        );
        let document = json!({
            "slots_dir": context.settings.slots_dir,
            "slots": listing.slots.iter().map(|slot| described(slot, &moment, &lifetimes)).collect::<Vec<_>>(),
            "rejected": rejected.collect::<Vec<_>>(),
            "disk_bytes": disk_bytes,
        });
        return context.write_json(&document);
    }
    table(&listing.slots, &moment, &lifetimes).write(&mut *context.out)?;
    let tokens = listing.slots.iter().map(|slot| u64::from(slot.entry.tokens)).sum();
    let dir = context.settings.slots_dir.display();
    writeln!(
        context.out,
        "\n{}, {} tokens, {} in {dir}",
        conversations(listing.slots.len()),
        count(tokens),
        size(disk_bytes),
    )?;
    context.out.flush()?;
    for file in &listing.rejected {
        eprintln!("hob: {}: {}", plain(&file.path.display().to_string()), file.miss);
    }
    Ok(())
}

/// The conversations as a table.
pub fn table(slots: &[SlotUsage], moment: &Moment, lifetimes: &Lifetimes) -> Table {
    let mut table = Table::new(&[
        ("CONVERSATION", Align::Left),
        ("FINGERPRINT", Align::Left),
        ("CLASS", Align::Left),
        ("TOKENS", Align::Right),
        ("OWN", Align::Right),
        ("SHARED", Align::Right),
        ("USED", Align::Left),
        ("", Align::Left),
    ]);
    for SlotUsage { entry: slot, own_bytes, shared_bytes } in slots {
        table.row(vec![
            line(slot.conversation.as_str(), 60),
            slot.model.to_string(),
            slot.class.to_string(),
            count(slot.tokens.into()),
            size(*own_bytes),
            size(*shared_bytes),
            ago(moment.age(slot.used_at).as_secs()),
            if slot.is_expired(moment, lifetimes) { "expired" } else { "" }.to_owned(),
        ]);
    }
    table
}

/// A conversation as JSON.
pub fn described(usage: &SlotUsage, moment: &Moment, lifetimes: &Lifetimes) -> Value {
    let slot = &usage.entry;
    json!({
        "conversation": slot.conversation.as_str(),
        "fingerprint": slot.model.to_string(),
        "class": slot.class.as_str(),
        "tokens": slot.tokens,
        "blocks": slot.blocks,
        "snapshots": slot.snapshots,
        "object_bytes": slot.object_bytes,
        "file_bytes": slot.file_bytes,
        "own_bytes": usage.own_bytes,
        "shared_bytes": usage.shared_bytes,
        "created_at": slot.created_at.0 / 1000,
        "used_at": slot.used_at.0 / 1000,
        "expired": slot.is_expired(moment, lifetimes),
    })
}
