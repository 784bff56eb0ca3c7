//! Incremental listing: reopens only slot files whose length or time changed.

use std::collections::HashMap;
use std::ffi::OsString;

use super::error::{Miss, StoreError, io_error};
use super::files::Facts;
use super::layout::parse_slot_name;
use super::listing::in_parallel;
use super::reader::StoreReader;
use crate::id::{ConversationId, ModelHash};

/// `None`: a file that cannot be used.
#[derive(Debug, Default)]
pub struct ListingCache {
    read: HashMap<OsString, (Facts, Option<(ConversationId, u32)>)>,
}

impl StoreReader {
    /// The saved conversations of `model` with their tokens, in no order. `before`: the cache of
    /// the last call.
    pub fn conversations(
        &self,
        model: ModelHash,
        before: &mut ListingCache,
    ) -> Result<Vec<(ConversationId, u32)>, StoreError> {
        let dir = self.layout.model(model);
        let paths = self.slot_files(model)?.into_iter();
        let names: Vec<OsString> =
            paths.filter_map(|path| Some(path.file_name()?.to_owned())).collect();
        let found = if names.is_empty() {
            // A model that never saved has no directory.
            Vec::new()
        } else {
            self.files.stat_in(&dir, &names).map_err(io_error("read", &dir))?
        };
        // Read after the facts: a file that changes in between is read again next time.
        let mut now = HashMap::with_capacity(names.len());
        let mut changed = Vec::new();
        for (name, facts) in names.into_iter().zip(found) {
            let Ok(facts) = facts else { continue }; // Removed since the directory was read.
            match before.read.remove(&name) {
                Some((then, said)) if then == facts => {
                    now.insert(name, (then, said));
                }
                _ => changed.push((name, facts)),
            }
        }
        let said = in_parallel(&changed, |(name, _)| {
            let named = name.to_str().and_then(parse_slot_name);
            let Some((stem, class)) = named else { return Ok(None) };
            let entry = self.entry_of(&dir.join(name), class);
            match entry.and_then(|entry| self.belongs(entry, model, stem)) {
                Ok(entry) => Ok(Some((entry.conversation, entry.tokens))),
                Err(miss @ Miss::Io { .. }) => Err(miss),
                Err(_) => Ok(None),
            }
        });
        // One that could not be read this time is read again next time.
        now.extend(
            changed
                .into_iter()
                .zip(said)
                .filter_map(|((name, facts), said)| Some((name, (facts, said.ok()?)))),
        );
        before.read = now;
        Ok(before.read.values().filter_map(|(_, said)| said.clone()).collect())
    }
}
