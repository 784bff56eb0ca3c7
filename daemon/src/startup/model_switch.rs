//! The settings of the next start, among them the model, and what survives a restart within the
//! process: clocks, crashes, the quota, and the text of private conversations.
//!
//! - If the model does not load with what a client chose, the settings before are in force again, and
//!   the failure is reported.
//! - A choice is written to the configuration file only once the model is loaded with it.
//! - A switch that the process before has left is not made where the user starts hobd with a flag or a variable that
//!   sets one of its settings to another value.

use std::time::Duration;

use anyhow::{Error, Result};
use hob_config::{ConfigError, Key, ModelChoice, Resolved, paths};
use hob_models::published::Published;

use super::deferred_switch;
use crate::clock::ProcessTime;
use crate::conversations::transcript::{PrivateText, TranscriptError};
use crate::crashes::{Crash, Crashes};
use crate::models::{Fetcher, SwitchFailure};
use crate::settings::{Changes, LiveSettings};
use crate::storage::quota::DiskQuota;

/// Who has started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartedBy {
    /// The user, or a program of the system. The command line is as new as the start.
    User,
    /// The process before, or its supervisor, with the command line of the process before.
    Hob,
}

/// The settings of a daemon that may restart with others.
pub struct ModelSwitch {
    settings: LiveSettings,
    time: ProcessTime,
    quota: DiskQuota,
    /// Until the model is loaded with what was chosen.
    pending: Option<Pending>,
    failure: Option<SwitchFailure>,
    crashes: Crashes,
    /// The daemon before the next start crashed.
    after_crash: bool,
    /// From the first start on.
    private: Option<PrivateText>,
    fetcher: Fetcher,
}

struct Pending {
    before: Resolved,
    /// With `changes`.
    chosen: Resolved,
    changes: Changes,
}

impl Pending {
    /// The settings before, with what clients have changed since.
    fn undone(&self, now: &Resolved) -> Result<Resolved, ConfigError> {
        let pairs = now.entries.iter().zip(&self.chosen.entries);
        let later = pairs.filter(|(now, chosen)| now.value != chosen.value);
        let later: Changes = later.map(|(now, _)| (now.key, now.written())).collect();
        self.before.with(&later)
    }
}

impl ModelSwitch {
    /// With the switch that the process before has left to this one.
    pub fn new(resolved: Resolved, started_by: StartedBy) -> Self {
        let left = deferred_switch::take(&resolved.settings.data_dir);
        let mut new = Self {
            quota: DiskQuota::new(&resolved),
            fetcher: Fetcher::new(paths::models_dir(&resolved.settings.data_dir)),
            settings: LiveSettings::new(resolved),
            time: ProcessTime::system(),
            pending: None,
            failure: None,
            crashes: Crashes::default(),
            after_crash: false,
            private: None,
        };
        let Some(changes) = left else { return new };
        match new.overridden(&changes).filter(|_| started_by == StartedBy::User) {
            None => new.switch(changes),
            Some((model, message)) => {
                tracing::warn!(%model, message, "the switch was not made");
                new.fail(&model, message);
            }
        }
        new
    }

    /// Why a start of the user does not make this switch, and the model of the switch.
    fn overridden(&self, changes: &Changes) -> Option<(ModelChoice, String)> {
        let now = self.resolved();
        let chosen = now.with(changes).ok()?; // An error: `switch` reports it.
        let message = changes.iter().find_map(|(key, _)| {
            let differs = now.entries[*key as usize].value != chosen.entries[*key as usize].value;
            let origin = now.fixed(*key).filter(|_| differs)?;
            let name = key.name();
            Some(format!("the {origin} sets `{name}` of this start, and nothing was changed"))
        })?;
        Some((chosen.settings.model, message))
    }

    /// Reads other clocks than the system's.
    #[must_use]
    pub fn with_time(self, time: ProcessTime) -> Self {
        Self { time, ..self }
    }

    /// Fetches this model in place of the published one.
    #[must_use]
    pub fn with_fetchable(self, published: &'static Published) -> Self {
        let dir = paths::models_dir(&self.resolved().settings.data_dir);
        Self { fetcher: Fetcher::of(published, dir), ..self }
    }

    /// The fetch of a model goes on while the daemon restarts.
    pub fn fetcher(&self) -> &Fetcher {
        &self.fetcher
    }

    pub fn time(&self) -> &ProcessTime {
        &self.time
    }

    /// The settings of the next start.
    pub fn resolved(&self) -> Resolved {
        self.settings.get()
    }

    /// The settings of the next start, shared with the running daemon, whose clients change them.
    pub fn settings(&self) -> &LiveSettings {
        &self.settings
    }

    pub fn quota(&self) -> &DiskQuota {
        &self.quota
    }

    /// The text of private conversations.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(super) fn private_text(&mut self) -> Result<PrivateText, TranscriptError> {
        if self.private.is_none() {
            self.private = Some(PrivateText::new()?);
        }
        Ok(self.private.clone().expect("it was just made"))
    }

    /// Why what was chosen is not in force, or will not be at the next start.
    pub fn failure(&self) -> Option<&SwitchFailure> {
        self.failure.as_ref()
    }

    /// The crashes before the next start.
    pub fn crashes(&self) -> &Crashes {
        &self.crashes
    }

    /// A daemon crashed after it ran for `ran`. `chosen`: by a client, for the next start; may be empty. Returns how
    /// long to wait before that start.
    pub fn crashed(&mut self, reason: String, ran: Duration, chosen: Changes) -> Duration {
        self.after_crash = true;
        if !chosen.is_empty() {
            self.switch(chosen);
        }
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

    /// Chooses the model or other settings of the next start.
    pub fn switch(&mut self, changes: Changes) {
        self.failure = None;
        match self.settings.choose(&changes) {
            Ok(before) => {
                let chosen = self.resolved();
                self.pending = Some(Pending { before, chosen, changes });
            }
            Err(error) => self.fail(&self.model(), error.to_string()), // It was checked before.
        }
    }

    /// A start has failed: the next one has the settings before.
    ///
    /// # Errors
    /// Returns `error` if nothing was chosen.
    pub fn go_back(&mut self, error: Error) -> Result<()> {
        let Some(pending) = self.pending.take() else { return Err(error) };
        let chosen = self.model();
        // An error is impossible: each of the values was in force.
        self.settings.replace(pending.undone(&self.resolved()).unwrap_or(pending.before));
        let model = self.model();
        let message = if chosen == model {
            format!("{error:#}; the settings before are in force again, and nothing was changed")
        } else {
            format!("{error:#}; {model} runs again, and nothing was changed")
        };
        tracing::warn!(model = %chosen, message, "the restart failed");
        self.fail(&chosen, message);
        Ok(())
    }

    /// A first start has failed: the next one runs the bundled model and leaves the file unchanged.
    /// For programs with a window, in which the user can then choose another model.
    ///
    /// # Errors
    /// Returns `error` if that was the bundled model.
    pub fn rescue(&mut self, error: Error) -> Result<()> {
        let chosen = self.model();
        if chosen == ModelChoice::Bundled {
            return Err(error);
        }
        self.settings.choose(&vec![(Key::Model, ModelChoice::Bundled.to_string())])?;
        let message = format!("{error:#}; the bundled model runs instead");
        tracing::warn!(model = %chosen, message, "the model cannot be run");
        self.fail(&chosen, message);
        self.failure.as_mut().expect("set by `fail`").at_start = true;
        Ok(())
    }

    /// The model is loaded: writes what was chosen to the file.
    pub(super) fn loaded(&mut self) {
        self.after_crash = false;
        let Some(Pending { changes, .. }) = self.pending.take() else { return };
        if let Err(error) = self.settings.save(&changes) {
            let model = self.model();
            let message = format!("it runs, but the next start will not choose it: {error}");
            tracing::warn!(%model, message, "the choice was not saved");
            self.fail(&model, message);
        }
    }

    fn model(&self) -> ModelChoice {
        self.settings.get().settings.model
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

    use hob_config::{ContextChoice, Flags, Settings, Sources, UserDirs};

    use super::*;

    fn model(name: &str) -> Changes {
        vec![(Key::Model, name.to_owned())]
    }

    fn model_switch(root: &std::path::Path) -> ModelSwitch {
        with_flags(root, &[], StartedBy::User)
    }

    fn with_flags(
        root: &std::path::Path,
        set: &[(Key, &str)],
        started_by: StartedBy,
    ) -> ModelSwitch {
        let mut flags = Flags::default();
        for (key, value) in set {
            flags.set(*key, *value);
        }
        let sources = Sources::gather(UserDirs::under(root), [], flags).unwrap();
        ModelSwitch::new(Settings::resolve(&sources).unwrap(), started_by)
    }

    #[test]
    fn a_model_that_does_not_load_leaves_the_previous_one_and_the_file_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let mut model_switch = model_switch(root.path());
        model_switch.switch(model("big"));
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
    fn a_switch_that_the_process_before_has_left_is_made_and_tried_once() {
        let root = tempfile::tempdir().unwrap();
        let data_dir = model_switch(root.path()).resolved().settings.data_dir;
        deferred_switch::leave(&data_dir, &model("big"));
        let mut fails = model_switch(root.path());
        assert_eq!(fails.resolved().settings.model.to_string(), "big");
        fails.go_back(anyhow::anyhow!("no memory")).unwrap();
        assert_eq!(fails.resolved().settings.model, ModelChoice::Bundled);
        assert_eq!(fails.failure().unwrap().model, "big");
        assert_eq!(model_switch(root.path()).resolved().settings.model, ModelChoice::Bundled);

        deferred_switch::leave(&data_dir, &model("small"));
        let mut loads = model_switch(root.path());
        loads.loaded();
        let file = loads.resolved().config_file();
        assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"small\"\n");
    }

    #[test]
    fn a_flag_of_the_users_start_goes_before_a_switch_that_the_process_before_has_left() {
        let root = tempfile::tempdir().unwrap();
        let data_dir = model_switch(root.path()).resolved().settings.data_dir;
        let left = vec![(Key::Model, "big".to_owned()), (Key::Ctx, "4096".to_owned())];
        let start = |set: &[(Key, &str)], started_by| {
            deferred_switch::leave(&data_dir, &left);
            let new = with_flags(root.path(), set, started_by);
            let resolved = new.resolved().settings;
            let why = new.failure().map(|failure| failure.message.clone());
            ((resolved.model.to_string(), resolved.ctx.tokens()), why)
        };
        let of_flag = [(Key::Model, "of-flag")];
        let (now, why) = start(&of_flag, StartedBy::User);
        assert_eq!(now, ("of-flag".to_owned(), None));
        let expected = "the flag --model sets `model` of this start, and nothing was changed";
        assert_eq!(why.as_deref(), Some(expected));
        assert_eq!(
            deferred_switch::take(&data_dir),
            None,
            "the start after it does not make it either"
        );
        let big = (("big".to_owned(), Some(4096)), None);
        assert_eq!(start(&of_flag, StartedBy::Hob), big, "hobd has kept its command line");
        let same = [(Key::Model, "big"), (Key::Threads, "1")];
        assert_eq!(start(&same, StartedBy::User), big, "no flag says otherwise");
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
        model_switch.switch(model("small"));
        model_switch.loaded();
        let file = model_switch.resolved().config_file();
        assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"small\"\n");
        assert_eq!(model_switch.failure(), None);

        fs::write(&file, "model =").unwrap();
        model_switch.switch(model("bundled"));
        model_switch.loaded();
        assert!(model_switch.failure().unwrap().message.contains("is not valid TOML"));
        assert_eq!(model_switch.resolved().settings.model, ModelChoice::Bundled, "it runs");
    }

    #[test]
    fn settings_with_which_the_model_does_not_load_are_those_before_again() {
        let root = tempfile::tempdir().unwrap();
        let mut model_switch = model_switch(root.path());
        model_switch.switch(vec![(Key::Ctx, "65536".to_owned())]);
        assert_eq!(model_switch.resolved().settings.ctx, ContextChoice::Tokens(65_536));
        model_switch.go_back(anyhow::anyhow!("no memory")).unwrap();
        assert_eq!(model_switch.resolved().settings.ctx, ContextChoice::Auto);
        let failure = model_switch.failure().unwrap();
        assert!(failure.message.contains("no memory; the settings before"), "{}", failure.message);
        assert!(!model_switch.resolved().config_file().exists());

        model_switch.switch(vec![(Key::Ctx, "16384".to_owned())]);
        model_switch.loaded();
        let file = model_switch.resolved().config_file();
        assert_eq!(fs::read_to_string(&file).unwrap(), "ctx = 16384\n");

        model_switch.switch(vec![(Key::Ctx, "auto".to_owned())]);
        model_switch.loaded();
        assert_eq!(fs::read_to_string(&file).unwrap(), "ctx = \"auto\"\n");
    }

    #[test]
    fn what_a_client_changes_while_the_model_loads_stays_when_that_fails() {
        let root = tempfile::tempdir().unwrap();
        let mut model_switch = model_switch(root.path());
        model_switch.switch(vec![(Key::Ctx, "65536".to_owned())]);
        let later = vec![(Key::DefaultTtl, "short".to_owned())];
        model_switch.settings().choose(&later).unwrap();
        model_switch.go_back(anyhow::anyhow!("no memory")).unwrap();
        assert_eq!(model_switch.resolved().settings.ctx, ContextChoice::Auto);
        assert_eq!(model_switch.settings().default_class(), hob_slots::TtlClass::Short);
    }

    #[test]
    fn a_model_chosen_over_a_flag_runs_and_leaves_the_file_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let of_flag = [(Key::Model, "of-flag")];
        let mut model_switch = with_flags(root.path(), &of_flag, StartedBy::User);
        model_switch.switch(model("small"));
        model_switch.loaded();
        assert_eq!(model_switch.resolved().settings.model.to_string(), "small");
        assert!(!model_switch.resolved().config_file().exists());
        assert_eq!(model_switch.failure(), None);
    }
}
