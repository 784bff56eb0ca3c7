//! The model of the next start, and what survives a restart within the process: the clocks and the
//! crashes.
//!
//! - If a chosen model does not load, the previous one runs again and reports the failure.
//! - The choice is written to the configuration file only once the model is loaded.

use std::time::Duration;

use anyhow::{Error, Result};
use hob_config::{Key, ModelChoice, Resolved, edit};

use crate::clock::ProcessTime;
use crate::crashes::{Crash, Crashes};
use crate::models::SwitchFailure;
use crate::storage::quota::DiskQuota;

/// The settings of a daemon that may restart with another model.
pub struct ModelSwitch {
    resolved: Resolved,
    time: ProcessTime,
    quota: DiskQuota,
    /// The previous model, until the chosen one is loaded.
    previous: Option<ModelChoice>,
    failure: Option<SwitchFailure>,
    crashes: Crashes,
    /// The daemon before the next start crashed.
    after_crash: bool,
}

impl ModelSwitch {
    pub fn new(resolved: Resolved) -> Self {
        Self {
            quota: DiskQuota::new(&resolved),
            resolved,
            time: ProcessTime::system(),
            previous: None,
            failure: None,
            crashes: Crashes::default(),
            after_crash: false,
        }
    }

    /// Reads other clocks than the system's.
    #[must_use]
    pub fn with_time(self, time: ProcessTime) -> Self {
        Self { time, ..self }
    }

    pub fn time(&self) -> &ProcessTime {
        &self.time
    }

    /// The settings of the next start.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    pub fn quota(&self) -> &DiskQuota {
        &self.quota
    }

    /// Why the chosen model does not run, or will not run at the next start.
    pub fn failure(&self) -> Option<&SwitchFailure> {
        self.failure.as_ref()
    }

    /// The crashes before the next start.
    pub fn crashes(&self) -> &Crashes {
        &self.crashes
    }

    /// A daemon crashed after it ran for `ran`. Returns how long to wait before the next start.
    pub fn crashed(&mut self, reason: String, ran: Duration) -> Duration {
        self.after_crash = true;
        self.crashes.add(Crash { reason, at: Some(self.time.wall_clock()().0 / 1000) }, ran)
    }

    /// Whether the daemon before the next start crashed.
    pub fn after_crash(&self) -> bool {
        self.after_crash
    }

    /// Crashes of earlier processes under the same supervisor.
    pub fn inherit(&mut self, crashes: Crashes) {
        self.after_crash = crashes.count > 0;
        self.crashes = crashes;
    }

    /// Chooses the model of the next start.
    pub fn switch(&mut self, model: ModelChoice) {
        self.failure = None;
        let previous = std::mem::replace(&mut self.resolved.settings.model, model);
        self.previous = Some(previous);
    }

    /// A start has failed: the next one runs the previous model.
    ///
    /// # Errors
    /// Returns `error` if there is no previous model.
    pub fn go_back(&mut self, error: Error) -> Result<()> {
        let Some(previous) = self.previous.take() else { return Err(error) };
        let chosen = std::mem::replace(&mut self.resolved.settings.model, previous);
        let message = format!(
            "{error:#}; {} runs again, and nothing was changed",
            self.resolved.settings.model
        );
        tracing::warn!(model = %chosen, message, "the model switch failed");
        self.fail(&chosen, message);
        Ok(())
    }

    /// A first start has failed: the next one runs the bundled model and leaves the file unchanged.
    /// For programs with a window, in which the user can then choose another model.
    ///
    /// # Errors
    /// Returns `error` if that was the bundled model.
    pub fn rescue(&mut self, error: Error) -> Result<()> {
        if self.resolved.settings.model == ModelChoice::Bundled {
            return Err(error);
        }
        let settings = &mut self.resolved.settings;
        let chosen = std::mem::replace(&mut settings.model, ModelChoice::Bundled);
        let message = format!("{error:#}; the bundled model runs instead");
        tracing::warn!(model = %chosen, message, "the model cannot be run");
        self.fail(&chosen, message);
        self.failure.as_mut().expect("set by `fail`").at_start = true;
        Ok(())
    }

    /// The model is loaded: writes the choice to the file.
    pub(super) fn loaded(&mut self) {
        self.after_crash = false;
        if self.previous.take().is_none() {
            return;
        }
        let (file, model) = (self.resolved.config_file(), self.resolved.settings.model.clone());
        if let Err(error) = edit::set(&file, Key::Model, model.to_string()) {
            let message = format!("it runs, but the next start will not choose it: {error}");
            tracing::warn!(%model, message, "the choice of the model was not saved");
            self.fail(&model, message);
        }
    }

    fn fail(&mut self, model: &ModelChoice, message: String) {
        let at = self.time.read().0.0 / 1000;
        self.failure =
            Some(SwitchFailure { model: model.to_string(), message, at, at_start: false });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hob_config::{Flags, Settings, Sources, UserDirs};

    use super::*;

    fn model_switch(root: &std::path::Path) -> ModelSwitch {
        let sources = Sources::gather(UserDirs::under(root), [], Flags::default()).unwrap();
        ModelSwitch::new(Settings::resolve(&sources).unwrap())
    }

    #[test]
    fn a_model_that_does_not_load_leaves_the_previous_one_and_the_file_unchanged() {
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
        assert_eq!(error.to_string(), "again", "no previous model is left");
    }

    #[test]
    fn a_first_start_without_its_model_runs_the_bundled_one_and_leaves_the_file_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("config/hob.toml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "model = 'gone'").unwrap();
        let mut model_switch = model_switch(root.path());
        model_switch.rescue(anyhow::anyhow!("no such file")).unwrap();
        assert_eq!(model_switch.resolved().settings.model, ModelChoice::Bundled);
        model_switch.loaded();
        let failure = model_switch.failure().unwrap();
        assert!(failure.at_start && failure.model == "gone", "{failure:?}");
        assert!(failure.message.contains("no such file; the bundled model runs instead"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "model = 'gone'");
        let error = model_switch.rescue(anyhow::anyhow!("no space")).unwrap_err();
        assert_eq!(error.to_string(), "no space", "no other model is left");
    }

    #[test]
    fn the_choice_is_written_once_the_model_is_loaded() {
        let root = tempfile::tempdir().unwrap();
        let mut model_switch = model_switch(root.path());
        model_switch.loaded();
        assert!(!model_switch.resolved().config_file().exists(), "no model was chosen");
        model_switch.switch(ModelChoice::Named("small".to_owned()));
        model_switch.loaded();
        let file = model_switch.resolved().config_file();
        assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"small\"\n");
        assert_eq!(model_switch.failure(), None);

        fs::write(&file, "model =").unwrap();
        model_switch.switch(ModelChoice::Bundled);
        model_switch.loaded();
        assert!(model_switch.failure().unwrap().message.contains("is not valid TOML"));
        assert_eq!(model_switch.resolved().settings.model, ModelChoice::Bundled, "it runs");
    }
}
