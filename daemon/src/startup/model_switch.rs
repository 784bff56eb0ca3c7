//! What a daemon is opened with, from one start to the next.
//!
//! - A model that was wanted and does not load changes nothing: the one before it runs again, and
//!   tells why.
//! - The configuration file gets the choice only once the model is loaded.

use anyhow::{Error, Result};
use hob_config::{Key, ModelChoice, Resolved, edit};

use crate::catalogue::SwitchFailure;
use crate::clock::wall_clock;

/// The settings of a daemon that may start over with another model.
pub struct ModelSwitch {
    resolved: Resolved,
    /// The model that ran before, until the one that was wanted is loaded.
    before: Option<ModelChoice>,
    failure: Option<SwitchFailure>,
}

impl ModelSwitch {
    /// A first start.
    pub fn new(resolved: Resolved) -> Self {
        Self { resolved, before: None, failure: None }
    }

    /// What the next start uses.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Why the model that was wanted last does not run, or does not run at the next start.
    pub fn failure(&self) -> Option<&SwitchFailure> {
        self.failure.as_ref()
    }

    /// The next start runs this model.
    pub fn switch(&mut self, model: ModelChoice) {
        self.failure = None;
        let before = std::mem::replace(&mut self.resolved.settings.model, model);
        self.before = Some(before);
    }

    /// A start has failed: the next one runs the model before.
    ///
    /// # Errors
    /// The same error, when there is none.
    pub fn go_back(&mut self, error: Error) -> Result<()> {
        let Some(before) = self.before.take() else { return Err(error) };
        let wanted = std::mem::replace(&mut self.resolved.settings.model, before);
        let message = format!(
            "{error:#}; {} runs again, and nothing was changed",
            self.resolved.settings.model
        );
        tracing::warn!(model = %wanted, message, "the switch to another model has failed");
        self.fail(&wanted, message);
        Ok(())
    }

    /// A first start has failed: the next one runs the bundled model, and leaves the file as it is. For
    /// programs with a window: where there is no daemon, nobody can choose another model.
    ///
    /// # Errors
    /// The same error, when that was the bundled one already.
    pub fn rescue(&mut self, error: Error) -> Result<()> {
        if self.resolved.settings.model == ModelChoice::Bundled {
            return Err(error);
        }
        let settings = &mut self.resolved.settings;
        let wanted = std::mem::replace(&mut settings.model, ModelChoice::Bundled);
        let message = format!("{error:#}; the bundled model runs instead");
        tracing::warn!(model = %wanted, message, "the model cannot be run");
        self.fail(&wanted, message);
        self.failure.as_mut().expect("it was told just now").at_start = true;
        Ok(())
    }

    /// The model is loaded: from now on it is the one that was chosen.
    pub(super) fn arrive(&mut self) {
        if self.before.take().is_none() {
            return;
        }
        let (file, model) = (self.resolved.config_file(), self.resolved.settings.model.clone());
        if let Err(error) = edit::set_text(&file, Key::Model, &model.to_string()) {
            let message = format!("it runs, but the next start will not choose it: {error}");
            tracing::warn!(%model, message, "the choice of the model was not kept");
            self.fail(&model, message);
        }
    }

    fn fail(&mut self, model: &ModelChoice, message: String) {
        let at = wall_clock()().0 / 1000;
        self.failure =
            Some(SwitchFailure { model: model.to_string(), message, at, at_start: false });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hob_config::{Flags, Places, Settings, Sources};

    use super::*;

    fn model_switch(root: &std::path::Path) -> ModelSwitch {
        let sources = Sources::gather(Places::under(root), [], Flags::default()).unwrap();
        ModelSwitch::new(Settings::resolve(&sources).unwrap())
    }

    #[test]
    fn a_model_that_does_not_load_leaves_the_one_before_and_the_file_alone() {
        let root = tempfile::tempdir().unwrap();
        let mut model_switch = model_switch(root.path());
        model_switch.switch(ModelChoice::Named("big".to_owned()));
        assert_eq!(model_switch.resolved().settings.model.to_string(), "big");
        model_switch.go_back(anyhow::anyhow!("no memory")).unwrap();
        assert_eq!(model_switch.resolved().settings.model, ModelChoice::Bundled);
        let failure = model_switch.failure().unwrap();
        assert_eq!(failure.model, "big");
        assert!(failure.message.contains("no memory; bundled runs again"), "{}", failure.message);
        assert!(!model_switch.resolved().config_file().exists());
        let error = model_switch.go_back(anyhow::anyhow!("again")).unwrap_err();
        assert_eq!(error.to_string(), "again", "there is nothing to go back to any more");
    }

    #[test]
    fn a_first_start_without_its_model_runs_the_bundled_one_and_leaves_the_file_alone() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("config/hob.toml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "model = 'gone'").unwrap();
        let mut model_switch = model_switch(root.path());
        model_switch.rescue(anyhow::anyhow!("no such file")).unwrap();
        assert_eq!(model_switch.resolved().settings.model, ModelChoice::Bundled);
        model_switch.arrive();
        let failure = model_switch.failure().unwrap();
        assert!(failure.at_start && failure.model == "gone", "{failure:?}");
        assert!(failure.message.contains("no such file; the bundled model runs instead"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "model = 'gone'");
        let error = model_switch.rescue(anyhow::anyhow!("no space")).unwrap_err();
        assert_eq!(error.to_string(), "no space", "nothing else is left");
    }

    #[test]
    fn the_choice_is_written_once_the_model_is_loaded() {
        let root = tempfile::tempdir().unwrap();
        let mut model_switch = model_switch(root.path());
        model_switch.arrive();
        assert!(!model_switch.resolved().config_file().exists(), "nobody chose anything");
        model_switch.switch(ModelChoice::Named("small".to_owned()));
        model_switch.arrive();
        let file = model_switch.resolved().config_file();
        assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"small\"\n");
        assert_eq!(model_switch.failure(), None);

        fs::write(&file, "model =").unwrap();
        model_switch.switch(ModelChoice::Bundled);
        model_switch.arrive();
        assert!(model_switch.failure().unwrap().message.contains("is not valid TOML"));
        assert_eq!(
            model_switch.resolved().settings.model,
            ModelChoice::Bundled,
            "it runs all the same"
        );
    }
}
