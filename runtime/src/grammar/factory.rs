//! Compiles grammars for one vocabulary.
//!
//! - Building a factory reads every token once: do it once per model.
//! - Control tokens and tokens that end an answer are never mistaken for their written form.
//! - The latest grammars are kept compiled: a client that sends the same schema with every
//!   request pays for it once, and [`GrammarFactory::start`] after `check` costs next to nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use hob_slots::Token;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::{Matcher, ParserFactory};
use parking_lot::Mutex;
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use super::{Constraint, Form, Grammar, GrammarError};
use crate::vocabulary::Vocabulary;

/// How many compiled grammars are kept.
const KEPT: usize = 8;

/// Compiles grammars. Shared by everyone who speaks to one model.
pub struct GrammarFactory {
    parsers: ParserFactory,
    trie: TokEnv,
    compiled: Mutex<VecDeque<(Grammar, Matcher)>>, // The latest last.
}

impl GrammarFactory {
    /// Reads the vocabulary.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let trie: TokEnv = Arc::new(ApproximateTokEnv::new(trie(vocabulary)));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut parsers = ParserFactory::new(&trie, InferenceCapabilities::default(), &slices)
            .expect("llguidance's own slices are valid regular expressions");
        parsers.quiet();
        *parsers.limits_mut() = limits();
        Self { parsers, trie, compiled: Mutex::default() }
    }

    /// Whether the grammar can be followed with this vocabulary.
    pub fn check(&self, grammar: &Grammar) -> Result<(), GrammarError> {
        self.compile(grammar).map(drop)
    }

    /// A constraint at the beginning of an answer.
    pub fn start(&self, grammar: &Grammar) -> Result<Constraint, GrammarError> {
        self.compile(grammar).map(Constraint::new)
    }

    fn compile(&self, grammar: &Grammar) -> Result<Matcher, GrammarError> {
        if let Some(matcher) = self.kept(grammar) {
            return Ok(matcher);
        }
        let lark = grammar.to_lark(&|text| self.control(text));
        let parser = self.parsers.create_parser(TopLevelGrammar::from_lark(lark));
        let mut matcher = Matcher::new(parser);
        if let Some(error) = matcher.get_error() {
            return Err(unsupported(grammar, error));
        }
        // The first mask finds what compiling leaves for later.
        matcher.compute_mask_or_eos().map_err(|error| unsupported(grammar, error.to_string()))?;
        self.keep(grammar, &matcher);
        Ok(matcher)
    }

    /// A copy of its own: constraints share nothing.
    fn kept(&self, grammar: &Grammar) -> Option<Matcher> {
        let mut compiled = self.compiled.lock();
        let at = compiled.iter().position(|(kept, _)| kept == grammar)?;
        let entry = compiled.remove(at)?;
        let matcher = entry.1.deep_clone();
        compiled.push_back(entry);
        Some(matcher)
    }

    fn keep(&self, grammar: &Grammar, matcher: &Matcher) {
        let mut compiled = self.compiled.lock();
        if compiled.len() == KEPT {
            compiled.pop_front();
        }
        compiled.push_back((grammar.clone(), matcher.deep_clone()));
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
fn limits() -> ParserLimits {
    ParserLimits {
        max_lexer_states: 50_000, // 1 to 2 kB each.
        max_grammar_size: 200_000,
        verbose_errors: false, // Answers do not belong in error texts.
        ..ParserLimits::default()
    }
}

fn trie(vocabulary: &Vocabulary) -> TokTrie {
    let tokens = (0..).map(Token).take(vocabulary.len());
    let mut words: Vec<Vec<u8>> = tokens
        .map(|token| {
            let piece = vocabulary.piece(token);
            let special = vocabulary.is_control(token) || vocabulary.is_eog(token);
            if special && !piece.is_empty() { marked(piece) } else { piece.to_vec() }
        })
        .collect();
    let mut ends: Vec<u32> =
        vocabulary.eog_tokens().iter().map(|token| token.0.cast_unsigned()).collect();
    if ends.is_empty() {
        // llguidance needs a way to end: a token that no logit belongs to.
        ends.push(u32::try_from(words.len()).expect("a vocabulary has fewer than 2^31 tokens"));
        words.push(marked(b"end"));
    }
    let size = u32::try_from(words.len()).expect("a vocabulary has fewer than 2^31 tokens");
    TokTrie::from(&TokRxInfo::new(size, ends[0]), &words).with_eos_tokens(&ends)
}

/// How llguidance tells a control token from its written form.
fn marked(piece: &[u8]) -> Vec<u8> {
    [&[TokTrie::SPECIAL_TOKEN_MARKER], piece].concat()
}

fn unsupported(grammar: &Grammar, error: impl std::fmt::Display) -> GrammarError {
    let what = match grammar.form {
        Form::Schema(_) => "the JSON schema",
        Form::Tools(_) => "a tool's parameters",
        Form::Lark(_) => "the grammar",
        Form::Regex(_) => "the regular expression",
    };
    GrammarError::Unsupported(format!("{what} cannot be followed: {}", told(error)))
}

/// An error of llguidance's for people: in one line, without backtraces and without a look at the
/// grammar, which is in a notation that they have not written.
pub(super) fn told(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    if text.contains("panic: ") {
        return "its parser failed".to_owned();
    }
    let text = text.rsplit("failed to compile JSON schema: ").next().unwrap_or_default();
    let is_look = |line: &str| {
        let numbered = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        numbered.starts_with(" | ") || line.starts_with("<backtrace>")
    };
    let lines = text.lines().take_while(|line| !is_look(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ").chars().take(300).collect()
}
