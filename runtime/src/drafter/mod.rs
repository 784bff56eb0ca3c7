//! A second, small model that guesses the tokens of answers.
//!
//! - Its KV is a function of it and of the tokens: it has a fingerprint, a directory and blocks of its own,
//!   which `keep` saves and restores beside the model's.
//! - It follows a slot when that answers: it computes what it lacks of the timeline, a bounded part at a
//!   time, never beside a prompt of the model, and only in time that the [`Ledger`] allows.
//! - What it guesses is checked by the model, token by token. A failure here ends guesses, never an
//!   answer.
//! - `unread`: reads what was said while no answer is made. `track`: the cells of a slot.
//!
//! [`Ledger`]: crate::draft::Ledger

mod keep;
mod track;
mod unread;

use std::sync::Arc;
use std::time::Instant;

use hob_slots::store::Store;
use hob_slots::{ConversationId, Token, TtlClass, common_prefix};
use tracing::warn;

use crate::backend::{Backend, DecodeError, Model, Row, Sequence};
use crate::draft::{Draft, Guesser, MAX_ROWS, Source, likeliest};
use crate::draft_model::DraftModel;
use crate::options::EngineOptions;
use crate::status::DraftModelCounters;
use crate::tiers::{KvTiers, MemoryBudget};

use track::Track;

/// The draft model's KV may take the memory budget of the model's KV divided by this, besides it.
const PART_OF_MEMORY: u64 = 8;

/// The parts of a drafter that survive a reload of the weights.
pub(crate) struct DrafterCore {
    pub tiers: Arc<KvTiers>,
    pub guesser: Guesser,
    pub counters: DraftModelCounters,
    model: DraftModel,
    /// Numbers fetches.
    fetches: u64,
    options: EngineOptions,
}

impl DrafterCore {
    /// `on_room`: its tiers were full, and are not any more.
    pub fn new(
        model: DraftModel,
        store: Option<Arc<Store>>,
        options: &EngineOptions,
        on_room: impl Fn() + Send + 'static,
    ) -> Self {
        let budget = MemoryBudget {
            memory_bytes: options.memory_budget_bytes / PART_OF_MEMORY,
            unsaved_bytes: options.unsaved_budget_bytes / PART_OF_MEMORY,
        };
        let of_model = model.model().clone();
        let tiers = KvTiers::new(of_model, model.fingerprint(), store, budget, None, on_room);
        let (target, max_rows) = (options.micro_batch_target, options.max_rows());
        let on_devices = model.model().kv_on_devices();
        Self {
            tiers: Arc::new(tiers),
            guesser: Guesser::new(target, max_rows, on_devices),
            counters: DraftModelCounters::default(),
            model,
            fetches: 0,
            options: EngineOptions { away: None, ..options.clone() },
        }
    }

    pub fn model(&self) -> &Arc<dyn Model> {
        self.model.model()
    }
}

/// What the model's cells of a slot hold.
pub(crate) struct Followed<'s> {
    pub slot: usize,
    pub timeline: &'s [Token],
    pub owner: Option<Owner>,
}

/// An answer that the drafter is to guess tokens of.
pub(crate) struct DraftRequest<'s> {
    pub followed: Followed<'s>,
    /// The number of its turn.
    pub turn: u64,
    /// Was sampled behind the timeline.
    pub sampled: Token,
    /// How many tokens to guess at most.
    pub count: usize,
    /// The answer goes on behind an end token.
    pub ignores_end: bool,
}

/// Tokens to compute behind the cells of a slot.
struct SlotRows<'t> {
    slot: usize,
    tokens: &'t [Token],
    /// Whether logits are wanted for the last token.
    wants_logits: bool,
}

/// Whose KV a track is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub conversation: ConversationId,
    pub class: TtlClass,
    /// The KV must not reach the disk.
    pub in_memory: bool,
}

/// The draft model's context.
pub(crate) struct Drafter<'b> {
    backend: &'b mut dyn Backend,
    pub core: DrafterCore,
    /// By slot.
    tracks: Vec<Track>,
    /// Tokens of the model's vocabulary. Others are never guessed.
    vocabulary: usize,
    /// Numbers the uses of tracks.
    uses: u64,
}

impl<'b> Drafter<'b> {
    /// `vocabulary`: tokens of the model that it drafts for.
    pub fn new(backend: &'b mut dyn Backend, core: DrafterCore, vocabulary: usize) -> Self {
        let slots = core.options.slots + core.options.prefixes;
        let fingerprint = core.model.fingerprint();
        let tracks = (0..slots).map(|slot| Track::new(slot, fingerprint)).collect();
        Self { backend, core, tracks, vocabulary, uses: 0 }
    }

    /// Tokens of a conversation that it can follow.
    pub fn max_tokens(&self) -> usize {
        self.core.options.conversation_tokens(self.core.model().facts())
    }

    /// Whether the drafter may follow the answer to its end and guess, to learn how good its guesses are.
    pub fn may_learn(&self, request: &DraftRequest<'_>) -> bool {
        let Followed { slot, timeline, .. } = request.followed;
        let held = common_prefix(self.tracks[slot].timeline.tokens(), timeline);
        let lacks = timeline.len() - held;
        self.core.guesser.affords(lacks + 1, request.count)
    }

    /// Guesses for each answer, in their order. Nothing for those that it does not follow yet. All its time is
    /// charged: that of imports and of reading logits too.
    pub fn draft(&mut self, requests: &[DraftRequest<'_>]) -> Vec<Draft> {
        let began = Instant::now();
        let drafts = self.followed_and_guessed(requests);
        self.core.guesser.ledger.spend(began.elapsed().as_secs_f64());
        drafts
    }

    fn followed_and_guessed(&mut self, requests: &[DraftRequest<'_>]) -> Vec<Draft> {
        let mut may_read = true;
        let mut rows = self.core.options.max_rows();
        let mut followed: Vec<usize> = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            let Some(lacks) = self.follow(request, &mut may_read) else { continue };
            if lacks < rows && followed.len() < MAX_ROWS {
                rows -= lacks + 1;
                followed.push(at);
            }
        }
        let mut drafts = vec![Draft::default(); requests.len()];
        for (at, draft) in followed.iter().copied().zip(self.guess(requests, &followed)) {
            drafts[at] = draft;
        }
        drafts
    }

    /// Leaves what both hold of the timeline in the slot's cells, and adds to it. Returns how much lacks,
    /// if that fits a micro-batch of guesses. `may_read`: no long micro-batch was computed in this round.
    fn follow(&mut self, request: &DraftRequest<'_>, may_read: &mut bool) -> Option<usize> {
        let Followed { slot, timeline, .. } = request.followed;
        self.turn_to(&request.followed);
        if self.begins(slot, request.turn) {
            self.share(&request.followed);
            self.restore(&request.followed);
        }
        if self.is_restoring(slot) || self.tracks[slot].has_given_up {
            return None;
        }
        let held = self.tracks[slot].timeline.len();
        let lacks = timeline.len() - held;
        let max_lacks = MAX_ROWS.min(self.core.options.max_rows()) - 1;
        let guesser = &self.core.guesser;
        if lacks <= max_lacks {
            return guesser.affords(lacks + 1, 0).then_some(lacks);
        }
        let rows = lacks.min(guesser.max_rows());
        if !*may_read || !guesser.affords(rows, 0) {
            return None;
        }
        *may_read = false;
        let is_read = self.read(slot, &timeline[held..held + rows], false);
        Some(lacks - rows).filter(|&lacks| is_read && lacks <= max_lacks)
    }

    /// Cuts the slot's cells back to what they share with the text, and ends the restore of another one.
    fn turn_to(&mut self, text: &Followed<'_>) {
        self.uses += 1;
        let restoring = self.tracks[text.slot].restoring.as_ref();
        if restoring.is_some_and(|restoring| !restoring.is_of(text.timeline)) {
            self.end_restore(text.slot);
        }
        let track = &mut self.tracks[text.slot];
        track.used = self.uses;
        track.set_owner(text.owner.clone());
        track.guessed_from = text.timeline.len();
        let held = common_prefix(track.timeline.tokens(), text.timeline);
        self.cut_back(text.slot, held);
    }

    /// Computes the next tokens of the slot's text. Returns whether it did.
    fn read(&mut self, slot: usize, tokens: &[Token], wants_logits: bool) -> bool {
        let is_read = self.compute(&[SlotRows { slot, tokens, wants_logits }]);
        if is_read {
            self.core.counters.computed_tokens += tokens.len() as u64;
        }
        is_read
    }

    /// Guesses of the answers at these places of `requests`, which are followed.
    fn guess(&mut self, requests: &[DraftRequest<'_>], places: &[usize]) -> Vec<Draft> {
        let mut guesses: Vec<(Vec<Token>, Vec<f32>)> = vec![Default::default(); places.len()];
        let mut active: Vec<usize> = (0..places.len()).collect();
        while !active.is_empty() {
            let rows: Vec<(usize, Vec<Token>)> = active
                .iter()
                .map(|&at| {
                    let request = &requests[places[at]];
                    (request.followed.slot, self.next_rows(request, &guesses[at].0))
                })
                .collect();
            let of_slots: Vec<SlotRows<'_>> = rows
                .iter()
                .map(|(slot, tokens)| SlotRows { slot: *slot, tokens, wants_logits: true })
                .collect();
            if !self.compute(&of_slots) {
                break;
            }
            // Guesses, and the token that was sampled, are in no timeline yet.
            let read: usize = rows.iter().map(|(_, tokens)| tokens.len() - 1).sum();
            self.core.counters.computed_tokens += read as u64;
            let mut row = 0;
            let mut goes_on = Vec::new();
            for (&at, (_, tokens)) in active.iter().zip(&rows) {
                row += tokens.len();
                let request = &requests[places[at]];
                let Some((token, probability)) = self.likeliest(row - 1, request.ignores_end)
                else {
                    continue;
                };
                let (tokens, probabilities) = &mut guesses[at];
                tokens.push(token);
                probabilities.push(probability);
                if tokens.len() < request.count && self.core.guesser.goes_on(probabilities) {
                    goes_on.push(at);
                }
            }
            active = goes_on;
        }
        let draft =
            |(tokens, probabilities)| Draft { tokens, source: Source::Model { probabilities } };
        guesses.into_iter().map(draft).collect()
    }

    /// What the next guess needs behind the cells: the rest of the timeline, the sampled token, and the
    /// guesses so far.
    fn next_rows(&self, request: &DraftRequest<'_>, guesses: &[Token]) -> Vec<Token> {
        let Followed { slot, timeline, .. } = request.followed;
        let held = self.tracks[slot].timeline.len();
        let all = timeline.iter().skip(held).copied();
        let behind = std::iter::once(request.sampled).chain(guesses.iter().copied());
        all.chain(behind.skip(held.saturating_sub(timeline.len()))).collect()
    }

    /// The likeliest token of the row and its probability; `None` for one that ends an answer, or where
    /// the logits are no numbers.
    fn likeliest(&mut self, row: usize, ignores_end: bool) -> Option<(Token, f32)> {
        let vocabulary = self.core.model.model().vocabulary();
        let logits = self.backend.logits(row);
        likeliest(&logits[..logits.len().min(self.vocabulary)], vocabulary, ignores_end)
    }

    /// Computes the rows of several slots in one micro-batch. Returns whether it did: if not, the slots have
    /// no guesses until their turns end.
    fn compute(&mut self, of_slots: &[SlotRows<'_>]) -> bool {
        let slots: Vec<usize> = of_slots.iter().map(|rows| rows.slot).collect();
        let mut rows: Vec<Row> = Vec::new();
        for SlotRows { slot, tokens, wants_logits } in of_slots {
            let track = &self.tracks[*slot];
            let start = track.timeline.len();
            rows.extend(tokens.iter().enumerate().map(|(offset, &token)| Row {
                token,
                position: start + offset,
                sequence: track.sequence,
                wants_logits: *wants_logits && offset + 1 == tokens.len(),
            }));
        }
        let known = self.core.model().vocabulary();
        let fits = rows.len() <= self.core.options.max_rows();
        if !fits || !rows.iter().all(|row| known.contains(row.token)) {
            return self.give_up(&slots);
        }
        let mut began = Instant::now();
        let mut decoded = self.backend.decode(&rows);
        while decoded == Err(DecodeError::NoRoom { rows: rows.len() }) && self.evict(&slots) {
            began = Instant::now(); // To export what leaves is no part of the micro-batch.
            decoded = self.backend.decode(&rows);
        }
        let took = began.elapsed();
        if let Err(error) = decoded {
            if !matches!(error, DecodeError::NoRoom { .. } | DecodeError::Interrupted) {
                warn!(%error, "the draft model computed nothing");
            }
            return self.give_up(&slots);
        }
        self.core.guesser.observe_time(rows.len(), took);
        let vocabulary = self.core.model.model().vocabulary();
        for SlotRows { slot, tokens, .. } in of_slots {
            self.tracks[*slot].push(tokens, |token| vocabulary.is_eog(token));
        }
        true
    }

    /// The slots have no guesses until their turns end. Returns `false`.
    fn give_up(&mut self, slots: &[usize]) -> bool {
        for &slot in slots {
            let track = &mut self.tracks[slot];
            track.has_given_up = true;
            if self.backend.end(track.sequence) != track.timeline.len() {
                self.clear(slot);
            }
        }
        false
    }

    /// Ends fetches; the cells are about to be gone.
    pub fn into_core(mut self) -> DrafterCore {
        (0..self.tracks.len()).for_each(|slot| self.end_restore(slot));
        self.core
    }

    fn scratch(&self) -> Sequence {
        Sequence(i32::try_from(self.tracks.len()).expect("slots are few"))
    }
}
