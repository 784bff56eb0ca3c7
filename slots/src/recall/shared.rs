//! Which words of a text each passage has.

use std::collections::{BTreeMap, BTreeSet};

use super::index::Index;
use super::query::{SAME, Words};

/// Words of `text`, numbered, that passages have, by block: no function words, plurals as the word itself.
pub fn shared_words(index: &Index, text: &str) -> BTreeMap<usize, BTreeSet<usize>> {
    let mut shared: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let features = Words::of(text, index).features;
    for (number, feature) in features.iter().enumerate().filter(|(_, feature)| !feature.is_stop) {
        for (id, _) in feature.forms.iter().filter(|(_, form)| *form >= SAME) {
            for &(passage, _) in index.vocabulary().postings(*id) {
                shared.entry(index.entry(passage).passage.block).or_default().insert(number);
            }
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::super::Passage;
    use super::*;

    #[test]
    fn a_passage_has_the_words_of_the_text_but_no_function_words() {
        let mut index = Index::default();
        for (block, text) in
            ["My locker codes are here.", "What is it?", "The code"].iter().enumerate()
        {
            let range = block * 10..block * 10 + 5;
            index.add(Passage { block, range, text: (*text).to_owned(), key: None, group: 0 });
        }
        let shared = shared_words(&index, "What is my locker code?");
        assert_eq!(shared.keys().copied().collect::<Vec<_>>(), [0, 2]);
        assert!(shared[&2].is_subset(&shared[&0]) && shared[&0].len() == 2, "{shared:?}");
    }
}
