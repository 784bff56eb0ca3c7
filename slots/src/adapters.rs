//! The LoRA adapters that a request adds to a model: they change the meaning of its KV, and so the root of
//! its names.
//!
//! - Equal sets are equal values: they are sorted, and adapters without effect are left out.
//! - The empty set has the root of the model alone.

use sha2::{Digest, Sha256};

use crate::fingerprint::{FileDigest, Lora};
use crate::id::{BlockId, ModelHash};

/// Different adapters and their factors, sorted by content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterSet(Vec<Lora>);

impl Eq for AdapterSet {} // Finite numbers equal themselves.

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdapterSetError {
    #[error("the factor of an adapter is not a finite number")]
    NotFinite,
    #[error("it names the adapter with the content {0} twice")]
    Twice(FileDigest),
}

impl AdapterSet {
    /// # Errors
    /// For a factor that is not finite, and for a file that occurs twice.
    pub fn new(mut loras: Vec<Lora>) -> Result<Self, AdapterSetError> {
        if loras.iter().any(|lora| !lora.scale.is_finite()) {
            return Err(AdapterSetError::NotFinite);
        }
        loras.sort_by_key(|lora| lora.sha256);
        if let Some(twice) = loras.windows(2).find(|pair| pair[0].sha256 == pair[1].sha256) {
            return Err(AdapterSetError::Twice(twice[0].sha256));
        }
        loras.retain(|lora| lora.scale != 0.0);
        Ok(Self(loras))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn loras(&self) -> &[Lora] {
        &self.0
    }

    /// The parent of the first block that `model` computes with these adapters.
    pub fn root(&self, model: ModelHash) -> BlockId {
        let root = BlockId::root(model);
        if self.is_empty() {
            return root;
        }
        let mut hash = Sha256::new_with_prefix(b"hob adapters");
        hash.update(root.0);
        for Lora { sha256, scale } in &self.0 {
            hash.update(sha256.0);
            hash.update(scale.to_le_bytes());
        }
        BlockId(hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MODEL: ModelHash = ModelHash(*b"a model!");

    fn lora(content: u8, scale: f32) -> Lora {
        Lora { sha256: FileDigest([content; 32]), scale }
    }

    fn root(loras: &[Lora]) -> BlockId {
        AdapterSet::new(loras.to_vec()).unwrap().root(MODEL)
    }

    #[test]
    fn each_set_has_a_root_and_the_empty_one_that_of_the_model() {
        assert_eq!(root(&[]), BlockId::root(MODEL));
        assert_eq!(root(&[lora(1, 0.0), lora(2, -0.0)]), BlockId::root(MODEL));
        let (one, two) = (lora(1, 1.0), lora(2, 1.0));
        let sets = [
            vec![],
            vec![one.clone()],
            vec![two.clone()],
            vec![lora(1, 0.5)],
            vec![one.clone(), two.clone()],
        ];
        let roots: BTreeSet<BlockId> = sets.iter().map(|set| root(set)).collect();
        assert_eq!(roots.len(), sets.len());
        assert_eq!(root(&[two.clone(), one.clone(), lora(3, 0.0)]), root(&[one, two]));
        let set = AdapterSet::new(vec![lora(1, 1.0)]).unwrap();
        assert_ne!(set.root(MODEL), set.root(ModelHash(*b"another!")));
    }

    #[test]
    fn a_root_is_a_hash_of_the_models_root_the_files_and_the_factors() {
        let mut bytes = b"hob adapters".to_vec();
        bytes.extend(BlockId::root(MODEL).0);
        bytes.extend([[1; 32], [2; 32]][0]);
        bytes.extend(0.5_f32.to_le_bytes());
        assert_eq!(root(&[lora(1, 0.5)]).0, *Sha256::digest(bytes));
    }

    #[test]
    fn what_names_no_set_is_refused() {
        let twice = AdapterSet::new(vec![lora(1, 1.0), lora(2, 1.0), lora(1, 0.0)]);
        assert_eq!(twice, Err(AdapterSetError::Twice(FileDigest([1; 32]))));
        for scale in [f32::NAN, f32::INFINITY] {
            assert_eq!(AdapterSet::new(vec![lora(1, scale)]), Err(AdapterSetError::NotFinite));
        }
    }
}
