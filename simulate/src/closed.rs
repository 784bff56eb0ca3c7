//! A closed loop: each client waits for its answer, thinks, and sends the next request.
//!
//! - One prefill server, first come, first served. Blocks in memory are free; blocks on disk are
//!   read while the request waits; the rest is computed.
//! - A run's KV is in its slot until the answer ends. Memory is the pool of the runtime, with the
//!   same code: the policy gets every use, and the pool gets the blocks that were computed.
//!   Blocks read from disk do not enter it.
//! - The disk holds conversations, as the runtime's records do: each the blocks of its last request.
//!   Beyond the quota the conversation with the least rebuild time per byte leaves, whole.
//! - Think times are the recorded ones. Decoding delays no other request.

use std::collections::{BTreeMap, VecDeque};

use hob_slots::Use;
use hob_slots::evict::Policy;
use hob_slots::warm::{Content, Pool};
use serde::Serialize;

use crate::BLOCK_TOKENS;
use crate::disk::Records;
use crate::random::Random;
use crate::trace::Request;
use crate::workload::{Arrival, MAX_PAUSE_SECS, MAX_PROMPT_TOKENS, SessionCursor, SessionOrder};

/// The simulated system.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Concurrent sessions.
    pub clients: usize,
    pub requests: usize,
    /// Speed of prefill.
    pub prefill_tokens_per_sec: f64,
    /// Speed of decoding.
    pub answer_tokens_per_sec: f64,
    /// The longest think time.
    pub max_pause_secs: u64,
    /// Sessions with a longer prompt are left out.
    pub max_prompt_tokens: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            clients: 8,
            requests: 4_000,
            prefill_tokens_per_sec: 1_000.0,
            answer_tokens_per_sec: 50.0,
            max_pause_secs: MAX_PAUSE_SECS,
            max_prompt_tokens: MAX_PROMPT_TOKENS,
        }
    }
}

/// A disk tier below memory.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    pub capacity_blocks: u64,
    /// Time to read and verify one block.
    pub block_millis: f64,
}

impl Default for Disk {
    /// Blocks of the 0.5B shape, 6 MiB each, at 0.9 GB/s; 32 GiB of them.
    fn default() -> Self {
        Self { capacity_blocks: 5_461, block_millis: 7.0 }
    }
}

/// Time to the first token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// The mean.
    pub mean_secs: f64,
    /// The median.
    pub p50_secs: f64,
    /// The 95th percentile.
    pub p95_secs: f64,
    /// Percentage of prompt tokens that were not computed.
    pub reused_percent: f64,
}

impl Waits {
    /// The mean of each figure over several runs.
    pub fn mean(runs: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        Self {
            mean_secs: mean(|waits| waits.mean_secs),
            p50_secs: mean(|waits| waits.p50_secs),
            p95_secs: mean(|waits| waits.p95_secs),
            reused_percent: mean(|waits| waits.reused_percent),
        }
    }
}

/// With a memory of `capacity` blocks.
pub fn run(
    sessions: &[Vec<Request>],
    setup: &Setup,
    policy: impl Policy<u64> + 'static,
    capacity: u64,
    disk: Option<Disk>,
    seed: u64,
) -> Waits {
    let memory = Pool::with_policy(capacity, Box::new(policy));
    let mut simulation = Simulation::new(sessions, setup, memory, disk, seed);
    while simulation.waits_millis.len() < setup.requests {
        let ((now, _), event) = simulation.events.pop_first().expect("a client always goes on");
        match event {
            Event::Asks(client) => simulation.ask(client, now),
            Event::Fetched(client) => simulation.enqueue(client, now),
            Event::Computed(client) => simulation.answer(client, now),
            Event::Answered(client) => simulation.keep_and_think(client, now),
        }
    }
    simulation.waits()
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Asks(usize),
    Fetched(usize),
    Computed(usize),
    Answered(usize),
}

/// A block in memory; its length is one.
#[derive(Clone, Copy, Debug)]
struct OneBlock;

impl Content for OneBlock {
    fn bytes(&self) -> u64 {
        1
    }
}

type Memory = Pool<u64, OneBlock>;

struct Simulation<'s> {
    setup: &'s Setup,
    order: SessionOrder<'s>,
    clients: Vec<Client>,
    memory: Memory,
    disk: Option<(Disk, Records)>,
    disk_free_at: u64,
    queue: VecDeque<usize>,
    busy: bool,
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    waits_millis: Vec<u64>,
    tokens: u64,
    computed_tokens: u64,
}

struct Client {
    cursor: SessionCursor,
    asked_at: u64,
    // Blocks that were read from disk, or are being read.
    fetched: usize,
}

impl<'s> Simulation<'s> {
    fn new(
        sessions: &'s [Vec<Request>],
        setup: &'s Setup,
        memory: Memory,
        disk: Option<Disk>,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed);
        let mut order = SessionOrder::new(sessions, setup.max_prompt_tokens, &mut random);
        let clients = (0..setup.clients)
            .map(|_| Client { cursor: order.begin(), asked_at: 0, fetched: 0 })
            .collect();
        let disk = disk.map(|disk| (disk, Records::new(disk.capacity_blocks)));
        let mut simulation = Self {
            setup,
            order,
            clients,
            memory,
            disk,
            disk_free_at: 0,
            queue: VecDeque::new(),
            busy: false,
            events: BTreeMap::new(),
            scheduled: 0,
            waits_millis: Vec::new(),
            tokens: 0,
            computed_tokens: 0,
        };
        for client in 0..setup.clients {
            simulation.schedule(random.below(60_000) as u64, Event::Asks(client));
        }
        simulation
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    fn request(&self, client: usize) -> &'s Request {
        self.order.request(&self.clients[client].cursor)
    }

    fn arrival(&self, client: usize, now: u64) -> Arrival {
        self.clients[client].cursor.arrival(self.request(client), now)
    }

    fn ask(&mut self, client: usize, now: u64) {
        self.clients[client].asked_at = now;
        self.clients[client].fetched = 0;
        let blocks = self.arrival(client, now).blocks;
        let Some((disk, on_disk)) = &self.disk else { return self.enqueue(client, now) };
        let in_memory = blocks.iter().take_while(|id| self.memory.contains(id)).count();
        let rest = blocks[in_memory..].iter().take_while(|id| on_disk.contains(id)).count();
        let read_millis = (rest as f64 * disk.block_millis) as u64;
        self.clients[client].fetched = in_memory + rest;
        if rest == 0 {
            return self.enqueue(client, now);
        }
        self.disk_free_at = self.disk_free_at.max(now) + read_millis;
        self.schedule(self.disk_free_at, Event::Fetched(client));
    }

    fn enqueue(&mut self, client: usize, now: u64) {
        self.queue.push_back(client);
        self.serve_next(now);
    }

    fn serve_next(&mut self, now: u64) {
        if self.busy {
            return;
        }
        let Some(client) = self.queue.pop_front() else { return };
        self.busy = true;
        let request = self.request(client);
        let blocks = self.arrival(client, now).blocks;
        let in_memory = blocks.iter().take_while(|id| self.memory.contains(id)).count();
        let here = in_memory.max(self.clients[client].fetched) as u64 * BLOCK_TOKENS;
        // The last token is always computed: it yields the first token of the answer.
        let missing = request.input_tokens.saturating_sub(here).max(1);
        self.tokens += request.input_tokens;
        self.computed_tokens += missing;
        let secs = missing as f64 / self.setup.prefill_tokens_per_sec;
        self.schedule(now + (secs * 1_000.0) as u64, Event::Computed(client));
    }

    fn answer(&mut self, client: usize, now: u64) {
        self.waits_millis.push(now - self.clients[client].asked_at);
        let tokens = self.request(client).output_tokens as f64;
        let secs = tokens / self.setup.answer_tokens_per_sec;
        self.schedule(now + (secs * 1_000.0) as u64, Event::Answered(client));
        self.busy = false;
        self.serve_next(now);
    }

    fn keep_and_think(&mut self, client: usize, now: u64) {
        let arrival = self.arrival(client, now);
        let used = Use { run: arrival.run, now: arrival.at };
        let fetched = self.clients[client].fetched;
        for (position, (id, meta)) in arrival.uses().enumerate() {
            if position < fetched || self.memory.contains(&id) {
                self.memory.used(id, meta.parent, 1, used);
            } else {
                self.offer(id, meta.parent, used);
            }
        }
        let open: Vec<u64> =
            self.clients.iter().map(|client| client.cursor.conversation()).collect();
        if let Some((_, on_disk)) = &mut self.disk {
            on_disk.save(&arrival, &open);
        }
        let think = self
            .order
            .advance(&mut self.clients[client].cursor)
            .map_or(1_000, |next| next.think_millis.min(self.setup.max_pause_secs * 1_000));
        self.schedule(now + think, Event::Asks(client));
    }

    /// Without a disk a block is worth nothing when those before it are not in memory.
    fn offer(&mut self, id: u64, parent: Option<u64>, used: Use) {
        if self.disk.is_none() {
            return self.memory.insert_saved(id, parent, OneBlock, used);
        }
        self.memory.insert(id, parent, OneBlock, used);
        self.memory.mark_saved(&id);
    }

    fn waits(mut self) -> Waits {
        self.waits_millis.sort_unstable();
        let waits = &self.waits_millis;
        let count = waits.len();
        let at = |share: f64| waits[((count - 1) as f64 * share) as usize] as f64 / 1_000.0;
        let reused = self.tokens - self.computed_tokens;
        Waits {
            mean_secs: waits.iter().sum::<u64>() as f64 / count as f64 / 1_000.0,
            p50_secs: at(0.5),
            p95_secs: at(0.95),
            reused_percent: 100.0 * reused as f64 / self.tokens as f64,
        }
    }
}
