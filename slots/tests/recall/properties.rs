//! What holds of all passages and all queries.

use std::collections::BTreeSet;

use hob_slots::recall::{Index, Passage, Query, Residence, Vectors, choose};
use proptest::prelude::*;

const WORDS: &[&str] = &[
    "locker",
    "code",
    "is",
    "48213",
    "my",
    "config.py",
    "max_size",
    "blue",
    "sky",
    "codes",
    "What",
    "the",
    "密码",
    "türcode",
    "\"sky is\"",
    "?",
    ".",
    "\n",
    "Oslo's",
    "'",
    "e\u{301}",
];

fn text() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(prop::sample::select(WORDS), 0..24);
    let spoken = words.prop_map(|words| words.join(" "));
    let glued =
        prop::collection::vec(prop::sample::select(WORDS), 0..8).prop_map(|words| words.concat());
    prop_oneof![4 => spoken, 1 => glued, 1 => "\\PC{0,40}", 1 => any::<String>()]
}

fn passages() -> impl Strategy<Value = Vec<Passage>> {
    let key = prop::option::weighted(
        0.3,
        prop::sample::select(&["config.py", "message 3", "notes", ""][..]),
    );
    let passage = (text(), 0_usize..80, 0_usize..3, key, 0_u64..4);
    prop::collection::vec(passage, 0..30).prop_map(|parts| {
        let mut at = 0;
        let passage = |(block, (text, tokens, gap, key, group)): (
            usize,
            (String, usize, usize, Option<&str>, u64),
        )| {
            // Mostly adjacent; some overlap.
            let start = if gap == 1 {
                at + 3
            } else if gap == 2 {
                at / 2
            } else {
                at
            };
            at = start + tokens;
            Passage { block, range: start..at, text, key: key.map(str::to_owned), group }
        };
        parts.into_iter().enumerate().map(passage).collect()
    })
}

proptest! {
    #[test]
    fn choices_fit_are_absent_and_repeat(
        passages in passages(), query in text(), free in 0_usize..400, resident in any::<[u64; 2]>()
    ) {
        let index: Index = passages.iter().cloned().collect();
        let residence = |block: usize| match resident.map(|bits| bits >> (block % 64) & 1) {
            [0, _] => Residence::Absent,
            [_, 0] => Residence::Resident,
            _ => Residence::MayLeave,
        };
        let chosen = choose(&index, &Query::new(&query), &residence, free);
        let choices = &chosen.back;
        let tokens = |block: usize| passages[block].range.len();
        let leave = (0..passages.len()).filter(|block| {
            residence(*block) == Residence::MayLeave && !chosen.stay.contains(block)
        });
        let room = free + leave.map(tokens).sum::<usize>();
        prop_assert!(choices.iter().map(|choice| tokens(choice.block)).sum::<usize>() <= room);
        prop_assert!(choices.iter().all(|choice| choice.score > 0.0));
        prop_assert!(choices.iter().all(|choice| residence(choice.block) == Residence::Absent));
        prop_assert!(chosen.stay.iter().all(|&block| residence(block) != Residence::Absent));
        let distinct: BTreeSet<usize> = choices.iter().map(|choice| choice.block).collect();
        prop_assert_eq!(distinct.len(), choices.len());
        prop_assert_eq!(&choose(&index, &Query::new(&query), &residence, free), &chosen);
    }

    #[test]
    fn an_index_that_changed_equals_one_built_anew(
        passages in passages(), query in text(), steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..60)
    ) {
        let mut index = Index::default();
        let mut present = BTreeSet::new();
        for (which, is_added) in steps.into_iter().filter(|_| !passages.is_empty()) {
            let block = which.index(passages.len());
            if is_added {
                index.add(passages[block].clone());
                present.insert(block);
            } else {
                index.remove(block);
                present.remove(&block);
            }
        }
        let anew: Index = present.iter().map(|&block| passages[block].clone()).collect();
        prop_assert_eq!(index.len(), present.len());
        for query in [&*query, "What is my locker code in config.py?"] {
            let query = Query::new(query);
            prop_assert_eq!(choose(&index, &query, &|_| Residence::Absent, 500).back, choose(&anew, &query, &|_| Residence::Absent, 500).back);
        }
    }

    #[test]
    fn any_vectors_are_taken(
        passages in passages(), values in prop::collection::vec(prop::collection::vec(any::<f32>(), 0..4), 0..30), query in prop::collection::vec(any::<f32>(), 0..4)
    ) {
        let index: Index = passages.into_iter().collect();
        let mut vectors = Vectors::default();
        values.into_iter().enumerate().for_each(|(block, vector)| vectors.add(block, vec![vector]));
        let query = Query { meaning: Some((&vectors, &query)), ..Query::new("code") };
        prop_assert!(choose(&index, &query, &|_| Residence::Absent, 300).back.len() <= index.len());
    }
}

#[test]
fn a_query_of_10_000_words_is_answered() {
    let index: Index = (0..100)
        .map(|block| Passage {
            block,
            range: block * 64..block * 64 + 64,
            text: (0..40).map(|at| format!("word{} ", at * block)).collect(),
            key: None,
            group: 0,
        })
        .collect();
    let query: String = (0..10_000).map(|at| format!("word{at} 'q' \"")).collect();
    assert_eq!(choose(&index, &Query::new(&query), &|_| Residence::Absent, 640).back.len(), 10);
}
