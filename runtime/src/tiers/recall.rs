//! Which of the blocks that are away come back, for text that a conversation is about to compute.
//!
//! - Runs on a reader thread.
//! - What always stays comes back first: a message may be pinned after it left.
//! - Where there is room for all, all come back.
//! - The vector of the text is made meanwhile by another thread, and waited for shortly: words tell nearly as
//!   much.

use std::ops::Range;
use std::time::Duration;

use hob_slots::recall::{Query, Residence, Retrievals, Room, Why, choose_within, sentences};
use hob_slots::{Block, Token};

use super::counters::Counters;
use super::passages::{Labelled, text};
use super::plan::Plan;
use super::shared::Shared;
use crate::labels::Labels;
use crate::turn::BackReason;

/// How long a question waits for the vector of its text: it is 30 ms for 20 tokens of a model of 22 million
/// parameters on one core, where a passage is not in the way.
const MAX_WAIT: Duration = Duration::from_millis(250);

/// Characters of the longest name of a role.
const MAX_ROLE: usize = 12;

/// Asks for blocks of a conversation that are away.
#[derive(Clone, Debug)]
pub struct RecallRequest {
    /// The slot's timeline.
    pub timeline: Labelled,
    /// The residence of each block of the timeline.
    pub residence: Vec<Residence>,
    /// What the conversation turns to: one text, or the ends of a long one.
    pub query: Vec<Vec<Token>>,
    /// Where the query begins in the timeline: no part of the query answers it.
    pub query_begins: usize,
    pub by: Retrievals,
    /// Tokens that may come back without other blocks leaving.
    pub free: usize,
}

/// The blocks that come back, and the resident blocks that do not leave for them.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// Ranges of blocks, in the order of the timeline.
    pub back: Vec<(Range<usize>, BackReason)>,
    /// Where resident blocks that the query asks for, too, begin; ascending.
    pub stay: Vec<usize>,
}

impl Recalled {
    pub fn is_empty(&self) -> bool {
        self.back.is_empty() && self.stay.is_empty()
    }

    /// Tokens that come back.
    pub fn tokens(&self) -> usize {
        self.back.iter().map(|(range, _)| range.len()).sum()
    }
}

/// What to read, and why. `is_wanted`: the request was not cancelled.
pub(super) fn plan(
    shared: &Shared,
    request: &RecallRequest,
    is_wanted: impl Fn() -> bool,
) -> (Plan, Recalled) {
    let mut labels = Labels::new(&request.timeline.segments);
    let mut must = |block: &&Block| labels.of(&block.range).stays();
    let (stays, others): (Vec<&Block>, Vec<&Block>) = request.away().partition(&mut must);
    let tokens = |blocks: &[&Block]| blocks.iter().map(|block| block.range.len()).sum::<usize>();
    let free = request.free.saturating_sub(tokens(&stays));
    let (mut chosen, stay) = if tokens(&others) <= free {
        (others.into_iter().map(|block| (block, BackReason::Room)).collect(), Vec::new())
    } else {
        retrieve(shared, request, &stays, free, is_wanted)
    };
    chosen.extend(stays.into_iter().map(|block| (block, BackReason::Stays)));
    chosen.sort_by_key(|(block, _)| block.range.start);
    let back = chosen.iter().map(|(block, why)| (block.range.clone(), *why)).collect();
    let blocks = chosen.into_iter().map(|(block, _)| block.clone()).collect();
    (Plan::of_blocks(shared, blocks, request.timeline.tokens.len()), Recalled { back, stay })
}

impl RecallRequest {
    fn away(&self) -> impl Iterator<Item = &Block> {
        let blocks = self.timeline.blocks.iter().zip(&self.residence);
        let away = blocks.filter(|(_, residence)| **residence == Residence::Absent);
        away.map(|(block, _)| block)
    }

    /// Tokens of the text itself that may leave for what it asks for.
    fn taken(&self) -> usize {
        let blocks = self.timeline.blocks.iter().zip(&self.residence);
        let own = blocks.filter(|(block, residence)| {
            block.range.start >= self.query_begins && **residence == Residence::MayLeave
        });
        own.map(|(block, _)| block.range.len()).sum()
    }

    /// The number of the block that begins at `start`.
    fn at(&self, start: usize) -> Option<usize> {
        self.timeline.blocks.binary_search_by_key(&start, |block| block.range.start).ok()
    }
}

/// The blocks that are away and that the new text asks for, within `free` tokens; and where the resident ones
/// begin that it asks for. `back`: come back in any case.
fn retrieve<'r>(
    shared: &Shared,
    request: &'r RecallRequest,
    back: &[&Block],
    free: usize,
    is_wanted: impl Fn() -> bool,
) -> (Vec<(&'r Block, BackReason)>, Vec<usize>) {
    let (timeline, vocabulary) = (&request.timeline, shared.model.vocabulary());
    let parts = request.query.iter().map(|part| text(vocabulary, part, 0..part.len()));
    let text = parts.collect::<Vec<_>>().join("\n");
    let embedder = shared.embedder.as_ref().filter(|_| request.by.meaning);
    let vector = embedder.and_then(|embedder| embedder.embed(&meant(&text), MAX_WAIT));
    let indexed = shared.passages.of(&timeline.conversation, is_wanted);
    let mut indexed = indexed.lock();
    let read = indexed.update_before(request.query_begins, timeline, vocabulary);
    Counters::add(&shared.counters.indexed_late, read as u64);
    let residence = |start: usize| match request.at(start) {
        Some(at) if !back.iter().any(|block| block.range.start == start) => request.residence[at],
        _ => Residence::Resident,
    };
    let meaning = vector.as_deref().map(|vector| (&indexed.vectors, vector));
    let query = Query { text: &text, meaning, by: request.by };
    let room = Room { free, taken: request.taken() };
    let chosen = choose_within(&indexed.index, &query, &residence, room);
    let back = chosen.back.into_iter().filter_map(|choice| {
        Some((&timeline.blocks[request.at(choice.block)?], reason(choice.why)))
    });
    (back.collect(), chosen.stay)
}

/// A prompt's sentences without the roles that its template names in lines of their own, which would blur what
/// it means.
fn meant(text: &str) -> String {
    let said = sentences(text).into_iter().filter(|said| said.chars().count() > MAX_ROLE);
    let said: Vec<&str> = said.collect();
    if said.is_empty() { text.to_owned() } else { said.join(" ") }
}

fn reason(why: Why) -> BackReason {
    match why {
        Why::Mention => BackReason::Mention,
        Why::Lexical => BackReason::Words,
        Why::Semantic => BackReason::Meaning,
        Why::Group => BackReason::Group,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_the_template_mean_nothing() {
        let prompt = "user\nWhere is my bicycle now?\nassistant\n";
        assert_eq!(meant(prompt), "Where is my bicycle now?");
        assert_eq!(meant("user\n何时？\n"), "user\n何时？\n");
    }
}
