//! A closed loop: each lane waits for its answer, thinks, and sends the next request.
//!
//! - One prefill server, first come, first served. Blocks in memory are free; blocks on disk are
//!   read while the request waits; the rest is computed.
//! - A run's KV is in its slot until the answer ends. Memory is the pool of the runtime, with the
//!   same code: the policy hears every use, and the pool is offered the blocks that were computed.
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
use crate::workload::{Arrival, MAX_PAUSE_SECS, MAX_PROMPT_TOKENS, Play, Playlist};

/// The simulated system.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Concurrent sessions.
    pub lanes: usize,
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
            lanes: 8,
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
    let mut world = World::new(sessions, setup, memory, disk, seed);
    while world.waits_millis.len() < setup.requests {
        let ((now, _), event) = world.events.pop_first().expect("a lane always goes on");
        match event {
            Event::Asks(lane) => world.ask(lane, now),
            Event::Fetched(lane) => world.stand_in_line(lane, now),
            Event::Computed(lane) => world.answer(lane, now),
            Event::Answered(lane) => world.keep_and_think(lane, now),
        }
    }
    world.waits()
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

struct World<'s> {
    setup: &'s Setup,
    playlist: Playlist<'s>,
    lanes: Vec<Lane>,
    memory: Memory,
    disk: Option<(Disk, Records)>,
    disk_free_at: u64,
    line: VecDeque<usize>,
    busy: bool,
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    waits_millis: Vec<u64>,
    tokens: u64,
    computed_tokens: u64,
}

struct Lane {
    play: Play,
    asked_at: u64,
    // Blocks that were read from disk, or are being read.
    fetched: usize,
}

impl<'s> World<'s> {
    fn new(
        sessions: &'s [Vec<Request>],
        setup: &'s Setup,
        memory: Memory,
        disk: Option<Disk>,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed);
        let mut playlist = Playlist::new(sessions, setup.max_prompt_tokens, &mut random);
        let lanes = (0..setup.lanes)
            .map(|_| Lane { play: playlist.begin(), asked_at: 0, fetched: 0 })
            .collect();
        let disk = disk.map(|disk| (disk, Records::new(disk.capacity_blocks)));
        let mut world = Self {
            setup,
            playlist,
            lanes,
            memory,
            disk,
            disk_free_at: 0,
            line: VecDeque::new(),
            busy: false,
            events: BTreeMap::new(),
            scheduled: 0,
            waits_millis: Vec::new(),
            tokens: 0,
            computed_tokens: 0,
        };
        for lane in 0..setup.lanes {
            world.schedule(random.below(60_000) as u64, Event::Asks(lane));
        }
        world
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    fn request(&self, lane: usize) -> &'s Request {
        self.playlist.request(&self.lanes[lane].play)
    }

    fn arrival(&self, lane: usize, now: u64) -> Arrival {
        self.lanes[lane].play.arrival(self.request(lane), now)
    }

    fn ask(&mut self, lane: usize, now: u64) {
        self.lanes[lane].asked_at = now;
        self.lanes[lane].fetched = 0;
        let blocks = self.arrival(lane, now).blocks;
        let Some((disk, on_disk)) = &self.disk else { return self.stand_in_line(lane, now) };
        let in_memory = blocks.iter().take_while(|id| self.memory.contains(id)).count();
        let rest = blocks[in_memory..].iter().take_while(|id| on_disk.contains(id)).count();
        let read_millis = (rest as f64 * disk.block_millis) as u64;
        self.lanes[lane].fetched = in_memory + rest;
        if rest == 0 {
            return self.stand_in_line(lane, now);
        }
        self.disk_free_at = self.disk_free_at.max(now) + read_millis;
        self.schedule(self.disk_free_at, Event::Fetched(lane));
    }

    fn stand_in_line(&mut self, lane: usize, now: u64) {
        self.line.push_back(lane);
        self.serve_next(now);
    }

    fn serve_next(&mut self, now: u64) {
        if self.busy {
            return;
        }
        let Some(lane) = self.line.pop_front() else { return };
        self.busy = true;
        let request = self.request(lane);
        let blocks = self.arrival(lane, now).blocks;
        let in_memory = blocks.iter().take_while(|id| self.memory.contains(id)).count();
        let here = in_memory.max(self.lanes[lane].fetched) as u64 * BLOCK_TOKENS;
        // The last token is always computed: it yields the first token of the answer.
        let missing = request.input_tokens.saturating_sub(here).max(1);
        self.tokens += request.input_tokens;
        self.computed_tokens += missing;
        let secs = missing as f64 / self.setup.prefill_tokens_per_sec;
        self.schedule(now + (secs * 1_000.0) as u64, Event::Computed(lane));
    }

    fn answer(&mut self, lane: usize, now: u64) {
        self.waits_millis.push(now - self.lanes[lane].asked_at);
        let tokens = self.request(lane).output_tokens as f64;
        let secs = tokens / self.setup.answer_tokens_per_sec;
        self.schedule(now + (secs * 1_000.0) as u64, Event::Answered(lane));
        self.busy = false;
        self.serve_next(now);
    }

    fn keep_and_think(&mut self, lane: usize, now: u64) {
        let arrival = self.arrival(lane, now);
        let used = Use { run: arrival.run, now: arrival.at };
        let fetched = self.lanes[lane].fetched;
        for (position, (id, meta)) in arrival.uses().enumerate() {
            if position < fetched || self.memory.contains(&id) {
                self.memory.used(id, meta.parent, 1, used);
            } else {
                self.offer(id, meta.parent, used);
            }
        }
        let open: Vec<u64> = self.lanes.iter().map(|lane| lane.play.conversation()).collect();
        if let Some((_, on_disk)) = &mut self.disk {
            on_disk.save(&arrival, &open);
        }
        let think = self
            .playlist
            .go_on(&mut self.lanes[lane].play)
            .map_or(1_000, |next| next.think_millis.min(self.setup.max_pause_secs * 1_000));
        self.schedule(now + think, Event::Asks(lane));
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
