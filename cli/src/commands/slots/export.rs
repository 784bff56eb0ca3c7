//! `hob slots export`
//!
//! - The archive appears whole or not at all, and replaces a file only with `--force`.
//! - It is not encrypted, also when the directory is: only its owner can read the file.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use hob_slots::archive::{self, Exported};
use hob_slots::{Miss, ModelHash};
use serde_json::json;

use super::{dir, named};
use crate::atomic_file::AtomicFile;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{conversations, counted, plain, size};

/// Write the KV of conversations to one archive
///
/// The archive fits the same model with the same settings, on this or another machine. It is not
/// encrypted.
#[derive(clap::Args)]
pub struct Args {
    /// The conversations: ids, titles, or beginnings of them
    #[arg(required_unless_present = "last")]
    conversations: Vec<String>,

    /// The most recently used conversation
    #[arg(long, conflicts_with = "conversations")]
    last: bool,

    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Only KV of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let Args { conversations: names, output, .. } = args;
    let reader = dir::reader(context)?;
    let reader = reader.ok_or_else(|| {
        names.first().map_or_else(|| dir::empty(context), |first| dir::absent(first, context))
    })?;
    let mut ids = Vec::new();
    if args.last {
        ids.push(named::last(&reader, context)?);
    }
    let models = dir::models(&reader, args.fingerprint)?;
    for name in names {
        let id = named::one(&reader, name, context)?;
        let is_absent =
            |model: &ModelHash| matches!(reader.get_slot(*model, &id), Err(Miss::Absent));
        if models.iter().all(is_absent) {
            return Err(dir::absent(name, context));
        }
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    if output.exists() && !args.force {
        let path = output.display();
        return Err(Failure::Usage(format!("{path} exists already; --force replaces it")));
    }
    let failed = |doing| move |source| Failure::File { doing, path: output.clone(), source };
    let (atomic, file) = AtomicFile::create(output).map_err(failed("write"))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let now = context.now.into();
    let exported = archive::export(&reader, &ids, args.fingerprint, now, &mut out)
        .map_err(|source| Failure::Archive { path: output.clone(), source })?;
    let file = out.into_inner().map_err(|error| failed("write")(error.into_error()))?;
    file.sync_all().map_err(failed("sync"))?;
    atomic.commit().map_err(failed("write"))?;
    report(&exported, output, context)
}

fn report(exported: &Exported, path: &Path, context: &mut Context) -> Result<(), Failure> {
    let Exported { model, conversations: kept, objects, bytes } = exported;
    if context.json {
        let kept = kept.iter().map(|(id, tokens)| json!({"conversation": id, "tokens": tokens}));
        return context.write_json(&json!({
            "file": path.to_string_lossy(),
            "fingerprint": model,
            "conversations": kept.collect::<Vec<_>>(),
            "objects": objects,
            "bytes": bytes,
        }));
    }
    let (kept, path) = (conversations(kept.len()), plain(&path.display().to_string()));
    let objects = counted(*objects, "object");
    writeln!(context.out, "{kept}, {objects}, {} in {path}", size(*bytes))?;
    Ok(context.out.flush()?)
}
