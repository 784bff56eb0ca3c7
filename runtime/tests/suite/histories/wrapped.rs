//! A model with other contexts: all of its other calls are those of the model.

use std::ops::Range;
use std::sync::Arc;

use hob_runtime::backend::{
    Backend, ContextShape, JoinedState, LoadError, Model, ModelFacts, Progress, Unrounded,
};
use hob_runtime::vocabulary::Vocabulary;
use hob_slots::{Lossy, Token};

/// The contexts that a [`Wrapped`] model has in place of its own.
pub trait Contexts: Send + Sync {
    /// [`Model::with_context`], usually with a context of `model` inside another one.
    fn with_context(
        &self,
        model: &dyn Model,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError>;
}

pub struct Wrapped<C> {
    pub model: Arc<dyn Model>,
    pub contexts: C,
}

impl<C: Contexts> Model for Wrapped<C> {
    fn facts(&self) -> &ModelFacts {
        self.model.facts()
    }

    fn vocabulary(&self) -> &Vocabulary {
        self.model.vocabulary()
    }

    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Vec<Token> {
        self.model.tokenize(text, add_special, parse_special)
    }

    fn append_state(&self, joined: &mut JoinedState, state: &[u8]) -> bool {
        self.model.append_state(joined, state)
    }

    fn seal_state(&self, joined: &mut JoinedState) {
        self.model.seal_state(joined);
    }

    fn move_state(&self, state: &[u8], wanted: &Range<usize>, delta: i64) -> Option<Vec<u8>> {
        self.model.move_state(state, wanted, delta)
    }

    fn round_state(&self, state: &[u8], lossy: Lossy) -> Result<Vec<u8>, Unrounded> {
        self.model.round_state(state, lossy)
    }

    fn state_of_rounded(&self, rounded: &[u8], buffer: Vec<u8>) -> Option<Vec<u8>> {
        self.model.state_of_rounded(rounded, buffer)
    }

    fn with_context(
        &self,
        shape: ContextShape,
        run: &mut dyn FnMut(&mut dyn Backend),
    ) -> Result<(), LoadError> {
        self.contexts.with_context(&*self.model, shape, run)
    }

    fn load_weights(&self, progress: &mut Progress<'_>) -> Result<(), LoadError> {
        self.model.load_weights(progress)
    }

    fn drop_weights(&self) -> Result<(), LoadError> {
        self.model.drop_weights()
    }
}
