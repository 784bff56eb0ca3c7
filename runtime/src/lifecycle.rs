//! The engine's thread: makes a context, and makes a new one after each reload of the weights.
//!
//! - Before the weights are dropped, everything is saved and on disk.
//! - While they are dropped, turns wait for them, and commands that need no weights are served.
//! - While they load, the thread handles no command; others read the status from before. A stop
//!   interrupts the load.
//! - Weights that fail to load are an error for the command that needed them; the next one tries
//!   again. So is a context that cannot be made of them: the weights stay for that, until they are dropped.
//! - Where the devices of the weights were chosen and a context cannot be made there, the processor computes the
//!   model, until its weights are dropped.

use std::ops::ControlFlow;
use std::sync::mpsc;

use tokio::sync::watch;
use tracing::{info, warn};

use crate::backend::LoadError;
use crate::command::Command;
use crate::heartbeat::{Activity, Heartbeat};
use crate::status::Residency;
use crate::turn::TurnError;
use crate::worker::{Core, Exit, Wake, Worker, refuse, serve_unloaded, unloaded_status};

/// A context could not be made.
struct NoContext {
    error: LoadError,
    core: Core,
    /// The command that was to run in it.
    first: Option<Command>,
}

/// Serves until [`Command::Stop`]. Sends to `ready` once: whether the first context was made.
pub(crate) fn run(
    mut core: Core,
    inbox: &mpsc::Receiver<Command>,
    ready: mpsc::Sender<Result<(), LoadError>>,
    residency: &watch::Sender<Residency>,
) {
    let mut ready = Some(ready);
    let mut first = None;
    let mut draft_unloaded: Option<String> = None;
    loop {
        let mut report = |made| {
            let ready = ready.take();
            ready.map(|ready| ready.send(made).expect("Engine::start() waits")).is_some()
        };
        let on_context = || {
            report(Ok(()));
        };
        match serve_loaded(core, first.take(), draft_unloaded.clone(), inbox, on_context) {
            Ok((_, Exit::Stopped)) => return,
            Ok((kept, Exit::Unloading(reply))) => {
                core = kept;
                core.pulse.begin(Activity::Loading);
                let dropped = drop_weights(&core, residency);
                reply.send(dropped);
                if !dropped {
                    continue;
                }
            }
            Err(failed) => {
                let NoContext { error, core: kept, first: command } = *failed;
                core = kept;
                let Err(error) = leave_devices(&mut core, error, residency) else {
                    first = command;
                    continue;
                };
                if report(Err(error.clone())) {
                    return; // The engine never started.
                }
                warn!(%error, "the context cannot be made");
                match command {
                    Some(command) if core.pulse.is_stopping() => {
                        refuse(&core, command, TurnError::Stopped);
                    }
                    Some(command) => {
                        refuse(&core, command, TurnError::Backend(error.to_string()));
                    }
                    None => {}
                }
            }
        }
        let Some(loaded) = wait_for_weights(&mut core, inbox, residency) else { return };
        (first, draft_unloaded) = (Some(loaded.wanted_by), loaded.draft_unloaded);
    }
}

/// The weights are in memory again.
struct Loaded {
    wanted_by: Command,
    /// Why those of the draft model are not.
    draft_unloaded: Option<String>,
}

/// Runs a worker on a new context, and `first` before all other commands. `draft_unloaded`: why the draft model has no
/// weights.
fn serve_loaded(
    mut core: Core,
    first: Option<Command>,
    draft_unloaded: Option<String>,
    inbox: &mpsc::Receiver<Command>,
    mut on_context: impl FnMut(),
) -> Result<(Core, Exit), Box<NoContext>> {
    core.pulse.begin(Activity::Loading);
    core.draft_failure = None;
    let model = core.model.clone();
    let draft_model = core.drafter.as_ref().map(|drafter| drafter.model().clone());
    let shape = core.options.shape(model.facts());
    let draft_shape = draft_model.as_ref().map(|model| core.options.shape(model.facts()));
    let mut parts = Some((core, first));
    let mut exit = None;
    let mut take = || {
        on_context();
        parts.take().expect("with_context() calls this once")
    };
    let made = model.with_context(shape, &mut |backend| {
        let mut draft_failure = None;
        if let (Some(draft_model), Some(shape)) = (&draft_model, draft_shape) {
            let made = draft_model.with_context(shape, &mut |drafts| {
                let (core, first) = take();
                exit = Some(Worker::new(&mut *backend, Some(drafts), core).run(first, inbox));
            });
            let Err(error) = made else { return };
            warn!(%error, "answers have no draft model");
            draft_failure = Some(draft_unloaded.clone().unwrap_or_else(|| error.to_string()));
        }
        let (mut core, first) = take();
        core.draft_failure = draft_failure;
        exit = Some(Worker::new(backend, None, core).run(first, inbox));
    });
    match made {
        Ok(()) => Ok(exit.expect("with_context() calls its closure before it returns Ok")),
        Err(error) => {
            let (core, first) = parts.expect("with_context() does not call its closure on Err");
            Err(Box::new(NoContext { error, core, first }))
        }
    }
}

/// Has the processor compute the model, if `error` is of a context beside layers whose devices were chosen.
///
/// # Errors
/// Why a context cannot be made now: `error`, or that of the load, behind which the weights are not in memory.
fn leave_devices(
    core: &mut Core,
    error: LoadError,
    residency: &watch::Sender<Residency>,
) -> Result<(), LoadError> {
    if !matches!(error, LoadError::Context { beside: Some(_), .. }) {
        return Err(error);
    }
    core.pulse.begin(Activity::Loading);
    *core.busy_status.lock() = Some(unloaded_status(core));
    let loading: &Core = core;
    let mut report = |progress: f32| report_load(loading, residency, progress);
    let left = loading.model.leave_devices(&mut report);
    *core.busy_status.lock() = None;
    match left {
        Ok(true) => {
            residency.send_replace(Residency::Resident);
            Ok(())
        }
        Ok(false) => Err(error),
        Err(error) => {
            drop_draft_weights(core);
            residency.send_replace(Residency::Unloaded);
            Err(error)
        }
    }
}

/// Returns whether the weights have left memory.
fn drop_weights(core: &Core, residency: &watch::Sender<Residency>) -> bool {
    match core.model.drop_weights() {
        Ok(()) => {
            info!("weights unloaded");
            drop_draft_weights(core);
            residency.send_replace(Residency::Unloaded);
            true
        }
        Err(error) => {
            warn!(%error, "weights not unloaded");
            false
        }
    }
}

/// Serves without weights until a command needs them, and loads them. `None`: the engine stops.
fn wait_for_weights(
    core: &mut Core,
    inbox: &mpsc::Receiver<Command>,
    residency: &watch::Sender<Residency>,
) -> Option<Loaded> {
    loop {
        let command = match serve_unloaded(core, inbox) {
            Wake::By(command) => command,
            Wake::ToDrop(reply) => {
                core.pulse.begin(Activity::Loading);
                let are_gone = *residency.borrow() == Residency::Unloaded;
                reply.send(are_gone || drop_weights(core, residency));
                continue;
            }
            Wake::ToStop => {
                core.pulse.begin(Activity::Flushing);
                core.flush();
                return None;
            }
        };
        *core.busy_status.lock() = Some(unloaded_status(core));
        let loaded = load_weights(core, residency);
        *core.busy_status.lock() = None;
        match loaded {
            Ok(draft_unloaded) => return Some(Loaded { wanted_by: command, draft_unloaded }),
            Err(_) if core.pulse.is_stopping() => refuse(core, command, TurnError::Stopped),
            Err(error) => refuse(core, command, TurnError::Backend(error.to_string())),
        }
    }
}

/// The draft model first, as at the start: what it takes of a device is then known when the model's layers are put
/// there. One that does not load drafts nothing: returns why.
fn load_weights(
    core: &Core,
    residency: &watch::Sender<Residency>,
) -> Result<Option<String>, LoadError> {
    core.pulse.begin(Activity::Loading);
    let mut report = |progress: f32| report_load(core, residency, progress);
    let mut draft_unloaded = None;
    if let Some(drafter) = &core.drafter
        && let Err(error) = drafter.model().load_weights(&mut report)
    {
        warn!(%error, "the draft model is not loaded");
        draft_unloaded = Some(format!(
            "its weights were not loaded again: {error}. Correct that and start again, or unload the model: the next \
             load tries again"
        ));
    }
    let loaded = core.model.load_weights(&mut report);
    match &loaded {
        Ok(()) => info!("weights loaded"),
        Err(error) => {
            warn!(%error, "weights not loaded");
            drop_draft_weights(core);
        }
    }
    let now = if loaded.is_ok() { Residency::Resident } else { Residency::Unloaded };
    residency.send_replace(now);
    loaded.map(|()| draft_unloaded)
}

/// Breaks to interrupt the load.
fn report_load(
    core: &Core,
    residency: &watch::Sender<Residency>,
    progress: f32,
) -> ControlFlow<()> {
    let heartbeat: &Heartbeat = &core.pulse;
    let percent = (progress.clamp(0.0, 1.0) * 100.0) as u8;
    residency.send_replace(Residency::Loading { percent });
    heartbeat.beat();
    if heartbeat.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn drop_draft_weights(core: &Core) {
    let draft_model = core.drafter.as_ref().map(|drafter| drafter.model());
    if let Some(Err(error)) = draft_model.map(|model| model.drop_weights()) {
        warn!(%error, "weights of the draft model not unloaded");
    }
}
