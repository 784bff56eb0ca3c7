//! What a request stream asks of a cache: sizes, reuse by reason, and the gaps between uses.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use crate::workload::Arrival;

/// A request stream in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub setup: String,
    pub requests: usize,
    pub sessions: usize,
    /// Requests of a session: median, 95th percentile.
    pub turns: [u64; 2],
    /// Tokens of a prompt: median, 95th percentile.
    pub prompt_tokens: [u64; 2],
    /// Requested blocks.
    pub blocks: u64,
    /// Percentage of requested blocks that the same session had used before.
    pub multi_turn_percent: f64,
    /// Percentage of requested blocks that only another session had used before.
    pub cross_session_percent: f64,
    /// Seconds between two uses of a block: 50th, 90th and 99th percentile.
    pub gap_secs: [u64; 3],
}

/// Why a cache could have had a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The same session used it last.
    MultiTurn,
    /// Another session used it last.
    CrossSession,
}

/// The last use of each block.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    last: HashMap<u64, (u64, u64)>,
}

impl Uses {
    /// Why each block of `arrival` was there before, and for how many milliseconds it was unused;
    /// `None` from the first new block on.
    pub fn look<'a>(
        &'a self,
        arrival: &'a Arrival,
    ) -> impl Iterator<Item = Option<(Reuse, u64)>> + 'a {
        let mut is_new = false;
        arrival.blocks.iter().map(move |block| {
            let found = self.last.get(block).filter(|_| !is_new);
            is_new |= found.is_none();
            let (session, at) = *found?;
            let same = session == arrival.run.conversation;
            let reuse = if same { Reuse::MultiTurn } else { Reuse::CrossSession };
            Some((reuse, arrival.at.0.saturating_sub(at)))
        })
    }

    pub fn add(&mut self, arrival: &Arrival) {
        let (session, at) = (arrival.run.conversation, arrival.at.0);
        self.last.extend(arrival.blocks.iter().map(|&block| (block, (session, at))));
    }
}

impl Summary {
    pub fn of(setup: String, arrivals: &[Arrival]) -> Self {
        let mut uses = Uses::default();
        let (mut multi_turn, mut cross_session, mut gaps) = (0_u64, 0_u64, Vec::new());
        let mut turns: HashMap<u64, u64> = HashMap::new();
        for arrival in arrivals {
            for (reuse, gap_millis) in uses.look(arrival).flatten() {
                match reuse {
                    Reuse::MultiTurn => multi_turn += 1,
                    Reuse::CrossSession => cross_session += 1,
                }
                gaps.push(gap_millis / 1_000);
            }
            uses.add(arrival);
            *turns.entry(arrival.run.conversation).or_default() += 1;
        }
        let blocks: u64 = arrivals.iter().map(|arrival| arrival.blocks.len() as u64).sum();
        let percent = |count: u64| 100.0 * count as f64 / blocks.max(1) as f64;
        let sessions: BTreeSet<u64> = turns.keys().copied().collect();
        let mut turns: Vec<u64> = turns.into_values().collect();
        let mut tokens: Vec<u64> = arrivals.iter().map(|arrival| arrival.tokens).collect();
        Self {
            setup,
            requests: arrivals.len(),
            sessions: sessions.len(),
            turns: [0.5, 0.95].map(|share| percentile(&mut turns, share)),
            prompt_tokens: [0.5, 0.95].map(|share| percentile(&mut tokens, share)),
            blocks,
            multi_turn_percent: percent(multi_turn),
            cross_session_percent: percent(cross_session),
            gap_secs: [0.5, 0.9, 0.99].map(|share| percentile(&mut gaps, share)),
        }
    }
}

fn percentile(values: &mut [u64], share: f64) -> u64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share) as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use hob_slots::Timestamp;
    use hob_slots::evict::Run;

    use super::*;

    fn arrival(secs: u64, conversation: u64, blocks: &[u64]) -> Arrival {
        let run = Run { conversation, ..Run::default() };
        let tokens = blocks.len() as u64 * 512;
        Arrival { at: Timestamp(secs * 1_000), run, blocks: blocks.to_vec(), tokens }
    }

    #[test]
    fn reuse_is_counted_by_the_session_that_used_a_block_last() {
        let asked = [
            arrival(0, 1, &[1, 2]),
            arrival(10, 2, &[1, 3]),
            arrival(40, 1, &[1, 2, 4]),
            // What follows a new block is new too.
            arrival(50, 3, &[9, 2]),
        ];
        let found = Summary::of("test".to_owned(), &asked);
        assert_eq!((found.requests, found.sessions, found.blocks), (4, 3, 9));
        assert_eq!(found.multi_turn_percent, 100.0 / 9.0);
        assert_eq!(found.cross_session_percent, 200.0 / 9.0);
        assert_eq!((found.gap_secs, found.turns), ([30, 30, 30], [1, 1]));
    }
}
