//! What the eviction policy of memory decides, and what its guard compares.

use hob_slots::MemoryFigures;

use super::page::Page;

pub(super) fn render(page: &mut Page, figures: &MemoryFigures) {
    let MemoryFigures { evictions, evicted_bytes, declined, guard } = *figures;
    for (name, help, count) in [
        ("hob_memory_evictions_total", "Blocks that left memory for others.", evictions),
        ("hob_memory_evicted_bytes_total", "Bytes that left memory for others.", evicted_bytes),
        ("hob_memory_declined_total", "New blocks that the policy declined.", declined),
    ] {
        page.counter(name, help, count);
    }
    let Some(guard) = guard else { return };
    page.family("hob_memory_policy", "gauge", "1 for the policy that chooses now.");
    for (policy, is_live) in [("hit-density", guard.trusts_density), ("lru", !guard.trusts_density)]
    {
        page.line("hob_memory_policy", &format!("policy=\"{policy}\""), u64::from(is_live));
    }
    let name = "hob_memory_shadow_hit_bytes_total";
    let help = "Used KV that a memory under each policy alone would have had.";
    let counts = [("hit-density", guard.density_hit_bytes), ("lru", guard.lru_hit_bytes)];
    page.counters(name, help, "policy", counts);
    let used = ("hob_memory_used_bytes_total", "KV that answers used, in any tier.");
    let switches = ("hob_memory_policy_switches_total", "Changes of the policy that chooses.");
    for ((name, help), count) in [(used, guard.used_bytes), (switches, guard.switches)] {
        page.counter(name, help, count);
    }
}

#[cfg(test)]
mod tests {
    use hob_slots::evict::Guard;

    use super::*;

    #[test]
    fn both_policies_are_reported_with_what_each_would_have_had_and_which_one_chooses() {
        let guard = Guard {
            trusts_density: false,
            switches: 1,
            runs: 9,
            used_bytes: 100,
            density_hit_bytes: 60,
            lru_hit_bytes: 70,
        };
        let figures =
            MemoryFigures { evictions: 3, evicted_bytes: 30, declined: 2, guard: Some(guard) };
        let mut page = Page::default();
        render(&mut page, &figures);
        let page = page.into_text();
        for line in [
            "hob_memory_evictions_total 3",
            "hob_memory_evicted_bytes_total 30",
            "hob_memory_declined_total 2",
            "hob_memory_policy{policy=\"hit-density\"} 0",
            "hob_memory_policy{policy=\"lru\"} 1",
            "hob_memory_shadow_hit_bytes_total{policy=\"hit-density\"} 60",
            "hob_memory_shadow_hit_bytes_total{policy=\"lru\"} 70",
            "hob_memory_used_bytes_total 100",
            "hob_memory_policy_switches_total 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }
}
