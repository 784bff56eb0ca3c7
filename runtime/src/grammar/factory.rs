//! Compiles grammars for one vocabulary.
//!
//! - Building a factory reads every token: do it once per model.
//! - Control tokens and tokens that end an answer are never mistaken for their written form.
//! - The latest grammars stay compiled: a client that sends the same schema with every request pays
//!   for it once.

use std::collections::VecDeque;
use std::sync::Arc;

use hob_slots::Token;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::{Matcher, ParserFactory};
use parking_lot::Mutex;
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use super::constraint::Constraint;
use super::error::{GrammarError, of_tools, one_line};
use super::watch::Watch;
use super::{Form, Grammar};
use crate::vocabulary::Vocabulary;

/// Compiled grammars in the cache.
const MAX_COMPILED: usize = 8;

/// Longest token that a grammar may choose, and the length of all of them together. toktrie panics behind 1,024 bytes
/// without another token that branches off, recurses once a byte, and panics if more than 2^22 bytes follow no equal ones.
/// The longest token of a real vocabulary has 1,024 bytes (GLM-4: spaces), and the largest vocabulary 3 MB.
const MAX_WORD_BYTES: usize = 1024;
const MAX_WORDS_BYTES: usize = 4_000_000;

/// Compiles grammars; one per model.
pub struct GrammarFactory {
    parsers: ParserFactory,
    trie: TokEnv,
    compiled: Mutex<VecDeque<(Grammar, Matcher)>>, // The latest last.
}

impl GrammarFactory {
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let trie: TokEnv = Arc::new(ApproximateTokEnv::new(trie(vocabulary)));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut parsers = ParserFactory::new(&trie, InferenceCapabilities::default(), &slices)
            .expect("llguidance's own slices are valid regular expressions");
        parsers.quiet();
        *parsers.limits_mut() = limits();
        Self { parsers, trie, compiled: Mutex::default() }
    }

    /// A constraint at the beginning of an answer.
    pub fn start(&self, grammar: &Grammar) -> Result<Constraint, GrammarError> {
        let matcher = self.compile(grammar)?;
        Ok(match &grammar.watch {
            Some(parser) => {
                let ends_behind_call = grammar.ends_behind_call();
                Constraint::watching(Watch::new(parser.clone(), matcher, ends_behind_call))
            }
            None => Constraint::new(matcher),
        })
    }

    fn compile(&self, grammar: &Grammar) -> Result<Matcher, GrammarError> {
        if let Some(matcher) = self.cached(grammar) {
            return Ok(matcher);
        }
        let lark = grammar.to_lark(&|text| self.control(text));
        let parser = self.parsers.create_parser(TopLevelGrammar::from_lark(lark));
        let mut matcher = Matcher::new(parser);
        if let Some(error) = matcher.get_error() {
            return Err(unsupported(grammar, error));
        }
        // Some errors appear only with the first mask.
        matcher.compute_mask_or_eos().map_err(|error| unsupported(grammar, error.to_string()))?;
        if let Some(items) = too_long_a_row(&matcher) {
            let most = limits().max_items_in_row;
            let why = format!("{items} alternatives at one place; at most {most} are allowed");
            return Err(unsupported(grammar, why));
        }
        self.cache(grammar, &matcher);
        Ok(matcher)
    }

    /// What compiling took; `None`: the grammar is refused before its first mask.
    #[cfg(test)]
    pub(super) fn compiling(&self, grammar: &Grammar) -> Option<super::work::Work> {
        let lark = grammar.to_lark(&|text| self.control(text));
        let parser = self.parsers.create_parser(TopLevelGrammar::from_lark(lark)).ok()?;
        Some(super::work::Work {
            fuel: parser.parser.stats().lexer_cost,
            items: parser.parser.stats().all_items,
        })
    }

    /// A deep copy: constraints share nothing.
    fn cached(&self, grammar: &Grammar) -> Option<Matcher> {
        let mut compiled = self.compiled.lock();
        let at = compiled.iter().position(|(cached, _)| cached.is_like(grammar))?;
        let entry = compiled.remove(at)?;
        let matcher = entry.1.deep_clone();
        compiled.push_back(entry);
        Some(matcher)
    }

    fn cache(&self, grammar: &Grammar, matcher: &Matcher) {
        let mut compiled = self.compiled.lock();
        if compiled.len() == MAX_COMPILED {
            compiled.pop_front();
        }
        let grammar = Grammar { watch: None, ..grammar.clone() };
        compiled.push_back((grammar, matcher.deep_clone()));
    }

    fn control(&self, text: &str) -> Option<u32> {
        self.trie.tok_trie().token_id_at_bytes(&marked(text.as_bytes()))
    }
}

impl std::fmt::Debug for GrammarFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tokens = self.trie.tok_trie().vocab_size();
        f.debug_struct("GrammarFactory").field("tokens", &tokens).finish_non_exhaustive()
    }
}

/// Smaller than llguidance's where a request could take memory or time from other conversations.
pub(super) fn limits() -> ParserLimits {
    ParserLimits {
        max_lexer_states: 50_000, // 1 to 2 kB each.
        max_grammar_size: 200_000,
        verbose_errors: false, // Answers do not belong in error texts.
        ..ParserLimits::default()
    }
}

/// The mean length of the parser's rows behind each allowed token, if it is above the limit of one row.
/// llguidance checks that limit when an answer has got there: in the engine's thread, where a row of
/// 50,000 items takes a second from every conversation (an item is compared with all others of its row).
fn too_long_a_row(matcher: &Matcher) -> Option<usize> {
    let mask = matcher.last_step_stats().ok()?;
    let items = mask.all_items.checked_div(mask.rows)?;
    (items > limits().max_items_in_row).then_some(items)
}

fn trie(vocabulary: &Vocabulary) -> TokTrie {
    let mut words = words(vocabulary, MAX_WORDS_BYTES);
    let mut ends: Vec<u32> =
        vocabulary.eog_tokens().iter().map(|token| token.0.cast_unsigned()).collect();
    if ends.is_empty() {
        // llguidance needs an end token: one beyond the vocabulary, which has no logit.
        ends.push(u32::try_from(words.len()).expect("a vocabulary has fewer than 2^31 tokens"));
        words.push(marked(b"end"));
    }
    let size = u32::try_from(words.len()).expect("a vocabulary has fewer than 2^31 tokens");
    TokTrie::from(&TokRxInfo::new(size, ends[0]), &words).with_eos_tokens(&ends)
}

/// The bytes of the tokens. Those that are too long, and those that do not fit into `left` bytes, have none, so no grammar
/// allows them.
pub(super) fn words(vocabulary: &Vocabulary, mut left: usize) -> Vec<Vec<u8>> {
    let tokens = (0..).map(Token).take(vocabulary.len());
    let word = |token| {
        let piece = vocabulary.piece(token);
        let special = vocabulary.is_control(token) || vocabulary.is_eog(token);
        let word = if special && !piece.is_empty() { marked(piece) } else { piece.to_vec() };
        if word.len() > MAX_WORD_BYTES.min(left) {
            return Vec::new();
        }
        left -= word.len();
        word
    };
    tokens.map(word).collect()
}

/// The form in which llguidance distinguishes a control token from its text.
fn marked(piece: &[u8]) -> Vec<u8> {
    [&[TokTrie::SPECIAL_TOKEN_MARKER], piece].concat()
}

fn unsupported(grammar: &Grammar, error: impl std::fmt::Display) -> GrammarError {
    let form: &Form = match &grammar.form {
        Form::Message(_, text) => text,
        form => form,
    };
    let (what, why) = match form {
        Form::Schema(_) => ("the JSON schema", one_line(error)),
        Form::Lark(_) | Form::Message(..) => ("the grammar", one_line(error)),
        Form::Tools(_) => ("a tool's parameters", of_tools(error)),
        Form::CallsOr(..) => ("the form or a tool's parameters", of_tools(error)),
    };
    GrammarError::Unsupported(format!("{what} cannot be followed: {why}"))
}
