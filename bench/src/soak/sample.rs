//! What a daemon and its child processes, which render chat templates and try models, take of the machine at one
//! moment.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::measure::{children, cpu_time};

#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Resident memory, without pages of files.
    pub memory_bytes: u64,
    pub resident_bytes: u64,
    pub descriptors: u64,
    pub threads: u64,
    /// Child processes, of all generations.
    pub children: u64,
    /// Size of all files below the data directory, as the disk counts them.
    pub disk_bytes: u64,
    /// Processor time of the daemon alone.
    pub cpu_secs: f64,
}

/// The usage of the process with this id and its children.
pub fn usage(process: &str, data: &Path) -> Result<Usage> {
    let own = ProcessUsage::of(process).context("memory is read on Linux, while hobd runs")?;
    let children = children(process);
    // A child that has ended meanwhile takes nothing.
    let taken = children.iter().filter_map(|child| ProcessUsage::of(child).ok());
    let whole = taken.fold(own, ProcessUsage::plus);
    Ok(Usage {
        memory_bytes: whole.memory_bytes,
        resident_bytes: whole.resident_bytes,
        descriptors: whole.descriptors,
        threads: whole.threads,
        children: children.len() as u64,
        disk_bytes: bytes_below(data),
        cpu_secs: cpu_time(process)?.as_secs_f64(),
    })
}

/// What one process uses.
struct ProcessUsage {
    memory_bytes: u64,
    resident_bytes: u64,
    descriptors: u64,
    threads: u64,
}

impl ProcessUsage {
    fn of(process: &str) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            number.with_context(|| format!("no {name} in the status of a process"))
        };
        Ok(Self {
            memory_bytes: field("RssAnon")? << 10,
            resident_bytes: field("VmRSS")? << 10,
            descriptors: fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64,
            threads: field("Threads")?,
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes + other.memory_bytes,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            descriptors: self.descriptors + other.descriptors,
            threads: self.threads + other.threads,
        }
    }
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_counts() {
        let mut shell = Command::new("sh");
        // The child says that it has started: until then, its descriptors change.
        shell.args(["-c", "exec 3<&0; sh -c 'echo $$; read line' <&3 & wait"]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (id, child_id) = (shell.id().to_string(), line.trim().to_owned());
        let directory = tempfile::tempdir().unwrap();

        let found = usage(&id, directory.path()).unwrap();

        assert_eq!(children(&id), [child_id.as_str()]);
        let (own, child) = (ProcessUsage::of(&id).unwrap(), ProcessUsage::of(&child_id).unwrap());
        assert_eq!((found.children, found.threads), (1, 2));
        assert_eq!(found.descriptors, own.descriptors + child.descriptors);
        assert!(found.memory_bytes > own.memory_bytes && child.memory_bytes > 0);
        Command::new("kill").arg(&child_id).status().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_child_s_child_counts() {
        let this = std::process::id().to_string();
        let mut shell = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let shell_id = shell.id().to_string();
        let sleep = loop {
            if let [sleep] = &children(&shell_id)[..] {
                break sleep.clone();
            }
        };
        let all = children(&this);
        assert!(all.contains(&shell_id) && all.contains(&sleep), "{all:?}");
        Command::new("kill").arg(&sleep).status().unwrap();
        shell.wait().unwrap();
    }
}
