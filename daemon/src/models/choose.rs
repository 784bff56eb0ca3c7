//! Chooses the model of the next start.
//!
//! - A model that cannot be run is refused before the daemon restarts.

use hob_config::ModelChoice;
use hob_models::{Estimate, ModelFile, Verdict, discover, resolve};
use hob_slots::Timestamp;

use super::catalogue::{Catalogue, STAND_INS};
use super::entry;
use super::switch::Refusal;

/// A model that can be run next.
#[derive(Debug)]
pub struct Next {
    /// How it is chosen.
    pub choice: ModelChoice,
    /// What people call it.
    pub name: String,
    /// Whether it runs already.
    pub is_current: bool,
}

impl Catalogue {
    /// The model that `name` means, if it may be run. `force`: also when memory is short.
    ///
    /// # Errors
    /// A [`Refusal`] that says what to do.
    pub fn next(&self, name: &str, force: bool, now: Timestamp) -> Result<Next, Refusal> {
        if let Some(origin) = &self.options().fixed {
            return Err(Refusal::Fixed { origin: origin.clone() });
        }
        let shelf = self.shelf(now);
        if STAND_INS.contains(&name) {
            let choice = ModelChoice::Named(name.to_owned());
            let is_current = self.current().name == name;
            return Ok(Next { choice, name: name.to_owned(), is_current });
        }
        let by_id = shelf.entries.iter().find(|entry| entry.id == name);
        let file = match by_id.and_then(|entry| entry.file.as_ref()) {
            // It may have changed since it was found.
            Some(file) => ModelFile::open(&file.model.path)?,
            None => resolve(name, || discover(&self.options().roots))?,
        };
        let listed = shelf.entries.iter().find(|entry| entry.is_at(&file.path));
        let is_current = listed.is_some_and(|entry| entry.is_current);
        let shown = listed.map_or(&file.name, |entry| &entry.name).clone();
        if let Some(free) = shelf.free_bytes.filter(|_| !force && !is_current) {
            fits(&shown, &file.estimate(&self.options().demand), free)?;
        }
        let choice = match listed.map(|entry| entry.id.as_str()) {
            Some(entry::BUNDLED) => ModelChoice::Bundled,
            Some(id) => ModelChoice::Named(id.to_owned()),
            None => ModelChoice::Named(entry::absolute(&file.path)),
        };
        Ok(Next { choice, name: shown, is_current })
    }
}

fn fits(name: &str, estimate: &Estimate, free_bytes: u64) -> Result<(), Refusal> {
    match estimate.verdict(free_bytes) {
        Verdict::Fits | Verdict::Tight => Ok(()),
        Verdict::TooLarge => {
            let needed_bytes = estimate.total_bytes();
            Err(Refusal::TooLarge { name: name.to_owned(), needed_bytes, free_bytes })
        }
    }
}
