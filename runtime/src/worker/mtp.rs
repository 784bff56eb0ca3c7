//! Gets guesses of the model's own MTP heads, where neither the conversation's own text nor a draft model gives one.
//!
//! - The heads follow answers, and the ends of their prompts: these micro-batches hand out hidden states. What the heads
//!   lack of a sequence is computed with the next guess.
//! - All that costs time is charged to the account of the heads, as that of a draft model is.
//! - Their KV is not saved. In a conversation that is restored, they see what is computed from then on.

use std::time::Instant;

use hob_slots::Token;
use tracing::warn;

use super::plan::{Next, Plan};
use super::slot::Slot;
use super::{Core, Worker};
use crate::backend::{DecodeError, GuessRow, Mtp, MtpHeads, NoMtp, Sequence};
use crate::draft::{Draft, Guesser, MAX_ROWS, Source, likeliest};
use crate::options::EngineOptions;
use crate::status::{MtpCounters, MtpStatus};
use crate::vocabulary::Vocabulary;

/// Tokens at the end of a prompt that the heads follow. A hidden state takes kilobytes, and what is far back says little
/// about the next token.
const FOLLOWED: usize = 512;

/// What survives a reload of the weights.
pub(crate) struct MtpCore {
    pub guesser: Guesser,
    pub counters: MtpCounters,
    /// Why the heads, which are loaded, have no context.
    failure: Option<NoMtp>,
}

/// An answer that tokens are guessed of.
struct Answer {
    /// Its place in the list of next tokens.
    at: usize,
    sequence: Sequence,
    /// Are behind the cells. Guesses follow the last one.
    sampled: Vec<Token>,
    /// How many tokens to guess at most.
    count: usize,
    ignores_end: bool,
    guesses: Vec<Token>,
    probabilities: Vec<f32>,
}

impl MtpCore {
    pub fn new(options: &EngineOptions, on_devices: bool) -> Self {
        let (target, max_rows) = (options.micro_batch_target, options.max_rows());
        Self {
            guesser: Guesser::new(target, max_rows, on_devices),
            counters: MtpCounters::default(),
            failure: None,
        }
    }

    /// A context of `heads` was made, if `is_made`.
    pub fn begin(&mut self, heads: &MtpHeads, is_made: bool) {
        self.failure = (*heads == MtpHeads::Loaded && !is_made).then_some(NoMtp::Context);
        let refused = match heads {
            MtpHeads::Refused(reason) => Some(reason),
            MtpHeads::None | MtpHeads::Loaded => self.failure.as_ref(),
        };
        if let Some(reason) = refused {
            warn!(%reason, "answers have no guesses of MTP heads");
        }
    }
}

impl Core {
    /// `None`: the model has no MTP heads, or they are not wanted.
    pub(super) fn mtp_status(&self) -> Option<MtpStatus> {
        let refused = match self.model.mtp() {
            MtpHeads::None => return None,
            MtpHeads::Loaded => self.mtp.failure.as_ref().map(NoMtp::to_string),
            MtpHeads::Refused(reason) => Some(reason.to_string()),
        };
        Some(MtpStatus { refused, counters: self.mtp.counters })
    }
}

impl Answer {
    /// The token of its `step`-th row.
    fn token(&self, step: usize) -> Token {
        let guess = || self.guesses[step - self.sampled.len()];
        self.sampled.get(step).copied().unwrap_or_else(guess)
    }
}

impl Worker<'_> {
    /// Before `plan` is computed: the heads keep the hidden states of its rows that they compute later.
    pub(super) fn follow_by_mtp(&mut self, plan: &Plan) {
        if !self.uses_mtp {
            return;
        }
        let (mut answers, mut prompts, mut rows) = (Vec::new(), Vec::new(), 0);
        for share in &plan.shares {
            let slot = &self.slots[share.slot];
            if slot.is_prefilling() {
                if is_near_its_end(slot, share.tokens.len()) {
                    prompts.push(slot.sequence);
                    rows += share.tokens.len();
                }
            } else if slot.turn.as_ref().is_none_or(|turn| turn.request.drafts) {
                answers.push(slot.sequence); // Or the end of one, before the next turn.
            }
        }
        // The model's last layer computes all rows then, instead of those with logits alone. That takes no longer than
        // the head, which is such a layer.
        let guesser = &mut self.core.mtp.guesser;
        let seconds = guesser.reading_seconds(rows);
        if rows > 0 && guesser.ledger.allows(seconds) {
            guesser.ledger.spend(seconds);
            answers.append(&mut prompts);
        }
        if let Some(heads) = self.backend.mtp() {
            heads.follow(&answers);
        }
    }

    /// Asks the heads for the answers without a draft, as far as that should make them faster.
    pub(super) fn guess_by_mtp(&mut self, nexts: &mut [Next]) {
        if !self.uses_mtp {
            return;
        }
        let began = Instant::now();
        let mut answers = self.answers_to_guess(nexts);
        self.guess_answers(&mut answers);
        self.core.mtp.guesser.ledger.spend(began.elapsed().as_secs_f64());
        for Answer { at, guesses, probabilities, .. } in answers {
            if !guesses.is_empty() {
                let source = Source::Mtp { probabilities };
                nexts[at].draft = Draft { tokens: guesses, source };
            }
        }
    }

    fn guess_answers(&mut self, answers: &mut [Answer]) {
        let core = &mut self.core;
        let vocabulary = core.model.vocabulary();
        let Some(heads) = self.backend.mtp() else { return };
        let mut guessing = Guessing { heads, mtp: &mut core.mtp, vocabulary };
        match guessing.guess(answers) {
            Ok(()) | Err(DecodeError::NoRoom { .. }) => {}
            Err(error) => warn!(%error, "MTP heads guessed nothing"),
        }
    }

    /// The answers without a draft whose tokens are worth to be guessed, and that the heads follow.
    fn answers_to_guess(&mut self, nexts: &[Next]) -> Vec<Answer> {
        let mut wanted: Vec<(usize, usize)> = Vec::new();
        for (at, next) in nexts.iter().enumerate() {
            let count = self.max_draft(next.slot, MAX_ROWS);
            let is_wanted = next.draft.tokens.is_empty() && count > 0;
            if is_wanted && self.lacked_by_mtp(next.slot).is_some() {
                wanted.push((at, count));
            }
        }
        if wanted.is_empty() {
            return Vec::new();
        }
        let is_to_learn = self.shorten(&self.core.mtp.guesser, nexts, &mut wanted);
        wanted.truncate(self.core.options.max_rows().min(MAX_ROWS));
        let mut answers = Vec::new();
        let mut may_read = true;
        for (at, count) in wanted {
            let next = &nexts[at];
            let guesses = if is_to_learn { count } else { 0 };
            if !self.let_mtp_read(next.slot, guesses, &mut may_read) {
                continue;
            }
            let slot = &self.slots[next.slot];
            let turn = slot.turn.as_ref().expect("it answers");
            answers.push(Answer {
                at,
                sequence: slot.sequence,
                sampled: next.sampled.clone(),
                count,
                ignores_end: turn.request.ignore_eog,
                guesses: Vec::new(),
                probabilities: Vec::new(),
            });
        }
        answers
    }

    /// How many tokens of the slot's timeline the heads have not computed. `None`: they do not follow it.
    fn lacked_by_mtp(&mut self, index: usize) -> Option<usize> {
        let sequence = self.slots[index].sequence;
        self.backend.mtp()?.lacks(sequence)
    }

    /// Lets the heads compute a part of what they lack of the slot's timeline, if that is more than fits a micro-batch of
    /// guesses. Returns whether the rest fits, and the account allows it with `guesses`. `may_read`: no long micro-batch
    /// was computed in this round.
    fn let_mtp_read(&mut self, index: usize, guesses: usize, may_read: &mut bool) -> bool {
        let Some(lacks) = self.lacked_by_mtp(index) else { return false };
        let sequence = self.slots[index].sequence;
        let guesser = &mut self.core.mtp.guesser;
        if lacks < MAX_ROWS {
            return guesser.affords(lacks + 1, guesses);
        }
        let rows = lacks.min(guesser.max_rows());
        if !std::mem::take(may_read) || !guesser.affords(rows, 0) {
            return false;
        }
        let began = Instant::now();
        let Some(heads) = self.backend.mtp() else { return false };
        if heads.read(sequence, rows).is_err() {
            return false;
        }
        guesser.observe_time(rows, began.elapsed());
        self.core.mtp.counters.computed_tokens += rows as u64;
        lacks - rows < MAX_ROWS
    }
}

/// Computes guesses with the heads.
struct Guessing<'g> {
    heads: &'g mut dyn Mtp,
    mtp: &'g mut MtpCore,
    vocabulary: &'g Vocabulary,
}

impl Guessing<'_> {
    /// Guesses tokens of the answers until each has enough. What was guessed before an error stays.
    fn guess(&mut self, answers: &mut [Answer]) -> Result<(), DecodeError> {
        let mut active: Vec<usize> = (0..answers.len()).collect();
        for step in 0.. {
            if active.is_empty() {
                break;
            }
            let row = |&at: &usize| {
                let answer: &Answer = &answers[at];
                GuessRow { sequence: answer.sequence, token: answer.token(step) }
            };
            let rows: Vec<GuessRow> = active.iter().map(row).collect();
            self.compute(&rows, step)?;
            let mut goes_on = Vec::new();
            for (row, at) in active.into_iter().enumerate() {
                if self.take(row, step, &mut answers[at]) {
                    goes_on.push(at);
                }
            }
            active = goes_on;
        }
        Ok(())
    }

    fn compute(&mut self, rows: &[GuessRow], step: usize) -> Result<(), DecodeError> {
        let began = Instant::now();
        let mut count = rows.len();
        if step == 0 {
            let lacked: usize = rows.iter().filter_map(|it| self.heads.lacks(it.sequence)).sum();
            self.heads.begin(rows)?;
            self.mtp.counters.computed_tokens += lacked as u64;
            count += lacked;
        } else {
            self.heads.go_on(rows)?;
        }
        self.mtp.guesser.observe_time(count, began.elapsed());
        Ok(())
    }

    /// Takes the guess behind the row, unless a sampled token is there. Returns whether another row may follow.
    fn take(&mut self, row: usize, step: usize, answer: &mut Answer) -> bool {
        if step + 1 < answer.sampled.len() {
            return true;
        }
        let logits = self.heads.logits(row);
        let Some((token, probability)) = likeliest(logits, self.vocabulary, answer.ignores_end)
        else {
            return false;
        };
        answer.guesses.push(token);
        answer.probabilities.push(probability);
        answer.guesses.len() < answer.count && self.mtp.guesser.goes_on(&answer.probabilities)
    }
}

/// Whether the slot's answer needs few tokens of its prompt behind the next `rows`.
fn is_near_its_end(slot: &Slot, rows: usize) -> bool {
    let Some(turn) = &slot.turn else { return false };
    let request = &turn.request;
    let behind = request.prompt.len().saturating_sub(slot.timeline.len() + rows);
    let answers = request.max_tokens > 0 && !request.purpose.is_background();
    answers && request.drafts && behind < FOLLOWED
}
