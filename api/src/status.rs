//! `GET /v1/status`

use hob_slots::{ConversationId, ModelHash, TtlClass};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Text;
use crate::device::{Build, Device, Offload};

/// The daemon, its model, slots, profiles and counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    pub version: Text,
    pub pid: u32,
    /// Seconds since 1970.
    pub started_at: u64,
    pub model: String,
    /// The engine at another address that answers; `None`: the one in this process.
    pub upstream: Option<Upstream>,
    /// The elizaOS agent that generates with this daemon; `None`: the settings name none.
    pub device_bridge: Option<DeviceBridge>,
    /// It is the bundled model, which shows what Hob does and knows little.
    pub demo: bool,
    /// The parameters that its file or its authors' card recommends, as a request has them.
    pub sampling: Value,
    pub fingerprint: Option<ModelHash>,
    pub recognizer: bool,
    /// Whether speech is transcribed while it is spoken.
    pub recognizer_stream: bool,
    /// Whether answers can be spoken.
    pub voice: bool,
    pub switch_error: Option<SwitchFailure>,
    /// Crashes of the engine, or of the process under `--supervise`, before this start.
    pub crashes: u32,
    /// The reason of the latest one.
    pub crash: Option<Text>,
    /// Seconds since 1970.
    pub crash_at: Option<u64>,
    /// `resident`, `loading` or `unloaded`.
    pub residency: Text,
    pub loaded_percent: Option<u8>,
    /// Cells of the cache, which all slots share.
    pub context_tokens: usize,
    /// Maximum tokens of a conversation.
    pub conversation_tokens: usize,
    /// Why that is not more: `set`, `trained`, `memory`, `micro_batch` or `unknown`.
    pub context_limit: Text,
    /// Tokens of the context with which the model was trained; `None` where its file does not say.
    pub trained_tokens: Option<usize>,
    pub build: Build,
    /// Devices besides the processor. Empty where this build can use none, or the machine has none.
    pub devices: Vec<Device>,
    /// `None`: the processor computes all of the model.
    pub offload: Option<Offload>,
    /// The model that guesses tokens of answers, if the settings name one.
    pub draft_model: Option<DraftModel>,
    /// The MTP heads of the model's file, if it has some and the settings allow their guesses.
    pub mtp: Option<Mtp>,
    /// The embedding model that finds what left conversations, if the settings name one.
    pub recall_model: Option<RecallModel>,
    /// How the KV of aged conversations is rounded, if it is to be.
    pub slots_lossy: Option<LossyTier>,
    pub slots: Vec<Slot>,
    pub parked: Vec<Parked>,
    pub profiles: Vec<Profile>,
    pub prefixes: Vec<Prefix>,
    /// The conversations with a detached answer that runs.
    pub answering: Vec<ConversationId>,
    /// How often a title, a pin, the trash, a branch or a message was changed since the start, besides by answers.
    pub changes: u64,
    /// Requests that wait for a slot.
    pub queue: usize,
    pub memory_bytes: u64,
    pub memory_budget_bytes: u64,
    /// The part of `memory_bytes` that waits for the disk.
    pub unsaved_bytes: u64,
    pub unsaved_budget_bytes: u64,
    pub disk_quota: DiskQuota,
    /// The place that several daemons share; `None`: the settings name none.
    pub shared: Option<SharedTier>,
    pub prefill_tokens_per_second: Option<f64>,
    pub counters: Counters,
}

/// An engine at another address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Upstream {
    pub url: String,
    /// `llama-server`, `vllm`, `sglang`, `hob` or `other`; empty while it cannot be asked.
    pub engine: Text,
    /// That it lists.
    pub models: Vec<String>,
    /// Why it cannot be asked, and the remedy.
    pub error: Option<Text>,
}

/// The connection to an elizaOS agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceBridge {
    pub url: String,
    pub connected: bool,
    /// Why it was not connected last, and the remedy.
    pub error: Option<Text>,
}

/// The place that several daemons share, since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedTier {
    /// As the settings have it.
    pub place: String,
    /// Times a conversation was written.
    pub published: u64,
    /// Texts taken over from other daemons.
    pub texts: u64,
    /// How often the KV behind such a text was fetched; was computed, because that is quicker; or was computed,
    /// because it could not be fetched.
    pub fetched: u64,
    pub computed: u64,
    pub missed: u64,
    /// Operations that failed.
    pub failures: u64,
    /// As measured; `None` before.
    pub bytes_per_second: Option<u64>,
    pub round_trip_ms: f64,
}

/// A model that finds by its meaning what left a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecallModel {
    pub name: String,
    /// Why it finds nothing.
    pub refused: Option<Text>,
}

/// How the KV of aged conversations is rounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LossyTier {
    /// `q8` or `q4`.
    pub tier: Text,
    /// Why none is.
    pub refused: Option<Text>,
}

/// A model that guesses tokens of answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DraftModel {
    pub name: String,
    pub fingerprint: Option<ModelHash>,
    /// Why it does not draft.
    pub refused: Option<Text>,
    /// Tokens that it guessed and the model computed ahead.
    pub drafted_tokens: u64,
    /// The part of `drafted_tokens` that was right.
    pub accepted_tokens: u64,
    /// Tokens of prompts and answers that it computed to follow the conversation.
    pub computed_tokens: u64,
    /// Tokens of prompts and answers whose KV it restored from memory or disk instead.
    pub restored_tokens: u64,
}

/// Layers of a model's file that guess tokens of answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mtp {
    /// Why they guess nothing.
    pub refused: Option<Text>,
    /// Tokens that they guessed and the model computed ahead.
    pub drafted_tokens: u64,
    /// The part of `drafted_tokens` that was right.
    pub accepted_tokens: u64,
    /// Tokens of prompts and answers that they computed to follow the conversation.
    pub computed_tokens: u64,
}

/// The disk quota as it is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskQuota {
    /// `None`: the default, which follows the free disk.
    pub set_bytes: Option<u64>,
    /// `default`, or the file, variable or flag that sets it.
    pub origin: Text,
    /// Why nothing may stay on disk, and the remedy; `None` if something may.
    pub no_room: Option<Text>,
}

/// A llama.cpp sequence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slot {
    pub slot: u32,
    pub conversation: Option<ConversationId>,
    /// The adapters of the request that computed its tokens.
    pub lora: Vec<Adapter>,
    pub tokens: usize,
    /// The part of `tokens` without cells, which comes back when the conversation turns to it.
    pub away_tokens: usize,
    /// `free`, `idle`, `restoring`, `prefill` or `decoding`.
    pub state: Text,
    /// Whether the conversation's next answer computes only new tokens.
    pub ready: Option<bool>,
    /// Estimated time for which that answer first computes older tokens.
    pub read_ms: Option<u64>,
}

impl Slot {
    /// Whether a request uses the slot.
    pub fn is_busy(&self) -> bool {
        !matches!(self.state.as_ref(), "free" | "idle")
    }
}

/// A LoRA adapter of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adapter {
    /// Its name in the setting `adapters`.
    pub id: String,
    pub scale: f32,
}

/// A conversation that has left the cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    pub conversation: ConversationId,
    #[serde(default)]
    pub tokens: usize,
    /// The slowest tier that a restore reads: `warm`, `cold` or `none`. Empty: an older daemon.
    #[serde(default)]
    pub tier: Text,
    /// Tokens whose KV is in memory.
    #[serde(default)]
    pub memory_tokens: usize,
    /// Tokens whose KV is only on disk.
    #[serde(default)]
    pub disk_tokens: usize,
    /// Whether the next answer computes only new tokens. `None`: an older daemon.
    #[serde(default)]
    pub ready: Option<bool>,
    /// Estimated time for which the next answer first computes older tokens.
    #[serde(default)]
    pub read_ms: Option<u64>,
}

/// A profile as its file describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    pub name: String,
    /// `None`: no version of the file was valid.
    pub ttl: Option<TtlClass>,
    pub tokens: Option<usize>,
    /// Parameters of its answers, as a request has them.
    pub sampling: Value,
    /// The segments of the prefix, as `layer:key`.
    pub prefix: Vec<String>,
    /// The segments behind the prefix.
    pub tail: Vec<String>,
    pub error: Option<String>,
    /// What moved KV costs its answers; `None`: none of them moved any since the daemon's start, and none was compared before.
    #[serde(default)]
    pub reuse: Option<ProfileReuse>,
}

/// Answers of a profile over moved KV beside exact ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileReuse {
    /// Answers that moved KV since the daemon's start.
    pub answers: u64,
    /// Answers that were compared with exact ones, also before the start.
    pub samples: u64,
    /// Part of the likeliest tokens that agree, in the latest samples.
    pub agreement: f64,
    /// Divergence in nats per token, in the latest samples.
    pub divergence: f64,
    /// Why its answers take only exact KV now.
    pub fell_back: Option<String>,
}

/// The KV of a profile's prefix. Flat, so that it is a row of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prefix {
    pub profile: String,
    pub state: Text,
    /// `hot` (in cells), `warm` (in host memory), `cold` (on disk) or `none`.
    pub place: Text,
    pub tokens: Option<usize>,
    /// Where most of its tokens came from when it last became warm.
    pub how: Option<Text>,
    pub computed_tokens: Option<usize>,
    /// Seconds since 1970.
    pub warmed_at: Option<u64>,
    /// Seconds since 1970.
    pub touched_at: Option<u64>,
    pub error: Option<String>,
}

/// A model that could not be loaded, and what runs instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchFailure {
    pub model: String,
    /// What happened, and what runs instead.
    pub message: String,
    /// Seconds since 1970.
    pub at: u64,
    /// The configured model failed, not one that a user switched to.
    pub at_start: bool,
}

/// Since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub turns: u64,
    pub cancelled: u64,
    pub failed: u64,
    pub generated_tokens: u64,
    /// Guessed tokens of answers that were computed ahead.
    #[serde(default)]
    pub drafted_tokens: u64,
    /// The part of `drafted_tokens` that was right.
    #[serde(default)]
    pub accepted_tokens: u64,
    pub computed_tokens: u64,
    /// Tokens of prompts whose KV was moved from another place.
    #[serde(default)]
    pub moved_tokens: u64,
    /// Computed tokens at the seams of these.
    #[serde(default)]
    pub repaired_tokens: u64,
    /// Tokens that were restored from rounded KV.
    #[serde(default)]
    pub lossy_tokens: u64,
    /// Blocks that left the cells of their live conversation.
    #[serde(default)]
    pub blocks_out: u64,
    /// Blocks that came back to the cells of their live conversation.
    #[serde(default)]
    pub blocks_back: u64,
    pub prewarmed: u64,
    pub superseded: u64,
    pub parked: u64,
    pub preempted: u64,
    pub import_failures: u64,
    pub wasted_restores: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub write_errors: u64,
    pub rejected_files: u64,
    /// Saved blocks and snapshots that could not be read back; their tokens are computed again.
    #[serde(default)]
    pub lost_blocks: u64,
    /// Jobs that write or read KV and panicked; their threads went on.
    #[serde(default)]
    pub tier_panics: u64,
    /// Tokens whose KV was dropped unsaved, because the disk was too slow.
    #[serde(default)]
    pub dropped_tokens: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_of_another_version_is_readable() {
        let status = json!({
            "version": "9", "slots": [{"slot": 1, "state": "decoding"}, {"state": "idle"}],
            "parked": [{"conversation": "room-1"}], "new_in_9": true,
        });
        let status: Status = serde_json::from_value(status).unwrap();
        assert_eq!((status.version.as_ref(), status.model.as_str()), ("9", ""));
        assert_eq!(status.slots.iter().map(Slot::is_busy).collect::<Vec<_>>(), [true, false]);
        assert_eq!(status.parked[0].conversation.as_str(), "room-1");
    }
}
