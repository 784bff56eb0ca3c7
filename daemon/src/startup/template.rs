//! The chat template that the settings name, which replaces the model's own.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Error, Result, ensure};
use hob_config::Settings;
use hob_runtime::template::MAX_SOURCE_BYTES;

use crate::prompt::rendering::ChildTemplate;

/// # Errors
/// When the file cannot be read, or is no template.
pub(super) fn of(settings: &Settings) -> Result<Option<String>> {
    let Some(path) = &settings.chat_template else { return Ok(None) };
    let source = read(path).with_context(|| {
        format!("cannot use {} as chat_template: correct the setting or the file", path.display())
    })?;
    tracing::info!(path = %path.display(), "prompts are written by this chat template");
    Ok(Some(source))
}

fn read(path: &Path) -> Result<String> {
    ensure!(fs::metadata(path)?.is_file(), "it is not a file");
    let mut source = String::new();
    let limit = MAX_SOURCE_BYTES as u64 + 1;
    fs::File::open(path)?.take(limit).read_to_string(&mut source)?;
    ChildTemplate::new(&source, "", "").map_err(Error::msg)?;
    Ok(source)
}
