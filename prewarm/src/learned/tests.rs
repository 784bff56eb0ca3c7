//! Prompts are texts: each letter is a block of 64 tokens, and what follows `.` fills no block.

use proptest::prelude::*;

use hob_slots::{ModelHash, Token};

use super::*;

const LIMITS: LearnedLimits = LearnedLimits { prefixes: 4, tokens: 64 * 20 };
const HOUR: u64 = 60 * 60 * 1000;

struct World {
    learner: Learner,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        Self::with(LIMITS)
    }

    fn with(limits: LearnedLimits) -> Self {
        let learner = Learner::new(limits, LearnedMemory::default());
        Self { learner, now: Timestamp(1_000_000_000) }
    }

    fn pass(&mut self, hours: u64) {
        self.now = Timestamp(self.now.0 + hours * HOUR);
    }

    fn says(&mut self, conversation: &str, text: &str) -> Lesson {
        self.learner.observe(&prompt(Some(conversation), text), self.now)
    }

    fn unnamed(&mut self, text: &str) -> Lesson {
        self.learner.observe(&prompt(None, text), self.now)
    }

    /// The names of the learned prefixes.
    fn learned(&self) -> Vec<LearnedName> {
        self.learner.prefixes().iter().map(|prefix| prefix.name.clone()).collect()
    }
}

fn id(text: &str) -> ConversationId {
    ConversationId::new(text).unwrap()
}

fn prompt(conversation: Option<&str>, text: &str) -> Prompt {
    let mut parent = BlockId::root(ModelHash([1; 8]));
    let block = |(at, letter): (usize, char)| {
        parent = BlockId::child(parent, &[Token(letter as i32)]);
        BlockEnd(parent, (at + 1) * 64)
    };
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let blocks: Vec<BlockEnd> = whole.chars().enumerate().map(block).collect();
    let parts = rest.char_indices().map(|(at, _)| {
        let tokens: Vec<_> = rest[..=at].chars().map(|letter| Token(letter as i32)).collect();
        BlockEnd(BlockId::child(parent, &tokens), blocks.len() * 64 + tokens.len())
    });
    let ends: Vec<BlockEnd> = blocks.iter().copied().chain(parts).collect();
    Prompt {
        conversation: conversation.map(id),
        last: *ends.last().unwrap(),
        beginnings: ends.iter().map(|end| end.0).collect(),
        blocks,
        covered_tokens: 0,
    }
}

/// The name of the prefix `text`.
fn name(text: &str) -> LearnedName {
    LearnedName::of(prompt(None, text).blocks.last().unwrap().0)
}

#[test]
fn the_third_conversation_with_the_same_beginning_teaches_it() {
    let mut world = World::new();
    assert_eq!(world.says("a", "SSSx").learned, None);
    assert_eq!(world.says("b", "SSSy").learned, None);
    let lesson = world.says("c", "SSSz");
    assert_eq!(lesson.learned, Some((name("SSS"), 3 * 64)));
    assert_eq!(world.says("d", "SSSw").used, [name("SSS")]);
}

#[test]
fn one_conversation_counts_once() {
    let mut world = World::new();
    for text in ["SSSx", "SSSxyz", "SSSxyzuvw", "SSSk"] {
        assert_eq!(world.says("a", text).learned, None, "{text}");
    }
    let mut world = World::new();
    for text in ["SSSx", "SSSxyz", "SSSxyzuvw", "SSSx"] {
        assert_eq!(world.unnamed(text).learned, None, "{text} continues or repeats a prompt");
    }
}

#[test]
fn requests_without_a_name_teach_a_prefix() {
    let mut world = World::new();
    world.unnamed("SSSx");
    world.unnamed("SSSy");
    world.unnamed("SSSxab"); // The next turn of the first conversation.
    assert_eq!(world.unnamed("SSSz").learned, Some((name("SSS"), 3 * 64)));
}

#[test]
fn questions_that_fill_no_block_are_of_different_conversations() {
    let mut world = World::new();
    for text in ["SSS.x", "SSS.xyz", "SSS.y", "SSS.y"] {
        assert_eq!(world.unnamed(text).learned, None, "{text}");
    }
    assert_eq!(world.learner.ends().collect::<Vec<_>>(), [3 * 64 + 3, 3 * 64 + 1]);
    assert_eq!(world.unnamed("SSS.z").learned, Some((name("SSS"), 3 * 64)));
}

#[test]
fn conversations_more_than_a_week_apart_do_not_count() {
    let mut world = World::new();
    world.says("a", "SSSx");
    world.says("b", "SSSy");
    world.pass(7 * 24 + 1);
    assert_eq!(world.says("c", "SSSz").learned, None);
}

#[test]
fn a_short_beginning_is_not_learned_nor_one_that_a_profile_covers() {
    let mut world = World::new();
    for (conversation, text) in [("a", "Sx"), ("b", "Sy"), ("c", "Sz")] {
        assert_eq!(world.says(conversation, text).learned, None);
    }
    let mut world = World::new();
    let mut learned = Vec::new();
    for (conversation, text) in [("a", "PPSx"), ("b", "PPSy"), ("c", "PPSz")] {
        let prompt = Prompt { covered_tokens: 128, ..prompt(Some(conversation), text) };
        learned.extend(world.learner.observe(&prompt, world.now).learned);
    }
    assert_eq!(learned, [], "64 tokens behind a profile's 128 are too few");
}

#[test]
fn a_longer_beginning_is_learned_beside_the_shorter_one() {
    let mut world = World::new();
    for (conversation, text) in [("a", "SSx"), ("b", "SSy"), ("c", "SSz")] {
        world.says(conversation, text);
    }
    for (conversation, text) in [("d", "SSTx"), ("e", "SSTy"), ("f", "SSTz")] {
        assert_eq!(world.says(conversation, text).learned, None, "64 tokens more are too few");
    }
    for (conversation, text) in [("g", "SSUUx"), ("h", "SSUUy"), ("i", "SSUUz")] {
        world.says(conversation, text);
    }
    assert_eq!(world.learned(), [name("SS"), name("SSUU")]);
    assert_eq!(world.says("j", "SSUU!").used, [name("SS"), name("SSUU")]);
}

#[test]
fn the_budget_keeps_what_saves_most() {
    let mut world = World::with(LearnedLimits { prefixes: 1, tokens: 64 * 20 });
    for (conversation, text) in [("a", "SSx"), ("b", "SSy"), ("c", "SSz")] {
        world.says(conversation, text);
    }
    world.says("d", "TTTTx");
    world.says("e", "TTTTy");
    let lesson = world.says("f", "TTTTz");
    assert_eq!(lesson.learned, Some((name("TTTT"), 4 * 64)));
    assert_eq!(lesson.forgotten, [name("SS")]);
    world.says("g", "UUx");
    world.says("h", "UUy");
    let lesson = world.says("i", "UUz");
    assert_eq!((lesson.learned, lesson.forgotten), (None, vec![]), "it saves less than the other");

    let mut world = World::with(LearnedLimits { prefixes: 4, tokens: 64 * 3 });
    for (conversation, text) in [("a", "SSSSx"), ("b", "SSSSy"), ("c", "SSSSz")] {
        world.says(conversation, text);
    }
    assert_eq!(world.learned(), [name("SSS")], "as much as the budget of tokens has room for");
}

#[test]
fn nothing_is_learned_without_a_budget() {
    let mut world = World::with(LearnedLimits { prefixes: 0, tokens: 64 * 20 });
    for (conversation, text) in [("a", "SSx"), ("b", "SSy"), ("c", "SSz")] {
        assert_eq!(world.says(conversation, text), Lesson::default());
    }
    assert_eq!(*world.learner.memory(), LearnedMemory::default());
}

#[test]
fn a_smaller_budget_forgets_what_it_has_no_room_for() {
    let mut world = World::new();
    for (conversation, text) in [("a", "SSx"), ("b", "SSy"), ("c", "SSz")] {
        world.says(conversation, text);
    }
    let none = LearnedLimits { prefixes: 0, tokens: 64 * 20 };
    let mut learner = Learner::new(none, world.learner.memory().clone());
    assert_eq!(learner.expire(world.now), [name("SS")]);
    assert_eq!(*learner.memory(), LearnedMemory::default());
}

#[test]
fn an_unused_prefix_is_forgotten_after_two_weeks() {
    let mut world = World::new();
    for (conversation, text) in [("a", "SSx"), ("b", "SSy"), ("c", "SSz")] {
        world.says(conversation, text);
    }
    world.pass(14 * 24);
    assert_eq!(world.learner.expire(world.now), []);
    world.pass(1);
    assert_eq!(world.says("d", "other").forgotten, [name("SS")]);
}

#[test]
fn a_forgotten_prefix_needs_three_further_conversations() {
    let mut world = World::new();
    for (conversation, text) in [("a", "SSx"), ("b", "SSy"), ("c", "SSz")] {
        world.says(conversation, text);
    }
    assert!(world.learner.forget(&name("SS")));
    assert!(!world.learner.forget(&name("SS")));
    assert_eq!(world.says("d", "SSu").learned, None);
    assert_eq!(world.says("e", "SSv").learned, None);
    assert!(world.says("f", "SSw").learned.is_some());
}

#[test]
fn a_prefix_whose_kv_was_lost_is_learned_again_by_the_next_prompt() {
    let mut world = World::new();
    for (conversation, text) in [("a", "SSx"), ("b", "SSy"), ("c", "SSz")] {
        world.says(conversation, text);
    }
    world.learner.lost(&name("SS"));
    assert_eq!(world.learned(), []);
    assert_eq!(world.says("c", "SSzmore").learned, Some((name("SS"), 2 * 64)));
}

#[test]
fn a_deleted_conversation_takes_the_prefix_that_too_few_others_began_with() {
    let mut world = World::new();
    for conversation in ["a", "b", "c", "d"] {
        world.says(conversation, &format!("SS{conversation}"));
    }
    assert_eq!(world.learner.forget_conversation(&id("a")), Some(Vec::new()));
    assert_eq!(world.learner.forget_conversation(&id("unknown")), None, "it changes nothing");
    assert_eq!(world.learner.forget_conversation(&id("b")), Some(vec![name("SS")]));
    assert_eq!(world.says("e", "SSe").learned, Some((name("SS"), 2 * 64)), "c, d and e");
}

#[test]
fn a_busy_client_does_not_push_a_rare_one_out() {
    let mut world = World::new();
    world.says("rare 1", "RRx");
    world.says("rare 2", "RRy");
    for turn in 0..200 {
        world.unnamed(&format!("SS{}", char::from_u32(0x4e00 + turn).unwrap()));
    }
    assert_eq!(world.says("rare 3", "RRz").learned, Some((name("RR"), 2 * 64)));
}

#[test]
fn the_memory_survives_as_json_without_texts() {
    let mut world = World::new();
    for (conversation, text) in [("a", "SSx"), ("b", "SSy"), ("c", "SSz")] {
        world.says(conversation, text);
    }
    let json = serde_json::to_string(world.learner.memory()).unwrap();
    let memory: LearnedMemory = serde_json::from_str(&json).unwrap();
    assert_eq!(memory, *world.learner.memory());
    let mut again = Learner::new(LIMITS, memory);
    assert_eq!(again.observe(&prompt(None, "SSu"), world.now).used, [name("SS")]);
}

#[test]
fn a_use_is_saved_once_an_hour() {
    let mut world = World::new();
    assert!(world.says("a", "SSx").is_new);
    assert!(!world.says("a", "SSxy").is_new);
    world.pass(1);
    assert!(world.says("a", "SSxyz").is_new);
}

#[test]
fn a_name_is_read_back_from_the_id_of_its_prefix() {
    let name = name("SS");
    assert_eq!(LearnedName::of_prefix(&name.prefix_id()), Some(name));
    for other in ["room-1", "__learned__:", "__learned__:xyz", "__prefix__:0123456789abcdef"] {
        assert_eq!(LearnedName::of_prefix(&id(other)), None);
    }
    assert!("0123456789ABCDEF".parse::<LearnedName>().is_err());
}

proptest! {
    /// By counting all prompts of the last week.
    #[test]
    fn what_is_learned_is_shared_by_three_conversations(
        prompts in prop::collection::vec((0..6usize, "[ab]{1,5}"), 1..30),
    ) {
        let mut world = World::new();
        let mut first: Vec<(usize, String)> = Vec::new();
        for (conversation, text) in prompts {
            if first.iter().all(|(known, _)| *known != conversation) {
                first.push((conversation, text.clone()));
            }
            if let Some((_, tokens)) = world.says(&conversation.to_string(), &text).learned {
                let beginning = &text[..tokens / 64];
                let sharers = first.iter().filter(|(_, text)| text.starts_with(beginning)).count();
                prop_assert!(tokens >= MIN_TOKENS && sharers >= CONVERSATIONS);
            }
        }
        let tokens: usize = world.learner.prefixes().iter().map(|prefix| prefix.tokens).sum();
        prop_assert!(tokens <= LIMITS.tokens && world.learned().len() <= LIMITS.prefixes);
    }
}
