//! Reads the total and the available memory of this machine.
//!
//! - Best effort: an unknown figure is `None`.

use std::fs;
use std::sync::OnceLock;

use serde::Serialize;

/// Assumed where the system does not report its memory.
const ASSUMED_BYTES: u64 = 8 << 30;

static ASSUMED_AVAILABLE_BYTES: OnceLock<u64> = OnceLock::new();

/// From now on this much counts as available. For tests of small machines.
pub fn assume_available_bytes(bytes: u64) {
    ASSUMED_AVAILABLE_BYTES.set(bytes).ok(); // An error: the first one stays.
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MachineMemory {
    pub total_bytes: u64,
    /// Available without swapping, where the system reports it.
    pub available_bytes: Option<u64>,
}

impl MachineMemory {
    /// A container's limit counts as the machine's memory. Its page cache counts as available, as the
    /// machine's does: model files that were read stay in it.
    pub fn read() -> Option<Self> {
        let memory = system()?;
        let of_container = |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok();
        let limit = number(of_container("memory.max"));
        let cached = of_container("memory.stat").map_or(0, |text| page_cache(&text));
        let used = number(of_container("memory.current")).map(|used| used.saturating_sub(cached));
        let memory = memory.limited(limit, used);
        let assumed = ASSUMED_AVAILABLE_BYTES.get().copied();
        Some(Self { available_bytes: assumed.or(memory.available_bytes), ..memory })
    }

    /// What a model and its context may take: half of the memory where the system reports only all of
    /// it.
    pub fn usable_bytes(memory: Option<Self>) -> u64 {
        let total_bytes = memory.map_or(ASSUMED_BYTES, |memory| memory.total_bytes);
        memory.and_then(|memory| memory.available_bytes).unwrap_or(total_bytes / 2)
    }

    fn limited(self, limit: Option<u64>, used: Option<u64>) -> Self {
        let Some(limit) = limit.filter(|limit| *limit < self.total_bytes) else { return self };
        let left = limit.saturating_sub(used.unwrap_or(0));
        let available_bytes = self.available_bytes.map(|available| available.min(left));
        Self { total_bytes: limit, available_bytes }
    }
}

#[cfg(not(target_os = "macos"))]
fn system() -> Option<MachineMemory> {
    meminfo(&fs::read_to_string("/proc/meminfo").ok()?)
}

#[cfg(target_os = "macos")]
fn system() -> Option<MachineMemory> {
    let output = std::process::Command::new("/usr/sbin/sysctl").args(["-n", "hw.memsize"]).output();
    let total_bytes = number(String::from_utf8(output.ok()?.stdout).ok())?;
    Some(MachineMemory { total_bytes, available_bytes: None })
}

#[cfg(any(test, not(target_os = "macos")))]
fn meminfo(text: &str) -> Option<MachineMemory> {
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let total_bytes = kib("MemTotal:")?.checked_mul(1024)?;
    Some(MachineMemory { total_bytes, available_bytes: kib("MemAvailable:").map(|kib| kib << 10) })
}

/// Bytes of files that a container's `memory.stat` counts, and that the kernel drops when memory is needed.
fn page_cache(text: &str) -> u64 {
    let is_of_files = |name: &str| ["inactive_file", "active_file"].contains(&name);
    let bytes = text.lines().filter_map(|line| {
        let (_, bytes) = line.split_once(' ').filter(|(name, _)| is_of_files(name))?;
        bytes.trim().parse::<u64>().ok()
    });
    bytes.fold(0, u64::saturating_add)
}

fn number(text: Option<String>) -> Option<u64> {
    text?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:  8000 kB\nMemFree: 1 kB\nMemAvailable:  5000 kB\n";
        let memory = meminfo(text).unwrap();
        assert_eq!(memory.total_bytes, 8000 * 1024);
        assert_eq!(memory.available_bytes, Some(5000 * 1024));
        assert_eq!(meminfo("nothing of it"), None);
    }

    #[test]
    fn the_limit_of_a_container_applies() {
        let machine = MachineMemory { total_bytes: 100, available_bytes: Some(60) };
        assert_eq!(machine.limited(None, None), machine);
        assert_eq!(machine.limited(Some(1000), Some(1)), machine);
        let limited = machine.limited(Some(50), Some(20));
        assert_eq!(limited, MachineMemory { total_bytes: 50, available_bytes: Some(30) });
    }

    #[test]
    fn files_that_a_container_has_read_are_page_cache() {
        let text = "anon 700\nfile 360\nshmem 60\ninactive_file 200\nactive_file 100\nslab 9\n";
        assert_eq!(page_cache(text), 300);
        assert_eq!(page_cache("inactive_file many\n"), 0);
    }
}
