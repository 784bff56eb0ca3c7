//! `hob slots show`

use std::io::Write;

use hob_slots::{ConversationId, Miss, ModelHash, ObjectKind, SlotRecord, StoreReader, Timestamp};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{ago, count, plain, size};
use crate::progress;

/// Look at the KV of one conversation
#[derive(clap::Args)]
pub struct Args {
    /// The conversation
    conversation: String,

    /// Only that of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,

    /// Read every object and verify every byte
    #[arg(long)]
    verify: bool,
}

/// What is wrong with a conversation's objects.
#[derive(Default)]
struct Faults {
    missing: u64,
    damaged: Vec<String>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let absent = || super::absent(&args.conversation, context);
    let id = ConversationId::new(&args.conversation).map_err(|_| absent())?;
    let reader = super::reader(context)?.ok_or_else(absent)?;
    let (mut found, mut refused) = (Vec::new(), None);
    for model in super::models(&reader, args.fingerprint)? {
        match reader.get_slot(model, &id) {
            Ok(record) => found.push((model, record)),
            Err(Miss::Absent) => {}
            Err(miss) => refused = Some(miss),
        }
    }
    if found.is_empty() {
        return Err(match refused {
            Some(miss) => Failure::Damaged(format!("the KV of `{id}` cannot be used: {miss}")),
            None => absent(),
        });
    }
    let mut damaged = 0;
    let mut documents = Vec::new();
    for (model, record) in &found {
        let faults = faults(&reader, *model, record, args.verify, context);
        damaged += faults.damaged.len();
        match context.json {
            true => documents.push(described(&reader, *model, record, &faults, args.verify)),
            false => write(&reader, *model, record, &faults, args.verify, context)?,
        }
    }
    if context.json {
        context.write_json(&documents)?;
    }
    match damaged {
        0 => Ok(()),
        _ => Err(Failure::Damaged(format!(
            "{damaged} objects of `{id}` are damaged; what they hold will be computed again"
        ))),
    }
}

fn faults(
    reader: &StoreReader,
    model: ModelHash,
    record: &SlotRecord,
    verify: bool,
    context: &Context,
) -> Faults {
    let blocks = record.blocks.iter().map(|block| (block.id, block.bytes, ObjectKind::Block));
    let snapshots = record.snapshots.iter().map(|s| (s.id, s.bytes, ObjectKind::Snapshot));
    let total = record.objects().map(|(_, bytes)| bytes).sum();
    let bar = progress::bytes(total, "verifying", verify && context.terminal.error);
    let mut faults = Faults::default();
    for (id, bytes, kind) in blocks.chain(snapshots) {
        match verify {
            false if !reader.has_object(model, id) => faults.missing += 1,
            false => {}
            true => match reader.get_object(model, id, kind) {
                Ok(_) => {}
                Err(Miss::Absent) => faults.missing += 1,
                Err(miss) => faults.damaged.push(format!("{id}: {miss}")),
            },
        }
        bar.inc(bytes);
    }
    bar.finish_and_clear();
    faults
}

fn described(
    reader: &StoreReader,
    model: ModelHash,
    record: &SlotRecord,
    faults: &Faults,
    verified: bool,
) -> Value {
    let origin = super::origin(reader, model);
    json!({
        "conversation": record.conversation.as_str(),
        "fingerprint": model.to_string(),
        "model": origin,
        "class": record.class.as_str(),
        "tokens": record.tokens.len(),
        "blocks": record.blocks.iter().map(|block| {
            json!({"end": block.end, "id": block.id.to_string(), "bytes": block.bytes})
        }).collect::<Vec<_>>(),
        "snapshots": record.snapshots.iter().map(|snapshot| {
            json!({
                "position": snapshot.position,
                "id": snapshot.id.to_string(),
                "bytes": snapshot.bytes,
            })
        }).collect::<Vec<_>>(),
        "object_bytes": record.objects().map(|(_, bytes)| bytes).sum::<u64>(),
        "created_at": record.created_at.0 / 1000,
        "used_at": record.used_at.0 / 1000,
        "missing_objects": faults.missing,
        "damaged_objects": faults.damaged,
        "verified": verified,
    })
}

fn write(
    reader: &StoreReader,
    model: ModelHash,
    record: &SlotRecord,
    faults: &Faults,
    verified: bool,
    context: &mut Context,
) -> Result<(), Failure> {
    let now = Timestamp::from(context.now);
    let origin = super::origin(reader, model);
    let cache = origin.as_ref().map_or("-".to_owned(), |origin| {
        format!("K {}, V {}", origin.cache_type_k, origin.cache_type_v)
    });
    let weights = origin.map_or("-".to_owned(), |origin| origin.model_sha256.to_string());
    let kept = record.blocks.last().map_or(0, |block| block.end);
    let bytes = |objects: &mut dyn Iterator<Item = u64>| size(objects.sum());
    let state = match (faults.damaged.len(), faults.missing) {
        (0, 0) if verified => "whole, every byte verified".to_owned(),
        (0, 0) => "all there (--verify reads them)".to_owned(),
        (damaged, missing) => format!("{missing} missing, {damaged} damaged"),
    };
    let rows = [
        ("conversation", plain(record.conversation.as_str())),
        ("fingerprint", model.to_string()),
        ("weights SHA-256", plain(&weights)),
        ("cache types", plain(&cache)),
        ("class", record.class.to_string()),
        ("tokens", count(record.tokens.len() as u64)),
        (
            "blocks",
            format!(
                "{}, {} up to token {}",
                record.blocks.len(),
                bytes(&mut record.blocks.iter().map(|block| block.bytes)),
                count(kept.into()),
            ),
        ),
        (
            "snapshots",
            format!(
                "{}, {}",
                record.snapshots.len(),
                bytes(&mut record.snapshots.iter().map(|snapshot| snapshot.bytes)),
            ),
        ),
        ("objects", state),
        ("saved first", ago(record.created_at.age(now).as_secs())),
        ("used", ago(record.used_at.age(now).as_secs())),
    ];
    for (name, value) in rows {
        writeln!(context.out, "{name:<16} {value}")?;
    }
    for fault in &faults.damaged {
        writeln!(context.out, "{:<16} {fault}", "damaged")?;
    }
    Ok(writeln!(context.out)?)
}
