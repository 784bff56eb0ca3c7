//! The settings as the rest of the program sees them: typed, checked, complete.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::ConfigError;
use crate::resolve::{self, Resolved};
use crate::sources::Sources;

/// Everything that can be set, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Address and port that the daemon serves; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Address of a running daemon, when the user names one.
    pub address: Option<SocketAddr>,
    /// Model to run.
    pub model: ModelChoice,
    /// Transcripts, token, hashes, and the file that says where the daemon is.
    pub data_dir: PathBuf,
    /// Kept KV.
    pub slots_dir: PathBuf,
    /// Tokens of context that all slots share.
    pub ctx: u32,
    /// Conversations that are hot at the same time.
    pub slots: u32,
    /// Compute threads; 0 chooses.
    pub threads: u32,
    /// File that holds the access token.
    pub token_file: PathBuf,
    /// File that receives one JSON line once requests are served.
    pub ready_file: Option<PathBuf>,
    /// Origins of web pages that may call the API.
    pub allow_origin: Vec<String>,
    /// Host names accepted beside the loopback ones.
    pub allow_host: Vec<String>,
    /// Size of the warm pool; 0 is automatic, see [`Settings::warm_budget_bytes`].
    pub memory_budget_bytes: u64,
    /// Requests that may wait.
    pub queue: usize,
    /// A conversation that was silent for so long is parked.
    pub idle_park: Duration,
    /// Type of the K cache.
    pub cache_type_k: CacheType,
    /// Type of the V cache.
    pub cache_type_v: CacheType,
    /// Log filter.
    pub log: String,
    /// Largest request body.
    pub max_body_bytes: usize,
    /// Longest time that the body of a request may take to arrive.
    pub request_timeout: Duration,
    /// Time between two sweeps of kept KV.
    pub sweep_interval: Duration,
    /// Time between two rounds that keep warm prefixes warm.
    pub keepalive_interval: Duration,
    /// How long the model's weights stay in memory after the last turn; `None`: for ever.
    pub unload_after: Option<Duration>,
    /// While a battery with less charge feeds the machine, prefixes are not kept warm; 0: they are.
    pub keepalive_battery_percent: u8,
    /// Lifetime of the class `short` since its last use.
    pub ttl_short: Duration,
    /// Lifetime of the class `long`.
    pub ttl_long: Duration,
    /// Lifetime of the class `extended`.
    pub ttl_extended: Duration,
    /// The most that is kept on disk; 0 is automatic.
    pub slots_quota_bytes: u64,
    /// Files that one sweep removes at most.
    pub sweep_removals: usize,
    /// KV that was silent for so long is compressed; `None`: never.
    pub compress_after: Option<Duration>,
    /// Whether kept KV is encrypted.
    pub slots_encrypt: bool,
    /// File that holds the key of encrypted KV.
    pub slots_key_file: PathBuf,
    /// Command that synthesises speech, as its arguments; empty: none.
    pub voice_command: Vec<String>,
    /// The voice that is used unless another is named.
    pub voice_name: String,
    /// What is said while the model thinks.
    pub voice_phrases: Vec<String>,
    /// The most sound that is kept, in memory and on disk.
    pub voice_cache_bytes: u64,
    /// Command that writes down what was said, as its arguments; empty: none.
    pub voice_recognizer: Vec<String>,
    /// Profiles: what prompts begin with.
    pub profiles_dir: PathBuf,
}

impl Settings {
    /// Merges the layers. Pure: reads what `sources` holds and nothing else.
    pub fn resolve(sources: &Sources) -> Result<Resolved, ConfigError> {
        resolve::resolve(sources)
    }

    /// Size of the warm pool on a machine with `ram_bytes` of memory: what was set, else an eighth.
    pub fn warm_budget_bytes(&self, ram_bytes: u64) -> u64 {
        match self.memory_budget_bytes {
            0 => ram_bytes / 8,
            set => set,
        }
    }
}

/// The model that the user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChoice {
    /// The one that comes with the program.
    Bundled,
    /// A path, or a name found among the models on this machine.
    Named(String),
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bundled => f.write_str("bundled"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// How the KV cache stores its elements, as llama.cpp names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are llama.cpp's own")]
pub enum CacheType {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q5_1,
    Q5_0,
    Q4_1,
    Q4_0,
    Iq4Nl,
}

const CACHE_TYPES: [(CacheType, &str); 9] = [
    (CacheType::F32, "f32"),
    (CacheType::F16, "f16"),
    (CacheType::Bf16, "bf16"),
    (CacheType::Q8_0, "q8_0"),
    (CacheType::Q5_1, "q5_1"),
    (CacheType::Q5_0, "q5_0"),
    (CacheType::Q4_1, "q4_1"),
    (CacheType::Q4_0, "q4_0"),
    (CacheType::Iq4Nl, "iq4_nl"),
];

impl CacheType {
    /// The names that are taken, in lower case.
    pub const NAMES: [&'static str; CACHE_TYPES.len()] = {
        let mut names = [""; CACHE_TYPES.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = CACHE_TYPES[at].1;
            at += 1;
        }
        names
    };

    /// llama.cpp's name for it.
    pub fn as_str(self) -> &'static str {
        CACHE_TYPES[self as usize].1
    }
}

impl fmt::Display for CacheType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No cache type has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{got}` is no cache type; choose one of {}", CacheType::NAMES.join(", "))]
pub struct CacheTypeError {
    /// What was written.
    pub got: String,
}

impl FromStr for CacheType {
    type Err = CacheTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = text.to_ascii_lowercase();
        let found = CACHE_TYPES.iter().find(|(_, name)| *name == wanted);
        found.map(|(kind, _)| *kind).ok_or_else(|| CacheTypeError { got: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_type_is_read_back_from_its_name() {
        for (kind, name) in CACHE_TYPES {
            assert_eq!(kind.as_str(), name);
            assert_eq!(name.to_ascii_uppercase().parse(), Ok(kind));
        }
        assert!("q3_k".parse::<CacheType>().unwrap_err().to_string().contains("q8_0"));
    }
}
