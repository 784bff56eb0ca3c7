//! What moved between this daemon and the shared tier, and what its KV was worth.

use super::page::Page;
use crate::shared::SharedFigures;

pub(super) fn render(page: &mut Page, figures: &SharedFigures) {
    let help = "Conversations of other daemons, by what became of their KV: fetched; computed, which is \
                quicker; missed, so computed.";
    let counts =
        [("fetched", figures.fetched), ("computed", figures.declined), ("missed", figures.missed)];
    page.counters("hob_shared_kv_total", help, "result", counts);
    for (name, help, count) in [
        ("hob_shared_published_total", "Times a conversation was written.", figures.published),
        ("hob_shared_texts_total", "Texts taken over from other daemons.", figures.texts),
        ("hob_shared_written_bytes_total", "Bytes written.", figures.written_bytes),
        ("hob_shared_read_bytes_total", "Bytes read.", figures.read_bytes),
        ("hob_shared_failures_total", "Operations that failed.", figures.failures),
    ] {
        page.counter(name, help, count);
    }
    let help = "The measured speed of reading; 0 before the first measurement.";
    page.gauge("hob_shared_bytes_per_second", help, figures.bytes_per_second);
    let help = "The measured time of one look.";
    page.gauge("hob_shared_round_trip_microseconds", help, figures.round_trip_micros);
}
