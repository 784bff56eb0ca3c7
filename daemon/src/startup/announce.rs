//! Announces the daemon: to clients by files, to people on the terminal.

use std::path::Path;

use anyhow::{Context, Result};
use hob_config::{RunningDaemon, Settings};

/// Writes the description that clients read, and the ready file.
pub fn begin(running: &RunningDaemon, settings: &Settings) -> Result<()> {
    running
        .write(&settings.data_dir)
        .with_context(|| format!("cannot write to {}", settings.data_dir.display()))?;
    if let Some(path) = &settings.ready_file {
        running.write_line(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Removes the description. The ready file stays: it belongs to the caller that asked for it.
pub fn end(running: &RunningDaemon, settings: &Settings) {
    if let Err(error) = running.remove(&settings.data_dir) {
        tracing::warn!(%error, "cannot remove the description of this daemon");
    }
}

/// Prints the address and the model on standard error; with `hints`, also commands to paste.
pub fn print(running: &RunningDaemon, model: &str, hints: bool) {
    eprintln!("hobd serves {model} at {}", running.url());
    eprintln!("token file: {}", running.token_file.display());
    if hints {
        eprintln!("\n{}", paste(running));
    }
}

fn paste(running: &RunningDaemon) -> String {
    let body = r#"{"conversation": "hello", "messages": [{"role": "user", "content": "Hello"}]}"#;
    format!(
        "curl {}/v1/chat/completions -H \"Authorization: Bearer $(cat {})\" \
         -H 'Content-Type: application/json' -d '{body}'\n\nhob chat --address {address}\n\
         hob open --address {address}",
        running.url(),
        quoted(&running.token_file),
        address = running.address,
    )
}

/// Quoted for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_quotes_can_be_pasted() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
