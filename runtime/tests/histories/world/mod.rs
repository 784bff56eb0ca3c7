//! An engine over a directory, the conversations that it serves, and random events.

mod checks;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hob_runtime::backend::MemoryKind;
use hob_runtime::backend::fake::FakeModel;
use hob_runtime::sample::Sampling;
use hob_runtime::{Engine, EngineOptions, Model, Purpose, Turn, TurnError, TurnRequest};
use hob_slots::{ConversationId, Rules, Sweeper, Timestamp, Token};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::directory;
use crate::random::Random;
use crate::support::*;
use crate::trouble::Troubled;

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
    directory: TempDir,
    engine: Engine,
    chats: Vec<Chat>,
    running: Vec<Running>,
    /// The cells of all conversations fit together.
    roomy: bool,
    /// The model fails at random.
    troubled: bool,
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
    timeline: Vec<Token>,
    prompt: Vec<Token>,
    /// The number of the newest turn.
    turns: usize,
    /// The timeline that a follow-up reuses whole, once the turns have ended.
    kept: Option<Vec<Token>>,
    /// Turns were cancelled after `kept`: the prompt of the shortest had so many tokens. Another
    /// answer may follow them in the record.
    cancelled_at: Option<usize>,
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
        let troubled = random.one_in(4);
        let pace = Duration::from_micros(*random.among(&[0, 0, 20, 200]));
        let fake = FakeModel::new().with_memory(memory).with_pace(pace);
        let trouble = 60 + random.below(60) as u64;
        let model: Arc<dyn Model> =
            if troubled { Arc::new(Troubled::new(fake, trouble)) } else { Arc::new(fake) };
        Self::with(model, seed, random, troubled, true)
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
        troubled: bool,
        exact: bool,
    ) -> Self {
        let memory = model.facts().memory;
        let roomy = random.one_in(3);
        let options = EngineOptions {
            context_tokens: if roomy { 1_100 } else { 130 + random.below(250) },
            slots: 1 + random.below(3),
            micro_batch: *random.among(&[4, 16, 64, 256]),
            // Every file is old enough to be swept.
            clock: Arc::new(|| Timestamp::from(SystemTime::now() + Duration::from_secs(3600))),
            memory_budget_bytes: *random.among(&[0, 3_000, 20_000, 1 << 30]),
            ..options()
        };
        let title =
            format!("{memory}, seed {seed}, {}", if troubled { "troubled" } else { "sound" });
        let directory = tempfile::tempdir().unwrap();
        let engine = engine(&model, Some(directory.path()), options.clone());
        let chats = (0..1 + random.below(5)).map(Chat::new).collect();
        let happened = vec![format!(
            "{} cells, {} slots, micro-batches of {}, {} bytes in memory",
            options.context_tokens, options.slots, options.micro_batch, options.memory_budget_bytes,
        )];
        let running = Vec::new();
        Self {
            title,
            random,
            model,
            memory,
            exact,
            options,
            directory,
            engine,
            chats,
            running,
            roomy,
            troubled,
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
            _ => {
                self.note("sweep".to_owned());
                let sweeper = Arc::new(Mutex::new(Sweeper::new(Rules::default())));
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
        if !self.harmed && !self.torn {
            directory::check(self.directory.path(), &*self.model);
        }
    }

    fn submit(&mut self) {
        if self.running.len() >= 8 {
            return self.finish_one();
        }
        let chat = self.random.below(self.chats.len());
        let mut prompt = self.prompt_for(chat);
        let most = if self.roomy { 250 } else { self.options.context_tokens };
        if prompt.len() > most {
            self.chats[chat].timeline.clear();
            let text = user(&"once again ".repeat(1 + self.random.below(6)));
            prompt = tokens(&self.model, &text);
        }
        let owner = (!self.random.one_in(6)).then_some(chat);
        let name = &self.chats[chat].name;
        let request = TurnRequest {
            conversation: owner.map(|_| crate::support::name(name)),
            sampling: self.sampling(),
            stop: if self.random.one_in(5) { vec!["e".to_owned()] } else { Vec::new() },
            ignore_eog: self.random.one_in(4),
            cold: self.random.one_in(8),
            ..request("any", &prompt, *self.random.among(&[0, 1, 5, 20, 20, 20, 50]))
        };
        self.submit_as(owner, request);
    }

    fn prompt_for(&mut self, chat: usize) -> Vec<Token> {
        let words = "some words and more ".repeat(1 + self.random.below(4));
        let text = format!("{} {words}", self.random.below(3));
        let (timeline, last) = (&self.chats[chat].timeline, &self.chats[chat].prompt);
        match self.random.below(16) {
            0 => vec![Token(66)],
            1 if !timeline.is_empty() => timeline.clone(),
            2 | 3 if !last.is_empty() => last.clone(),
            4 | 5 if !timeline.is_empty() => {
                let cut = self.random.below(timeline.len());
                then(&self.model, &timeline[..cut], &text)
            }
            6 => {
                let other = self.random.below(self.chats.len());
                then(&self.model, &self.chats[other].timeline, &text)
            }
            7 => tokens(&self.model, &user(&text)),
            8 if !timeline.is_empty() => [timeline, &[Token(67)][..]].concat(),
            _ if timeline.is_empty() => {
                let system = "<|im_start|>system\nYou are careful.<|im_end|>\n";
                tokens(&self.model, &format!("{system}{}", user(&text)))
            }
            _ => then(&self.model, timeline, &text),
        }
    }

    fn sampling(&mut self) -> Sampling {
        let seed = Some(self.random.next());
        match self.random.below(4) {
            0 => Sampling { seed, ..Sampling::default() },
            1 => Sampling {
                seed,
                repeat_penalty: 1.3,
                frequency_penalty: 0.5,
                ..Sampling::default()
            },
            _ => Sampling::greedy(),
        }
    }

    fn submit_as(&mut self, chat: Option<usize>, request: TurnRequest) {
        let mut kept_before = None;
        let number = chat.map_or(0, |chat| {
            let chat = &mut self.chats[chat];
            chat.prompt = request.prompt.clone();
            kept_before = chat.kept.take();
            chat.turns += 1;
            chat.turns
        });
        let (prompt, most) = (request.prompt.len(), request.max_tokens);
        let how = if request.cold { "cold " } else { "" };
        self.note(format!("chat {chat:?} {how}turn {number}: {prompt} tokens, {most} at most"));
        let turn = self.engine.submit(request.clone()).expect("a valid turn");
        let forgotten = false;
        self.running.push(Running { chat, number, request, turn, forgotten, kept_before });
    }

    /// Prefills a prompt that the chat may go on with. Nothing of it is recorded.
    fn speculate(&mut self) {
        let chat = self.random.below(self.chats.len());
        let mut prompt = self.prompt_for(chat);
        let most = if self.roomy { 250 } else { self.options.context_tokens };
        prompt.truncate(most);
        self.submit_background(name(&self.chats[chat].name), prompt, Purpose::Speculate);
    }

    /// Warms one of two prefixes, of 39 or 49 tokens.
    fn prewarm(&mut self) {
        let number = self.random.below(2);
        let text = format!("<|im_start|>system\nYou are careful{}", ", very".repeat(number));
        let prompt = tokens(&self.model, &format!("{text}.<|im_end|>\n"));
        let purpose = *self.random.among(&[Purpose::Prewarm, Purpose::KeepAlive]);
        self.submit_background(name(&format!("prefix {number}")), prompt, purpose);
    }

    fn submit_background(
        &mut self,
        conversation: ConversationId,
        prompt: Vec<Token>,
        purpose: Purpose,
    ) {
        if self.running.len() >= 8 {
            return self.finish_one();
        }
        self.note(format!("{purpose:?} for {conversation}: {} tokens", prompt.len()));
        let request = TurnRequest::prefill(conversation, prompt, purpose);
        let turn = self.engine.submit(request.clone()).expect("a valid turn");
        let (chat, number, forgotten, kept_before) = (None, 0, false, None);
        self.running.push(Running { chat, number, request, turn, forgotten, kept_before });
    }

    /// A turn ended before its answer was complete: the record still covers what it did, unless
    /// the turn took another branch.
    fn interrupted(&mut self, turn: Running) {
        let Running { chat: Some(chat), number, request, forgotten, kept_before, .. } = turn else {
            return;
        };
        let chat = &mut self.chats[chat];
        let Some(kept) = kept_before else { return };
        let branches = !request.prompt.starts_with(&kept) && !kept.starts_with(&request.prompt);
        // A memory with snapshots holds those of the last two turns.
        let leaves = !self.memory.is_plain() && chat.cancelled_at.is_some();
        let sound = !forgotten && !self.harmed && !self.troubled;
        if chat.turns == number && sound && !branches && !leaves {
            let at = request.prompt.len();
            chat.cancelled_at = Some(chat.cancelled_at.map_or(at, |before| before.min(at)));
            chat.kept = Some(kept);
        }
    }

    fn finish_one(&mut self) {
        if !self.running.is_empty() {
            let index = self.random.below(self.running.len());
            self.finish(index);
        }
    }

    fn cancel(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let index = self.random.below(self.running.len());
        let mut running = self.running.remove(index);
        let Running { chat, number, .. } = running;
        let events = *self.random.among(&[0, 0, 1, 3]);
        self.note(format!("cancel chat {chat:?} turn {number} after {events} events"));
        for _ in 0..events {
            self.patiently(running.turn.next());
        }
        self.interrupted(running);
    }

    fn park(&mut self) {
        let name = self.random.among(&self.chats).name.clone();
        self.note(format!("park {name}"));
        self.patiently(self.engine.park(crate::support::name(&name)));
    }

    fn forget(&mut self) {
        let chat = self.random.below(self.chats.len());
        self.chats[chat].kept = None;
        let running = self.running.iter_mut().filter(|running| running.chat == Some(chat));
        running.for_each(|running| running.forgotten = true);
        let name = self.chats[chat].name.clone();
        self.note(format!("forget {name}"));
        self.leaving = true;
        self.patiently(self.engine.forget(crate::support::name(&name))).unwrap();
    }

    /// Shuts the engine down and opens another one over the directory.
    fn restart(&mut self) {
        self.note("restart".to_owned());
        self.engine.shutdown();
        for mut running in std::mem::take(&mut self.running) {
            let answer = self.patiently(finish_async(&mut running.turn));
            let Running { chat, request, .. } = &running;
            match answer {
                Ok(answer) => self.compare(request, &answer),
                Err(TurnError::Stopped) => self.interrupted(running),
                Err(TurnError::Forgotten) => {}
                Err(TurnError::Backend(_)) if self.troubled => {}
                Err(TurnError::Superseded | TurnError::NotResident)
                    if request.purpose.is_background() => {}
                Err(error) => panic!("chat {chat:?}: {error}"),
            }
        }
        self.open();
    }

    /// Drops the engine, and opens another one over a copy of the directory at that moment.
    fn crash(&mut self) {
        self.note("crash".to_owned());
        self.torn |= self.leaving;
        let copy = tempfile::tempdir().unwrap();
        let slot_files = || directory::contents(self.directory.path(), "bin");
        let mut before = slot_files();
        loop {
            // Slot files first: their objects were written before them.
            directory::copy_files(self.directory.path(), copy.path(), "bin");
            directory::copy_files(self.directory.path(), copy.path(), "kv");
            let now = slot_files();
            if now == before {
                break;
            }
            before = now; // Snapshots that the replaced ones name may be gone.
        }
        self.running.clear();
        self.engine.shutdown();
        self.directory = copy;
        self.chats.iter_mut().for_each(|chat| chat.kept = None);
        self.open();
    }

    fn open(&mut self) {
        self.leaving = false;
        // The engine before may have dropped them.
        self.model.load_weights(&mut |_| ControlFlow::Continue(())).expect("they load");
        self.engine = engine(&self.model, Some(self.directory.path()), self.options.clone());
    }

    /// Damages, truncates or removes a file.
    fn harm(&mut self) {
        let mut files = directory::files(self.directory.path());
        files.retain(|file| file.extension().is_some_and(|end| end == "kv" || end == "bin"));
        if !self.random.one_in(2) || files.is_empty() {
            return;
        }
        files.sort();
        let file = self.random.among(&files).clone();
        self.note(format!("harm {}", file.display()));
        let Ok(mut bytes) = std::fs::read(&file) else { return };
        match self.random.below(3) {
            0 => std::fs::remove_file(&file).unwrap_or(()),
            1 => std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap_or(()),
            _ => {
                let at = self.random.below(bytes.len());
                bytes[at] ^= 0x40;
                std::fs::write(&file, bytes).unwrap_or(());
            }
        }
        self.harmed = true;
        self.chats.iter_mut().for_each(|chat| chat.kept = None);
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

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}:\n  {}", self.title, self.happened.join("\n  "));
        }
    }
}

impl Chat {
    fn new(number: usize) -> Self {
        let name = format!("chat {number}");
        let (timeline, prompt) = (Vec::new(), Vec::new());
        Self { name, timeline, prompt, turns: 0, kept: None, cancelled_at: None }
    }
}

async fn finish_async(turn: &mut Turn) -> Result<Answer, TurnError> {
    let mut events = Vec::new();
    while let Some(event) = turn.next().await {
        events.push(event);
    }
    answer(events)
}
