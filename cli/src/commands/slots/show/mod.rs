//! `hob slots show`
//!
//! - Lists the objects of a conversation: tokens, name, bytes, number of conversations that share it,
//!   and the part of the prompt.
//! - Names what is away, impure, pinned or of another weight, where anything is, and says where nothing can leave
//!   the cells.
//! - Reads only the lengths of files; `--verify` reads the files.

mod parts;

use std::io::Write;

use hob_slots::lineage::lossy_tokens;
use hob_slots::{Fingerprint, Miss, ModelHash, SegmentRef, SlotRecord, StoreReader};
use serde_json::{Value, json};

use self::parts::{Part, Parts};
use super::{dir, named};
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{ConversationArgs, label};
use crate::output::{Align, Table, ago, count, counted, plain, size};

/// Blocks at the beginning and at the end of a shortened list.
const SHORTENED: (usize, usize) = (8, 4);

/// Why nothing of a conversation with snapshots leaves its cells.
const NO_EVICTION: &str = "none: a window or a running state of the model keeps it in its cells";

/// Show the saved KV of one conversation, block by block
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    conversation: ConversationArgs,

    /// Only KV of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,

    /// Read every object and verify every byte
    #[arg(long)]
    verify: bool,

    /// Show every block
    #[arg(long)]
    all: bool,
}

/// The saved KV of the conversation for one model.
struct Saved {
    model: ModelHash,
    origin: Option<Fingerprint>,
    record: SlotRecord,
    age_secs: u64,
    parts: Parts,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let name = args.conversation.name();
    let reader = dir::reader(context)?;
    let reader = reader.ok_or_else(|| {
        name.map_or_else(|| dir::empty(context), |name| dir::absent(name, context))
    })?;
    let id = match name {
        Some(name) => named::one(&reader, name, context)?,
        None => named::last(&reader, context)?,
    };
    let (mut found, mut refused) = (Vec::new(), None);
    for model in dir::models(&reader, args.fingerprint)? {
        match reader.get_slot(model, &id) {
            Ok(record) => found.push(load(&reader, model, record, args.verify, context)?),
            Err(Miss::Absent) => {}
            Err(miss) => refused = Some(miss),
        }
    }
    if found.is_empty() {
        return Err(match refused {
            Some(miss) => Failure::Damaged(format!("the KV of `{id}` cannot be used: {miss}")),
            None => dir::absent(name.unwrap_or(id.as_str()), context),
        });
    }
    if context.json {
        let documents: Vec<_> = found.iter().map(|saved| document(saved, args)).collect();
        context.write_json(&documents)?;
    } else {
        for saved in &found {
            write(saved, args, context)?;
        }
        context.out.flush()?;
    }
    match found.iter().map(|saved| saved.parts.damaged().count()).sum::<usize>() {
        0 => Ok(()),
        1 => Err(Failure::Damaged(format!(
            "1 object of `{id}` is damaged; its tokens will be computed again"
        ))),
        damaged => Err(Failure::Damaged(format!(
            "{damaged} objects of `{id}` are damaged; their tokens will be computed again"
        ))),
    }
}

fn load(
    reader: &StoreReader,
    model: ModelHash,
    record: SlotRecord,
    verify: bool,
    context: &Context,
) -> Result<Saved, Failure> {
    let parts = Parts::of(reader, model, &record, verify, context.terminal.error)?;
    let age_secs = reader.adjusted_time(context.now.into()).age(record.used_at).as_secs();
    Ok(Saved { model, origin: dir::origin(reader, model), record, age_secs, parts })
}

fn document(saved: &Saved, args: &Args) -> Value {
    let Saved { record, parts, .. } = saved;
    let (away, impure) = (record.lineage.away_tokens(), impure_tokens(record));
    let damaged = parts.damaged().map(|(part, why)| format!("{}: {why}", part.id));
    let mut document = json!({
        "conversation": record.conversation.as_str(),
        "fingerprint": saved.model,
        "model": saved.origin,
        "class": record.class,
        "tokens": record.tokens.len(),
        "turns": record.turns,
        "blocks": parts.blocks.iter().map(|block| block.to_json("start", "end")).collect::<Vec<_>>(),
        "snapshots": parts.snapshots.iter().map(|snapshot| snapshot.to_json("", "position")).collect::<Vec<_>>(),
        "branches": parts.branches.iter().map(|object| object.to_json("start", "end")).collect::<Vec<_>>(),
        "segments": record.segments.iter().map(segment).collect::<Vec<_>>(),
        "object_bytes": record.objects().map(|(_, bytes)| bytes).sum::<u64>(),
        "stored_bytes": parts.stored_bytes(),
        "created_at": record.created_at.0 / 1000,
        "used_at": record.used_at.0 / 1000,
        "missing_objects": parts.missing(),
        "damaged_objects": damaged.collect::<Vec<_>>(),
        "verified": args.verify,
    });
    if stays_in_cells(record) {
        document["no_eviction"] = true.into();
    }
    let lossy = lossy_tokens(&record.lineage.views, record.tokens.len()) as u32;
    for (name, tokens) in [
        ("away_tokens", away),
        ("impure_tokens", impure),
        ("lossy_tokens", lossy),
        ("pinned_tokens", pinned_tokens(record)),
    ] {
        if tokens > 0 {
            document[name] = tokens.into();
        }
    }
    document
}

/// Weight and pin of a segment are left out where its request says nothing about them.
fn segment(segment: &SegmentRef) -> Value {
    let SegmentRef { end, layer, key, weight, pinned } = segment;
    let mut value = json!({"end": end, "layer": layer, "key": key});
    if *weight != SegmentRef::DEFAULT_WEIGHT {
        value["weight"] = (*weight).into();
    }
    if *pinned {
        value["pinned"] = true.into();
    }
    value
}

/// Tokens of the segments that always stay in the cells.
fn pinned_tokens(record: &SlotRecord) -> u32 {
    let tokens = record.tokens.len() as u32;
    let mut start = 0;
    let lengths = record.segments.iter().map(|segment| {
        let end = segment.end.min(tokens);
        let length = if segment.pinned { end.saturating_sub(start) } else { 0 };
        start = end;
        length
    });
    lengths.sum()
}

/// Snapshots are those of models without plain attention.
fn stays_in_cells(record: &SlotRecord) -> bool {
    !record.snapshots.is_empty()
}

fn impure_tokens(record: &SlotRecord) -> u32 {
    let tokens = record.tokens.len() as u32;
    tokens - record.lineage.pure_tokens(tokens)
}

fn write(saved: &Saved, args: &Args, context: &mut Context) -> Result<(), Failure> {
    let mut facts = facts(saved, args.verify, context.now_secs());
    facts.extend(lineage_facts(&saved.record, &saved.parts));
    for (name, value) in facts {
        writeln!(context.out, "{name:<16} {value}")?;
    }
    writeln!(context.out)?;
    let Saved { parts, .. } = saved;
    list(&parts.blocks, "TOKENS", args.all, context)?;
    list(&parts.snapshots, "UP TO TOKEN", args.all, context)?;
    for (part, why) in parts.damaged() {
        writeln!(context.out, "damaged {}: {why}", part.id)?;
    }
    Ok(())
}

/// A name and its value.
type Fact = (&'static str, String);

fn facts(saved: &Saved, is_verified: bool, now_secs: u64) -> Vec<Fact> {
    let Saved { model, origin, record, age_secs, parts } = saved;
    let cache = origin.as_ref().map_or("-".to_owned(), |origin| {
        format!("K {}, V {}", origin.cache_type_k, origin.cache_type_v)
    });
    let weights = origin.as_ref().map_or("-".to_owned(), |origin| origin.model_sha256.to_string());
    let saved_tokens = record.blocks.last().map_or(0, |block| block.end);
    let raw = |parts: &[Part]| size(parts.iter().map(|part| part.raw_bytes).sum());
    let state = match (parts.damaged().count(), parts.missing()) {
        (0, 0) if is_verified => "whole, every byte verified".to_owned(),
        (0, 0) => "complete (--verify reads them)".to_owned(),
        (damaged, missing) => format!("{missing} missing, {damaged} damaged"),
    };
    let blocks = (parts.blocks.len(), raw(&parts.blocks), count(saved_tokens.into()));
    let created = now_secs.saturating_sub(record.created_at.0 / 1000);
    vec![
        ("conversation", label(record.conversation.as_str())),
        ("fingerprint", model.to_string()),
        ("weights SHA-256", plain(&weights)),
        ("cache types", plain(&cache)),
        ("class", record.class.to_string()),
        ("tokens", count(record.tokens.len() as u64)),
        ("blocks", format!("{}, {} up to token {}", blocks.0, blocks.1, blocks.2)),
        ("snapshots", format!("{}, {}", parts.snapshots.len(), raw(&parts.snapshots))),
        ("earlier branches", format!("{}, {}", parts.branches.len(), raw(&parts.branches))),
        ("on disk", size(parts.stored_bytes())),
        ("objects", state),
        ("saved first", ago(created)),
        ("used", ago(*age_secs)),
    ]
}

/// What is away, impure or rounded, where anything is, and why nothing can leave the cells.
fn lineage_facts(record: &SlotRecord, parts: &Parts) -> Vec<Fact> {
    let mut facts = Vec::new();
    let away = record.lineage.away_tokens();
    if away > 0 {
        let blocks = parts.blocks.iter().filter(|block| block.is_away).count();
        let blocks = counted(blocks, "block");
        facts.push(("tokens away", format!("{} in {blocks}", count(away.into()))));
    }
    let impure = impure_tokens(record);
    if impure > 0 {
        let pure = record.tokens.len() as u64 - u64::from(impure);
        let impure = format!("{}, from token {} on", count(impure.into()), count(pure));
        facts.push(("tokens impure", impure));
    }
    let lossy = lossy_tokens(&record.lineage.views, record.tokens.len());
    if lossy > 0 {
        facts.push(("tokens rounded", count(lossy as u64)));
    }
    let pinned = pinned_tokens(record);
    if pinned > 0 {
        facts.push(("tokens pinned", count(pinned.into())));
    }
    if stays_in_cells(record) {
        facts.push(("eviction", NO_EVICTION.to_owned()));
    }
    facts
}

fn list(
    parts: &[Part],
    range: &'static str,
    all: bool,
    context: &mut Context,
) -> Result<(), Failure> {
    let (first, last) = if all || parts.len() <= SHORTENED.0 + SHORTENED.1 + 1 {
        (parts.len(), 0)
    } else {
        SHORTENED
    };
    let (head, rest) = parts.split_at(first);
    let (hidden, tail) = rest.split_at(rest.len() - last);
    if parts.is_empty() {
        return Ok(());
    }
    let mut columns = vec![
        (range, Align::Left),
        ("NAME", Align::Left),
        ("SEGMENT", Align::Left),
        ("RAW", Align::Right),
        ("STORED", Align::Right),
        ("SHARED", Align::Left),
    ];
    let has_states = parts.iter().any(|part| !part.state().is_empty());
    if has_states {
        columns.push(("STATE", Align::Left));
    }
    let mut table = Table::new(&columns).cut(2).spare([3, 5, 1]);
    if has_states {
        table = table.wrap(6);
    }
    let row = |part: &Part| {
        let mut row = part.row();
        row.extend(has_states.then(|| part.state()));
        row
    };
    head.iter().for_each(|part| table.row(row(part)));
    if !hidden.is_empty() {
        let raw = hidden.iter().map(|part| part.raw_bytes).sum();
        let stored = hidden.iter().filter_map(|part| part.stored_bytes).sum();
        let more = format!("… {} more", count(hidden.len() as u64));
        let hint = "(--all shows them)".to_owned();
        let mut cells = vec![more, hint, String::new(), size(raw), size(stored), String::new()];
        let away = hidden.iter().filter(|part| part.is_away).count();
        let pinned = hidden.iter().filter(|part| part.is_pinned).count();
        let counts = [(away, "away"), (pinned, "pinned")];
        let present = counts.into_iter().filter(|(blocks, _)| *blocks > 0);
        let states = present.map(|(blocks, word)| format!("{blocks} {word}")).collect::<Vec<_>>();
        cells.extend(has_states.then(|| states.join(", ")));
        table.row(cells);
    }
    tail.iter().for_each(|part| table.row(row(part)));
    let text = table.text(context.columns());
    Ok(writeln!(context.out, "{text}")?)
}
