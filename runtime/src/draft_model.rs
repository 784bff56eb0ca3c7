//! A model that can draft for another one.
//!
//! The vocabularies are compared as llama.cpp's own programs do it: the same begin and end tokens, and
//! the same bytes of each token, up to a difference in size. The first few are marks that makers name
//! as they like.

use std::sync::Arc;

use hob_slots::{ModelHash, Token};

use crate::backend::{MemoryKind, Model};
use crate::vocabulary::Vocabulary;

/// Maximum difference of the vocabularies' sizes: rows that only fill up a matrix.
const MAX_SIZE_DIFFERENCE: usize = 128;

/// The first token whose bytes are compared.
const FIRST_COMPARED: usize = 5;

/// A model that can draft for another one.
#[derive(Clone)]
pub struct DraftModel {
    model: Arc<dyn Model>,
    fingerprint: ModelHash,
}

impl DraftModel {
    /// # Errors
    /// When it cannot draft for `target`.
    pub fn new(
        model: Arc<dyn Model>,
        fingerprint: ModelHash,
        target: &dyn Model,
    ) -> Result<Self, Disagreement> {
        check(model.as_ref(), target)?;
        Ok(Self { model, fingerprint })
    }

    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// Names its KV.
    pub fn fingerprint(&self) -> ModelHash {
        self.fingerprint
    }
}

/// Why a model cannot draft for another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    #[error("its vocabulary has {drafter} tokens, that of the model {target}")]
    Size { drafter: usize, target: usize },
    #[error("its {which} token is another one than the model's")]
    Mark { which: &'static str },
    #[error("its token {id} is `{drafter}`, that of the model `{target}`")]
    Piece { id: usize, drafter: String, target: String },
    #[error("its memory is {0}, and drafts need one that can drop single tokens")]
    Memory(MemoryKind),
    #[error(
        "the model's memory is {0}, and a draft model guesses for those that drop their newest tokens"
    )]
    Target(MemoryKind),
    #[error("it makes embeddings, no text")]
    Embeds,
}

fn check(drafter: &dyn Model, target: &dyn Model) -> Result<(), Disagreement> {
    let facts = drafter.facts();
    if facts.pooling.is_some() {
        return Err(Disagreement::Embeds);
    }
    if !facts.memory.is_plain() {
        return Err(Disagreement::Memory(facts.memory));
    }
    let memory = target.facts().memory;
    if !memory.can_drop_newest() {
        return Err(Disagreement::Target(memory));
    }
    compare(drafter.vocabulary(), target.vocabulary())
}

fn compare(drafter: &Vocabulary, target: &Vocabulary) -> Result<(), Disagreement> {
    if drafter.len().abs_diff(target.len()) > MAX_SIZE_DIFFERENCE {
        return Err(Disagreement::Size { drafter: drafter.len(), target: target.len() });
    }
    let begins = |it: &Vocabulary| it.adds_bos().then(|| it.bos());
    if begins(drafter) != begins(target) {
        return Err(Disagreement::Mark { which: "begin" });
    }
    let both = FIRST_COMPARED..drafter.len().min(target.len());
    let piece = |it: &Vocabulary, id: usize| {
        let id = i32::try_from(id).expect("a vocabulary has fewer than 2^31 tokens");
        it.piece(Token(id)).to_vec()
    };
    for id in both {
        let (ours, theirs) = (piece(drafter, id), piece(target, id));
        if ours != theirs {
            let [drafter, target] =
                [ours, theirs].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            return Err(Disagreement::Piece { id, drafter, target });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake::FakeModel;
    use crate::vocabulary::TokenKind;

    fn vocabulary(pieces: &[&str], bos: Option<i32>) -> Vocabulary {
        let pieces = pieces.iter().map(|piece| (piece.as_bytes(), TokenKind::default()));
        Vocabulary::new(pieces, bos.map(Token), None, bos.is_some())
    }

    #[test]
    fn tokens_must_be_the_same_but_for_the_first_and_for_what_one_has_more() {
        let target = vocabulary(&["<s>", "1", "2", "3", "4", "the", "a"], None);
        let named_otherwise = vocabulary(&["<begin>", "1", "2", "3", "4", "the", "a", "pad"], None);
        assert_eq!(compare(&named_otherwise, &target), Ok(()));
        let other = vocabulary(&["<s>", "1", "2", "3", "4", "the", "an"], None);
        let found = compare(&other, &target).unwrap_err().to_string();
        assert_eq!(found, "its token 6 is `an`, that of the model `a`");
        let begins = vocabulary(&["<s>", "1", "2", "3", "4", "the", "a"], Some(0));
        assert_eq!(compare(&begins, &target), Err(Disagreement::Mark { which: "begin" }));
        let long = vocabulary(&["x"; 200], None);
        assert_eq!(compare(&long, &target), Err(Disagreement::Size { drafter: 200, target: 7 }));
    }

    #[test]
    fn a_drafter_writes_text_and_can_drop_single_tokens() {
        let target = FakeModel::new();
        assert_eq!(check(&FakeModel::new(), &target), Ok(()));
        for memory in [MemoryKind::Windowed, MemoryKind::Hybrid, MemoryKind::Recurrent] {
            let found = check(&FakeModel::new().with_memory(memory), &target);
            assert_eq!(found, Err(Disagreement::Memory(memory)));
        }
        for memory in [MemoryKind::Hybrid, MemoryKind::Recurrent] {
            let found = check(&FakeModel::new(), &FakeModel::new().with_memory(memory));
            assert_eq!(found, Err(Disagreement::Target(memory)));
        }
        let windowed = FakeModel::new().with_memory(MemoryKind::Windowed);
        assert_eq!(check(&FakeModel::new(), &windowed), Ok(()));
        let embeds = FakeModel::new().with_pooling("last");
        assert_eq!(check(&embeds, &target), Err(Disagreement::Embeds));
    }
}
