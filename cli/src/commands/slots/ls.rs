//! `hob slots ls`
//!
//! - Reads the directory itself; a daemon is asked beside that where its conversations are, and a
//!   listing never waits long for the answer.
//! - Bytes are those of raw objects: an object that was compressed takes less, see `hob slots du`.

use std::io::Write;

use clap::ValueEnum;
use hob_slots::maintenance::{SlotInfo, SlotState};
use hob_slots::usage::{total_bytes, usage};
use hob_slots::{Listing, ModelHash, Rejected, SlotContents, StoreReader, TtlClass};
use serde_json::json;

use super::{live, rejected};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, ago, conversations, count, line, plain, size};

/// List the conversations whose KV is kept
#[derive(clap::Args)]
pub struct Args {
    /// Only those of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,

    /// Only this class: short, long, extended or permanent
    #[arg(long, value_name = "CLASS")]
    class: Option<TtlClass>,

    /// Only those in this state: open, hot, parked, cold or expired
    #[arg(long, value_name = "STATE")]
    state: Option<SlotState>,

    /// What to sort by
    #[arg(long, value_enum, default_value_t = Sort::Name)]
    sort: Sort,

    /// The other way round
    #[arg(long, short)]
    reverse: bool,

    /// As many lines at most
    #[arg(long, value_name = "LINES")]
    limit: Option<usize>,

    /// List the files that were rejected instead, with the reasons
    #[arg(long, conflicts_with_all = ["class", "state", "sort", "limit"])]
    rejected: bool,
}

/// What a list can be sorted by. Names go up; what is largest or was used last comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By name
    Name,
    /// The latest use first
    Used,
    /// The most tokens first
    Tokens,
    /// The most bytes first, own and shared
    Bytes,
    /// The most bytes of its own first
    Own,
    /// By class, the shortest first
    Class,
    /// By place, the nearest first
    State,
}

/// What is in the directory.
#[derive(Default)]
pub struct Kept {
    pub slots: Vec<SlotInfo>,
    pub rejected: Vec<Rejected>,
    /// Of all files, those of raw objects.
    pub bytes: u64,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let reader = super::reader(context)?;
    if args.rejected {
        return rejected::run(reader.as_ref(), args.fingerprint, args.reverse, context);
    }
    let mut kept = match &reader {
        Some(reader) => read(reader, args.fingerprint, context)?,
        None => Kept::default(),
    };
    kept.slots.retain(|slot| {
        args.class.is_none_or(|class| class == slot.class)
            && args.state.is_none_or(|state| state == slot.state)
    });
    args.sort.sort(&mut kept.slots);
    if args.reverse {
        kept.slots.reverse();
    }
    let shown = &kept.slots[..kept.slots.len().min(args.limit.unwrap_or(usize::MAX))];
    if context.json {
        let rejected = kept.rejected.iter().map(
            |file| json!({"path": file.path.to_string_lossy(), "reason": file.miss.to_string()}),
        );
        let document = json!({
            "slots_dir": context.settings.slots_dir,
            "slots": shown,
            "rejected": rejected.collect::<Vec<_>>(),
            "disk_bytes": kept.bytes,
        });
        return context.write_json(&document);
    }
    table(shown).write(&mut *context.out)?;
    let tokens = kept.slots.iter().map(|slot| u64::from(slot.tokens)).sum();
    let dir = context.settings.slots_dir.display();
    let more = kept.slots.len() - shown.len();
    let more = if more == 0 { String::new() } else { format!("… {} more\n", count(more as u64)) };
    writeln!(
        context.out,
        "{more}\n{}, {} tokens, {} in {dir}",
        conversations(kept.slots.len()),
        count(tokens),
        size(kept.bytes),
    )?;
    context.out.flush()?;
    for file in &kept.rejected {
        eprintln!("hob: {}: {}", plain(&file.path.display().to_string()), file.miss);
    }
    Ok(())
}

/// What is kept, by conversation, and where each is.
pub fn read(
    reader: &StoreReader,
    model: Option<ModelHash>,
    context: &Context,
) -> Result<Kept, Failure> {
    // The daemon is asked while the directory is read.
    let settings = &context.settings;
    let (listing, live) = std::thread::scope(|scope| {
        let live = scope.spawn(|| live::ask(settings));
        (contents(reader, model), live.join().unwrap_or(None))
    });
    let Listing { slots, rejected, .. } = listing?;
    let (moment, lifetimes) = (reader.moment(context.now.into()), context.lifetimes());
    let info = |usage| SlotInfo::new(usage, &moment, &lifetimes, live.as_ref());
    let infos = usage(&slots).iter().map(info).collect();
    Ok(Kept { bytes: total_bytes(&slots), slots: infos, rejected })
}

/// What each conversation is made of, of all models or of one.
pub fn contents(
    reader: &StoreReader,
    model: Option<ModelHash>,
) -> Result<Listing<SlotContents>, Failure> {
    let mut listing = Listing::default();
    for model in super::models(reader, model)? {
        let Listing { slots, rejected, .. } = reader.contents(model)?;
        listing.slots.extend(slots);
        listing.rejected.extend(rejected);
    }
    Ok(listing)
}

/// The conversations as a table.
pub fn table(slots: &[SlotInfo]) -> Table {
    let mut table = Table::new(&[
        ("CONVERSATION", Align::Left),
        ("FINGERPRINT", Align::Left),
        ("CLASS", Align::Left),
        ("TOKENS", Align::Right),
        ("OWN", Align::Right),
        ("SHARED", Align::Right),
        ("USED", Align::Left),
        ("STATE", Align::Left),
    ]);
    for slot in slots {
        table.row(vec![
            line(&slot.conversation, 60),
            slot.fingerprint.to_string(),
            slot.class.to_string(),
            count(slot.tokens.into()),
            size(slot.own_bytes),
            size(slot.shared_bytes),
            ago(slot.age_secs),
            slot.state.to_string(),
        ]);
    }
    table
}

impl Sort {
    /// Sorts; what is equal stays in the order of names.
    pub fn sort(self, slots: &mut [SlotInfo]) {
        use std::cmp::Reverse;
        slots.sort_by(|a, b| {
            (&a.conversation, a.fingerprint).cmp(&(&b.conversation, b.fingerprint))
        });
        match self {
            Self::Name => {}
            Self::Used => slots.sort_by_key(|slot| Reverse(slot.used_at)),
            Self::Tokens => slots.sort_by_key(|slot| Reverse(slot.tokens)),
            Self::Bytes => slots.sort_by_key(|slot| Reverse(slot.own_bytes + slot.shared_bytes)),
            Self::Own => slots.sort_by_key(|slot| Reverse(slot.own_bytes)),
            Self::Class => slots.sort_by_key(|slot| slot.class),
            Self::State => slots.sort_by_key(|slot| slot.state),
        }
    }
}
