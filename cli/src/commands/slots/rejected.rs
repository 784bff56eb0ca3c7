//! `hob slots ls --rejected`: quarantined files and the reasons.

use std::io::Write;
use std::path::Path;
use std::time::UNIX_EPOCH;

use hob_slots::{ModelHash, Quarantined, StoreReader};
use serde_json::json;

use super::dir;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, ago, count, line, size};

pub fn run(
    reader: Option<&StoreReader>,
    model: Option<ModelHash>,
    reverse: bool,
    context: &mut Context,
) -> Result<(), Failure> {
    let mut files = Vec::new();
    if let Some(reader) = reader {
        for model in dir::models(reader, model)? {
            files.extend(reader.quarantined(model)?);
        }
    }
    files.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.path.cmp(&b.path)));
    if reverse {
        files.reverse();
    }
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    if context.json {
        let files = files.iter().map(|file| {
            let written = file.written.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            json!({
                "fingerprint": file.model,
                "file": name(file),
                "path": file.path.to_string_lossy(),
                "bytes": file.bytes,
                "written_at": written,
                "reason": file.reason,
            })
        });
        let document = json!({"rejected": files.collect::<Vec<_>>(), "bytes": bytes});
        return context.write_json(&document);
    }
    let mut table = Table::new(&[
        ("FILE", Align::Left),
        ("FINGERPRINT", Align::Left),
        ("SIZE", Align::Right),
        ("WRITTEN", Align::Left),
        ("REASON", Align::Left),
    ])
    .wrap(0)
    .wrap(4)
    .spare([1]);
    for file in &files {
        let age = context.now.duration_since(file.written).unwrap_or_default();
        table.row(vec![
            line(&name(file), 60),
            file.model.to_string(),
            size(file.bytes),
            ago(age.as_secs()),
            line(&file.reason, 120),
        ]);
    }
    if !files.is_empty() {
        let text = table.text(context.columns());
        writeln!(context.out, "{text}")?;
    }
    let plural = if files.len() == 1 { "" } else { "s" };
    let number = count(files.len() as u64);
    writeln!(context.out, "{number} rejected file{plural}, {}; none is ever used", size(bytes))?;
    Ok(context.out.flush()?)
}

fn name(file: &Quarantined) -> String {
    file.path.file_name().map(Path::new).unwrap_or(&file.path).to_string_lossy().into_owned()
}
