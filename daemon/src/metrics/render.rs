//! The page of the metrics: each family with its name, its help and its figures.

use hob_prewarm::{PrefixName, PrefixState};

use super::page::Page;
use super::{Gauges, Metrics, memory, read, shared};
use crate::warm::warm_status::WarmStatus;

impl Metrics {
    pub fn render(&self, gauges: Gauges, warm_status: &WarmStatus) -> String {
        let mut page = Page::default();
        self.render_requests(&mut page);
        self.render_prompts(&mut page);
        self.render_moved(&mut page);
        self.render_answers(&mut page);
        self.render_speculations(&mut page);
        let help = "Turns that computed tokens again, by reason.";
        page.counters("hob_misses_total", help, "reason", self.misses.lock().iter());
        let help = "Restores that were followed by a full prefill: a bug in Hob.";
        page.counter("hob_restore_full_prefill_total", help, gauges.wasted_restores);
        let help = "PDFs whose text was extracted.";
        page.counter("hob_pdfs_extracted_total", help, read(&self.pdfs));
        self.ttft.render(&mut page, "hob_ttft_seconds", "Time to the first token.");
        page.gauge("hob_queue_length", "Waiting turns.", gauges.queue);
        page.gauge("hob_slots", "Slots.", gauges.slots);
        page.gauge("hob_slots_in_use", "Slots with a conversation.", gauges.slots_in_use);
        storage(&mut page, &gauges);
        recall(&mut page, &gauges);
        let help = "Profiles that have fallen back to exact KV, because moved KV changed answers too much.";
        page.gauge("hob_profiles_fallen_back", help, gauges.profiles_fallen_back);
        page.gauge("hob_warm_bytes", "Bytes of parked KV in memory.", gauges.warm_bytes);
        memory::render(&mut page, &gauges.memory);
        if let Some(figures) = &gauges.shared {
            shared::render(&mut page, figures);
        }
        prefixes(&mut page, warm_status);
        page.into_text()
    }

    fn render_requests(&self, page: &mut Page) {
        let name = "hob_requests_total";
        page.family(name, "counter", "Requests answered, by route and status.");
        for ((route, status), count) in self.requests.lock().iter() {
            page.line(name, &format!("route=\"{route}\",status=\"{status}\""), count);
        }
    }

    fn render_prompts(&self, page: &mut Page) {
        let places = [
            ("shared", &self.shared),
            ("memory", &self.memory),
            ("disk", &self.disk),
            ("away", &self.away),
            ("moved", &self.moved),
            ("computed", &self.computed),
        ];
        let help = "Prompt tokens, by where KV came from.";
        let counts = places.map(|(place, tokens)| (place, read(tokens)));
        page.counters("hob_prompt_tokens_total", help, "place", counts);
        for (name, help, tokens) in [
            (
                "hob_repaired_tokens_total",
                "Computed prompt tokens at the seams of moved text.",
                &self.repaired,
            ),
            (
                "hob_lossy_tokens_total",
                "Prompt tokens whose KV was rounded while it was saved.",
                &self.lossy,
            ),
        ] {
            page.counter(name, help, read(tokens));
        }
    }

    fn render_moved(&self, page: &mut Page) {
        let ways = [("out", &self.moved_out), ("back", &self.moved_back)];
        let help = "Blocks that left the cells of live conversations, or came back.";
        let blocks = ways.map(|(way, counts)| (way, read(&counts.blocks)));
        page.counters("hob_blocks_moved_total", help, "way", blocks);
        let help = "Tokens of blocks that left the cells of live conversations, or came back.";
        let tokens = ways.map(|(way, counts)| (way, read(&counts.tokens)));
        page.counters("hob_tokens_moved_total", help, "way", tokens);
        let help = "The most cells that one conversation has had since the start.";
        page.gauge("hob_conversation_cells_peak", help, read(&self.cells_peak));
    }

    fn render_answers(&self, page: &mut Page) {
        for (name, help, tokens) in [
            ("hob_generated_tokens_total", "Tokens generated.", &self.generated),
            (
                "hob_drafted_tokens_total",
                "Guessed tokens of answers that were computed ahead.",
                &self.drafted,
            ),
            (
                "hob_accepted_tokens_total",
                "Guessed tokens that were right, and so part of an answer.",
                &self.accepted,
            ),
            (
                "hob_draft_model_drafted_tokens_total",
                "Those of the guessed tokens that the draft model guessed.",
                &self.model_drafted,
            ),
            (
                "hob_draft_model_accepted_tokens_total",
                "Those of the draft model's that were right.",
                &self.model_accepted,
            ),
            (
                "hob_mtp_drafted_tokens_total",
                "Those of the guessed tokens that the model's MTP heads guessed.",
                &self.mtp_drafted,
            ),
            (
                "hob_mtp_accepted_tokens_total",
                "Those of the MTP heads' that were right.",
                &self.mtp_accepted,
            ),
        ] {
            page.counter(name, help, read(tokens));
        }
    }

    fn render_speculations(&self, page: &mut Page) {
        let help = "Speculative prefills, by outcome.";
        page.counters("hob_ahead_total", help, "outcome", self.speculations.lock().iter());
        let help = "Prompt tokens computed while the user spoke.";
        page.counter("hob_ahead_tokens_total", help, read(&self.speculated));
    }
}

fn storage(page: &mut Page, gauges: &Gauges) {
    for (name, help, count) in [
        ("hob_disk_written_bytes_total", "Bytes of KV written.", gauges.written_bytes),
        ("hob_disk_read_bytes_total", "Bytes of KV read and verified.", gauges.read_bytes),
        (
            "hob_disk_read_ahead_bytes_total",
            "Of these, KV that is away and was read before a question asked for it.",
            gauges.read_ahead_bytes,
        ),
        ("hob_disk_write_errors_total", "Writes of KV that failed.", gauges.write_errors),
        ("hob_rejected_files_total", "Slot files that could not be used.", gauges.rejected_files),
        (
            "hob_lost_blocks_total",
            "Saved blocks that could not be read back; their tokens are computed again.",
            gauges.lost_blocks,
        ),
        (
            "hob_tier_panics_total",
            "Jobs that write or read KV and panicked; their threads went on.",
            gauges.tier_panics,
        ),
        (
            "hob_dropped_tokens_total",
            "Tokens whose KV was given up unsaved: the disk was too slow.",
            gauges.dropped_tokens,
        ),
    ] {
        page.counter(name, help, count);
    }
    let help = "The longest time for which background work held locks of the engine.";
    page.gauge("hob_longest_lock_microseconds", help, gauges.longest_lock_micros);
}

fn recall(page: &mut Page, gauges: &Gauges) {
    let [ahead, late] = gauges.indexed;
    let help = "Blocks whose words were read before a question asked for them, or late.";
    let counts = [("ahead", ahead), ("late", late)];
    page.counters("hob_recall_blocks_indexed_total", help, "when", counts);
    let help = "Blocks that have got a vector of the recall model.";
    page.counter("hob_recall_blocks_embedded_total", help, gauges.embedded);
}

/// Profile names are label values: the user's own files define them.
fn prefixes(page: &mut Page, warm_status: &WarmStatus) {
    let mut learned = 0_u64;
    page.family("hob_prefix_tokens", "gauge", "Tokens of each profile's warm prefix.");
    for (name, prefix) in &warm_status.prefixes {
        let warm = prefix.warmed.filter(|_| prefix.state == PrefixState::Warm);
        let tokens = warm.map_or(0, |warmed| warmed.from.tokens());
        match name {
            PrefixName::Profile(profile) => {
                page.line("hob_prefix_tokens", &format!("profile=\"{profile}\""), tokens);
            }
            PrefixName::Learned(_) => learned += tokens as u64,
        }
    }
    page.gauge("hob_learned_prefix_tokens", "Tokens of warm learned prefixes.", learned);
    let outcomes = warm_status.outcomes.iter().map(|(outcome, count)| (outcome.as_str(), count));
    page.counters("hob_prewarms_total", "Prewarms and touches, by outcome.", "result", outcomes);
}
