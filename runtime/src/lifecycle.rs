//! The engine's thread: one context after the other, as the weights come and go.
//!
//! - Before the weights leave, everything is saved and on disk.
//! - While they are away nothing is lost: turns wait for them, and what needs no weights is served.
//! - While they are on their way the thread hears nobody; others read what it said of itself before.
//! - Weights that do not come back are an error for whoever wanted them, and for nobody else; the
//!   next one tries again.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::sync::watch;
use tracing::{info, warn};

use crate::backend::{LoadError, Model};
use crate::engine::shape;
use crate::status::{EngineStatus, Residency};
use crate::turn::TurnError;
use crate::worker::{
    Command, Core, Exit, Wake, Worker, refuse, serve_unloaded, status_without_weights,
};

/// What others see of the thread while it is busy with weights.
pub(crate) struct SharedStatus {
    pub residency: watch::Sender<Residency>,
    /// The status while the weights are on their way.
    pub meanwhile: Arc<Mutex<EngineStatus>>,
}

/// Serves until told to stop. `ready` hears once whether the first context was made.
pub(crate) fn run(
    mut core: Core,
    inbox: &mpsc::Receiver<Command>,
    ready: &mpsc::Sender<Result<(), LoadError>>,
    outside: &SharedStatus,
) {
    let mut first = None;
    let mut is_new = true;
    loop {
        let model = core.model.clone();
        let shape = shape(&core.options);
        let (mut parts, mut ended) = (Some((core, first)), None);
        let made = model.with_context(shape, &mut |backend| {
            let (core, first) = parts.take().expect("a context is lent once");
            if is_new {
                ready.send(Ok(())).expect("start() waits");
            }
            ended = Some(Worker::new(backend, core).run(first, inbox));
        });
        match (made, ended, parts) {
            (Ok(()), Some((_, Exit::Stopped)), _) => return,
            (Ok(()), Some((kept, Exit::Unloading(done))), _) => {
                core = kept;
                let left = unload(model.as_ref(), &outside.residency);
                done.send(left).ok(); // An error: the caller went away.
                if left {
                    let Some(command) = sleep(&core, inbox, outside) else { return };
                    first = Some(command);
                } else {
                    first = None;
                }
            }
            (Err(error), _, _) if is_new => return ready.send(Err(error)).expect("start() waits"),
            (Err(error), _, Some((kept, command))) => {
                warn!(%error, "the context cannot be made");
                core = kept;
                if let Some(command) = command {
                    refuse(&core, command, TurnError::Backend(error.to_string()));
                }
                let Some(command) = sleep(&core, inbox, outside) else { return };
                first = Some(command);
            }
            _ => unreachable!("a context that was made was lent, and one that was not was not"),
        }
        is_new = false;
    }
}

fn unload(model: &dyn Model, residency: &watch::Sender<Residency>) -> bool {
    match model.drop_weights() {
        Ok(()) => {
            info!("the model's weights have left memory");
            residency.send_replace(Residency::Unloaded);
            true
        }
        Err(error) => {
            warn!(%error, "the model's weights stay in memory");
            false
        }
    }
}

/// Waits until somebody wants the weights and they are there. `None`: the engine stops.
fn sleep(
    core: &Core,
    inbox: &mpsc::Receiver<Command>,
    SharedStatus { residency, meanwhile }: &SharedStatus,
) -> Option<Command> {
    loop {
        let command = match serve_unloaded(core, inbox) {
            Wake::By(command) => command,
            Wake::ToStop => {
                core.tiers.flush();
                return None;
            }
        };
        *meanwhile.lock().unwrap_or_else(PoisonError::into_inner) = status_without_weights(core);
        let loaded = core.model.load_weights(&mut |progress| {
            let percent = (progress.clamp(0.0, 1.0) * 100.0) as u8;
            residency.send_replace(Residency::Loading { percent });
        });
        match loaded {
            Ok(()) => {
                info!("the model's weights are in memory");
                residency.send_replace(Residency::Resident);
                return Some(command);
            }
            Err(error) => {
                warn!(%error, "the model cannot be loaded");
                residency.send_replace(Residency::Unloaded);
                refuse(core, command, TurnError::Backend(error.to_string()));
            }
        }
    }
}
