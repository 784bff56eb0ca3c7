//! Names what decides the tokens of a prompt about a document, beside the document itself.

use hob_slots::ModelHash;
use sha2::{Digest, Sha256};

/// SHA-256 in hex: of the model, its chat template, the text around a document, with the instructions
/// in front, and the version of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(String);

impl Layout {
    /// `template`: the source. `text`: a prompt about a document of one word.
    pub fn of(model: ModelHash, template: Option<&str>, text: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [env!("CARGO_PKG_VERSION"), template.unwrap_or_default(), text] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest = hash.chain_update(model.0).finalize();
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}
