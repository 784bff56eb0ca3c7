//! Counters of the daemon, in Prometheus' text format.
//!
//! - Written by hand: a dozen numbers need no registry, and the text format is a few lines.
//! - Label values come from fixed sets (route patterns, places, kinds of reasons), so that clients
//!   cannot add lines, and no text of a prompt appears.
//! - Counting waits for a short lock at most. `render` writes the page.

mod histogram;
mod memory;
mod page;
mod render;
mod shared;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hob_runtime::turn::{CellCounts, DraftCounts, Moved, TokenCounts, TurnReport, Way};
use hob_slots::MemoryFigures;
use parking_lot::Mutex;

use crate::explain::Reason;
use crate::shared::SharedFigures;
use histogram::Histogram;

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    misses: Mutex<BTreeMap<&'static str, u64>>,
    shared: AtomicU64,
    memory: AtomicU64,
    disk: AtomicU64,
    away: AtomicU64,
    moved: AtomicU64,
    repaired: AtomicU64,
    lossy: AtomicU64,
    computed: AtomicU64,
    moved_out: MovedCounts,
    moved_back: MovedCounts,
    cells_peak: AtomicU64,
    generated: AtomicU64,
    drafted: AtomicU64,
    accepted: AtomicU64,
    model_drafted: AtomicU64,
    model_accepted: AtomicU64,
    mtp_drafted: AtomicU64,
    mtp_accepted: AtomicU64,
    speculated: AtomicU64,
    speculations: Mutex<BTreeMap<&'static str, u64>>,
    pdfs: AtomicU64,
    forwarded: AtomicU64,
    ttft: Histogram,
}

/// What left the cells of live conversations, or came back to them.
#[derive(Debug, Default)]
struct MovedCounts {
    blocks: AtomicU64,
    tokens: AtomicU64,
}

/// How a speculative prefill ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeculationOutcome {
    /// The whole prompt is hot.
    Hot,
    /// Superseded by a newer transcript or by the turn.
    Replaced,
    Failed,
}

impl SpeculationOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Replaced => "replaced",
            Self::Failed => "failed",
        }
    }
}

/// The engine's figures at the time of the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Waiting turns.
    pub queue: u64,
    /// Slots with a conversation.
    pub slots_in_use: u64,
    pub slots: u64,
    /// Bytes of parked KV in host memory.
    pub warm_bytes: u64,
    /// What the memory tier and its eviction policy did.
    pub memory: MemoryFigures,
    /// Restores followed by a full prefill.
    pub wasted_restores: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    /// The part of `read_bytes` that was read before a question asked for it.
    pub read_ahead_bytes: u64,
    pub write_errors: u64,
    /// Slot files that could not be used.
    pub rejected_files: u64,
    /// Blocks and snapshots that could not be read back from disk.
    pub lost_blocks: u64,
    /// The longest time for which the writer or maintenance held locks of the engine.
    pub longest_lock_micros: u64,
    /// Jobs of the engine's writer and readers that panicked.
    pub tier_panics: u64,
    /// Tokens whose KV was given up unsaved.
    pub dropped_tokens: u64,
    /// Blocks whose words were read before a question asked for them, and while one waited.
    pub indexed: [u64; 2],
    /// Blocks that have got a vector.
    pub embedded: u64,
    /// Profiles whose answers use exact KV alone, because moved KV cost too much.
    pub profiles_fallen_back: u64,
    /// What was moved to the shared tier and from it, if there is one.
    pub shared: Option<SharedFigures>,
}

impl Metrics {
    /// Counts an answered request. `route`: the pattern, not the path.
    pub fn request(&self, route: &str, status: u16) {
        *self.requests.lock().entry((route.to_owned(), status)).or_default() += 1;
    }

    /// Counts a turn that has sampled its first token.
    pub fn started(&self, report: &TurnReport) {
        let tokens = report.tokens;
        add(&self.shared, tokens.shared);
        add(&self.memory, tokens.memory);
        add(&self.disk, tokens.disk);
        add(&self.away, tokens.away);
        add(&self.moved, tokens.moved);
        add(&self.repaired, tokens.repaired);
        add(&self.lossy, tokens.lossy);
        add(&self.computed, tokens.computed);
        self.ttft.observe(report.ttft_ms / 1000.0);
    }

    /// The prompts' tokens by where they came from.
    pub fn prompt_tokens(&self) -> TokenCounts {
        let read = |counter: &AtomicU64| usize::try_from(read(counter)).unwrap_or(usize::MAX);
        TokenCounts {
            shared: read(&self.shared),
            memory: read(&self.memory),
            disk: read(&self.disk),
            away: read(&self.away),
            moved: read(&self.moved),
            computed: read(&self.computed),
            repaired: read(&self.repaired),
            lossy: read(&self.lossy),
        }
    }

    pub fn generated_tokens(&self) -> u64 {
        read(&self.generated)
    }

    /// Counts a turn that computed tokens again.
    pub fn missed(&self, reason: Reason) {
        *self.misses.lock().entry(reason.as_str()).or_default() += 1;
    }

    /// Counts a block that left a live conversation's cells, or came back.
    pub fn moved(&self, moved: &Moved) {
        let counts = match moved.way {
            Way::Out => &self.moved_out,
            Way::Back(_) => &self.moved_back,
        };
        add(&counts.blocks, 1);
        add(&counts.tokens, moved.range.len());
    }

    /// Notes the cells of a conversation whose turn has ended.
    pub fn used_cells(&self, cells: CellCounts) {
        self.cells_peak.fetch_max(cells.peak as u64, Ordering::Relaxed);
    }

    pub fn generated(&self, tokens: usize, drafts: DraftCounts) {
        add(&self.generated, tokens);
        add(&self.drafted, drafts.drafted);
        add(&self.accepted, drafts.accepted);
        add(&self.model_drafted, drafts.model_drafted);
        add(&self.model_accepted, drafts.model_accepted);
        add(&self.mtp_drafted, drafts.mtp_drafted);
        add(&self.mtp_accepted, drafts.mtp_accepted);
    }

    /// Counts an answer of an engine at another address, once its text is on disk.
    pub fn forwarded(&self) {
        add(&self.forwarded, 1);
    }

    pub fn forwarded_answers(&self) -> u64 {
        read(&self.forwarded)
    }

    /// Counts the prompt tokens that a speculative prefill computed.
    pub fn speculated(&self, tokens: usize) {
        add(&self.speculated, tokens);
    }

    /// Counts the end of a speculative prefill.
    pub fn speculation(&self, outcome: SpeculationOutcome) {
        *self.speculations.lock().entry(outcome.as_str()).or_default() += 1;
    }

    /// Counts a PDF whose text a child process has extracted.
    pub fn extracted_pdf(&self) {
        add(&self.pdfs, 1);
    }
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use hob_runtime::turn::BackReason;

    use super::*;
    use crate::warm::warm_status::WarmStatus;

    fn report(tokens: TokenCounts) -> TurnReport {
        TurnReport { tokens, ttft_ms: 30.0, ..TurnReport::default() }
    }

    #[test]
    fn the_page_says_where_tokens_came_from_and_how_long_the_first_one_took() {
        let metrics = Metrics::default();
        metrics.request("/v1/models", 200);
        let tokens = TokenCounts {
            shared: 5,
            memory: 0,
            disk: 90,
            away: 7,
            moved: 40,
            computed: 5,
            repaired: 3,
            lossy: 60,
        };
        metrics.started(&report(tokens));
        metrics.moved(&Moved { at: 100, range: 0..64, way: Way::Out });
        metrics.moved(&Moved { at: 100, range: 0..64, way: Way::Back(BackReason::Words) });
        metrics.moved(&Moved { at: 100, range: 64..66, way: Way::Out });
        metrics.used_cells(CellCounts { budget: 400, peak: 380, resident: 9, no_eviction: None });
        metrics.used_cells(CellCounts { budget: 400, peak: 37, resident: 9, no_eviction: None });
        metrics.missed(Reason::Clock);
        let drafts = DraftCounts {
            drafted: 5,
            accepted: 4,
            model_drafted: 3,
            model_accepted: 2,
            mtp_drafted: 2,
            mtp_accepted: 1,
        };
        metrics.generated(7, drafts);
        let gauges = Gauges { queue: 2, rejected_files: 3, lost_blocks: 4, ..Gauges::default() };
        let page = metrics.render(gauges, &WarmStatus::default());
        for line in [
            "hob_requests_total{route=\"/v1/models\",status=\"200\"} 1",
            "hob_prompt_tokens_total{place=\"disk\"} 90",
            "hob_prompt_tokens_total{place=\"moved\"} 40",
            "hob_repaired_tokens_total 3",
            "hob_lossy_tokens_total 60",
            "hob_prompt_tokens_total{place=\"away\"} 7",
            "hob_blocks_moved_total{way=\"out\"} 2",
            "hob_tokens_moved_total{way=\"out\"} 66",
            "hob_tokens_moved_total{way=\"back\"} 64",
            "hob_conversation_cells_peak 380",
            "hob_generated_tokens_total 7",
            "hob_drafted_tokens_total 5",
            "hob_accepted_tokens_total 4",
            "hob_draft_model_drafted_tokens_total 3",
            "hob_draft_model_accepted_tokens_total 2",
            "hob_mtp_drafted_tokens_total 2",
            "hob_mtp_accepted_tokens_total 1",
            "hob_misses_total{reason=\"clock\"} 1",
            "hob_restore_full_prefill_total 0",
            "hob_ttft_seconds_bucket{le=\"0.025\"} 0",
            "hob_ttft_seconds_bucket{le=\"0.05\"} 1",
            "hob_ttft_seconds_sum 0.03",
            "hob_queue_length 2",
            "hob_rejected_files_total 3",
            "hob_lost_blocks_total 4",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }
}
