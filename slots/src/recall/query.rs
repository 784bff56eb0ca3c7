//! The words of a query, and the forms under which passages may have them.

use super::index::Index;
use super::stopwords::is_stop_word;
use super::vocabulary::{TermId, Vocabulary};
use super::words::{Kind, Word, singular, words};

/// A longer query keeps its rarest words: those of a pasted text that also occur in the
/// conversation.
pub(super) const MAX_FEATURES: usize = 256;

/// Only a query of at most this many different words looks for words with a common beginning or
/// end.
const MAX_EXPANDED: usize = 64;

/// At most this many words with a common beginning, and as many with a common end.
const MAX_RELATIVES: usize = 32;

/// Shorter words have relatives by chance.
const MIN_RELATIVE_CHARS: usize = 4;

/// A plural or singular, in place of the word.
const INFLECTED: f64 = 0.9;
/// Two words of the query, written as one.
const JOINED: f64 = 0.8;
/// A word with a common beginning or end, times the common share.
const RELATIVE: f64 = 0.6;

/// From this weight on, a form is the word itself.
pub(super) const SAME: f64 = 0.85;

#[derive(Clone, Debug)]
pub(super) struct Feature {
    /// Each with what it counts, the word itself 1.
    pub forms: Vec<(TermId, f64)>,
    pub is_stop: bool,
    /// How often the query has it.
    pub count: usize,
}

/// What of a query the index can answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    pub features: Vec<Feature>,
    /// The plain words in order, each by its feature; `None` for those that no passage has.
    pub sequence: Vec<Option<usize>>,
    /// All words, as the text has them.
    pub all: Vec<Word>,
}

impl Words {
    pub fn of(text: &str, index: &Index) -> Self {
        let all = words(text);
        let mut distinct: Vec<(&str, usize, bool)> = Vec::new(); // text, count, plain
        let mut known = std::collections::BTreeMap::new();
        let mut sequence = Vec::new();
        for word in &all {
            let plain = word.kind == Kind::Plain;
            let at = *known.entry(&*word.text).or_insert_with(|| {
                distinct.push((&word.text, 0, plain));
                distinct.len() - 1
            });
            distinct[at].1 += 1;
            if plain {
                sequence.push(at);
            }
        }
        let vocabulary = index.vocabulary();
        let expand = distinct.len() <= MAX_EXPANDED;
        let mut features: Vec<Option<Feature>> = distinct
            .iter()
            .map(|&(word, count, _)| {
                let is_stop = is_stop_word(word);
                let forms = forms(word, vocabulary, expand && !is_stop);
                (!forms.is_empty()).then_some(Feature { forms, is_stop, count })
            })
            .collect();
        if expand {
            join_pairs(&sequence, &distinct, &mut features, vocabulary);
        }
        keep_rarest(&mut features, vocabulary);
        let mut place = vec![None; features.len()];
        let mut kept = Vec::new();
        for (at, feature) in features.into_iter().enumerate() {
            if let Some(feature) = feature {
                place[at] = Some(kept.len());
                kept.push(feature);
            }
        }
        let sequence = sequence.into_iter().map(|at| place[at]).collect();
        Self { features: kept, sequence, all }
    }
}

fn forms(word: &str, vocabulary: &Vocabulary, expand: bool) -> Vec<(TermId, f64)> {
    let mut forms: Vec<(TermId, f64)> =
        vocabulary.id(word).map(|id| (id, 1.0)).into_iter().collect();
    let mut push = |id: TermId, weight: f64| match forms.iter_mut().find(|(other, _)| *other == id)
    {
        Some((_, known)) => *known = known.max(weight),
        None => forms.push((id, weight)),
    };
    let base = singular(word);
    let mut inflected = vec![base.to_string(), format!("{base}s"), format!("{base}es")];
    inflected.extend(base.strip_suffix('y').map(|stem| format!("{stem}ies")));
    for form in inflected {
        vocabulary.id(&form).into_iter().for_each(|id| push(id, INFLECTED));
    }
    let chars = word.chars().count();
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    let is_ascii_or_long = chars >= MIN_RELATIVE_CHARS;
    if !expand || is_number {
        return forms;
    }
    // A pair of characters, or one, of a script without spaces.
    let lone = chars == 1 && !word.is_ascii();
    if is_ascii_or_long || lone {
        let share = |other: &str| RELATIVE * chars as f64 / other.chars().count() as f64;
        let longer = vocabulary.beginning_with(word).take(MAX_RELATIVES);
        let longer = longer.chain(vocabulary.ending_with(word).take(MAX_RELATIVES));
        longer.for_each(|(other, id)| push(id, share(other)));
    }
    for (at, _) in word.char_indices().skip(MIN_RELATIVE_CHARS) {
        let (start, end) = word.split_at(at);
        let rest = chars - start.chars().count();
        let share = |part: usize| RELATIVE * part as f64 / chars as f64;
        if let Some(id) = vocabulary.id(start) {
            push(id, share(chars - rest));
        }
        if let Some(id) = vocabulary.id(end).filter(|_| rest >= MIN_RELATIVE_CHARS) {
            push(id, share(rest));
        }
    }
    forms
}

/// "lock screen" also finds "lockscreen".
fn join_pairs(
    sequence: &[usize],
    distinct: &[(&str, usize, bool)],
    features: &mut [Option<Feature>],
    vocabulary: &Vocabulary,
) {
    for pair in sequence.windows(2) {
        let joined = format!("{}{}", distinct[pair[0]].0, distinct[pair[1]].0);
        let Some(id) = vocabulary.id(&joined) else { continue };
        for &at in pair {
            let feature = features[at].get_or_insert_with(|| Feature {
                forms: Vec::new(),
                is_stop: is_stop_word(distinct[at].0),
                count: distinct[at].1,
            });
            if feature.forms.iter().all(|&(other, _)| other != id) {
                feature.forms.push((id, JOINED));
            }
        }
    }
}

fn keep_rarest(features: &mut [Option<Feature>], vocabulary: &Vocabulary) {
    let mut ranked: Vec<(bool, usize, usize)> = features
        .iter()
        .enumerate()
        .filter_map(|(at, feature)| {
            let feature = feature.as_ref()?;
            let holders = feature.forms.iter().map(|&(id, _)| vocabulary.postings(id).len()).sum();
            Some((feature.is_stop, holders, at))
        })
        .collect();
    ranked.sort_unstable();
    ranked.iter().skip(MAX_FEATURES).for_each(|&(_, _, at)| features[at] = None);
}
