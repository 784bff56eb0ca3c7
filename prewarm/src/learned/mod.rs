//! Learns which beginnings of prompts should be warm although no profile names them. Pure: prompts
//! and the time in, decisions out.
//!
//! - A beginning is learned once the prompts of [`CONVERSATIONS`] (3) different conversations within
//!   [`WINDOW`] (7 days) share it, at least [`MIN_TOKENS`] (128) longer than the profile's prefix and
//!   than any learned one in it. The longest such beginning counts.
//! - Prompts are known by the hashes of their blocks: no text and no token is remembered.
//! - Requests without a name belong to one conversation when one continues the other's prompt. Whole blocks do not tell:
//!   where the template ends a user's turn with no token of its own, a short question is in none.
//! - Learned prefixes have a budget of number and tokens; the one with the fewest conversations
//!   times tokens leaves. One that no prompt began with for [`UNUSED`] (14 days) is forgotten, and so
//!   is one of which too few conversations are left when others are deleted.
//! - The same prompts at the same times always lead to the same decisions.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hob_slots::{BlockId, ConversationId, Timestamp};
use serde::{Deserialize, Serialize};

pub const CONVERSATIONS: usize = 3;
pub const WINDOW: Duration = Duration::from_secs(7 * DAY);
pub const UNUSED: Duration = Duration::from_secs(14 * DAY);
pub const MIN_TOKENS: usize = 128;

const DAY: u64 = 24 * 60 * 60;

/// Prompts that are remembered.
const MAX_PROMPTS: usize = 64;

/// Conversations that are remembered of a learned prefix.
const MAX_USERS: usize = 16;

/// A use within this time of the last one is not worth saving.
const SAVE_USE_AFTER: Duration = Duration::from_secs(60 * 60);

/// The budget of learned prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedLimits {
    /// Maximum number; 0 learns nothing.
    pub prefixes: usize,
    /// Maximum sum of their tokens.
    pub tokens: usize,
}

/// The name of a learned prefix: the first 16 hex digits of the name of its last block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LearnedName(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{got:?} is not the name of a learned prefix: it has 16 hex digits in lower case")]
pub struct LearnedNameError {
    pub got: String,
}

/// A whole block of a prompt, and the position after its last token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockEnd(pub BlockId, pub usize);

/// A prompt as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// `None`: the request named no conversation.
    pub conversation: Option<ConversationId>,
    /// Its whole blocks, in order.
    pub blocks: Vec<BlockEnd>,
    /// The name of all of it up to the end of its last message, and that position. The next prompt of its conversation
    /// begins with the same tokens.
    pub last: BlockEnd,
    /// The names of its beginnings that end at the positions of [`Learner::ends`].
    pub beginnings: Vec<BlockId>,
    /// Tokens of the profile's prefix that it begins with.
    pub covered_tokens: usize,
}

/// The changes that a prompt makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lesson {
    /// The prompt begins with these.
    pub used: Vec<LearnedName>,
    /// A new learned prefix, and how many of the prompt's first tokens it has.
    pub learned: Option<(LearnedName, usize)>,
    /// Prefixes that are dropped.
    pub forgotten: Vec<LearnedName>,
    /// Whether the memory is worth saving.
    pub is_new: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedPrefix {
    pub name: LearnedName,
    pub tokens: usize,
    pub learned_at: Timestamp,
    pub used_at: Timestamp,
    /// Its blocks; the last one names it.
    blocks: Vec<BlockId>,
    /// The latest conversations that began with it, each with its last use.
    users: Vec<(Conversation, Timestamp)>,
}

/// The conversation of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Conversation {
    Named(ConversationId),
    /// [`Prompt::last`] of the first prompt of a conversation without a name.
    Unnamed(BlockId),
}

/// A remembered prompt: the first one of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SeenPrompt {
    #[serde(rename = "speaker")] // So saved files have it.
    conversation: Conversation,
    /// [`Prompt::last`] of its latest prompt.
    last: BlockId,
    /// The position; 0 in files of earlier versions, whose `last` is a block.
    #[serde(default)]
    end: usize,
    at: Timestamp,
    /// Within the budget of tokens.
    blocks: Vec<BlockEnd>,
}

/// The state of a [`Learner`], as it is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LearnedMemory {
    prompts: Vec<SeenPrompt>,
    prefixes: Vec<LearnedPrefix>,
}

/// Decides what to learn.
#[derive(Debug)]
pub struct Learner {
    limits: LearnedLimits,
    memory: LearnedMemory,
}

impl LearnedName {
    const DIGITS: usize = 16;
    const PREFIX: &str = ConversationId::LEARNED_PREFIX;

    /// The name of the prefix that ends with `block`.
    pub fn of(block: BlockId) -> Self {
        Self(block.to_string()[..Self::DIGITS].to_owned())
    }

    /// The id under which the engine has the prefix.
    pub fn prefix_id(&self) -> ConversationId {
        let id = format!("{}{self}", Self::PREFIX);
        ConversationId::new(&id).expect("a name is short and has no control characters")
    }

    /// The learned prefix with this `id`; `None` for other conversations.
    pub fn of_prefix(id: &ConversationId) -> Option<Self> {
        id.as_str().strip_prefix(Self::PREFIX)?.parse().ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LearnedName {
    type Err = LearnedNameError;

    fn from_str(text: &str) -> Result<Self, LearnedNameError> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for LearnedName {
    type Error = LearnedNameError;

    fn try_from(text: String) -> Result<Self, LearnedNameError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != Self::DIGITS || !text.bytes().all(is_digit) {
            return Err(LearnedNameError { got: text });
        }
        Ok(Self(text))
    }
}

impl From<LearnedName> for String {
    fn from(name: LearnedName) -> Self {
        name.0
    }
}

impl fmt::Display for LearnedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl LearnedPrefix {
    /// Conversations that began with it in the last 7 days, of the latest 16.
    pub fn conversations(&self, now: Timestamp) -> usize {
        self.users.iter().filter(|(_, at)| at.age(now) <= WINDOW).count()
    }

    fn used_by(&mut self, conversation: &Conversation, now: Timestamp) {
        self.used_at = now;
        self.users.retain(|(user, _)| user != conversation);
        self.users.insert(0, (conversation.clone(), now));
        self.users.truncate(MAX_USERS);
    }

    fn begins(&self, blocks: &[BlockEnd]) -> bool {
        self.blocks.last().is_some_and(|last| blocks.iter().any(|block| block.0 == *last))
    }
}

impl Learner {
    pub fn new(limits: LearnedLimits, memory: LearnedMemory) -> Self {
        Self { limits, memory }
    }

    pub fn memory(&self) -> &LearnedMemory {
        &self.memory
    }

    /// In the order in which they were learned.
    pub fn prefixes(&self) -> &[LearnedPrefix] {
        &self.memory.prefixes
    }

    /// Where the latest prompts of the conversations without a name end.
    pub fn ends(&self) -> impl Iterator<Item = usize> {
        let is_unnamed = |it: &&SeenPrompt| matches!(it.conversation, Conversation::Unnamed(_));
        self.memory.prompts.iter().filter(is_unnamed).map(|it| it.end)
    }

    /// A prompt was sent.
    pub fn observe(&mut self, prompt: &Prompt, now: Timestamp) -> Lesson {
        let mut lesson = Lesson { forgotten: self.expire(now), ..Lesson::default() };
        if prompt.blocks.is_empty() || self.limits.prefixes == 0 {
            return lesson;
        }
        lesson.is_new = !lesson.forgotten.is_empty();
        let conversation = self.remember(prompt, now, &mut lesson.is_new);
        for prefix in &mut self.memory.prefixes {
            if prefix.begins(&prompt.blocks) {
                lesson.is_new |= prefix.used_at.age(now) >= SAVE_USE_AFTER;
                prefix.used_by(&conversation, now);
                lesson.used.push(prefix.name.clone());
            }
        }
        if let Some(prefix) = self.candidate(prompt, now) {
            let (name, tokens) = (prefix.name.clone(), prefix.tokens);
            self.memory.prefixes.push(prefix);
            let mut left = self.hold_budget(now);
            if let Some(at) = left.iter().position(|other| *other == name) {
                left.remove(at);
            } else {
                lesson.is_new = true;
                lesson.learned = Some((name, tokens));
            }
            lesson.forgotten.extend(left);
        }
        lesson
    }

    /// Forgets a prefix and the prompts that began with it: only further conversations can teach it
    /// again. `false` when it is not learned.
    pub fn forget(&mut self, name: &LearnedName) -> bool {
        let LearnedMemory { prompts, prefixes } = &mut self.memory;
        let Some(at) = prefixes.iter().position(|prefix| prefix.name == *name) else {
            return false;
        };
        let prefix = prefixes.remove(at);
        prompts.retain(|prompt| !prefix.begins(&prompt.blocks));
        true
    }

    /// The KV of a prefix is lost, and its tokens with it: it may be learned again at once.
    pub fn lost(&mut self, name: &LearnedName) {
        self.memory.prefixes.retain(|prefix| prefix.name != *name);
    }

    /// A conversation was deleted. Returns the prefixes that too few others began with; `None` when
    /// nothing of it was remembered.
    pub fn forget_conversation(&mut self, id: &ConversationId) -> Option<Vec<LearnedName>> {
        let conversation = Conversation::Named(id.clone());
        let is_its = |other: &Conversation| *other == conversation;
        let prompts = self.memory.prompts.len();
        self.memory.prompts.retain(|prompt| !is_its(&prompt.conversation));
        let mut was_known = self.memory.prompts.len() < prompts;
        let mut lost_one = Vec::new();
        for prefix in &mut self.memory.prefixes {
            let before = prefix.users.len();
            prefix.users.retain(|(user, _)| !is_its(user));
            let was_user = prefix.users.len() < before;
            if was_user && prefix.users.len() < CONVERSATIONS {
                lost_one.push(prefix.name.clone());
            }
            was_known |= was_user;
        }
        self.memory.prefixes.retain(|prefix| !lost_one.contains(&prefix.name));
        was_known.then_some(lost_one)
    }

    /// Forgets what is too old, and what a smaller budget has no room for. Returns the prefixes.
    pub fn expire(&mut self, now: Timestamp) -> Vec<LearnedName> {
        let learns = self.limits.prefixes > 0;
        let LearnedMemory { prompts, prefixes } = &mut self.memory;
        prompts.retain(|prompt| learns && prompt.at.age(now) <= WINDOW);
        let is_old = |prefix: &LearnedPrefix| prefix.used_at.age(now) > UNUSED;
        let old = prefixes.iter().filter(|prefix| is_old(prefix));
        let mut forgotten: Vec<LearnedName> = old.map(|prefix| prefix.name.clone()).collect();
        prefixes.retain(|prefix| !is_old(prefix));
        forgotten.extend(self.hold_budget(now));
        forgotten
    }

    /// Remembers the prompt, unless an earlier one of its conversation is.
    fn remember(&mut self, prompt: &Prompt, now: Timestamp, is_new: &mut bool) -> Conversation {
        let named = prompt.conversation.clone().map(Conversation::Named);
        let is_same = |seen: &&mut SeenPrompt| match (&named, &seen.conversation) {
            (Some(conversation), seen) => conversation == seen,
            (None, Conversation::Unnamed(_)) => prompt.beginnings.contains(&seen.last),
            (None, Conversation::Named(_)) => false,
        };
        let BlockEnd(last, end) = prompt.last;
        if let Some(seen) = self.memory.prompts.iter_mut().find(is_same) {
            *is_new |= seen.at.age(now) >= SAVE_USE_AFTER;
            (seen.last, seen.end, seen.at) = (last, end, now);
            return seen.conversation.clone();
        }
        *is_new = true;
        let conversation = named.unwrap_or(Conversation::Unnamed(last));
        let fits = |block: &&BlockEnd| block.1 <= self.limits.tokens;
        let blocks = prompt.blocks.iter().take_while(fits).copied().collect();
        self.memory.prompts.push(SeenPrompt {
            conversation: conversation.clone(),
            last,
            end,
            at: now,
            blocks,
        });
        if self.memory.prompts.len() > MAX_PROMPTS {
            self.drop_a_prompt();
        }
        conversation
    }

    /// Drops the oldest prompt of a learned prefix, which teaches little; without one, the oldest.
    fn drop_a_prompt(&mut self) {
        let LearnedMemory { prompts, prefixes } = &mut self.memory;
        let is_known = |prompt: &SeenPrompt| prefixes.iter().any(|it| it.begins(&prompt.blocks));
        let oldest = prompts.iter().enumerate().min_by_key(|(_, it)| (!is_known(it), it.at));
        if let Some((at, _)) = oldest {
            prompts.remove(at);
        }
    }

    /// The longest beginning that enough conversations share and no learned prefix covers.
    fn candidate(&self, prompt: &Prompt, now: Timestamp) -> Option<LearnedPrefix> {
        let LearnedMemory { prompts, prefixes } = &self.memory;
        let in_it = prefixes.iter().filter(|prefix| prefix.begins(&prompt.blocks));
        let covered = in_it.map(|prefix| prefix.tokens).max().unwrap_or(0);
        let min_end = covered.max(prompt.covered_tokens) + MIN_TOKENS;
        let fits =
            |&(_, block): &(usize, &BlockEnd)| (min_end..=self.limits.tokens).contains(&block.1);
        let sharers = |at: usize, id: BlockId| {
            let shares = move |it: &&SeenPrompt| it.blocks.get(at).is_some_and(|b| b.0 == id);
            prompts.iter().filter(shares)
        };
        let is_shared =
            |&(at, block): &(usize, &BlockEnd)| sharers(at, block.0).count() >= CONVERSATIONS;
        let mut blocks = prompt.blocks.iter().enumerate().rev().filter(fits);
        let (at, &BlockEnd(id, tokens)) = blocks.find(is_shared)?;
        if prefixes.iter().any(|prefix| prefix.blocks.contains(&id)) {
            return None;
        }
        let mut users: Vec<_> =
            sharers(at, id).map(|it| (it.conversation.clone(), it.at)).collect();
        users.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        users.truncate(MAX_USERS);
        Some(LearnedPrefix {
            name: LearnedName::of(id),
            tokens,
            learned_at: now,
            used_at: now,
            blocks: prompt.blocks[..=at].iter().map(|block| block.0).collect(),
            users,
        })
    }

    /// Forgets the prefixes that save least until the rest fits the budget.
    fn hold_budget(&mut self, now: Timestamp) -> Vec<LearnedName> {
        let prefixes = &mut self.memory.prefixes;
        let mut left = Vec::new();
        loop {
            let tokens: usize = prefixes.iter().map(|prefix| prefix.tokens).sum();
            if prefixes.len() <= self.limits.prefixes && tokens <= self.limits.tokens {
                return left;
            }
            let worth = |prefix: &LearnedPrefix| {
                (prefix.conversations(now) * prefix.tokens, prefix.used_at, prefix.name.clone())
            };
            let least = (0..prefixes.len()).min_by_key(|&at| worth(&prefixes[at]));
            let Some(least) = least else { return left };
            left.push(prefixes.remove(least).name);
        }
    }
}

#[cfg(test)]
mod tests;
