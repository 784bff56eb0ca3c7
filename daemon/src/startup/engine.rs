//! What must be open before anything else is: the directory, the model, and the engine over both.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use hob_config::{Resolved, Settings};
use hob_models::{Estimate, MachineMemory};
use hob_runtime::{Engine, EngineOptions};
use hob_slots::store::{Key, Store, StoreError};

use super::Step;
use super::model::{self, Loaded};
use crate::clock::Clock;
use crate::service::count_profiles;

/// What a computer has when it does not tell.
const ASSUMED_MEMORY_BYTES: u64 = 8 << 30;

/// llama.cpp has so many, and one of them serves splices.
const SEQUENCES: usize = 256;

/// Another process owns the directory of kept KV.
#[derive(Debug, thiserror::Error)]
#[error("{0}: is another hobd running? --data-dir and --listen start one beside it")]
pub struct AlreadyRunning(StoreError);

/// What was opened before anything is served.
pub(super) struct Opened {
    /// What computes.
    pub engine: Engine,
    /// Where KV is kept.
    pub store: Arc<Store>,
    /// The name under which the model is found.
    pub name: String,
    /// Its file, for people.
    pub shown: String,
    /// All of its files.
    pub files: Vec<PathBuf>,
    /// What the model takes of memory, where that is known.
    pub estimate: Option<Estimate>,
}

/// Takes the directory of kept KV, which comes first: a second daemon learns at once that it is taken.
pub(super) fn own(settings: &Settings) -> Result<Arc<Store>> {
    let mut store = Store::open(&settings.slots_dir).map_err(|error| match error {
        owned @ StoreError::Owned { .. } => AlreadyRunning(owned).into(),
        other => anyhow::Error::from(other),
    })?;
    if settings.slots_encrypt {
        store = store.sealed(&Key::load_or_make(&settings.slots_key_file)?)?;
    }
    Ok(Arc::new(store))
}

/// Loads the model and starts the engine over it.
pub(super) fn open(
    resolved: &Resolved,
    store: Arc<Store>,
    clock: Clock,
    tell: &mut dyn FnMut(Step),
) -> Result<Opened> {
    let settings = &resolved.settings;
    let loaded = model::load(resolved, tell)?;
    store.write_model_toml(&loaded.fingerprint)?;
    let memory = MachineMemory::read().map_or(ASSUMED_MEMORY_BYTES, |memory| memory.total_bytes);
    let options = EngineOptions {
        context_tokens: settings.ctx as usize,
        slots: settings.slots as usize,
        prefixes: prefix_slots(settings),
        queue: settings.queue,
        memory_budget_bytes: settings.warm_budget_bytes(memory),
        clock,
        ..EngineOptions::default()
    };
    let fingerprint = loaded.fingerprint.hash();
    let engine = Engine::start(loaded.model, fingerprint, Some(store.clone()), options)?;
    let Loaded { name, shown, files, estimate, .. } = loaded;
    Ok(Opened { engine, store, name, shown, files, estimate })
}

/// One for each profile, so that all are hot, and some for those that are added later. On models
/// that keep whole states each takes memory, so there are no more.
fn prefix_slots(settings: &Settings) -> usize {
    let profiles = count_profiles(&settings.profiles_dir);
    let least = EngineOptions::default().prefixes;
    let most = SEQUENCES - 1 - settings.slots as usize;
    profiles.max(least).min(most)
}
