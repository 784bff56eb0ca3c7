//! An engine over a directory, the conversations that it serves, and random events.

mod checks;
mod disruptions;
mod turns;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hob_runtime::adapters::Adapters;
use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::{FakeModel, ViewLog};
use hob_runtime::{EngineOptions, Model, Turn, TurnError, TurnRequest};
use hob_slots::{Quota, Rules, Sweeper, Timestamp, Token};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::histories::directory;
use crate::histories::faulty::Faults;
use crate::histories::random::Random;
use crate::histories::recordable::Recordable;
use crate::histories::wrapped::Wrapped;
use crate::support::*;

/// Longer than any turn here, also on a busy machine.
const FOREVER: Duration = Duration::from_secs(120);

pub struct World {
    title: String,
    random: Random,
    model: Arc<dyn Model>,
    memory: MemoryKind,
    /// Answers are compared with those of the model alone.
    exact: bool,
    options: EngineOptions,
    /// What each token saw; empty where the model does not say.
    views: ViewLog,
    /// There is a disk.
    stores: bool,
    directory: TempDir,
    engine: Started,
    chats: Vec<Chat>,
    nameless: Nameless,
    running: Vec<Running>,
    /// The cells of all conversations fit together.
    roomy: bool,
    /// The model copies, so that guessed tokens are right for a while.
    copies: bool,
    /// The model fails at random.
    is_faulty: bool,
    /// Files were damaged: less may be found than was saved.
    harmed: bool,
    /// A conversation was forgotten; its files may still be there.
    leaving: bool,
    /// Files were copied while some were removed: a record may name a missing object.
    torn: bool,
    happened: Vec<String>,
}

struct Chat {
    name: String,
    /// Of most of its turns.
    adapters: Adapters,
    /// Cells that its answers may have.
    budget: Option<usize>,
    /// Its KV stays in memory.
    private: bool,
    /// Timelines of which blocks may have left, by the number of the turn, and the first tokens that saw all
    /// before them: a prompt that goes on with others is answered otherwise than alone.
    evicted: Vec<(usize, Vec<Token>, usize)>,
    timeline: Vec<Token>,
    prompt: Vec<Token>,
    /// The number of the newest turn.
    turns: usize,
    /// What each of its turns may have recorded, by its number less one.
    asked: Vec<Recordable>,
    /// The timeline that a follow-up reuses whole, once the turns have ended.
    kept: Option<Vec<Token>>,
    /// An earlier turn's timeline may begin with `kept` and go on. Once another branch follows, a
    /// memory with snapshots has only the longer one's furthest.
    is_covered: bool,
    /// Turns were cancelled after `kept`: the prompt of the shortest had so many tokens. Another
    /// answer may follow them in the record.
    cancelled_at: Option<usize>,
}

/// Conversations without names.
#[derive(Default)]
struct Nameless {
    /// Of their latest answer.
    timeline: Vec<Token>,
    /// As [`Chat::evicted`]: a prompt that begins with all of theirs may go on with them.
    evicted: Vec<(usize, Vec<Token>, usize)>,
    turns: usize,
}

struct Running {
    chat: Option<usize>,
    number: usize,
    request: TurnRequest,
    turn: Turn,
    /// Its conversation was forgotten, before or after the turn's end.
    forgotten: bool,
    /// What the chat had kept when the turn was submitted.
    kept_before: Option<Vec<Token>>,
}

impl World {
    pub fn new(memory: MemoryKind, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9) ^ memory as u64);
        let is_faulty = random.one_in(4);
        let pace = Duration::from_micros(*random.among(&[0, 0, 20, 200]));
        let copies = seed.is_multiple_of(2);
        let views = ViewLog::default();
        let fake = model_of(memory, copies).with_pace(pace).with_view_log(views.clone());
        let one_in = 60 + random.below(60) as u64;
        let fake: Arc<dyn Model> = Arc::new(fake);
        let model: Arc<dyn Model> = if is_faulty {
            Arc::new(Wrapped { model: fake, contexts: Faults::one_in(one_in) })
        } else {
            fake
        };
        let mut world = Self::with(model, seed, random, is_faulty, true);
        (world.copies, world.views) = (copies, views);
        world
    }

    /// On a model whose answers depend on the micro-batches.
    #[cfg(feature = "llama")]
    pub fn on(model: &Arc<dyn Model>, seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(0x9e37_79b9));
        Self::with(model.clone(), seed, random, false, false)
    }

    fn with(
        model: Arc<dyn Model>,
        seed: u64,
        mut random: Random,
        is_faulty: bool,
        exact: bool,
    ) -> Self {
        let memory = model.facts().memory;
        let roomy = random.one_in(3);
        let evicts = memory.is_plain() && !random.one_in(3);
        let stores = !random.one_in(8);
        // Blocks that stay, the last ones and a micro-batch must fit.
        let fewest = if evicts { 200 } else { 130 };
        let options = EngineOptions {
            away: evicts.then(Default::default),
            context_tokens: if roomy { 1_100 } else { fewest + random.below(250) },
            slots: 1 + random.below(3),
            micro_batch: *random.among(&[4, 16, 64, 256]),
            // Every file is old enough to be swept.
            clock: Arc::new(|| Timestamp::from(SystemTime::now() + Duration::from_secs(3600))),
            memory_budget_bytes: *random.among(&[0, 3_000, 20_000, 1 << 30]),
            draft_model: match random.below(3) {
                which if which > 0 && exact && memory.can_drop_newest() => {
                    Some(draft_model(&model, which == 1))
                }
                _ => None, // A fake drafts for fakes alone, and for no running state.
            },
            delivery_patience: if seed.is_multiple_of(2) { Duration::ZERO } else { FOREVER },
            ..options()
        };
        let title =
            format!("{memory}, seed {seed}, {}", if is_faulty { "faulty" } else { "sound" });
        let directory = empty_directory();
        let engine = engine(&model, stores.then(|| directory.path()), options.clone());
        let mut chats: Vec<Chat> =
            (0..1 + random.below(5)).map(|number| Chat::new(number, exact)).collect();
        for chat in &mut chats {
            chat.budget = (evicts && random.one_in(2)).then(|| 220 + random.below(300));
            chat.private = random.one_in(6);
        }
        let happened = vec![format!(
            "{} cells, {} slots, micro-batches of {}, {} bytes in memory, draft model: {}, evicts: {evicts}, \
             stores: {stores}, budgets: {:?}, private: {:?}",
            options.context_tokens,
            options.slots,
            options.micro_batch,
            options.memory_budget_bytes,
            options.draft_model.is_some(),
            chats.iter().map(|chat| chat.budget).collect::<Vec<_>>(),
            chats.iter().map(|chat| chat.private).collect::<Vec<_>>(),
        )];
        let running = Vec::new();
        Self {
            title,
            random,
            model,
            memory,
            exact,
            options,
            views: ViewLog::default(),
            stores,
            directory,
            engine,
            chats,
            nameless: Nameless::default(),
            running,
            roomy,
            copies: false,
            is_faulty,
            harmed: false,
            leaving: false,
            torn: false,
            happened,
        }
    }

    /// One random event.
    pub fn step(&mut self) {
        match self.random.below(47) {
            0..16 => self.submit(),
            16..24 => self.finish_one(),
            24..28 => self.cancel(),
            28..31 => self.park(),
            31 => self.forget(),
            32..34 => std::thread::sleep(Duration::from_millis(self.random.below(8) as u64)),
            34..36 => self.calm(),
            36 => self.restart(),
            37 => self.crash(),
            38 => self.harm(),
            40..43 => self.speculate(),
            43..45 => self.prewarm(),
            45 => {
                let unloaded = self.patiently(self.engine.unload());
                self.note(format!("unload: {unloaded}"));
            }
            _ if !self.stores => {}
            _ => {
                self.note("sweep".to_owned());
                // The default quota is 0 where little of the disk is free.
                let rules = Rules { quota: Quota::Bytes(1 << 30), ..Rules::default() };
                let sweeper = Arc::new(Mutex::new(Sweeper::new(rules)));
                let later = Timestamp::from(SystemTime::now() + Duration::from_secs(3_600));
                let swept = block_on(self.engine.sweep(sweeper, later.into()));
                let swept = swept.expect("the engine runs");
                assert!(swept.errors.is_empty(), "{:?}", swept.errors);
                self.leaving = true;
            }
        }
    }

    /// Waits until the engine is idle; checks for leaks and for missing objects.
    pub fn end(&mut self) {
        self.calm();
        let whole = vec![Token(65); self.options.context_tokens];
        let request = TurnRequest { conversation: None, ..request("nobody", &whole, 1) };
        self.note(format!("fill the context with {} tokens", whole.len()));
        self.submit_as(None, request);
        self.finish(0);
        self.engine.shutdown();
        if !self.stores {
            return;
        }
        if !self.harmed && !self.torn {
            directory::check(self.directory.path(), &*self.model);
        }
        self.check_views();
    }

    fn finish_one(&mut self) {
        if !self.running.is_empty() {
            let index = self.random.below(self.running.len());
            self.finish(index);
        }
    }

    fn check_views(&self) {
        if self.exact && self.memory.is_plain() && self.stores {
            directory::check_views(self.directory.path(), &self.views);
        }
    }

    /// Whether blocks leave the cells of a conversation that outgrows them.
    fn evicts(&self) -> bool {
        self.options.away.is_some() && self.memory.is_plain()
    }

    /// Tokens that a prompt of the chat has at most.
    fn longest_prompt(&self, chat: usize) -> usize {
        let cells = self.options.context_tokens;
        match self.chats[chat].budget {
            Some(budget) if self.evicts() => 3 * budget.min(cells),
            _ if self.roomy => 250,
            _ if self.evicts() => 3 * cells,
            _ => cells,
        }
    }

    fn note(&mut self, what: String) {
        self.happened.push(what);
    }

    fn patiently<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime without I/O").block_on(async {
            let Ok(value) = tokio::time::timeout(FOREVER, future).await else {
                let status = tokio::time::timeout(FOREVER, self.engine.status()).await;
                panic!("a turn waits forever: {status:?}");
            };
            value
        })
    }
}

/// The model that a world's answers are compared with.
fn model_of(memory: MemoryKind, copies: bool) -> FakeModel {
    let model = FakeModel::new().with_memory(memory);
    if copies { model.with_copies() } else { model }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}:\n  {}", self.title, self.happened.join("\n  "));
        }
    }
}

impl Chat {
    /// `adapts`: the model takes adapters without files.
    fn new(number: usize, adapts: bool) -> Self {
        let contents = [None, Some(1), None, Some(2)];
        let content = contents[number % contents.len()].filter(|_| adapts);
        let adapters = Adapters::new(content.map(|it| adapter(it, 1.0)).into_iter().collect());
        let adapters = adapters.expect("one adapter is a set");
        let name = format!("chat {number}");
        let (timeline, prompt) = (Vec::new(), Vec::new());
        let (asked, kept, cancelled_at) = Default::default();
        let (turns, is_covered) = (0, false);
        let (budget, private, evicted) = (None, false, Vec::new());
        Self {
            name,
            adapters,
            budget,
            private,
            evicted,
            timeline,
            prompt,
            turns,
            asked,
            kept,
            is_covered,
            cancelled_at,
        }
    }
}

async fn finish_async(turn: &mut Turn) -> Result<Answer, TurnError> {
    let mut events = Vec::new();
    while let Some(event) = turn.next().await {
        events.push(event);
    }
    answer(events)
}
