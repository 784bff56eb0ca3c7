//! What ends a daemon that is neither stopped nor dead: other settings, or another model file.
//!
//! - The file of the next model is tried while this daemon still serves: one that cannot be used
//!   changes nothing.
//! - A switch that was accepted is made, also one that is requested while a replaced file is tried or
//!   waits for running answers, and one that waits when the engine dies.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hob_config::Key;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{Ending, model};
use crate::blocking::compute;
use crate::clock::Clock;
use crate::models::{Catalogue, SwitchFailure};
use crate::settings::{Changes, LiveSettings};

/// How long a switch to another model or to other settings waits for running answers.
const MAX_ANSWER_WAIT: Duration = Duration::from_secs(10);

pub(super) struct NextStart {
    pub catalogue: Arc<Catalogue>,
    pub settings: LiveSettings,
    pub clock: Clock,
    /// Notified when the model file was replaced.
    pub model_changed: Arc<Notify>,
}

impl NextStart {
    /// Waits until the daemon must restart at `address` and its answers have ended, for which `idle`
    /// waits. A switch gives them ten seconds.
    pub async fn wait<I: Future>(&self, address: SocketAddr, idle: impl Fn() -> I) -> Ending {
        let request = self.catalogue.switch_request();
        let mut is_replaced = false;
        loop {
            tokio::select! {
                biased; // A switch goes first.
                changes = request.submitted() => match self.check(&changes).await {
                    Ok(()) => {
                        log(&changes);
                        let _ = timeout(MAX_ANSWER_WAIT, idle()).await; // An error: it has taken too long.
                        return Ending::Switched(address, changes);
                    }
                    Err(failure) => {
                        request.withdraw();
                        self.catalogue.go_on(failure);
                    }
                },
                () = self.model_changed.notified() => {
                    let checked = self.check(&Vec::new()).await;
                    is_replaced = checked.is_ok();
                    if let Err(failure) = checked {
                        self.catalogue.go_on(failure);
                    }
                }
                _ = idle(), if is_replaced => {
                    if request.close() {
                        return Ending::ModelReplaced(address);
                    }
                }
            }
        }
    }

    /// Whether the model of the settings with these changes can be used; else why this daemon goes on. With an engine
    /// at another address none is loaded.
    async fn check(&self, changes: &Changes) -> Result<(), SwitchFailure> {
        // An error: they were checked when they were requested.
        let Ok(resolved) = self.settings.get().with(changes) else { return Ok(()) };
        if resolved.settings.upstream.is_some() {
            return Ok(());
        }
        let model = resolved.settings.model.to_string();
        let probe = move || model::probe(&resolved, &mut |_| ControlFlow::Continue(()));
        let Err(error) = compute(probe).await else { return Ok(()) };
        let running = &self.catalogue.current().name;
        let message = format!("{error:#}; {running} runs on, and nothing was changed");
        tracing::warn!(model, message, "the model was refused");
        let at = (self.clock)().0 / 1000;
        Err(SwitchFailure { model, message, at, at_start: false })
    }
}

fn log(changes: &Changes) {
    let named = |(key, value): &(Key, String)| format!("{} = {value}", key.name());
    let changed = changes.iter().map(named).collect::<Vec<_>>().join(", ");
    tracing::info!(changed, "restarting with other settings");
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;
    use std::path::Path;

    use hob_config::{Flags, Settings, Sources, UserDirs};
    use hob_models::ChosenContext;
    use hob_runtime::Residency;
    use hob_slots::{ModelHash, Timestamp};
    use tokio::sync::watch;

    use super::*;
    use crate::models::{CurrentModel, DeviceSettings, ModelSampling, Options, Refusal};
    use crate::startup::model_file::{context_settings, probe_cache, roots};

    #[tokio::test]
    async fn a_switch_goes_before_a_replaced_file_that_waits_for_answers() {
        let root = tempfile::tempdir().unwrap();
        let next = next_start(root.path(), "fake");
        next.model_changed.notify_one();
        let waits = Cell::new(0);
        let idle = || async {
            waits.set(waits.get() + 1);
            if waits.get() == 1 {
                // The file was replaced, and an answer runs.
                next.catalogue.switch_request().submit(to("fake:second")).unwrap();
                pending::<()>().await;
            }
        };
        let ending = ends(&next, idle).await;
        assert_eq!(ending, Ending::Switched(address(), to("fake:second")));
    }

    #[tokio::test]
    async fn a_replaced_file_that_cannot_be_used_takes_no_switch_with_it() {
        let root = tempfile::tempdir().unwrap();
        let next = next_start(root.path(), "/nowhere/a.gguf");
        next.model_changed.notify_one();
        // Polled second: the file is being tried.
        let request = async { next.catalogue.switch_request().submit(to("fake")).unwrap() };
        let (ending, ()) = tokio::join!(ends(&next, || async {}), request);
        assert_eq!(ending, Ending::Switched(address(), to("fake")));
        assert_eq!(next.catalogue.failure().unwrap().model, "/nowhere/a.gguf");
    }

    #[tokio::test]
    async fn a_switch_that_comes_too_late_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let next = next_start(root.path(), "fake");
        next.model_changed.notify_one();
        let ending = ends(&next, || async {}).await;
        assert_eq!(ending, Ending::ModelReplaced(address()));
        let late = next.catalogue.switch_request().submit(to("fake:second"));
        assert!(matches!(late, Err(Refusal::Switching)), "{late:?}");
    }

    #[tokio::test]
    async fn no_model_is_tried_where_the_engine_is_at_another_address() {
        let root = tempfile::tempdir().unwrap();
        let next = next_start(root.path(), "/nowhere/a.gguf");
        let upstream = (Key::Upstream, "http://127.0.0.1:9".to_owned());
        next.settings.choose(&vec![upstream]).unwrap();
        let changes = vec![(Key::Slots, "3".to_owned())];
        next.catalogue.switch_request().submit(changes.clone()).unwrap();
        let ending = ends(&next, || async {}).await;
        assert_eq!(ending, Ending::Switched(address(), changes), "it is not refused");
    }

    /// How the daemon ends, within a minute.
    async fn ends<I: Future>(next: &NextStart, idle: impl Fn() -> I) -> Ending {
        let ending = timeout(Duration::from_secs(60), next.wait(address(), idle));
        ending.await.expect("it restarts")
    }

    fn address() -> SocketAddr {
        "127.0.0.1:8642".parse().unwrap()
    }

    fn to(model: &str) -> Changes {
        vec![(Key::Model, model.to_owned())]
    }

    /// The next start of a daemon whose settings name `model`.
    fn next_start(root: &Path, model: &str) -> NextStart {
        let mut flags = Flags::default();
        flags.set(Key::Model, model);
        let sources = Sources::gather(UserDirs::under(root), [], flags).unwrap();
        let resolved = Settings::resolve(&sources).unwrap();
        let settings = &resolved.settings;
        let current = CurrentModel {
            choice: settings.model.clone(),
            name: "fake".to_owned(),
            path: None,
            fingerprint: ModelHash([0; 8]),
            context: ChosenContext::of_fake(None),
            kv_bytes_per_token: None,
            sampling: ModelSampling::default(),
            offload: None,
            draft_model: None,
            recall_model: None,
        };
        let catalogue = Catalogue::new(Options {
            roots: roots(&resolved),
            models_dir: root.join("models"),
            hashes: root.join("hashes.json"),
            probes: probe_cache(settings),
            context: context_settings(settings),
            devices: DeviceSettings::of(settings),
            store: None,
            naming: Box::new(|_, _| ModelHash([0; 8])),
            current,
            residency: watch::channel(Residency::Resident).1,
            fixed: None,
            fixed_context: None,
            failure: None,
        });
        NextStart {
            catalogue: Arc::new(catalogue),
            settings: LiveSettings::new(resolved),
            clock: Arc::new(|| Timestamp(0)),
            model_changed: Arc::default(),
        }
    }
}
