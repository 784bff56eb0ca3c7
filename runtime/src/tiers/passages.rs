//! The words of live conversations, kept between their turns: a turn adds its own blocks alone.
//!
//! - A thread of its own reads words when blocks have left, when a turn has ended, and when a
//!   conversation comes back with holes, so that a question finds them. The question's reader reads
//!   the words that this thread has not read by then.
//! - Words of a forgotten conversation are not kept: a request that could add some afterwards was cancelled before.
//! - The thread has normal priority: a question waits for an index that the thread is working on.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hob_slots::format::SegmentRef;
use hob_slots::recall::{Index, Passage, Vectors};
use hob_slots::{Block, BlockId, ConversationId, Token};
use parking_lot::{Condvar, Mutex};
use tracing::error;

use super::counters::Counters;
use crate::labels::Labels;
use crate::vocabulary::Vocabulary;

/// Bytes of the longest character, each of which may be a token.
const MAX_CHARACTER: usize = 4;

/// Conversations whose index is kept: about 20 bytes a token each, and some 130 more with vectors of 384 values
/// of each sentence.
const MAX_INDEXES: usize = 8;

/// A conversation's timeline, and what its prompt calls the parts of it.
#[derive(Clone, Debug)]
pub struct Labelled {
    pub conversation: ConversationId,
    pub tokens: Vec<Token>,
    /// The blocks of `tokens`, in order.
    pub blocks: Vec<Block>,
    pub segments: Vec<SegmentRef>,
}

/// The words of conversations, and which of them are to be read.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// In order of use, the latest at the back.
    indexes: VecDeque<(ConversationId, Arc<Mutex<Indexed>>)>,
    /// The newest timeline of each conversation, the latest at the back.
    unread: VecDeque<Labelled>,
    closed: bool,
}

/// The words of a conversation's blocks, by their first positions, and what they mean.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    blocks: BTreeMap<usize, Known>,
    pub index: Index,
    /// Vectors of the blocks, as far as they were made; see `meaning`.
    pub vectors: Vectors,
}

/// What a passage was made of.
#[derive(Debug)]
struct Known {
    id: BlockId,
    key: Option<String>,
    group: u64,
}

impl Indexes {
    /// The index of a conversation whose question waits: the question's timeline is the newest. One that
    /// is not kept where the question is not wanted any more: its conversation may be forgotten.
    pub fn of(
        &self,
        conversation: &ConversationId,
        is_wanted: impl Fn() -> bool,
    ) -> Arc<Mutex<Indexed>> {
        let mut state = self.state.lock();
        if !is_wanted() {
            return Arc::default();
        }
        state.unread.retain(|it| it.conversation != *conversation);
        state.of(conversation)
    }

    /// Reads the timeline's words soon, on the thread that [`serve`](Self::serve)s.
    pub fn learn(&self, timeline: Labelled) {
        self.learn_if(timeline, || true);
    }

    /// [`Self::learn`] on a reader's thread, for a request that may be cancelled meanwhile, as it is before its
    /// conversation is forgotten. `is_wanted` is called under the lock, so that forgetting finds what is queued.
    pub fn learn_if(&self, timeline: Labelled, is_wanted: impl Fn() -> bool) {
        let mut state = self.state.lock();
        if !is_wanted() {
            return;
        }
        state.unread.retain(|it| it.conversation != timeline.conversation);
        state.unread.push_back(timeline);
        let surplus = state.unread.len().saturating_sub(MAX_INDEXES);
        state.unread.drain(..surplus);
        self.changed.notify_one();
    }

    /// Drops the words of the conversation. A thread that reads them now drops what it reads.
    pub fn forget(&self, conversation: &ConversationId) {
        let mut state = self.state.lock();
        state.indexes.retain(|(known, _)| known != conversation);
        state.unread.retain(|it| it.conversation != *conversation);
    }

    /// Ends the thread.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Reads words until it is closed; tells each index that it has read for.
    pub fn serve(
        &self,
        vocabulary: &Vocabulary,
        counters: &Counters,
        is_read: impl Fn(&Arc<Mutex<Indexed>>),
    ) {
        while let Some((timeline, indexed)) = self.next() {
            let read = || indexed.lock().update(&timeline, vocabulary);
            match catch_unwind(AssertUnwindSafe(read)) {
                Ok(blocks) => {
                    Counters::add(&counters.indexed_ahead, blocks as u64);
                    is_read(&indexed);
                }
                Err(_) => {
                    Counters::add(&counters.panics, 1);
                    error!(
                        "the words of a conversation were not read: its next question reads them"
                    );
                    self.forget(&timeline.conversation);
                }
            }
        }
    }

    /// The next timeline, and the index that gets its words; both are taken at once, so that a
    /// conversation that is forgotten then is not indexed again.
    fn next(&self) -> Option<(Labelled, Arc<Mutex<Indexed>>)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(timeline) = state.unread.pop_front() {
                let indexed = state.of(&timeline.conversation);
                return Some((timeline, indexed));
            }
            self.changed.wait(&mut state);
        }
    }
}

impl State {
    fn of(&mut self, conversation: &ConversationId) -> Arc<Mutex<Indexed>> {
        let indexes = &mut self.indexes;
        let known = indexes.iter().position(|(known, _)| known == conversation);
        let entry = known.and_then(|at| indexes.remove(at));
        let entry = entry.unwrap_or_else(|| (conversation.clone(), Arc::default()));
        let indexed = entry.1.clone();
        indexes.push_back(entry);
        let surplus = indexes.len().saturating_sub(MAX_INDEXES);
        indexes.drain(..surplus);
        indexed
    }
}

impl Indexed {
    /// Brings the index up to this timeline. Returns how many blocks were read for that.
    pub fn update(&mut self, timeline: &Labelled, vocabulary: &Vocabulary) -> usize {
        self.update_before(usize::MAX, timeline, vocabulary)
    }

    /// [`Self::update`] with only the blocks that begin before `end`.
    pub fn update_before(
        &mut self,
        end: usize,
        timeline: &Labelled,
        vocabulary: &Vocabulary,
    ) -> usize {
        let Labelled { tokens, blocks, segments, .. } = timeline;
        let blocks = &blocks[..blocks.partition_point(|block| block.range.start < end)];
        let labels = labels(blocks, segments);
        let Self { index, vectors, .. } = self;
        self.blocks.retain(|start, known| {
            let at = blocks.binary_search_by_key(start, |block| block.range.start);
            let stays = at.is_ok_and(|at| known.is(&blocks[at], labels[at]));
            if !stays {
                index.remove(*start);
                vectors.remove(*start);
            }
            stays
        });
        let mut read = 0;
        for (block, (key, group)) in blocks.iter().zip(labels) {
            let start = block.range.start;
            if self.blocks.contains_key(&start) {
                continue;
            }
            let key = key.map(str::to_owned);
            self.blocks.insert(start, Known { id: block.id, key: key.clone(), group });
            let range = block.range.clone();
            let text = text(vocabulary, tokens, range.clone());
            index.add(Passage { block: start, text, range, key, group });
            read += 1;
        }
        read
    }

    /// A block without a vector, and its text.
    pub fn unembedded(&self) -> Option<(usize, BlockId, String)> {
        let (start, known) =
            self.blocks.iter().find(|(start, _)| !self.vectors.contains(**start))?;
        Some((*start, known.id, self.index.text(*start)?.to_owned()))
    }

    /// `vectors`: of the block that began at `start` when its text was read. Without any, the block is not
    /// tried again.
    pub fn add_vectors(&mut self, start: usize, id: BlockId, vectors: Vec<Vec<f32>>) {
        if self.blocks.get(&start).is_some_and(|known| known.id == id) {
            self.vectors.add(start, vectors);
        }
    }
}

impl Known {
    fn is(&self, block: &Block, (key, group): (Option<&str>, u64)) -> bool {
        self.id == block.id && self.group == group && self.key.as_deref() == key
    }
}

/// The key of each block's segment, and its group. A message is a group too, because a fact may be cut by the
/// border of two blocks.
fn labels<'s>(blocks: &[Block], segments: &'s [SegmentRef]) -> Vec<(Option<&'s str>, u64)> {
    let mut labels = Labels::new(segments);
    let label = |block: &Block| {
        let start = block.range.start;
        let at = segments.partition_point(|segment| segment.end as usize <= start);
        let key = segments.get(at).map(|segment| &*segment.key);
        match labels.of(&block.range).group {
            0 => (key, at as u64 + 1),
            group => (key, group),
        }
    };
    blocks.iter().map(label).collect()
}

/// The text of a range of tokens, without those of the chat template. A character that the range's border
/// cuts belongs to the range in which it begins.
pub(super) fn text(vocabulary: &Vocabulary, tokens: &[Token], range: Range<usize>) -> String {
    let bytes_of = |tokens: &[Token]| -> Vec<u8> {
        let words = tokens.iter().filter(|&&token| !vocabulary.is_control(token));
        words.flat_map(|&token| vocabulary.piece(token)).copied().collect()
    };
    let continues = |byte: &u8| *byte & 0b1100_0000 == 0b1000_0000;
    let mut bytes = bytes_of(&tokens[range.clone()]);
    let behind = bytes_of(&tokens[range.end..tokens.len().min(range.end + MAX_CHARACTER)]);
    bytes.extend(behind.into_iter().take_while(continues));
    let begins = bytes.iter().position(|byte| !continues(byte)).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[begins..]).into_owned()
}

#[cfg(test)]
mod tests {
    use hob_slots::{ModelHash, blocks_of};

    use super::*;
    use crate::backend::Model;
    use crate::backend::fake::FakeModel;

    #[test]
    fn a_character_that_a_border_cuts_belongs_to_the_range_in_which_it_begins() {
        let model = FakeModel::new(); // A token is a byte.
        let tokens = model.tokenize("a価b", false, false);
        let text = |range| text(model.vocabulary(), &tokens, range);
        assert_eq!((text(0..2), text(2..5)), ("a価".to_owned(), "b".to_owned()));
        assert_eq!(text(0..5), "a価b");
    }

    fn said(conversation: &str, text: &str) -> Labelled {
        let model = FakeModel::new();
        let tokens = model.tokenize(text, false, false);
        let blocks = blocks_of(ModelHash([0; 8]), &tokens, |_| false);
        let conversation = ConversationId::new(conversation).unwrap();
        Labelled { conversation, tokens, blocks, segments: Vec::new() }
    }

    #[test]
    fn a_forgotten_conversation_is_not_read() {
        let indexes = Indexes::default();
        indexes.learn(said("one", "a secret"));
        indexes.learn(said("two", "hello"));
        indexes.forget(&ConversationId::new("one").unwrap());
        let (next, _) = indexes.next().unwrap();
        assert_eq!(next.conversation.as_str(), "two");
        assert!(indexes.state.lock().unread.is_empty());
    }

    #[test]
    fn what_is_forgotten_while_it_is_read_is_not_kept() {
        let indexes = Indexes::default();
        indexes.learn(said("one", "a secret"));
        let (next, reading) = indexes.next().unwrap();
        indexes.forget(&next.conversation);
        reading.lock().update(&next, FakeModel::new().vocabulary());
        assert!(indexes.of(&next.conversation, || true).lock().index.is_empty());
    }

    #[test]
    fn a_reader_whose_request_was_cancelled_adds_nothing_to_a_forgotten_conversation() {
        let (indexes, model) = (Indexes::default(), FakeModel::new());
        let (asked, one) = (said("one", "a secret"), ConversationId::new("one").unwrap());
        indexes.learn_if(asked.clone(), || false);
        assert!(indexes.state.lock().unread.is_empty());
        indexes.of(&one, || false).lock().update(&asked, model.vocabulary());
        assert!(indexes.state.lock().indexes.is_empty());
    }

    #[test]
    fn a_timeline_that_grew_is_read_from_where_it_grew() {
        let (model, mut indexed) = (FakeModel::new(), Indexed::default());
        let long = "a fact of some length. ".repeat(20);
        let read = indexed.update(&said("one", &long), model.vocabulary());
        assert_eq!(read, long.len().div_ceil(64));
        let more = format!("{long}One word more.");
        assert_eq!(indexed.update(&said("one", &more), model.vocabulary()), 1);
    }
}
