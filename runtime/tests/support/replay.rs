//! The naive model of reversible eviction: who saw what, replayed token by token.
//!
//! - It keeps the KV of each token by itself, as it was first computed, and computes each further token
//!   behind exactly the cells that the engine says were there.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use hob_runtime::backend::fake::FakeModel;
use hob_runtime::backend::{Backend, ContextShape, JoinedState, Model, Row, Sequence};
use hob_runtime::{Moved, Way};
use hob_slots::{AdapterSet, BlockId, Token, View};

use super::{Answer, FINGERPRINT};

const LIVE: Sequence = Sequence(0);
const SCRATCH: Sequence = Sequence(1);

/// What a conversation's tokens are, and the KV of each.
#[derive(Default)]
pub struct Replay {
    tokens: Vec<Token>,
    kv: Vec<Vec<u8>>,
}

impl Replay {
    /// Whether it knows the tokens before those that `answer` computed.
    pub fn knows(&self, prompt: &[Token], answer: &Answer) -> bool {
        self.tokens.starts_with(&prompt[..prompt.len() - answer.report.tokens.computed])
    }

    /// Knows tokens of which each saw all before it.
    pub fn saw_everything(&mut self, tokens: &[Token]) {
        let mut seen = Vec::new();
        for (position, &token) in tokens.iter().enumerate() {
            let content = FakeModel::content(&seen, token, &AdapterSet::default());
            self.kv.push(FakeModel::cell(position, token, content).to_vec());
            seen.push((position, content));
        }
        self.tokens = tokens.to_vec();
    }

    /// Tokens whose KV is known.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Learns what the tokens before those that `answer` computed saw, where their turns were not seen to the
    /// end: their block's name tells it, and `log` has it. `blocks`: of `timeline`, which has those tokens.
    ///
    /// # Panics
    /// Where a block's name tells what was never computed.
    pub fn follow(
        &mut self,
        blocks: &[(BlockId, Range<usize>)],
        timeline: &[Token],
        prompt: &[Token],
        answer: &Answer,
        log: &HashMap<u64, Vec<usize>>,
    ) {
        let len = prompt.len() - answer.report.tokens.computed;
        assert!(timeline.starts_with(&prompt[..len]), "its blocks are those of the prompt");
        let mut parent = BlockId::root(FINGERPRINT);
        let mut kv: Vec<u64> = Vec::new();
        let content = |kv: &[u64], seen: &[usize], token| {
            let seen: Vec<_> = seen.iter().map(|&position| (position, kv[position])).collect();
            FakeModel::content(&seen, token, &AdapterSet::default())
        };
        for block in blocks.iter().take_while(|(_, range)| range.start < len) {
            let (id, range) = block;
            let (start, tokens) = (range.start, &timeline[range.clone()]);
            let is_named = |seen: &[usize]| {
                let view = View::without(holes(seen, start));
                BlockId::child(view.parent(parent), tokens) == *id
            };
            let begins = |(computed, seen): &(&u64, &Vec<usize>)| {
                seen.last().map_or(0, |last| last + 1) == start
                    && content(&kv, seen, tokens[0]) == **computed
                    && is_named(seen)
            };
            let found = log.iter().find(begins);
            let (_, seen) = found.unwrap_or_else(|| panic!("{block:?} was never computed"));
            let mut seen = seen.clone();
            for &token in tokens {
                let computed = content(&kv, &seen, token);
                assert!(log.contains_key(&computed), "{block:?} saw all of it");
                seen.push(kv.len());
                kv.push(computed);
            }
            parent = *id;
        }
        self.tokens = prompt[..len].to_vec();
        self.kv = (0..len).map(|at| FakeModel::cell(at, prompt[at], kv[at]).to_vec()).collect();
    }

    /// Computes an answer again; `prompt`: its request's. Returns the likeliest token at each place of the
    /// answer, without `ends` (tokens that end answers, which the request ignores).
    pub fn answer(
        &mut self,
        model: &dyn Model,
        prompt: &[Token],
        answer: &Answer,
        ends: &[Token],
    ) -> Vec<Token> {
        let computed_from = prompt.len() - answer.report.tokens.computed;
        self.tokens.truncate(computed_from);
        self.kv.truncate(computed_from);
        assert_eq!(self.tokens, prompt[..computed_from], "the rest was computed before");
        let mut away = away_before(answer, computed_from);
        let mut likeliest = Vec::new();
        let all = [prompt, &answer.tokens].concat();
        let shape = ContextShape { context_tokens: all.len() + 1, sequences: 2, micro_batch: 1 };
        let mut run = |backend: &mut dyn Backend| {
            self.restore(model, backend, &away);
            let mut moves = answer.moved.iter().peekable();
            // The last token is computed once the answer has ended, for the next turn.
            for position in computed_from..all.len() {
                while let Some(moved) = moves.next_if(|moved| moved.at <= position) {
                    if moved.at >= computed_from {
                        self.apply(model, backend, moved, &mut away);
                    }
                }
                self.compute(backend, all[position]);
                if (prompt.len()..all.len()).contains(&(position + 1)) {
                    likeliest.push(greedy(backend.logits(0), ends));
                }
            }
        };
        model.with_context(shape, &mut run).expect("the context fits");
        likeliest
    }

    /// Leaves the cells of all tokens but those away.
    fn restore(&self, model: &dyn Model, backend: &mut dyn Backend, away: &BTreeSet<usize>) {
        backend.clear(LIVE);
        let away: Vec<usize> = away.iter().copied().collect();
        let resident: Vec<usize> = (0..self.tokens.len())
            .filter(|position| away.binary_search(position).is_err())
            .collect();
        for run in resident.chunk_by(|one, next| one + 1 == *next) {
            self.import(model, backend, run[0]..run[0] + run.len());
        }
    }

    fn apply(
        &self,
        model: &dyn Model,
        backend: &mut dyn Backend,
        moved: &Moved,
        away: &mut BTreeSet<usize>,
    ) {
        match moved.way {
            Way::Out => {
                backend.remove(LIVE, moved.range.clone()).expect("plain memories drop ranges");
                away.extend(moved.range.clone());
            }
            Way::Back(_) => {
                for position in moved.range.clone() {
                    assert!(away.remove(&position), "{position} comes back once");
                }
                self.import(model, backend, moved.range.clone());
            }
        }
    }

    fn import(&self, model: &dyn Model, backend: &mut dyn Backend, range: Range<usize>) {
        let mut joined = JoinedState::with_room(range.len(), Vec::new());
        for cell in &self.kv[range.clone()] {
            assert!(model.append_state(&mut joined, cell), "cells of one layout");
        }
        model.seal_state(&mut joined);
        backend.import_cells(SCRATCH, joined.as_bytes(), &range).expect("all cells");
        backend.share(SCRATCH, LIVE, range);
        backend.clear(SCRATCH);
    }

    fn compute(&mut self, backend: &mut dyn Backend, token: Token) {
        let position = self.tokens.len();
        let row = Row { token, position, sequence: LIVE, wants_logits: true };
        backend.decode(&[row]).expect("there is room");
        backend.share(LIVE, SCRATCH, position..position + 1);
        self.kv.push(backend.export_cells(SCRATCH, Vec::new()).expect("one cell"));
        backend.clear(SCRATCH);
        self.tokens.push(token);
    }
}

/// The positions without cells when the turn began to compute: those when its first token was sampled, without
/// what has moved since.
fn away_before(answer: &Answer, computed_from: usize) -> BTreeSet<usize> {
    let mut away: BTreeSet<usize> = answer.report.away.iter().cloned().flatten().collect();
    let started = answer.report.tokens.prompt();
    for moved in answer.moved.iter().rev() {
        if moved.at >= started || moved.at < computed_from {
            continue;
        }
        match moved.way {
            Way::Out => moved.range.clone().for_each(|position| {
                away.remove(&position);
            }),
            Way::Back(_) => away.extend(moved.range.clone()),
        }
    }
    away
}

/// The positions below `end` that are not in `seen`, in ranges.
pub fn holes(seen: &[usize], end: usize) -> Vec<Range<usize>> {
    let mut start = 0;
    let holes = seen.iter().copied().chain([end]).filter_map(|position| {
        let hole = std::mem::replace(&mut start, position + 1)..position;
        (!hole.is_empty()).then_some(hole)
    });
    holes.collect()
}

fn greedy(logits: &[f32], ends: &[Token]) -> Token {
    let ends: Vec<usize> = ends.iter().map(|end| end.0.unsigned_abs() as usize).collect();
    let all = (0..logits.len()).filter(|id| !ends.contains(id));
    // Of equally likely ones the first, as the sampler does.
    let likeliest = all.rev().max_by(|&one, &other| logits[one].total_cmp(&logits[other]));
    Token(i32::try_from(likeliest.expect("a vocabulary")).expect("small"))
}
