//! `hob slots rm`

use std::io::Write;
use std::time::Duration;

use hob_slots::{ConversationId, ModelHash, Store};
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{plain, size};

/// Remove the KV of conversations; what was said stays
#[derive(clap::Args)]
pub struct Args {
    /// The conversations
    #[arg(required = true)]
    conversations: Vec<String>,

    /// Only that of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let first = &args.conversations[0];
    // Opening as owner makes the directory: not for a slip of the pen.
    if super::reader(context)?.is_none() {
        return Err(super::absent(first, context));
    }
    let store = super::own(context)?;
    let models = super::models(&store, args.fingerprint)?;
    let (mut removed, mut missing) = (Vec::new(), None);
    for id in &args.conversations {
        match remove(&store, &models, id)? {
            true => removed.push(id.clone()),
            false => missing = missing.or(Some(id)),
        }
    }
    let freed_bytes = collect(&store, &models, context)?;
    match context.json {
        true => context.write_json(&json!({"removed": removed, "freed_bytes": freed_bytes}))?,
        false => {
            for id in &removed {
                writeln!(context.out, "removed {}", plain(id))?;
            }
            if freed_bytes > 0 || !removed.is_empty() {
                writeln!(context.out, "{} freed", size(freed_bytes))?;
            }
        }
    }
    missing.map_or(Ok(()), |id| Err(super::absent(id, context)))
}

fn remove(store: &Store, models: &[ModelHash], id: &str) -> Result<bool, Failure> {
    let Ok(id) = ConversationId::new(id) else { return Ok(false) };
    let mut removed = false;
    for model in models {
        removed |= store.remove_slot(*model, &id)?;
    }
    Ok(removed)
}

/// Removes what nobody needs any more. The directory is ours, so no save is under way and objects
/// of any age may go.
pub fn collect(store: &Store, models: &[ModelHash], context: &Context) -> Result<u64, Failure> {
    let moment = store.moment(context.now.into());
    let mut freed_bytes = 0;
    for model in models {
        freed_bytes += store.collect_garbage(*model, &moment, Duration::ZERO)?.bytes;
    }
    Ok(freed_bytes)
}
