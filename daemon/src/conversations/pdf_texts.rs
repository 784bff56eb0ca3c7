//! The texts of PDFs among the blocks of requests: a client sends a file again with each request of its conversation.
//!
//! - In memory alone, by the SHA-256 of the file, [`MAX_BYTES`] of [`MAX_TEXTS`] files at most. The text that was used
//!   longest ago leaves first.
//! - A deletion removes all of them, and a request that began before it adds none. The caller adds none of a private
//!   request.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// Four of the longest texts that a file may have.
const MAX_BYTES: usize = 16 << 20;
const MAX_TEXTS: usize = 64;

/// SHA-256 of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHash([u8; 32]);

impl FileHash {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

/// Clones share them.
#[derive(Clone, Default)]
pub struct PdfTexts(Arc<Mutex<Texts>>);

#[derive(Default)]
struct Texts {
    /// The one that was used last is the last.
    by_use: VecDeque<(FileHash, Arc<str>)>,
    /// The sum over `by_use`.
    bytes: usize,
    deletions: u64,
}

impl PdfTexts {
    /// The text of the file, if it is known.
    pub fn get(&self, file: FileHash) -> Option<Arc<str>> {
        let mut texts = self.0.lock();
        let at = texts.by_use.iter().position(|(known, _)| *known == file)?;
        let used = texts.by_use.remove(at)?;
        let text = used.1.clone();
        texts.by_use.push_back(used);
        Some(text)
    }

    /// How many deletions there were, for [`Self::put`].
    pub fn deletions(&self) -> u64 {
        self.0.lock().deletions
    }

    /// Adds the text of a file, unless there was a deletion since the request began. `deletions`: as they were then.
    pub fn put(&self, file: FileHash, text: &str, deletions: u64) {
        let mut texts = self.0.lock();
        let is_known = texts.by_use.iter().any(|(known, _)| *known == file);
        if is_known || texts.deletions != deletions || text.len() > MAX_BYTES {
            return;
        }
        texts.bytes += text.len();
        texts.by_use.push_back((file, text.into()));
        while texts.bytes > MAX_BYTES || texts.by_use.len() > MAX_TEXTS {
            let Some((_, oldest)) = texts.by_use.pop_front() else { break };
            texts.bytes -= oldest.len();
        }
    }

    /// Text was deleted, and a file may have had it.
    pub fn clear(&self) {
        let mut texts = self.0.lock();
        texts.deletions += 1;
        texts.by_use.clear();
        texts.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: usize) -> FileHash {
        FileHash::of(&number.to_le_bytes())
    }

    #[test]
    fn the_text_that_was_used_longest_ago_leaves_first() {
        let texts = PdfTexts::default();
        let quarter = "a".repeat(MAX_BYTES / 4);
        for number in 0..4 {
            texts.put(file(number), &quarter, 0);
        }
        assert!(texts.get(file(0)).is_some());
        texts.put(file(4), &quarter, 0);
        let known: Vec<usize> = (0..5).filter(|&it| texts.get(file(it)).is_some()).collect();
        assert_eq!(known, [0, 2, 3, 4]);
        texts.put(file(5), &"a".repeat(MAX_BYTES + 1), 0);
        assert!(texts.get(file(5)).is_none() && texts.get(file(4)).is_some());
    }

    #[test]
    fn there_are_no_more_than_so_many() {
        let texts = PdfTexts::default();
        for number in 0..=MAX_TEXTS {
            texts.put(file(number), "a", 0);
        }
        assert!(texts.get(file(0)).is_none() && texts.get(file(1)).is_some());
    }

    #[test]
    fn a_deletion_leaves_none_also_of_requests_that_began_before() {
        let texts = PdfTexts::default();
        let begun = texts.deletions();
        texts.put(file(0), "a", begun);
        texts.clear();
        texts.put(file(1), "a", begun);
        assert!(texts.get(file(0)).is_none() && texts.get(file(1)).is_none());
        texts.put(file(1), "a", texts.deletions());
        assert_eq!(texts.get(file(1)).as_deref(), Some("a"));
    }
}
