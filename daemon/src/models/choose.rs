//! Chooses the model of the next start.
//!
//! - A model that cannot be run, or not with the wanted context, is refused before the daemon restarts.

use hob_config::{ContextChoice, ModelChoice};
use hob_models::{ContextSettings, Estimate, ModelFile, Verdict, discover, resolve};
use hob_slots::Timestamp;

use super::catalogue::{Catalogue, FAKE_MODELS};
use super::entry;
use super::switch::Refusal;

#[derive(Debug)]
pub struct NextModel {
    pub choice: ModelChoice,
    pub name: String,
    pub is_current: bool,
}

impl Catalogue {
    /// Resolves `name` to a model that can run with the context `ctx`; `None`: that of the settings.
    /// `force`: even if memory is short.
    ///
    /// # Errors
    /// A [`Refusal`] that says what to do.
    pub fn next(
        &self,
        name: &str,
        ctx: Option<ContextChoice>,
        force: bool,
        now: Timestamp,
    ) -> Result<NextModel, Refusal> {
        let settings = self.options().context;
        let is_other_context = ctx.is_some();
        let ctx = ctx.map_or(settings.ctx, ContextChoice::tokens);
        let settings = ContextSettings { ctx, ..settings };
        let list = self.list(now);
        if FAKE_MODELS.contains(&name) {
            let choice = ModelChoice::Named(name.to_owned());
            let is_current = self.current().name == name;
            return Ok(NextModel { choice, name: name.to_owned(), is_current });
        }
        let by_id = list.entries.iter().find(|entry| entry.id == name);
        let file = match by_id.and_then(|entry| entry.file.as_ref()) {
            // The file may have changed since it was listed.
            Some(file) => ModelFile::open(&file.model.path)?,
            None => resolve(name, || discover(&self.options().roots))?,
        };
        self.check_probe(&file)?;
        let listed = list.entries.iter().find(|entry| entry.is_at(&file.path));
        let is_current = listed.is_some_and(|entry| entry.is_current);
        let shown = listed.map_or(&file.name, |entry| &entry.name).clone();
        if list.free_bytes.is_some() && !force && (is_other_context || !is_current) {
            let usable = if is_current { list.usable_by_current() } else { list.usable() };
            let context = settings.context_of(&file, usable);
            let estimate = file.estimate(&settings.demand(context.tokens));
            fits(&shown, &estimate, usable.total_bytes())?;
        }
        let choice = match listed.map(|entry| entry.id.as_str()) {
            Some(entry::BUNDLED) => ModelChoice::Bundled,
            Some(id) => ModelChoice::Named(id.to_owned()),
            None => ModelChoice::Named(entry::absolute(&file.path)),
        };
        Ok(NextModel { choice, name: shown, is_current })
    }

    /// Checks that the running model fits into memory with this context and these slots.
    /// `ctx`: `None` where it is chosen.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`].
    pub fn check_context(
        &self,
        ctx: Option<u64>,
        slots: u64,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let list = self.list(now);
        let running = list.entries.iter().find(|entry| entry.is_current);
        let file = running.and_then(|entry| entry.file.as_ref());
        let (Some(file), Some(_)) = (file, list.free_bytes) else { return Ok(()) };
        let settings = ContextSettings { ctx, slots, ..self.options().context };
        let usable = list.usable_by_current();
        let context = settings.context_of(&file.model, usable);
        let estimate = file.model.estimate(&settings.demand(context.tokens));
        fits(&file.model.name, &estimate, usable.total_bytes())
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
