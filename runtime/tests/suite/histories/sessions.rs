//! Random sessions of conversations with budgets of cells: one turn at a time is answered; between answers,
//! engines restart, conversations are parked, what may be said next is computed ahead, and turns are cancelled.

use std::sync::Arc;

use hob_runtime::{EngineOptions, Model, Purpose, Recovery, Turn, TurnEvent, TurnRequest};
use hob_slots::Token;

use crate::histories::random::Random;
use crate::histories::recordable::Recordable;
use crate::support::replay::Replay;
use crate::support::*;

/// Answers of one session.
pub const STEPS: usize = 12;

pub struct Session {
    pub disk: OnDisk,
    pub chats: Vec<Chat>,
    seed: u64,
    random: Random,
    model: Arc<dyn Model>,
    options: EngineOptions,
    /// Speculations, whose events this test does not read.
    ahead: Vec<Turn>,
    happened: Vec<String>,
}

pub struct Chat {
    pub name: String,
    budget: Option<usize>,
    timeline: Vec<Token>,
    /// The prompt of its last answer.
    answered: Option<Vec<Token>>,
    /// Computed ahead: what is said next, or not.
    typed: Option<Vec<Token>>,
    last: Option<Recordable>,
    /// What the conversation has computed may not be of its last answer, but of one of these: turns that
    /// were not seen to their end since, and those whose record covers the answer's.
    others: Vec<Recordable>,
    pub replay: Replay,
}

/// An answer that was seen to its end.
pub struct FinishedTurn {
    pub chat: usize,
    pub prompt: Vec<Token>,
    pub answer: Answer,
    /// The tokens before those that it computed may be those of several turns.
    pub is_unsure: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:\n  {}", self.seed, self.happened.join("\n  "));
        }
    }
}

impl Session {
    /// `unit`: the cells of the cache are a multiple of it.
    pub fn new(model: &Arc<dyn Model>, seed: u64, unit: usize) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9));
        let options = EngineOptions {
            context_tokens: (300 + random.below(300)).next_multiple_of(unit),
            micro_batch: *random.among(&[16, 64, 256]),
            memory_budget_bytes: *random.among(&[0, 20_000, 1 << 30]),
            recovery: match random.below(6) {
                0 => Recovery::Breadcrumb,
                1 => Recovery::Discard,
                _ => Recovery::Restore,
            },
            ..options()
        };
        let chat = |number: usize| Chat {
            name: format!("chat {number}"),
            budget: random.one_in(2).then(|| 240 + random.below(200)),
            timeline: Vec::new(),
            answered: None,
            typed: None,
            last: None,
            others: Vec::new(),
            replay: Replay::default(),
        };
        let chats = (0..2).map(chat).collect();
        let disk = OnDisk::with(model, options.clone());
        Self {
            disk,
            chats,
            seed,
            random,
            model: model.clone(),
            options,
            ahead: Vec::new(),
            happened: Vec::new(),
        }
    }

    /// Random events, and an answer.
    pub fn step(&mut self, step: usize) -> FinishedTurn {
        match self.random.below(12) {
            0 => {
                self.note("restart".to_owned());
                self.disk.restart_with(self.options.clone());
            }
            1 => {
                let name = name(&self.random.among(&self.chats).name);
                self.note(format!("park {name}"));
                block_on(self.disk.engine.park(name));
            }
            2 | 3 => self.speculate(step),
            4..7 => self.cancel(step),
            _ => {}
        }
        let chat = self.random.below(self.chats.len());
        let prompt = self.prompt(chat, &format!("{step}"));
        let request = self.request(chat, &prompt);
        self.note(format!("{step}: chat {chat}, {} tokens", prompt.len()));
        let answer = ask(&self.disk.engine, request);
        assert!(answer.cells.peak <= answer.cells.budget, "{:?}", answer.cells);
        let is_unsure = self.chats[chat].answered(&prompt, &answer.timeline);
        FinishedTurn { chat, prompt, answer, is_unsure }
    }

    fn note(&mut self, what: String) {
        self.happened.push(what);
    }

    fn request(&mut self, chat: usize, prompt: &[Token]) -> TurnRequest {
        let most = 1 + self.random.below(40);
        let Chat { name, budget, .. } = &self.chats[chat];
        TurnRequest { budget: *budget, ..endless(name, prompt, most) }
    }

    /// What the chat says next: behind all of it, or behind an earlier place, as an edit does; or what it said
    /// last once more, for another answer.
    fn prompt(&mut self, chat: usize, mark: &str) -> Vec<Token> {
        if let Some(typed) = self.chats[chat].typed.take()
            && self.random.one_in(2)
        {
            return typed;
        }
        let Chat { name, timeline, answered, .. } = &self.chats[chat];
        let random = &mut self.random;
        if let Some(answered) = answered
            && random.one_in(6)
        {
            return answered.clone();
        }
        let kept = if random.one_in(5) { random.below(timeline.len() + 1) } else { timeline.len() };
        let words = format!("{mark} of {} in {name} ", self.seed).repeat(1 + random.below(14));
        // No other branch or chat goes on alike: the replay would not know its cells.
        let text = tokens(&self.model, &format!("{mark}-{chat}{}", user(&words)));
        [&timeline[..kept], &text].concat()
    }

    /// Computes a beginning of what may be said next, seen to its end or not.
    fn speculate(&mut self, step: usize) {
        let at = self.random.below(self.chats.len());
        let prompt = self.prompt(at, &format!("typed {step}"));
        let typed = prompt[..1 + self.random.below(prompt.len())].to_vec();
        self.note(format!("typed ahead of chat {at}: {} of {} tokens", typed.len(), prompt.len()));
        let chat = &mut self.chats[at];
        let request = TurnRequest::prefill(name(&chat.name), typed.clone(), Purpose::Speculate);
        let request = TurnRequest { budget: chat.budget, ..request };
        chat.others.push(Recordable { timeline: typed, unseen: 0 });
        chat.typed = Some(prompt);
        let mut turn = self.disk.engine.submit(request).expect("a valid turn");
        match self.random.below(3) {
            0 => {} // Cancelled.
            1 => self.ahead.push(turn),
            // It has no room where nothing of it may be saved.
            _ => while turn.next_blocking().is_some() {},
        }
    }

    /// A turn ends at a random moment. Then the conversation goes on behind what was shown, or as if nothing
    /// had been asked.
    fn cancel(&mut self, step: usize) {
        let at = self.random.below(self.chats.len());
        let prompt = self.prompt(at, &format!("no {step}"));
        let request = self.request(at, &prompt);
        let most = prompt.len() + request.max_tokens;
        let mut turn = self.disk.engine.submit(request).expect("a valid turn");
        self.note(format!("cancelled in chat {at}: {} tokens", prompt.len()));
        let mut shown = prompt;
        for _ in 0..*self.random.among(&[0, 0, 1, 2, 5, 20]) {
            match turn.next_blocking() {
                Some(TurnEvent::Token { token, .. }) => shown.push(token),
                Some(TurnEvent::Failed(error)) => panic!("{error}"),
                Some(_) => {}
                None => break,
            }
        }
        drop(turn);
        let unseen = most - shown.len();
        self.chats[at].others.push(Recordable { timeline: shown.clone(), unseen });
        if self.random.one_in(2) {
            self.chats[at].timeline = shown;
        }
    }
}

impl Chat {
    /// Returns whether what the answer did not compute may be of several turns.
    fn answered(&mut self, prompt: &[Token], timeline: &[Token]) -> bool {
        let is_unsure = !self.others.is_empty();
        let last = Recordable { timeline: timeline.to_vec(), unseen: 0 };
        self.others.extend(self.last.replace(last));
        self.others.retain(|other| other.may_cover(timeline));
        self.timeline = timeline.to_vec();
        self.answered = Some(prompt.to_vec());
        is_unsure
    }
}
