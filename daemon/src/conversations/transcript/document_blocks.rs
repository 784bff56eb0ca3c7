//! How the prompts about each document are cut into blocks, so that a view of it tokenizes no text.
//!
//! - A row is of one document and one [`Layout`]: another model, chat template or profile has another.
//! - Rows go with their document. Of each document the newest [`MAX_LAYOUTS`] stay.

use std::collections::BTreeMap;
use std::ops::Range;

use hob_slots::{Block, BlockId, ConversationId, ModelHash, View};
use rusqlite::{Connection, OptionalExtension};

use super::library::StoredDocument;
use super::{Transcript, TranscriptError};
use crate::prompt::layout::Layout;
use crate::wire::document::{DocumentId, document_key};

const MAX_LAYOUTS: u32 = 8;

/// A prompt that begins with a document, cut into blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentBlocks {
    /// The key under which the document's KV is saved.
    pub key: ConversationId,
    /// Number of tokens with which every prompt about the document begins.
    pub tokens: usize,
    pub blocks: Vec<Block>,
}

impl DocumentBlocks {
    pub fn of(document: &StoredDocument, tokens: usize, blocks: Vec<Block>) -> Self {
        Self { key: document_key(&document.text), tokens, blocks }
    }
}

impl Transcript {
    /// The blocks of those documents that have a row of this layout.
    ///
    /// # Errors
    /// When a database cannot be read.
    pub async fn document_blocks(
        &self,
        ids: Vec<DocumentId>,
        layout: Layout,
        model: ModelHash,
    ) -> Result<BTreeMap<DocumentId, DocumentBlocks>, TranscriptError> {
        let read = move |connection: &mut Connection| load(connection, &ids, &layout, model);
        Ok(self.read_both_always(read).done().await?.into_iter().collect())
    }

    /// Stores the blocks of a document, wherever its text is stored.
    pub fn put_document_blocks(&self, id: &DocumentId, layout: &Layout, blocks: &DocumentBlocks) {
        for is_private in [true, false] {
            let (id, layout, blocks) = (id.clone(), layout.clone(), blocks.clone());
            self.writer_for(is_private)
                .post(move |connection| put(connection, &id, &layout, &blocks));
        }
    }
}

fn load(
    connection: &Connection,
    ids: &[DocumentId],
    layout: &Layout,
    model: ModelHash,
) -> Result<Vec<(DocumentId, DocumentBlocks)>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT kv_key, tokens, blocks FROM document_blocks WHERE document = ?1 AND layout = ?2",
    )?;
    let mut found = Vec::new();
    for id in ids {
        let row = select.query_row((id.as_str(), layout.as_str()), |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?))
        });
        let Some((key, tokens, blocks)) = row.optional()? else { continue };
        let Ok(key) = ConversationId::new(&key) else { continue };
        let blocks = blocks_of_bytes(&blocks, model);
        found.push((id.clone(), DocumentBlocks { key, tokens, blocks }));
    }
    Ok(found)
}

fn put(
    connection: &Connection,
    id: &DocumentId,
    layout: &Layout,
    blocks: &DocumentBlocks,
) -> Result<(), TranscriptError> {
    let DocumentBlocks { key, tokens, blocks } = blocks;
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO document_blocks (document, layout, kv_key, tokens, blocks)
             SELECT id, ?2, ?3, ?4, ?5 FROM documents WHERE id = ?1",
        )?
        .execute((id.as_str(), layout.as_str(), key.as_str(), tokens, bytes_of_blocks(blocks)))?;
    connection
        .prepare_cached(
            "DELETE FROM document_blocks WHERE document = ?1 AND id NOT IN
             (SELECT id FROM document_blocks WHERE document = ?1 ORDER BY id DESC LIMIT ?2)",
        )?
        .execute((id.as_str(), MAX_LAYOUTS))?;
    Ok(())
}

fn bytes_of_blocks(blocks: &[Block]) -> Vec<u8> {
    let bytes = |block: &Block| {
        let end = u32::try_from(block.range.end).expect("a prompt has fewer tokens than 2^32");
        block.id.0.into_iter().chain(end.to_le_bytes())
    };
    blocks.iter().flat_map(bytes).collect()
}

fn blocks_of_bytes(bytes: &[u8], model: ModelHash) -> Vec<Block> {
    let (mut parent, mut start) = (BlockId::root(model), 0);
    let (rows, _) = bytes.as_chunks::<36>();
    let block = |row: &[u8; 36]| {
        let (id, end) = row.split_at(32);
        let id = BlockId(id.try_into().expect("32 of 36 bytes"));
        let end = u32::from_le_bytes(end.try_into().expect("the other four")) as usize;
        let range: Range<usize> = std::mem::replace(&mut start, end)..end;
        let parent = std::mem::replace(&mut parent, id);
        Block { id, parent, view: View::WHOLE, range }
    };
    rows.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use hob_slots::{Timestamp, Token, blocks_of};

    use super::*;
    use crate::conversations::transcript::{DocumentHome, library, schema};

    const MODEL: ModelHash = ModelHash(*b"a model!");

    fn opened() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        schema::migrate(&mut connection).unwrap();
        connection
    }

    fn document() -> StoredDocument {
        StoredDocument { name: "a.txt".into(), kind: "text".into(), text: "A castle.".into() }
    }

    fn blocks() -> DocumentBlocks {
        let tokens: Vec<Token> = (0..150).map(Token).collect();
        DocumentBlocks::of(&document(), 128, blocks_of(MODEL, &tokens, |_| false))
    }

    fn layout(n: usize) -> Layout {
        Layout::of(MODEL, None, &n.to_string())
    }

    #[test]
    fn the_blocks_of_a_document_go_with_it() {
        let (connection, id) = (opened(), document().id());
        let found = |n| load(&connection, std::slice::from_ref(&id), &layout(n), MODEL).unwrap();
        put(&connection, &id, &layout(0), &blocks()).unwrap();
        assert_eq!(found(0), [], "it is not stored here");
        library::put(&connection, &document(), DocumentHome::Library, Timestamp(0)).unwrap();
        put(&connection, &id, &layout(0), &blocks()).unwrap();
        assert_eq!(found(0), [(id.clone(), blocks())]);
        assert_eq!(found(1), []);
        library::delete_all(&connection, std::slice::from_ref(&id)).unwrap();
        library::put(&connection, &document(), DocumentHome::Library, Timestamp(0)).unwrap();
        assert_eq!(found(0), []);
    }

    #[test]
    fn old_layouts_leave() {
        let (connection, id) = (opened(), document().id());
        library::put(&connection, &document(), DocumentHome::Library, Timestamp(0)).unwrap();
        for n in 0..=MAX_LAYOUTS as usize {
            put(&connection, &id, &layout(n), &blocks()).unwrap();
        }
        let has = |n| {
            !load(&connection, std::slice::from_ref(&id), &layout(n), MODEL).unwrap().is_empty()
        };
        assert!(!has(0) && (1..=MAX_LAYOUTS as usize).all(has));
    }
}
