use proptest::prelude::*;

use super::*;
use crate::block::Timeline;
use crate::format::BlockRef;
use crate::lineage::{Lineage, ViewRun};
use crate::{FileDigest, Lora, ModelHash, Timestamp, TtlClass};

const MODEL: ModelHash = ModelHash(*b"a model!");

/// Different for each `text`.
fn words(text: i32, count: i32) -> Vec<Token> {
    (0..count).map(|n| Token(text * 10_000 + n)).collect()
}

/// Ends a turn.
const END: Token = Token(-1);

fn record(conversation: &str, tokens: Vec<Token>, views: Vec<ViewRun>) -> Arc<SlotRecord> {
    let mut timeline = Timeline::new(MODEL);
    timeline.push_runs(&tokens, &views, |token| token == END);
    let block = |block: &crate::Block| BlockRef {
        end: u32::try_from(block.range.end).unwrap(),
        id: block.id,
        bytes: 1,
    };
    Arc::new(SlotRecord {
        turns: 1,
        tokens,
        blocks: timeline.blocks().iter().map(block).collect(),
        lineage: Lineage { views, away: Vec::new() },
        ..SlotRecord::empty(
            ConversationId::new(conversation).unwrap(),
            TtlClass::Permanent,
            Timestamp(0),
        )
    })
}

fn index(records: &[Arc<SlotRecord>]) -> ContentIndex {
    let mut index = ContentIndex::default();
    for record in records {
        index.add(Source { record: record.clone(), is_private: false });
    }
    index
}

fn query<'p>(
    prompt: &'p [Token],
    within: &'p [Range<usize>],
    adapters: &'p AdapterSet,
    conversation: Option<&'p ConversationId>,
) -> ChunkQuery<'p> {
    let (others, own_impure, least) = (true, false, 64);
    let whole_turns = false;
    ChunkQuery { prompt, within, adapters, conversation, others, own_impure, least, whole_turns }
}

/// Ranges of the prompt, and where they begin in their sources.
fn found(index: &ContentIndex, prompt: &[Token]) -> Vec<(Range<usize>, usize)> {
    let adapters = AdapterSet::default();
    let within = [0..prompt.len()];
    let query = query(prompt, &within, &adapters, None);
    index.find(query).into_iter().map(|chunk| (chunk.at, chunk.from)).collect()
}

#[test]
fn documents_in_another_order_are_found_whole() {
    let [a, b, c] = [words(1, 200), words(2, 300), words(3, 150)];
    let known = record("source", [&words(9, 10), &a[..], &b, &c].concat(), Vec::new());
    let prompt = [&words(8, 25), &c[..], &a, &words(7, 40), &b, &words(6, 9)].concat();
    let chunks = found(&index(&[known]), &prompt);
    assert_eq!(chunks, [(25..175, 510), (175..375, 10), (415..715, 210)]);
}

#[test]
fn of_two_sources_the_one_behind_the_prompts_own_beginning_is_taken_and_else_the_newest() {
    let [instructions, other, text] = [words(9, 64), words(8, 70), words(1, 200)];
    let behind = record("behind", [&instructions[..], &text].concat(), Vec::new());
    let index = index(&[behind, record("newest", text.clone(), Vec::new())]);
    let prompt = [&instructions[..], &other, &text].concat();
    assert_eq!(found(&index, &prompt), [(0..64, 0), (134..334, 64)]);
    let prompt = [&words(7, 64)[..], &other, &text].concat();
    assert_eq!(found(&index, &prompt), [(134..334, 0)]);
}

#[test]
fn of_whole_turns_each_text_is_found_from_its_first_token_on() {
    // All begin alike.
    let text = |number: i32| [words(5, 6), words(number, 80), vec![END]].concat();
    let known = [text(1), text(2), text(3), words(6, 40)].concat();
    let prompt = [words(9, 8), text(3), text(2), text(1), words(8, 30)].concat();
    let index = index(&[record("source", known, Vec::new())]);
    // The second one takes the first tokens of the third, which has no block behind them that is long enough.
    assert_eq!(found(&index, &prompt), [(8..95, 174), (95..188, 87)]);
    let (adapters, within) = (AdapterSet::default(), [0..prompt.len()]);
    let query = ChunkQuery { whole_turns: true, ..query(&prompt, &within, &adapters, None) };
    let chunks = index.find(query).into_iter().map(|chunk| (chunk.at, chunk.from));
    assert_eq!(chunks.collect::<Vec<_>>(), [(8..95, 174), (95..182, 87), (182..269, 0)]);
}

#[test]
fn text_that_goes_on_alike_is_not_cut_at_its_turns() {
    let text = [words(1, 80), vec![END], words(2, 9), vec![END], words(3, 70)].concat();
    let index = index(&[record("source", text.clone(), Vec::new())]);
    let (adapters, prompt) = (AdapterSet::default(), [words(9, 8), text[..100].to_vec()].concat());
    // Up to the end of the prompt, and up to a turn's end.
    for (end, behind) in [(108, None), (99, Some(Token(7)))] {
        let prompt: Vec<Token> = prompt[..end].iter().copied().chain(behind).collect();
        let within = [0..prompt.len()];
        let query = ChunkQuery { whole_turns: true, ..query(&prompt, &within, &adapters, None) };
        let chunks = index.find(query).into_iter().map(|chunk| (chunk.at, chunk.from));
        assert_eq!(chunks.collect::<Vec<_>>(), [(8..end, 0)]);
    }
}

#[test]
fn a_text_that_is_too_short_or_was_never_computed_is_not_found() {
    let known = record("source", words(1, 300), Vec::new());
    let index = index(&[known]);
    assert_eq!(found(&index, &words(1, 300)[64..127]), []);
    assert_eq!(found(&index, &words(1, 300)[64..128]), [(0..64, 64)]);
    assert_eq!(found(&index, &words(2, 300)), []);
    assert_eq!(found(&index, &[]), []);
}

#[test]
fn only_what_saw_everything_before_it_is_found() {
    let run = |end, view| ViewRun { end, view };
    let views = vec![run(128, View::WHOLE), run(320, View::without([0..64]))];
    let known = record("source", words(1, 320), views);
    let prompt = [words(2, 5), words(1, 320)].concat();
    assert_eq!(found(&index(&[known]), &prompt), [(5..133, 0)]);
}

#[test]
fn impure_kv_is_found_by_its_own_conversation_alone_and_only_where_it_asks() {
    let run = |end, view| ViewRun { end, view };
    let views = vec![run(64, View::WHOLE), run(320, View::without([0..64]))];
    let known = record("own", words(1, 320), views);
    let index = index(&[known.clone(), record("other", words(3, 200), Vec::new())]);
    let prompt = [words(2, 5), words(1, 320), words(3, 200)].concat();
    let (adapters, within) = (AdapterSet::default(), [0..prompt.len()]);
    let of = |conversation, others, own_impure| {
        let query =
            ChunkQuery { others, own_impure, ..query(&prompt, &within, &adapters, conversation) };
        index.find(query).into_iter().map(|chunk| chunk.at).collect::<Vec<_>>()
    };
    let (own, other) = (&known.conversation, &ConversationId::new("other").unwrap());
    assert_eq!(of(Some(own), true, true), [5..325, 325..525]);
    assert_eq!(of(Some(own), false, true), [5..325]);
    assert_eq!(of(Some(own), false, false), [5..69]);
    assert_eq!(of(Some(other), true, true), [5..69, 325..525]);
    assert_eq!(of(None, true, true), [5..69, 325..525]);
}

#[test]
fn timelines_that_begin_with_the_same_pure_tokens_and_differ_behind_them_stay_beside_each_other() {
    let run = |end, view| ViewRun { end, view };
    let of = |text: i32| {
        let views = vec![run(64, View::WHOLE), run(264, View::without([0..64]))];
        record("own", [words(1, 64), words(text, 200)].concat(), views)
    };
    let (earlier, later) = (of(2), of(3));
    let index = index(&[earlier.clone(), later.clone()]);
    assert!(index.has(&earlier) && index.has(&later));
}

#[test]
fn private_kv_is_found_by_its_conversation_alone() {
    let known = record("private", words(1, 200), Vec::new());
    let mut index = ContentIndex::default();
    index.add(Source { record: known.clone(), is_private: true });
    let prompt = [words(2, 5), words(1, 200)].concat();
    let (adapters, within) = (AdapterSet::default(), [0..205]);
    let of = |conversation| index.find(query(&prompt, &within, &adapters, conversation)).len();
    let other = ConversationId::new("other").unwrap();
    assert_eq!([None, Some(&other), Some(&known.conversation)].map(of), [0, 0, 1]);
}

#[test]
fn kv_is_found_with_the_adapters_alone_that_computed_it() {
    let of_scale = |scale| {
        AdapterSet::new(vec![Lora { sha256: FileDigest([1; 32]), scale }]).expect("it is finite")
    };
    let plain = record("plain", words(1, 200), Vec::new());
    let styled = SlotRecord::clone(&record("styled", words(2, 200), Vec::new()));
    let styled = Arc::new(SlotRecord { adapters: of_scale(1.0), ..styled });
    let index = index(&[plain, styled]);
    let prompt = [words(3, 5), words(1, 200), words(2, 200)].concat();
    let within = [0..prompt.len()];
    let with = |adapters: &AdapterSet| -> Vec<Range<usize>> {
        let chunks = index.find(query(&prompt, &within, adapters, None));
        chunks.into_iter().map(|chunk| chunk.at).collect()
    };
    assert_eq!(with(&AdapterSet::default()), [5..205]);
    assert_eq!(with(&of_scale(1.0)), [205..405]);
    assert_eq!(with(&of_scale(0.5)), []);
}

#[test]
fn a_conversation_is_found_by_what_it_held_before_until_it_is_forgotten() {
    let before = record("chat", words(1, 200), Vec::new());
    let after = record("chat", words(2, 200), Vec::new());
    let mut index = index(&[before, after.clone()]);
    assert_eq!(found(&index, &[words(3, 9), words(1, 200)].concat()), [(9..209, 0)]);
    let longer = record("chat", [words(2, 200), words(4, 64)].concat(), Vec::new());
    index.add(Source { record: longer.clone(), is_private: false });
    assert!(index.has(&longer) && !index.has(&after), "the longer one has all of it");
    assert_eq!(index.tokens(), 464);
    index.forget(&after.conversation);
    assert_eq!(index.tokens(), 0);
    assert_eq!(found(&index, &words(1, 200)), []);
}

#[test]
fn chunks_keep_out_of_axioms_identity_rules_and_tools() {
    let segment = |end, layer| SegmentRef {
        end,
        layer,
        key: String::new(),
        weight: SegmentRef::DEFAULT_WEIGHT,
        pinned: false,
    };
    let segments = [
        segment(10, Layer::Axioms),
        segment(20, Layer::Rules),
        segment(30, Layer::Capabilities),
        segment(60, Layer::Document),
        segment(80, Layer::User),
        segment(90, Layer::Identity),
        segment(120, Layer::Tool),
    ];
    assert_eq!(movable(0..150, &segments), [30..80, 90..150]);
    assert_eq!(movable(40..100, &segments), [40..80, 90..100]);
    assert_eq!(movable(5..25, &segments), []);
    assert_eq!(movable(5..25, &[]), [5..25]);
}

#[test]
fn an_import_names_the_blocks_that_have_its_tokens() {
    let known = record("source", words(1, 300), Vec::new());
    let blocks: Vec<BlockId> = known.blocks.iter().map(|block| block.id).collect();
    let chunk = Chunk { at: 10..110, source: known, from: 100 };
    assert_eq!(chunk.import(Repair::Full, false), None);
    let import = chunk.import(Repair::Head(16), false).unwrap();
    assert_eq!((import.at.clone(), import.from(), import.delta), (26..110, 116..200, -90));
    assert_eq!(import.blocks, [(blocks[1], 64..128), (blocks[2], 128..192), (blocks[3], 192..256)]);
    let view = View::moved(-90, blocks[1..4].iter().copied());
    assert_eq!((import.view, import.repaired), (view, 16));
    let later = import.clone().starting_at(60).unwrap();
    assert_eq!((later.at.clone(), later.from(), later.view), (60..110, 150..200, view));
    assert_eq!(later.blocks, import.blocks[1..]);
    assert_eq!(import.starting_at(110), None);
}

#[test]
fn a_chunk_right_behind_another_is_imported_with_its_head_and_others_are_not() {
    let known = record("source", words(1, 300), Vec::new());
    let chunk = |at: Range<usize>| Chunk { at, source: known.clone(), from: 100 };
    let chunks = [chunk(10..110), chunk(110..190), chunk(191..291)];
    let prompt = words(2, 291);
    let parts = |repair| -> Vec<_> {
        let imports = imports(&chunks, &prompt, repair).into_iter();
        imports.map(|import| (import.at, import.head, import.repaired)).collect()
    };
    assert_eq!(parts(Repair::Head(16)), [(10..110, 16, 0), (110..190, 16, 0), (207..291, 0, 16)]);
    assert_eq!(parts(Repair::Sinks), [(14..110, 0, 4), (114..190, 0, 4), (195..291, 0, 4)]);
    // What is computed in place of a head that grows is compared with it.
    let growing = parts(Repair::HeadGrowing(20));
    assert_eq!(growing, [(10..110, 48, 0), (110..190, 40, 0), (191..291, 48, 0)]);
    let joined = imports(&chunks, &prompt, Repair::Head(16)).swap_remove(1);
    let cut = joined.clone().starting_at(120).unwrap();
    assert_eq!((cut.at, cut.head), (120..190, 6));
    let behind = joined.behind_head().unwrap();
    assert_eq!((behind.at, behind.head, behind.repaired), (126..190, 0, 16));
}

#[test]
fn a_chunk_that_saw_nothing_before_it_is_computed_and_its_neighbour_is_not_joined_to_it() {
    let text = |number: i32| words(number, 128);
    let known = record("source", [text(1), text(2), text(3)].concat(), Vec::new());
    let prompt = [words(9, 8), text(3), text(2), text(1)].concat();
    let adapters = AdapterSet::default();
    let within = [0..prompt.len()];
    let chunks = index(&[known]).find(query(&prompt, &within, &adapters, None));
    assert_eq!(chunks.len(), 3);
    let parts = |repair| -> Vec<_> {
        let imports = imports(&chunks, &prompt, repair).into_iter();
        imports.map(|import| (import.at, import.head, import.repaired)).collect()
    };
    let [third, second, first] = [(8..136, 48, 0), (136..264, 48, 0), (264..392, 48, 0)];
    assert_eq!(parts(Repair::HeadByLength), [third.clone(), second.clone(), first]);
    assert_eq!(parts(Repair::HeadBySeen(127)), parts(Repair::HeadByLength));
    assert_eq!(parts(Repair::HeadBySeen(128)), [third, second]);
    let alone = [words(9, 8), text(3), text(1)].concat();
    let within = [0..alone.len()];
    let chunks = index(&[record("source", [text(1), text(3)].concat(), Vec::new())])
        .find(query(&alone, &within, &adapters, None));
    let import = imports(&chunks, &alone, Repair::HeadBySeen(128)).swap_remove(0);
    assert_eq!((import.at, import.head, import.repaired), (56..136, 0, 48));
    let by_move = Repair::HeadByMove { nearer: 16, further: 64 };
    let heads: Vec<_> = imports(&chunks, &alone, by_move).into_iter().map(|it| it.head).collect();
    assert_eq!(heads, [48, 64]);
}

#[test]
fn by_default_a_short_text_that_saw_only_the_prompts_beginning_is_computed_and_others_are_moved() {
    let (instructions, new) = (words(5, 40), words(6, 70));
    let adapters = AdapterSet::default();
    // What is in front of the text where it was read, behind the instructions; and what is computed of it here.
    for (in_front, len, computed) in
        [(vec![], 255, 255), (vec![], 256, 32), (words(7, 50), 255, 48), (words(7, 50), 256, 32)]
    {
        let text = words(1, len);
        let known = record("source", [&instructions[..], &in_front, &text].concat(), Vec::new());
        let prompt = [&instructions[..], &new, &text].concat();
        let within = [instructions.len()..prompt.len()];
        let chunks = index(&[known]).find(query(&prompt, &within, &adapters, None));
        assert_eq!(chunks.len(), 1);
        let moved = imports(&chunks, &prompt, Repair::default());
        let moved: usize = moved.iter().map(|import| import.at.len()).sum();
        assert_eq!(text.len() - moved, computed, "{} in front of {len}", in_front.len());
    }
}

#[test]
fn what_is_left_of_a_text_is_repaired_by_the_length_and_the_place_of_the_whole_text() {
    let (instructions, text) = (words(5, 40), words(1, 200));
    let index = index(&[record("source", [&instructions[..], &text].concat(), Vec::new())]);
    let prompt = [&instructions[..], &words(6, 70), &text].concat();
    let adapters = AdapterSet::default();
    // The whole text, and what is behind its first 70 tokens, which were computed before.
    for (start, first_moved) in [(110, 158), (180, 228)] {
        let within = [start..prompt.len()];
        let chunks = index.find(query(&prompt, &within, &adapters, None));
        assert_eq!(chunks.iter().map(|chunk| chunk.at.clone()).collect::<Vec<_>>(), within);
        assert!(imports(&chunks, &prompt, Repair::HeadBySeen(200)).is_empty());
        let moved = imports(&chunks, &prompt, Repair::HeadBySeen(199)).swap_remove(0);
        assert_eq!((moved.at, moved.repaired), (first_moved..310, 48));
    }
}

proptest! {
    #[test]
    fn chunks_are_equal_text_sorted_and_disjoint(
        sources in prop::collection::vec(prop::collection::vec((0..3_i32, 1..150_i32), 1..6), 1..4),
        prompt in prop::collection::vec((0..4_i32, 1..150_i32), 1..6),
    ) {
        let text = |parts: &[(i32, i32)]| -> Vec<Token> {
            parts.iter().flat_map(|&(text, count)| words(text, count)).collect()
        };
        let records: Vec<_> = sources.iter().enumerate()
            .map(|(n, parts)| record(&format!("source-{n}"), text(parts), Vec::new()))
            .collect();
        let prompt = text(&prompt);
        let (adapters, within) = (AdapterSet::default(), [0..prompt.len()]);
        let mut end = 0;
        for chunk in index(&records).find(query(&prompt, &within, &adapters, None)) {
            prop_assert!(end <= chunk.at.start && chunk.at.len() >= 64);
            end = chunk.at.end;
            let source = &chunk.source.tokens[chunk.from..chunk.from + chunk.at.len()];
            prop_assert_eq!(source, &prompt[chunk.at.clone()]);
            let import = chunk.import(Repair::Head(32), false).unwrap();
            prop_assert!(import.blocks.first().unwrap().1.start <= import.from().start);
            prop_assert!(import.from().end <= import.blocks.last().unwrap().1.end);
        }
    }
}
