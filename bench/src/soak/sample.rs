//! What a daemon takes of its machine at one moment.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::measure::cpu_time;

#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Resident memory, without pages of files.
    pub memory_bytes: u64,
    pub resident_bytes: u64,
    pub descriptors: u64,
    pub threads: u64,
    /// Of all files below the data directory, as the disk counts them.
    pub disk_bytes: u64,
    pub cpu_secs: f64,
}

/// Of the process with this id.
pub fn usage(process: &str, data: &Path) -> Result<Usage> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))
        .context("memory is read on Linux, while hobd runs")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        number.with_context(|| format!("no {name} in the status of a process"))
    };
    Ok(Usage {
        memory_bytes: field("RssAnon")? << 10,
        resident_bytes: field("VmRSS")? << 10,
        descriptors: fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64,
        threads: field("Threads")?,
        disk_bytes: bytes_below(data),
        cpu_secs: cpu_time(process)?.as_secs_f64(),
    })
}

/// A file that is removed meanwhile counts nothing.
fn bytes_below(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;

    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += metadata.blocks() * BLOCK_BYTES;
        if metadata.is_dir() {
            bytes += bytes_below(&entry.path());
        }
    }
    bytes
}
