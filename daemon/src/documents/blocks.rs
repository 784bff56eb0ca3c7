//! How the prompts about documents are cut into blocks: computed once for each layout, and stored
//! beside the text.

use std::collections::{BTreeMap, BTreeSet};

use hob_slots::blocks_of;

use super::Documents;
use crate::blocking::compute;
use crate::chat::documents::DocumentPrompts;
use crate::conversations::transcript::{DocumentBlocks, StoredDocument};
use crate::error::ApiError;
use crate::wire::document::DocumentId;

impl Documents {
    /// The blocks of each of these documents that is stored. `profile`: behind whose prefix it stands.
    ///
    /// # Errors
    /// When the template refuses the messages, or the database cannot be read.
    pub(super) async fn blocks(
        &self,
        ids: Vec<DocumentId>,
        profile: Option<&str>,
    ) -> Result<BTreeMap<DocumentId, DocumentBlocks>, ApiError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let prompts = self.chat.document_prompts(profile)?;
        let (prompts, layout) = compute(move || {
            let layout = prompts.layout();
            layout.map(|layout| (prompts, layout))
        })
        .await?;
        let transcript = &self.conversations.transcript;
        let model = self.chat.engine().fingerprint();
        let known = transcript.document_blocks(ids.clone(), layout.clone(), model);
        let mut known = known.await?;
        for id in ids {
            if known.contains_key(&id) {
                continue;
            }
            let stored = transcript.stored_documents(BTreeSet::from([id.clone()]), true);
            let Some(document) = stored.await?.remove(&id) else { continue };
            let prompts = prompts.clone();
            let blocks = compute(move || cut(&prompts, document)).await?;
            transcript.put_document_blocks(&id, &layout, &blocks);
            known.insert(id, blocks);
        }
        Ok(known)
    }
}

fn cut(prompts: &DocumentPrompts, document: StoredDocument) -> Result<DocumentBlocks, ApiError> {
    let prompt = prompts.tokens(document.clone().into())?;
    let engine = prompts.engine();
    let is_border = |token| engine.model().vocabulary().is_eog(token);
    let blocks = blocks_of(engine.fingerprint(), &prompt, is_border);
    // The last block of the prompt goes on with the words that follow.
    let ends = blocks.iter().rev().map(|block| block.range.end);
    let shared = ends.clone().find(|&end| is_border(prompt[end - 1]));
    let tokens = shared.unwrap_or_else(|| ends.max().unwrap_or(0));
    Ok(DocumentBlocks::of(&document, tokens, blocks))
}
