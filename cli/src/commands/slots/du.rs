//! `hob slots du`: disk usage as a tree, by the lengths of files.

use std::collections::HashMap;
use std::io::Write;

use hob_config::paths;
use hob_models::{ContentHash, HashCache};
use hob_slots::{ModelHash, ObjectName, StoreReader};
use serde::Serialize;
use serde_json::json;

use super::dir;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, conversations, line, size};

/// Show disk usage by model
#[derive(clap::Args)]
pub struct Args {
    /// Only this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

/// The disk usage of one model.
#[derive(Default, Serialize)]
struct Usage {
    fingerprint: String,
    /// The name of the model file, when it is known.
    model: Option<String>,
    conversations: usize,
    slot_file_bytes: u64,
    /// Objects that one conversation references.
    own_bytes: u64,
    /// Objects that several conversations reference.
    shared_bytes: u64,
    /// Objects that no conversation references.
    unreferenced_bytes: u64,
    quarantine_bytes: u64,
    tmp_bytes: u64,
    /// Raw lengths minus lengths on disk.
    compression_saves_bytes: u64,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let (mut models, mut tmp_bytes) = (Vec::new(), 0);
    if let Some(reader) = dir::reader(context)? {
        for model in dir::models(&reader, args.fingerprint)? {
            models.push(usage(&reader, model, context)?);
        }
        tmp_bytes = reader.temporary_bytes(None)?;
    }
    let total = models.iter().map(Usage::bytes).sum::<u64>() + tmp_bytes;
    let saved = models.iter().map(|model| model.compression_saves_bytes).sum::<u64>();
    if context.json {
        return context.write_json(&json!({
            "slots_dir": context.settings.slots_dir.to_string_lossy(),
            "bytes": total,
            "tmp_bytes": tmp_bytes,
            "compression_saves_bytes": saved,
            "models": models,
        }));
    }
    let mut table = Table::untitled_with([Align::Right, Align::Left]).wrap(1);
    let dir = context.settings.slots_dir.display().to_string();
    table.row(vec![size(total), line(&dir, 120)]);
    for (at, model) in models.iter().enumerate() {
        let last = at + 1 == models.len() && tmp_bytes == 0;
        let (branch, stem) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let name = model.model.as_deref().map_or(String::new(), |name| format!(" {name}"));
        table.row(vec![size(model.bytes()), format!("{branch}{}{name}", model.fingerprint)]);
        let parts = model.parts();
        for (at, (bytes, what)) in parts.iter().enumerate() {
            let branch = if at + 1 == parts.len() { "└─" } else { "├─" };
            table.row(vec![size(*bytes), format!("{stem}{branch} {what}")]);
        }
    }
    if tmp_bytes > 0 {
        table.row(vec![size(tmp_bytes), "└─ tmp: being written".to_owned()]);
    }
    let text = table.text(context.columns());
    context.out.write_all(text.as_bytes())?;
    if saved > 0 {
        writeln!(context.out, "\ncompression saves {}", size(saved))?;
    }
    Ok(context.out.flush()?)
}

fn usage(reader: &StoreReader, model: ModelHash, context: &Context) -> Result<Usage, Failure> {
    let contents = reader.contents(model)?;
    let mut references: HashMap<ObjectName, (usize, u64)> = HashMap::new();
    for (id, raw_bytes) in contents.slots.iter().flat_map(|slot| &slot.objects) {
        references.entry(reader.name(*id)).or_insert((0, *raw_bytes)).0 += 1;
    }
    let mut usage = Usage {
        fingerprint: model.to_string(),
        model: name_of(reader, model, context),
        conversations: contents.slots.len(),
        quarantine_bytes: reader.quarantined(model)?.iter().map(|file| file.bytes).sum(),
        tmp_bytes: reader.temporary_bytes(Some(model))?,
        ..Usage::default()
    };
    for file in reader.stored_files(model)? {
        let Some(name) = file.object else {
            usage.slot_file_bytes += file.bytes;
            continue;
        };
        match references.get(&name) {
            Some((1, _)) => usage.own_bytes += file.bytes,
            Some(_) => usage.shared_bytes += file.bytes,
            None => usage.unreferenced_bytes += file.bytes,
        }
        if let Some((_, raw_bytes)) = references.get(&name) {
            usage.compression_saves_bytes += raw_bytes.saturating_sub(file.bytes);
        }
    }
    Ok(usage)
}

/// The name of the model file, when the daemon runs it or its hash is cached.
fn name_of(reader: &StoreReader, model: ModelHash, context: &Context) -> Option<String> {
    let running = dir::owner_daemon(&context.settings);
    let running = running.filter(|daemon| daemon.fingerprint == model.to_string());
    let path = match running {
        Some(daemon) => daemon.model.into(),
        None => {
            let content = ContentHash(dir::origin(reader, model)?.model_sha256.0);
            let cache = paths::hash_cache_file(&context.settings.data_dir);
            HashCache::at(cache).path_of(content)?
        }
    };
    Some(line(&path.file_stem()?.to_string_lossy(), 60))
}

impl Usage {
    fn bytes(&self) -> u64 {
        self.parts().iter().map(|(bytes, _)| bytes).sum()
    }

    /// The parts that are not empty.
    fn parts(&self) -> Vec<(u64, String)> {
        let parts = [
            (self.slot_file_bytes, format!("slot files of {}", conversations(self.conversations))),
            (self.own_bytes, "own: referenced by one conversation".to_owned()),
            (self.shared_bytes, "shared: referenced by several".to_owned()),
            (self.unreferenced_bytes, "unreferenced (hob slots gc)".to_owned()),
            (self.quarantine_bytes, "quarantine (hob slots ls --rejected)".to_owned()),
            (self.tmp_bytes, "tmp: being written".to_owned()),
        ];
        parts.into_iter().filter(|(bytes, _)| *bytes > 0).collect()
    }
}
