//! Checks of a request before it is queued, and its grammar.

use hob_slots::Token;
use tracing::debug;

use super::Engine;
use crate::grammar::{Constraint, Grammar, GrammarError, GrammarFactory};
use crate::turn::{TurnError, TurnRequest};
use crate::worker::check_budget;

impl Engine {
    pub(super) fn check(&self, request: &TurnRequest) -> Result<(), TurnError> {
        if self.inner.model.facts().pooling.is_some() {
            return Err(TurnError::NotGenerative);
        }
        assert!(
            request.sources_of.is_none() || request.keep.in_memory == Some(true),
            "KV of another conversation is never saved for this one"
        );
        let is_prefix = request.purpose.is_prefix();
        let most = if is_prefix { self.prefix_tokens() } else { self.conversation_tokens() };
        self.check_tokens(&request.prompt, most)?;
        if !self.inner.options.evicts(self.inner.model.facts()) {
            return Ok(()); // A budget does not count, and the answer says so.
        }
        let vocabulary = self.inner.model.vocabulary();
        check_budget(request, &self.inner.options, |token| vocabulary.is_eog(token))
    }

    pub(super) fn check_tokens(
        &self,
        tokens: &[Token],
        context_tokens: usize,
    ) -> Result<(), TurnError> {
        let vocabulary = self.inner.model.vocabulary();
        if tokens.is_empty() {
            return Err(TurnError::EmptyPrompt);
        }
        if tokens.len() > context_tokens {
            let no_eviction = self.inner.options.ends_with_cells(self.inner.model.facts());
            let prompt_tokens = tokens.len();
            return Err(TurnError::TooLong { prompt_tokens, context_tokens, no_eviction });
        }
        match tokens.iter().find(|&&token| !vocabulary.contains(token)) {
            Some(token) => {
                Err(TurnError::UnknownToken { token: token.0, vocabulary: vocabulary.len() })
            }
            None => Ok(()),
        }
    }

    /// Builds the grammar factory, unless it exists: walks the whole vocabulary, about a second for
    /// 150,000 tokens. Blocks; call it while the engine is idle.
    pub fn prepare_grammars(&self) {
        self.grammars();
    }

    fn grammars(&self) -> &GrammarFactory {
        let vocabulary = self.inner.model.vocabulary();
        self.inner.grammars.get_or_init(|| GrammarFactory::new(vocabulary))
    }

    /// `None`: the grammar is optional, and cannot be followed. Its strict tools are followed all the same, or the
    /// request is refused.
    pub(super) fn constrain(&self, grammar: &Grammar) -> Result<Option<Constraint>, TurnError> {
        let refused = |error: GrammarError| TurnError::Grammar(error.to_string());
        let error = match self.grammars().start(grammar) {
            Ok(constraint) => return Ok(Some(constraint)),
            Err(error) if grammar.is_optional() => error,
            Err(error) => return Err(refused(error)),
        };
        let strict = grammar.with_strict_schemas_alone();
        debug!(%error, follows_strict_tools = strict.is_some(), "tool calls are not constrained");
        strict.map(|strict| self.grammars().start(&strict).map_err(refused)).transpose()
    }
}
