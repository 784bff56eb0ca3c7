//! The shared tier of the settings, and this daemon's name in it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use hob_config::{Settings, paths};
use hob_slots::store::StoreReader;
use tempfile::NamedTempFile;

use crate::shared::SharedTier;

/// `None` where nothing is shared. `reader`: of the slots directory, whose encryption the tier has too.
///
/// # Errors
/// When the place cannot be used, or the name cannot be written.
pub fn open(settings: &Settings, reader: &StoreReader) -> Result<Option<(SharedTier, String)>> {
    let Some(place) = &settings.shared else { return Ok(None) };
    let endpoint = settings.shared_endpoint.as_deref();
    let tier = SharedTier::open(place, endpoint, reader.sealing())?;
    Ok(Some((tier, daemon_name(settings)?)))
}

/// What tells this daemon from others, also after a restart.
///
/// # Errors
/// When it cannot be written.
pub fn daemon_name(settings: &Settings) -> Result<String> {
    let file = paths::daemon_name_file(&settings.data_dir);
    name(&file).with_context(|| format!("cannot use {}", file.display()))
}

/// Made once: it tells the texts that this daemon wrote from those of others.
fn name(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Ok(name) if name.trim().is_empty() => {} // Power was lost before its bytes were on disk.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read.map(|name| name.trim().to_owned()),
    }
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let name = format!("{:016x}", u64::from_le_bytes(bytes));
    let mut written = NamedTempFile::new_in(file.parent().unwrap_or(Path::new(".")))?;
    writeln!(written, "{name}")?;
    written.as_file().sync_all()?;
    written.persist(file)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_keeps_its_name_and_is_never_without_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("daemon-name");
        let first = name(&file).unwrap();
        assert_eq!(name(&file).unwrap(), first);
        fs::write(&file, "").unwrap();
        let second = name(&file).unwrap();
        assert_eq!(second.len(), 16);
        assert_eq!(name(&file).unwrap(), second);
    }
}
