//! The status as text: a table of facts, and one of the open conversations.

use std::collections::BTreeMap;

use hob_api::Status;
use hob_api::status::{
    Adapter, DeviceBridge, DraftModel, LossyTier, Mtp, Prefix, RecallModel, SharedTier, Slot,
};

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::label;
use crate::output::{
    Align, Table, ago, context, conversations, count, device_words, layer_words, line, plain, size,
    state, upstream_words,
};

/// Maximum length of a title in the table of slots.
const MAX_TITLE_CHARS: usize = 40;

/// `titles`: those of the conversations, by id.
pub fn write(
    client: &Client,
    status: &Status,
    titles: &BTreeMap<String, String>,
    context: &mut Context,
) -> Result<(), Failure> {
    let facts = facts(client, status, context.now_secs()).text(context.columns());
    context.out.write_all(facts.as_bytes())?;
    if status.slots.iter().any(|slot| slot.conversation.is_some()) {
        let slots = slots(status, titles).text(context.columns());
        write!(context.out, "\n{slots}")?;
    }
    Ok(())
}

/// A row of the table: its name and its text.
type Fact = (&'static str, String);

fn facts(client: &Client, status: &Status, now: u64) -> Table {
    let mut table = Table::untitled(2, Align::Left).wrap(1);
    let facts = [
        serving(client, status, now),
        reuse(status),
        places(status),
        profiles(status),
        failures(status, now),
    ];
    for (name, text) in facts.into_iter().flatten() {
        table.row(vec![name.to_owned(), text]);
    }
    table
}

/// What answers requests, and how many.
fn serving(client: &Client, status: &Status, now: u64) -> Vec<Fact> {
    let version = plain(&status.version);
    let started = ago(now.saturating_sub(status.started_at));
    let (address, pid) = (client.address(), status.pid);
    let daemon = format!("hobd {version} at {address}, process {pid}, started {started}");
    let mut facts = vec![("daemon", daemon), ("model", model(status))];
    facts.extend(status.devices.iter().map(|device| ("device", device_words(device))));
    if status.upstream.is_none() {
        facts.push(("requests", requests(status)));
    }
    facts
}

/// What saved computing, and the models beside the model.
fn reuse(status: &Status) -> Vec<Fact> {
    let counters = &status.counters;
    let mut facts = Vec::new();
    if counters.drafted_tokens > 0 {
        facts.push(("drafts", drafts(status)));
    }
    if counters.blocks_out > 0 {
        facts.push(("evicted", evicted(status)));
    }
    if counters.moved_tokens > 0 {
        facts.push(("moved", moved(status)));
    }
    if let Some(lossy) = &status.slots_lossy {
        facts.push(("rounded", rounded(lossy, counters.lossy_tokens)));
    }
    if let Some(draft_model) = &status.draft_model {
        facts.push(("draft model", of_draft_model(draft_model)));
    }
    if let Some(mtp) = &status.mtp {
        facts.push(("MTP heads", of_mtp(mtp)));
    }
    if let Some(recall_model) = &status.recall_model {
        facts.push(("recall model", of_recall_model(recall_model)));
    }
    if let Some(bridge) = &status.device_bridge {
        facts.push(("bridge", of_bridge(bridge)));
    }
    facts
}

/// Where the KV of conversations is.
fn places(status: &Status) -> Vec<Fact> {
    let mut facts = Vec::new();
    if status.upstream.is_none() {
        facts.extend([("ready", ready(status)), ("memory", memory(status))]);
    }
    if let Some(shared) = &status.shared {
        facts.push(("shared", of_shared(shared)));
    }
    if let Some(no_room) = &status.disk_quota.no_room {
        facts.push(("disk", plain(no_room)));
    }
    facts
}

/// The prefixes, and the profiles that cannot be used or that reuse no moved KV.
fn profiles(status: &Status) -> Vec<Fact> {
    let prefixes = status.prefixes.iter();
    let prefixes = prefixes.map(|it| ("prefix", format!("{}: {}", plain(&it.profile), place(it))));
    let mut facts: Vec<Fact> = prefixes.collect();
    for profile in &status.profiles {
        if let Some(error) = &profile.error {
            facts.push(("profile", format!("{}: {}", plain(&profile.name), plain(error))));
        }
        if let Some(why) = profile.reuse.as_ref().and_then(|reuse| reuse.fell_back.as_ref()) {
            facts.push(("profile", format!("{}: exact, {}", plain(&profile.name), plain(why))));
        }
    }
    facts
}

fn failures(status: &Status, now: u64) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(failure) = &status.switch_error {
        let failure = format!("{}: {}", plain(&failure.model), plain(&failure.message));
        facts.push(("switch", failure));
    }
    if let Some(reason) = &status.crash {
        let at = status.crash_at.map(|at| format!(", {}", ago(now.saturating_sub(at))));
        let at = at.unwrap_or_default();
        let crashes = format!("{}, the last{at}: {}", status.crashes, plain(reason));
        facts.push(("crashes", crashes));
    }
    facts
}

fn slots(status: &Status, titles: &BTreeMap<String, String>) -> Table {
    let mut slots =
        Table::new(&[("CHAT", Align::Left), ("TOKENS", Align::Right), ("STATE", Align::Left)])
            .cut(0)
            .wrap(2);
    for slot in &status.slots {
        if let Some(id) = &slot.conversation {
            let title = titles.get(id.as_str()).map(|title| line(title, MAX_TITLE_CHARS));
            let name = title.unwrap_or_else(|| label(id.as_str()));
            slots.row(vec![name, count(slot.tokens as u64), slot_state(slot)]);
        }
    }
    slots
}

/// The state, what of the chat has no cells, and the adapters of its requests.
fn slot_state(slot: &Slot) -> String {
    let mut text = plain(&slot.state);
    if slot.away_tokens > 0 {
        text.push_str(&format!(", {} tokens away", count(slot.away_tokens as u64)));
    }
    for Adapter { id, scale } in &slot.lora {
        text.push_str(&format!(", {}={scale}", plain(id)));
    }
    text
}

fn model(status: &Status) -> String {
    if let Some(upstream) = upstream_words(status) {
        return upstream;
    }
    let mut text = plain(&status.model);
    match (status.residency.as_ref(), status.loaded_percent) {
        ("loading", Some(percent)) => text.push_str(&format!(" (loading, {percent} %)")),
        ("unloaded", _) => text.push_str(" (unloaded: the next request loads it)"),
        _ => {}
    }
    text.push_str(&format!(", {}", context(status)));
    if let Some(offload) = &status.offload {
        text.push_str(&format!(", {}", layer_words(offload)));
    }
    if let Some(speed) = status.prefill_tokens_per_second {
        text.push_str(&format!(", reads {} tokens a second", count(speed.round() as u64)));
    }
    text
}

fn requests(status: &Status) -> String {
    let busy = status.slots.iter().filter(|slot| slot.is_busy()).count();
    let (slots, waiting) = (status.slots.len(), status.queue);
    let turns = count(status.counters.turns);
    format!("{busy} of {slots} slots answer, {waiting} wait, {turns} turns since the start")
}

/// Guessed tokens of answers, which make them faster where they are right.
fn drafts(status: &Status) -> String {
    let counters = &status.counters;
    let (accepted, drafted) = (counters.accepted_tokens, counters.drafted_tokens);
    format!("{} of {} guessed tokens were right", count(accepted), count(drafted))
}

/// Parts of chats that are longer than their cells.
fn evicted(status: &Status) -> String {
    let counters = &status.counters;
    let (out, back) = (counters.blocks_out, counters.blocks_back);
    format!("{} blocks left the cells of their chats, {} came back", count(out), count(back))
}

/// KV that was computed at another place.
fn moved(status: &Status) -> String {
    let counters = &status.counters;
    let (moved, repaired) = (counters.moved_tokens, counters.repaired_tokens);
    format!("{} tokens from other places, {} repaired beside them", count(moved), count(repaired))
}

/// KV of aged conversations.
fn rounded(lossy: &LossyTier, tokens: u64) -> String {
    if let Some(reason) = &lossy.refused {
        return format!("none: {}", plain(reason));
    }
    format!("aged KV to {}, {} tokens restored from it", plain(&lossy.tier), count(tokens))
}

fn of_draft_model(draft_model: &DraftModel) -> String {
    let name = plain(&draft_model.name);
    if let Some(reason) = &draft_model.refused {
        return format!("{name} does not draft: {}", plain(reason));
    }
    let (accepted, drafted) = (draft_model.accepted_tokens, draft_model.drafted_tokens);
    let (accepted, drafted) = (count(accepted), count(drafted));
    format!("{name}, {accepted} of {drafted} guessed tokens were right")
}

fn of_mtp(mtp: &Mtp) -> String {
    if let Some(reason) = &mtp.refused {
        return format!("guess nothing: {}", plain(reason));
    }
    let (accepted, drafted) = (count(mtp.accepted_tokens), count(mtp.drafted_tokens));
    format!("{accepted} of {drafted} guessed tokens were right")
}

fn of_bridge(bridge: &DeviceBridge) -> String {
    let url = plain(&bridge.url);
    match (&bridge.error, bridge.connected) {
        (_, true) => format!("an agent at {url} generates here"),
        (Some(error), false) => format!("{url}: {}", plain(error)),
        (None, false) => format!("dials {url}"),
    }
}

/// KV of conversations that other daemons answered, by whether fetching it was worth it.
fn of_shared(shared: &SharedTier) -> String {
    format!(
        "{}: {} taken over, of their KV {} fetched, {} computed because that is quicker, {} missed",
        plain(&shared.place),
        conversations(shared.texts as usize),
        count(shared.fetched),
        count(shared.computed),
        count(shared.missed),
    )
}

fn of_recall_model(recall_model: &RecallModel) -> String {
    let name = plain(&recall_model.name);
    match &recall_model.refused {
        Some(reason) => format!("{name} is not used: {}", plain(reason)),
        None => format!("{name} finds by meaning what left a chat"),
    }
}

/// Conversations by whether their next answer begins at once. An older daemon says it of none.
fn ready(status: &Status) -> String {
    let slots = status.slots.iter().filter(|slot| slot.conversation.is_some());
    let slots = slots.map(|slot| slot.ready.unwrap_or(true));
    let parked = status.parked.iter();
    let parked = parked.map(|parked| parked.ready.unwrap_or(parked.tier.as_ref() != "none"));
    let (ready, unread): (Vec<bool>, Vec<bool>) = slots.chain(parked).partition(|ready| *ready);
    match (ready.len(), unread.len()) {
        (0, 0) => "no chat".to_owned(),
        (all, 0) => conversations(all),
        (some, others) => {
            format!("{}; {} will be read again", conversations(some), count(others as u64))
        }
    }
}

fn memory(status: &Status) -> String {
    let (used, budget) = (size(status.memory_bytes), size(status.memory_budget_bytes));
    let mut text = format!("{used} of {budget}");
    if status.unsaved_bytes > 0 {
        text.push_str(&format!(", {} of it wait for the disk", size(status.unsaved_bytes)));
    }
    text
}

fn place(prefix: &Prefix) -> String {
    if let Some(error) = &prefix.error {
        return plain(error);
    }
    // The prefix of a profile has no text without KV.
    let place = match prefix.place.as_ref() {
        "none" => plain(&prefix.state),
        place => state(&plain(place)).to_owned(),
    };
    prefix
        .tokens
        .map_or(place.clone(), |tokens| format!("{place}, {} tokens", count(tokens as u64)))
}
