//! Random turns: what is asked, and what a turn that did not end leaves.

use hob_runtime::adapters::Adapters;
use hob_runtime::sample::Sampling;
use hob_runtime::{Purpose, Retention, TurnRequest};
use hob_slots::Token;

use super::{Chat, Running, World};

use crate::histories::recordable::Recordable;
use crate::support::*;

impl World {
    pub(super) fn submit(&mut self) {
        if self.running.len() >= 8 {
            return self.finish_one();
        }
        let chat = self.random.below(self.chats.len());
        let mut prompt = self.prompt_for(chat);
        if prompt.len() > self.longest_prompt(chat) {
            self.chats[chat].timeline.clear();
            let text = user(&"once again ".repeat(1 + self.random.below(6)));
            prompt = tokens(&self.model, &text);
        }
        let owner = (!self.random.one_in(6)).then_some(chat);
        if owner.is_none() && self.random.one_in(2) {
            let next = then(&self.model, &self.nameless.timeline, "and then?");
            if next.len() <= self.longest_prompt(chat) {
                prompt = next;
            }
        }
        // Of another chat now and then: the timeline begins anew, and the chat's own is a branch.
        let adapters = if self.roomy && !self.random.one_in(8) {
            self.adapters_of(chat)
        } else {
            let any = self.random.below(self.chats.len());
            self.adapters_of(any)
        };
        let Chat { name, budget, private, .. } = &self.chats[chat];
        let keep = Retention { in_memory: Some(*private), ..Retention::default() };
        let request = TurnRequest {
            adapters,
            budget: *budget,
            keep: if *private { keep } else { Retention::default() },
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

    pub(super) fn submit_as(&mut self, chat: Option<usize>, request: TurnRequest) {
        let mut kept_before = None;
        self.nameless.turns += usize::from(chat.is_none());
        let number = chat.map_or(self.nameless.turns, |chat| {
            let chat = &mut self.chats[chat];
            chat.prompt = request.prompt.clone();
            kept_before = chat.kept.take();
            chat.turns += 1;
            let timeline = request.prompt.clone();
            chat.asked.push(Recordable { timeline, unseen: request.max_tokens });
            chat.turns
        });
        self.may_evict(chat, number, &request);
        let (prompt, most) = (request.prompt.len(), request.max_tokens);
        let how = if request.cold { "cold " } else { "" };
        self.note(format!("chat {chat:?} {how}turn {number}: {prompt} tokens, {most} at most"));
        let turn = self.engine.submit(request.clone()).expect("a valid turn");
        let forgotten = false;
        self.running.push(Running { chat, number, request, turn, forgotten, kept_before });
    }

    /// Prefills a prompt that the chat may go on with. Nothing of it is recorded.
    pub(super) fn speculate(&mut self) {
        let chat = self.random.below(self.chats.len());
        let mut prompt = self.prompt_for(chat);
        prompt.truncate(self.longest_prompt(chat));
        let adapters = self.adapters_of(chat);
        let Chat { name, budget, private, .. } = &self.chats[chat];
        let (budget, in_memory) = (*budget, private.then_some(true));
        let request = TurnRequest::prefill(crate::support::name(name), prompt, Purpose::Speculate);
        let is_stored = self.random.one_in(3);
        if is_stored {
            // It may be another branch.
            let chat = &mut self.chats[chat];
            chat.kept = None;
            chat.turns += 1;
            chat.asked.push(Recordable { timeline: request.prompt.clone(), unseen: 0 });
        }
        let keep = Retention { in_memory, ..Retention::default() };
        let request = TurnRequest { adapters, budget, is_stored, keep, ..request };
        self.may_evict(Some(chat), 0, &request);
        self.submit_background(request);
    }

    /// Blocks may leave the chat's cells in this turn, until more is known of it.
    fn may_evict(&mut self, chat: Option<usize>, number: usize, request: &TurnRequest) {
        let cells = self.options.context_tokens;
        let budget = request.budget.map_or(cells, |budget| budget.min(cells));
        if !self.evicts() || request.prompt.len() + request.max_tokens <= budget / 2 {
            return;
        }
        let prompt = request.prompt.clone();
        match chat {
            Some(chat) => self.chats[chat].evicted.push((number, prompt, 0)),
            None => {
                let all_but_one = prompt.len() - 1;
                self.nameless.evicted.push((number, prompt, all_but_one));
            }
        }
    }

    /// Warms one of two prefixes, of 39 or 49 tokens.
    pub(super) fn prewarm(&mut self) {
        let number = self.random.below(2);
        let text = format!("<|im_start|>system\nYou are careful{}", ", very".repeat(number));
        let prompt = tokens(&self.model, &format!("{text}.<|im_end|>\n"));
        let purpose = *self.random.among(&[Purpose::Prewarm, Purpose::KeepAlive]);
        let prefix = name(&format!("prefix {number}"));
        self.submit_background(TurnRequest::prefill(prefix, prompt, purpose));
    }

    pub(super) fn adapters_of(&self, chat: usize) -> Adapters {
        self.chats[chat].adapters.clone()
    }

    fn submit_background(&mut self, request: TurnRequest) {
        if self.running.len() >= 8 {
            return self.finish_one();
        }
        let TurnRequest { purpose, conversation, prompt, .. } = &request;
        self.note(format!("{purpose:?} for {conversation:?}: {} tokens", prompt.len()));
        let turn = self.engine.submit(request.clone()).expect("a valid turn");
        let (chat, number, forgotten, kept_before) = (None, 0, false, None);
        self.running.push(Running { chat, number, request, turn, forgotten, kept_before });
    }

    /// A turn ended before its answer was complete: the record still covers what it did, unless
    /// the turn took another branch.
    pub(super) fn interrupted(&mut self, turn: Running) {
        let Running { chat: Some(chat), number, request, forgotten, kept_before, .. } = turn else {
            return;
        };
        let chat = &mut self.chats[chat];
        let Some(kept) = kept_before else { return };
        let branches = !request.prompt.starts_with(&kept) && !kept.starts_with(&request.prompt);
        // A memory with snapshots holds those of the last two turns.
        let leaves = !self.memory.is_plain() && chat.cancelled_at.is_some();
        let sound = !forgotten && !self.harmed && !self.is_faulty;
        let is_its_own = request.adapters.set() == chat.adapters.set();
        if chat.turns == number && is_its_own && sound && !branches && !leaves {
            let at = request.prompt.len();
            chat.cancelled_at = Some(chat.cancelled_at.map_or(at, |before| before.min(at)));
            chat.kept = Some(kept);
        }
    }
}
