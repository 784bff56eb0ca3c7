//! Which machine and which commit a run measured.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use hob_runtime::backend::devices;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub system: String,
    /// The devices that compute layers, as their makers name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

impl Machine {
    /// This one. What cannot be read is `unknown`, or 0.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, key: &str, mark: char| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            line.split_once(mark).map(|(_, value)| value.trim().trim_matches('"').to_owned())
        };
        let unknown = || "unknown".to_owned();
        let kib = after(&text("/proc/meminfo"), "MemTotal", ':');
        let kib = kib.and_then(|kib| kib.split(' ').next()?.parse::<u64>().ok());
        Self {
            processor: after(&text("/proc/cpuinfo"), "model name", ':').unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kib.unwrap_or(0).div_ceil(1 << 20),
            system: after(&text("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(unknown),
            devices: devices().into_iter().map(|device| device.description).collect(),
        }
    }

    pub fn title(&self) -> String {
        let Self { processor, cores, memory_gib, system, devices } = self;
        let devices: String = devices.iter().map(|device| format!(", {device}")).collect();
        format!("{cores} cores of {processor}, {memory_gib} GiB{devices}, {system}")
    }
}

/// `-dirty` where files differ from it.
pub fn commit() -> String {
    let described =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=10"]).output();
    let described = described.ok().filter(|output| output.status.success());
    described.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// The load average over a minute; 0 where there is none.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

pub fn unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
