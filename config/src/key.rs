//! The table of everything that can be set.
//!
//! - One row a key; file, environment and flags all use the row's name, each in its own spelling:
//!   `data_dir`, `HOB_DATA_DIR`, `--data-dir`.
//! - Adding a setting is one row here and one field in [`Settings`](crate::Settings).

/// A setting, in the order in which `hob config show` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The configuration file itself.
    Config,
    /// Address and port that `hobd` serves.
    Listen,
    /// Address of a running daemon, for `hob`.
    Address,
    /// Model to run.
    Model,
    /// Everything that is not KV: transcripts, token, hashes.
    DataDir,
    /// Kept KV.
    SlotsDir,
    /// Tokens of context over all slots.
    Ctx,
    /// Conversations that are hot at the same time.
    Slots,
    /// Compute threads.
    Threads,
    /// File that holds the access token.
    TokenFile,
    /// File that receives one JSON line once requests are served.
    ReadyFile,
    /// Origins of web pages that may call the API.
    AllowOrigin,
    /// Host names accepted beside the loopback ones.
    AllowHost,
    /// Size of the warm pool.
    MemoryBudgetBytes,
    /// Requests that may wait.
    Queue,
    /// Idle time after which a conversation is parked.
    IdleParkSecs,
    /// Type of the K cache.
    CacheTypeK,
    /// Type of the V cache.
    CacheTypeV,
    /// Log filter.
    Log,
    /// Largest request body.
    MaxBodyBytes,
    /// Longest time that the body of a request may take to arrive.
    RequestTimeoutSecs,
    /// Time between two sweeps of kept KV.
    SweepInterval,
    /// Time between two rounds that keep warm prefixes warm.
    KeepaliveInterval,
    /// Silence after which the model's weights leave memory.
    UnloadAfter,
    /// Charge of a battery below which prefixes are not kept warm.
    KeepaliveBatteryPercent,
    /// Lifetime of the class `short`.
    TtlShort,
    /// Lifetime of the class `long`.
    TtlLong,
    /// Lifetime of the class `extended`.
    TtlExtended,
    /// The most that is kept on disk.
    SlotsQuotaBytes,
    /// Files that one sweep removes at most.
    SweepRemovals,
    /// Silence after which kept KV is compressed.
    CompressAfter,
    /// Whether kept KV is encrypted.
    SlotsEncrypt,
    /// File that holds the key of encrypted KV.
    SlotsKeyFile,
    /// Command that synthesises speech.
    VoiceCommand,
    /// The voice that is used unless another is named.
    VoiceName,
    /// What is said while the model thinks.
    VoicePhrases,
    /// The most sound that is kept.
    VoiceCacheBytes,
    /// Command that writes down what was said.
    VoiceRecognizer,
    /// Profiles: what prompts begin with.
    ProfilesDir,
}

/// Which program takes the key as a flag. File and environment hold all of them for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// `hobd` alone.
    Daemon,
    /// `hob` alone.
    Client,
    /// Both.
    Everyone,
}

/// What the table says about a key.
#[derive(Debug)]
pub struct Row {
    /// The setting.
    pub key: Key,
    /// Its name, as the TOML file spells it.
    pub name: &'static str,
    /// Placeholder of its value in `--help`.
    pub value: &'static str,
    /// Default as text; empty where there is none or where it depends on the user's directories.
    pub default: &'static str,
    /// Who takes it as a flag.
    pub audience: Audience,
    /// One line for `--help`.
    pub help: &'static str,
}

use Audience::{Client, Daemon, Everyone};

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(Key::Config, "config", "FILE", "", Everyone, "Read settings from this TOML file"),
    row(Key::Listen, "listen", "IP:PORT", "127.0.0.1:8642", Daemon, "Serve on this address; port 0 takes a free one"),
    row(Key::Address, "address", "IP:PORT", "", Client, "Talk to the daemon at this address instead of the one that runs on the data directory"),
    row(Key::Model, "model", "PATH|NAME", "", Daemon, "GGUF file, or the name of one that `hob models` lists; the bundled model unless given"),
    row(Key::DataDir, "data_dir", "DIR", "", Everyone, "Keep transcripts, token and hashes here"),
    row(Key::SlotsDir, "slots_dir", "DIR", "", Everyone, "Keep KV here"),
    row(Key::Ctx, "ctx", "TOKENS", "8192", Daemon, "Tokens of context that all slots share"),
    row(Key::Slots, "slots", "N", "4", Daemon, "Conversations that stay hot at the same time"),
    row(Key::Threads, "threads", "N", "0", Daemon, "Compute threads; 0 chooses"),
    row(Key::TokenFile, "token_file", "FILE", "", Everyone, "File that holds the access token"),
    row(Key::ReadyFile, "ready_file", "FILE", "", Daemon, "Write one JSON line here once requests are served"),
    row(Key::AllowOrigin, "allow_origin", "ORIGIN", "", Daemon, "Let web pages of this origin call the API (repeat or separate by commas)"),
    row(Key::AllowHost, "allow_host", "HOST", "", Daemon, "Accept this Host header beside the loopback ones (repeat or separate by commas)"),
    row(Key::MemoryBudgetBytes, "memory_budget_bytes", "BYTES", "0", Daemon, "Memory for parked KV; 0 takes an eighth of RAM"),
    row(Key::Queue, "queue", "N", "32", Daemon, "Requests that may wait before others are told to come back"),
    row(Key::IdleParkSecs, "idle_park_secs", "SECS", "3600", Daemon, "Park a conversation that was silent for so long"),
    row(Key::CacheTypeK, "cache_type_k", "TYPE", "f16", Daemon, "Type of the K cache"),
    row(Key::CacheTypeV, "cache_type_v", "TYPE", "f16", Daemon, "Type of the V cache"),
    row(Key::Log, "log", "FILTER", "info", Daemon, "What to log, such as info or hob_runtime=debug"),
    row(Key::MaxBodyBytes, "max_body_bytes", "BYTES", "8MiB", Daemon, "Largest request body"),
    row(Key::RequestTimeoutSecs, "request_timeout_secs", "SECS", "600", Daemon, "Longest time that a request may take to arrive"),
    row(Key::SweepInterval, "sweep_interval", "TIME", "5m", Daemon, "Sweep kept KV this often: expire, collect, compress, hold the quota; 60s at least"),
    row(Key::KeepaliveInterval, "keepalive_interval", "TIME", "4m", Daemon, "Keep warm prefixes warm this often; 30s at least"),
    row(Key::UnloadAfter, "unload_after", "TIME", "0", Daemon, "Give back the model's memory when nobody spoke for so long, its KV kept on disk; 0 never does"),
    row(Key::KeepaliveBatteryPercent, "keepalive_battery_percent", "N", "20", Daemon, "Let prefixes cool while a battery below so many percent feeds the machine; 0 never does"),
    row(Key::TtlShort, "ttl_short", "TIME", "5m", Everyone, "Keep KV of class short for so long after its last use"),
    row(Key::TtlLong, "ttl_long", "TIME", "1h", Everyone, "Keep KV of class long for so long after its last use"),
    row(Key::TtlExtended, "ttl_extended", "TIME", "24h", Everyone, "Keep KV of class extended for so long after its last use"),
    row(Key::SlotsQuotaBytes, "slots_quota_bytes", "BYTES", "0", Daemon, "Keep so much KV on disk; 0 takes a tenth of the free disk, 8 GiB at most"),
    row(Key::SweepRemovals, "sweep_removals", "N", "4096", Daemon, "Remove so many files in one sweep at most"),
    row(Key::CompressAfter, "compress_after", "TIME", "1h", Daemon, "Compress KV that was silent for so long; 0 never does"),
    row(Key::SlotsEncrypt, "slots_encrypt", "BOOL", "false", Everyone, "Encrypt kept KV, and hide on disk whose it is"),
    row(Key::SlotsKeyFile, "slots_key_file", "FILE", "", Everyone, "File that holds the key of encrypted KV; made when it is missing"),
    row(Key::VoiceCommand, "voice_command", "COMMAND", DEFAULT_VOICE_COMMAND, Daemon, "Synthesise speech with this command, no shell between: WAV to its output, {voice} and {text} in its arguments, the text also to its input; off for none"),
    row(Key::VoiceName, "voice_name", "NAME", "en", Daemon, "Speak with this voice of the command's, unless a request names another"),
    row(Key::VoicePhrases, "voice_phrases", "TEXT", DEFAULT_VOICE_PHRASES, Daemon, "Say this while the model thinks (repeat or separate by |)"),
    row(Key::VoiceCacheBytes, "voice_cache_bytes", "BYTES", "16MiB", Daemon, "Keep so much sound, in memory and on disk"),
    row(Key::VoiceRecognizer, "voice_recognizer", "COMMAND", "off", Daemon, "Write down what was said with this command, no shell between: a WAV to its input, text to its output; off for none"),
    row(Key::ProfilesDir, "profiles_dir", "DIR", "", Everyone, "Read profiles, what prompts begin with, from here"),
];

const DEFAULT_VOICE_COMMAND: &str = "espeak-ng -v {voice} --stdin --stdout";
const DEFAULT_VOICE_PHRASES: &str =
    "One second.|Let me see.|Hm, let me think.|Just a moment.|Let me have a look.";

const fn row(
    key: Key,
    name: &'static str,
    value: &'static str,
    default: &'static str,
    audience: Audience,
    help: &'static str,
) -> Row {
    Row { key, name, value, default, audience, help }
}

impl Key {
    /// Every key, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.key)
    }

    /// The key's row.
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name in the TOML file: `data_dir`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The name in the environment: `HOB_DATA_DIR`.
    pub fn variable(self) -> String {
        format!("HOB_{}", self.name().to_ascii_uppercase())
    }

    /// The name as a flag, without dashes in front: `data-dir`.
    pub fn flag(self) -> String {
        self.name().replace('_', "-")
    }

    /// The key of that name in the TOML file.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|key| key.name() == name)
    }

    /// Whether several values may be given.
    pub fn is_list(self) -> bool {
        matches!(self, Self::AllowOrigin | Self::AllowHost | Self::VoicePhrases)
    }
}

/// The known name that is closest to `name`, when one is close.
pub fn nearest(name: &str) -> Option<&'static str> {
    let wanted = name.replace('-', "_").to_ascii_lowercase();
    ROWS.iter()
        .map(|row| (strsim::jaro_winkler(row.name, &wanted), row.name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_finds_its_own_row() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.key as usize, at, "{} is out of place", row.name);
            assert_eq!(Key::named(row.name), Some(row.key));
        }
        assert_eq!(ROWS.len(), Key::ProfilesDir as usize + 1);
    }

    #[test]
    fn one_name_has_three_spellings() {
        assert_eq!(Key::DataDir.name(), "data_dir");
        assert_eq!(Key::DataDir.variable(), "HOB_DATA_DIR");
        assert_eq!(Key::DataDir.flag(), "data-dir");
    }

    #[test]
    fn a_slip_of_the_pen_is_recognised_and_nonsense_is_not() {
        assert_eq!(nearest("slot_dir"), Some("slots_dir"));
        assert_eq!(nearest("data-dir"), Some("data_dir"));
        assert_eq!(nearest("idle_park"), Some("idle_park_secs"));
        assert_eq!(nearest("zzz"), None);
    }
}
