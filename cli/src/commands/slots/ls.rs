//! `hob slots ls`
//!
//! - Reads the directory itself, and asks a running daemon which conversations are in memory. It waits
//!   2 s for that answer.
//! - Bytes are those of raw objects; `hob slots du` shows what compressed objects save.

use std::collections::BTreeMap;

use clap::ValueEnum;
use hob_slots::maintenance::{ConversationState, SavedConversation};
use hob_slots::usage::{total_bytes, usage};
use hob_slots::{
    Lifetimes, Listing, ModelHash, NoRoom, Rejected, SavedContents, StoreReader, TtlClass,
};
use serde_json::{Value, json};

use super::{dir, live, rejected};
use crate::context::Context;
use crate::failure::Failure;
use crate::names::label;
use crate::output::{
    Align, Table, ago, ahead, conversations, count, line, plain, size, state, warn,
};

/// List the conversations that have saved KV
#[derive(Default, clap::Args)]
pub struct Args {
    /// Only KV of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,

    /// Only this class: short, long, extended or permanent
    #[arg(long, value_name = "CLASS")]
    class: Option<TtlClass>,

    /// Only this state: open, hot, memory, disk or expired
    #[arg(long, value_name = "STATE")]
    state: Option<ConversationState>,

    /// Sort key
    #[arg(long, value_enum, default_value_t = Sort::Name)]
    sort: Sort,

    /// Reverse the order
    #[arg(long, short)]
    reverse: bool,

    /// Show at most this many lines
    #[arg(long, value_name = "LINES")]
    limit: Option<usize>,

    /// List rejected files instead, with the reasons
    #[arg(long, conflicts_with_all = ["class", "state", "sort", "limit"])]
    rejected: bool,
}

/// Sort keys. Names ascend; the largest and the most recently used come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By name
    #[default]
    Name,
    /// Most recently used first
    Used,
    /// Most tokens first
    Tokens,
    /// Most bytes first, own and shared
    Bytes,
    /// Most own bytes first
    Own,
    /// By class, the shortest retention first
    Class,
    /// By state, from open to expired
    State,
}

/// The content of the directory.
#[derive(Default)]
pub struct Contents {
    pub slots: Vec<SavedConversation>,
    pub rejected: Vec<Rejected>,
    /// Sum over the raw objects.
    pub bytes: u64,
    /// Over all models.
    pub quota_bytes: u64,
    /// Why the quota is 0.
    pub no_room: Option<NoRoom>,
    /// By id; those that a running daemon knows.
    pub titles: BTreeMap<String, String>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let reader = dir::reader(context)?;
    if args.rejected {
        return rejected::run(reader.as_ref(), args.fingerprint, args.reverse, context);
    }
    let mut found = match &reader {
        Some(reader) => read(reader, args.fingerprint, context)?,
        None => Contents::default(),
    };
    let all = found.slots.len();
    found.slots.retain(|slot| {
        args.class.is_none_or(|class| class == slot.class)
            && args.state.is_none_or(|state| state == slot.state)
    });
    args.sort.sort(&mut found.slots);
    if args.reverse {
        found.slots.reverse();
    }
    let shown = &found.slots[..found.slots.len().min(args.limit.unwrap_or(usize::MAX))];
    if context.json {
        let rejected = found.rejected.iter().map(
            |file| json!({"path": file.path.to_string_lossy(), "reason": file.miss.to_string()}),
        );
        let lifetimes = context.lifetimes();
        let slots = shown.iter().map(|slot| row(slot, &found.titles, &lifetimes));
        let document = json!({
            "slots_dir": context.settings.slots_dir.to_string_lossy(),
            "slots": slots.collect::<Vec<_>>(),
            "rejected": rejected.collect::<Vec<_>>(),
            "disk_bytes": found.bytes,
            "quota_bytes": found.quota_bytes,
            "no_room": found.no_room.map(|no_room| no_room.to_string()),
        });
        return context.write_json(&document);
    }
    let mut text = String::new();
    if !shown.is_empty() {
        text += &table(shown, &found.titles, &context.lifetimes()).text(context.columns());
    }
    let tokens = found.slots.iter().map(|slot| u64::from(slot.tokens)).sum();
    let dir = context.settings.slots_dir.display();
    let more = found.slots.len() - shown.len();
    if more > 0 {
        text += &format!("… {} more\n", count(more as u64));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    // The bytes are those of all.
    let of = match found.slots.len() {
        number if number == all => conversations(all),
        number => format!("{} of {}", count(number as u64), conversations(all)),
    };
    text += &format!(
        "{of}, {} tokens; {}{} in {dir}\n",
        count(tokens),
        size(found.bytes),
        match found.quota_bytes {
            0 => String::new(),
            quota => format!(" of {}", size(quota)),
        },
    );
    if let Some(no_room) = found.no_room {
        text += &format!("{no_room}\n");
    }
    context.show(&text)?;
    for file in &found.rejected {
        warn(&format!("hob: {}: {}", plain(&file.path.display().to_string()), file.miss));
    }
    Ok(())
}

/// The saved conversations and the state of each.
pub fn read(
    reader: &StoreReader,
    model: Option<ModelHash>,
    context: &Context,
) -> Result<Contents, Failure> {
    // Asks the daemon and reads the directory at the same time.
    let settings = &context.settings;
    let (listing, status, titles) = std::thread::scope(|scope| {
        let status = scope.spawn(|| live::status(settings));
        let titles = scope.spawn(|| live::titles(settings));
        let listing = contents(reader, model);
        (listing, status.join().unwrap_or(None), titles.join().unwrap_or_default())
    });
    let Listing { slots, rejected, .. } = listing?;
    let used_bytes = match model {
        None => total_bytes(&slots),
        Some(_) => total_bytes(&contents(reader, None)?.slots),
    };
    let quota = live::quota(status.as_ref(), settings);
    let free_bytes = reader.free_bytes().unwrap_or(u64::MAX);
    let quota_bytes = quota.bytes(used_bytes, free_bytes);
    let no_room = quota.no_room(used_bytes, free_bytes);
    let live = status.and_then(live::of);
    let (now, lifetimes) = (reader.adjusted_time(context.now.into()), context.lifetimes());
    let info = |usage| SavedConversation::new(usage, &now, &lifetimes, live.as_ref());
    let infos = usage(&slots).iter().map(info).collect();
    Ok(Contents {
        bytes: total_bytes(&slots),
        slots: infos,
        rejected,
        quota_bytes,
        no_room,
        titles,
    })
}

/// The objects of each conversation, of all models or of one.
pub fn contents(
    reader: &StoreReader,
    model: Option<ModelHash>,
) -> Result<Listing<SavedContents>, Failure> {
    let mut listing = Listing::default();
    for model in dir::models(reader, model)? {
        let Listing { slots, rejected, .. } = reader.contents(model)?;
        listing.slots.extend(slots);
        listing.rejected.extend(rejected);
    }
    Ok(listing)
}

/// The conversations as a table, with their titles where any is known. A narrow terminal gets no fingerprints, then
/// no shared bytes, no class, no own bytes, no last use and no tokens: when KV expires, and where it is, stays.
pub fn table(
    slots: &[SavedConversation],
    titles: &BTreeMap<String, String>,
    lifetimes: &Lifetimes,
) -> Table {
    let columns = [
        ("CONVERSATION", Align::Left),
        ("TITLE", Align::Left),
        ("FINGERPRINT", Align::Left),
        ("CLASS", Align::Left),
        ("TOKENS", Align::Right),
        ("OWN", Align::Right),
        ("SHARED", Align::Right),
        ("USED", Align::Left),
        ("EXPIRES", Align::Left),
        ("STATE", Align::Left),
    ];
    let mut table = Table::new(&columns).cut(0).cut(1).spare([2, 6, 3, 5, 7, 4]);
    for slot in slots {
        table.row(vec![
            line(&label(&slot.conversation), 60),
            titles.get(&slot.conversation).map_or("-".to_owned(), |title| line(title, 40)),
            slot.fingerprint.to_string(),
            slot.class.to_string(),
            count(slot.tokens.into()),
            size(slot.own_bytes),
            size(slot.shared_bytes),
            ago(slot.age_secs),
            expires(slot, lifetimes),
            state(slot.state.as_str()).to_owned(),
        ]);
    }
    table
}

/// The row of a conversation for programs: `title` and `expires_in_secs` may be null.
fn row(
    slot: &SavedConversation,
    titles: &BTreeMap<String, String>,
    lifetimes: &Lifetimes,
) -> Value {
    let mut row = serde_json::to_value(slot).expect("it has names and numbers only");
    row["title"] = titles.get(&slot.conversation).cloned().into();
    row["expires_in_secs"] = expires_in_secs(slot, lifetimes).into();
    row
}

/// `in 5 h`, or `-`.
pub fn expires(slot: &SavedConversation, lifetimes: &Lifetimes) -> String {
    expires_in_secs(slot, lifetimes).map_or_else(|| "-".to_owned(), ahead)
}

/// When the sweep may delete its KV; `None` while it is in a slot, and where it stays until the
/// quota needs its bytes.
fn expires_in_secs(slot: &SavedConversation, lifetimes: &Lifetimes) -> Option<u64> {
    use ConversationState::{Hot, Open};
    let lifetime = lifetimes.of(slot.class).filter(|_| !matches!(slot.state, Open | Hot))?;
    Some(lifetime.as_secs().saturating_sub(slot.age_secs))
}

impl Sort {
    /// Sorts; equal ones by name.
    pub fn sort(self, slots: &mut [SavedConversation]) {
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
