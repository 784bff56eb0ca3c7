//! Request streams made from traces.

use std::collections::{BTreeMap, HashMap, HashSet};

use hob_slots::Timestamp;
use hob_slots::evict::{AnswerEnd, BlockMeta, Run};

use crate::random::Random;
use crate::trace::Request;

/// A longer pause of a session counts as one hour, so no client pauses while the others replay many sessions.
pub const MAX_PAUSE_SECS: u64 = 3_600;

/// The window of nearly all recorded sessions. Sessions with a larger one are left out.
pub const MAX_PROMPT_TOKENS: u64 = 200_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    pub at: Timestamp,
    pub run: Run,
    /// A block's name covers all blocks before it too.
    pub blocks: Vec<u64>,
    pub tokens: u64,
}

impl Arrival {
    /// Each block as policies see it. A block is one unit of the budget.
    pub fn uses(&self) -> impl Iterator<Item = (u64, BlockMeta<u64>)> + '_ {
        let parents = [None].into_iter().chain(self.blocks.iter().copied().map(Some));
        self.blocks
            .iter()
            .zip(parents)
            .map(|(&id, parent)| (id, BlockMeta { run: self.run, ..BlockMeta::new(parent, 1) }))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// Concurrent sessions.
    pub count: usize,
    /// Tokens of the cold prompt with each request; 0 for none.
    pub cold_tokens: u64,
    /// Total requests of sessions.
    pub requests: usize,
    /// The longest pause of a session.
    pub max_pause_secs: u64,
    /// Sessions with a longer prompt are left out.
    pub max_prompt_tokens: u64,
}

/// Each client replays sessions one after the other, in an order that the seed gives.
pub fn clients(sessions: &[Vec<Request>], clients: &Clients, seed: u64) -> Vec<Arrival> {
    let mut random = Random::new(seed);
    let mut order = SessionOrder::new(sessions, clients.max_prompt_tokens, &mut random);
    // By time of the next request, then by client.
    let mut waiting: BTreeMap<(u64, usize), SessionCursor> = BTreeMap::new();
    for client in 0..clients.count {
        waiting.insert((random.below(60_000) as u64, client), order.begin());
    }
    let mut arrivals = Vec::new();
    let mut cold_blocks = u64::MAX;
    for _ in 0..clients.requests {
        let ((at, client), mut cursor) = waiting.pop_first().expect("every client waits");
        let request = order.request(&cursor);
        arrivals.push(cursor.arrival(request, at));
        if clients.cold_tokens > 0 {
            arrivals.push(cold(at, clients.cold_tokens, &mut cold_blocks));
        }
        let pause = match order.advance(&mut cursor) {
            Some(next) => next.at_millis.saturating_sub(request.at_millis),
            None => request.answer_millis + 1_000,
        };
        waiting.insert((at + pause.min(clients.max_pause_secs * 1_000), client), cursor);
    }
    arrivals
}

/// The sessions in the order in which clients begin them, repeated.
#[derive(Clone, Debug)]
pub struct SessionOrder<'s> {
    sessions: &'s [Vec<Request>],
    order: Vec<usize>,
    begun: usize,
}

/// Where a client is in its session.
#[derive(Clone, Copy, Debug)]
pub struct SessionCursor {
    session: usize,
    number: u64,
    next: usize,
}

impl<'s> SessionOrder<'s> {
    /// Sessions without a longer prompt than `max_prompt_tokens`, shuffled.
    pub fn new(sessions: &'s [Vec<Request>], max_prompt_tokens: u64, random: &mut Random) -> Self {
        let fits = |session: &Vec<Request>| {
            session.iter().all(|request| request.input_tokens <= max_prompt_tokens)
        };
        let mut order: Vec<_> = (0..sessions.len()).filter(|&at| fits(&sessions[at])).collect();
        assert!(!order.is_empty(), "a trace has a session that fits");
        random.shuffle(&mut order);
        Self { sessions, order, begun: 0 }
    }

    pub fn begin(&mut self) -> SessionCursor {
        let session = self.order[self.begun % self.order.len()];
        self.begun += 1;
        SessionCursor { session, number: self.begun as u64, next: 0 }
    }

    /// The current request.
    pub fn request(&self, cursor: &SessionCursor) -> &'s Request {
        &self.sessions[cursor.session][cursor.next]
    }

    /// The next request of the session; `None` when the next session begins.
    pub fn advance(&mut self, cursor: &mut SessionCursor) -> Option<&'s Request> {
        cursor.next += 1;
        let next = self.sessions[cursor.session].get(cursor.next);
        if next.is_none() {
            *cursor = self.begin();
        }
        next
    }
}

impl SessionCursor {
    /// Unique for each replay of a session.
    pub fn conversation(&self) -> u64 {
        self.number
    }

    /// The request as it arrives.
    pub fn arrival(&self, request: &Request, at: u64) -> Arrival {
        let turn = self.next as u32 + 1;
        Arrival {
            at: Timestamp(at),
            run: run(self.number, turn, request.blocks.len(), request.ended),
            // A session replayed twice counts as two.
            blocks: request.blocks.iter().map(|block| (self.number << 44) ^ block).collect(),
            tokens: request.input_tokens,
        }
    }
}

fn cold(at: u64, tokens: u64, last: &mut u64) -> Arrival {
    let count = tokens / crate::BLOCK_TOKENS;
    *last -= count;
    Arrival {
        at: Timestamp(at),
        run: run(*last, 1, count as usize, AnswerEnd::Turn),
        blocks: (*last..*last + count).collect(),
        tokens,
    }
}

/// Only whole blocks count.
fn run(conversation: u64, turn: u32, blocks: usize, ended: AnswerEnd) -> Run {
    let tokens = (blocks as u64 * crate::BLOCK_TOKENS) as u32;
    Run { number: 0, conversation, turn, tokens, blocks: blocks as u32, ended }
}

/// Recorded arrivals. A session continues at the deepest block that it shares with an earlier
/// request, two blocks at least: all share the first.
pub fn arrivals(requests: &[Request]) -> Vec<Arrival> {
    let mut last: HashMap<u64, (u64, u32)> = HashMap::new();
    let mut begun = 0;
    let mut seen = HashSet::new();
    let mut result = Vec::with_capacity(requests.len());
    for request in requests {
        let shared = request.blocks.iter().take_while(|block| seen.contains(*block)).count();
        let before = (shared >= 2).then(|| last[&request.blocks[shared - 1]]);
        let (conversation, turn) = match before {
            Some((conversation, turn)) => (conversation, turn + 1),
            None => {
                begun += 1;
                (begun, 1)
            }
        };
        for &block in &request.blocks {
            seen.insert(block);
            last.insert(block, (conversation, turn));
        }
        result.push(Arrival {
            at: Timestamp(request.at_millis),
            run: run(conversation, turn, request.blocks.len(), request.ended),
            blocks: request.blocks.clone(),
            tokens: request.input_tokens,
        });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at_millis: u64, blocks: &[u64]) -> Request {
        Request {
            at_millis,
            think_millis: 0,
            answer_millis: 0,
            input_tokens: blocks.len() as u64 * 512,
            output_tokens: 0,
            blocks: blocks.to_vec(),
            ended: AnswerEnd::Unknown,
        }
    }

    #[test]
    fn a_request_continues_the_session_that_shares_more_than_the_first_block() {
        let asked = [
            request(0, &[0, 1, 2]),
            request(1, &[0, 5, 6]),
            request(2, &[0, 1, 2, 3]),
            request(3, &[0, 1, 9]),
        ];
        let runs: Vec<_> =
            arrivals(&asked).iter().map(|it| (it.run.conversation, it.run.turn)).collect();
        assert_eq!(runs, [(1, 1), (2, 1), (1, 2), (1, 3)]);
    }

    #[test]
    fn clients_replay_sessions_back_to_back_and_cold_prompts_never_repeat() {
        let sessions = vec![vec![request(0, &[1]), request(9_000_000, &[1, 2])]];
        let set = Clients {
            count: 2,
            cold_tokens: 1_024,
            requests: 6,
            max_pause_secs: 60,
            max_prompt_tokens: 2_000,
        };
        let replayed = clients(&sessions, &set, 7);
        assert_eq!(replayed.len(), 12);
        assert!(replayed.is_sorted_by_key(|arrival| arrival.at));
        let (cold, warm): (Vec<_>, Vec<_>) =
            replayed.iter().partition(|arrival| arrival.run.ended == AnswerEnd::Turn);
        let names: HashSet<_> = cold.iter().flat_map(|arrival| &arrival.blocks).collect();
        assert_eq!((cold.len(), names.len()), (6, 12));
        let turns: Vec<_> = warm.iter().map(|arrival| arrival.run.turn).collect();
        assert_eq!(turns.iter().filter(|turn| **turn == 1).count(), 4, "{turns:?}");
        assert_eq!(clients(&sessions, &set, 7), replayed);
    }
}
