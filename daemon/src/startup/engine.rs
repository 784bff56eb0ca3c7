//! The store, the model, and the engine over both.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use hob_config::{DraftChoice, EvictionChoice, Resolved, Settings};
use hob_models::{ChosenContext, Estimate, Limit, MachineMemory, Roots};
use hob_runtime::{DraftModel, Engine, EngineOptions, Recovery};
use hob_slots::away::Policy;
use hob_slots::fingerprint::Lora;
use hob_slots::store::{Store, StoreError};
use hob_slots::{Fingerprint, ModelHash};

use super::model::{self, Loaded};
use super::{Report, upstream};
use crate::clock::Clock;
use crate::models::{CurrentDraftModel, CurrentRecallModel, ModelSampling};
use crate::prompt::RendersIn;
use crate::storage::sweep;
use crate::warm::battery::ReadBattery;

/// Assumed where the system does not report its memory.
const ASSUMED_MEMORY_BYTES: u64 = 8 << 30;

/// Another process owns the slots directory.
#[derive(Debug, thiserror::Error)]
#[error("{0}: is another hobd running? --data-dir and --listen start one beside it")]
pub struct AlreadyRunning(StoreError);

pub(super) struct Opened {
    pub engine: Engine,
    pub store: Arc<Store>,
    /// The model's name, as clients see it.
    pub name: String,
    /// The path of its file, to show.
    pub shown: String,
    pub files: Vec<PathBuf>,
    pub context: ChosenContext,
    /// The memory that it needs, if known.
    pub estimate: Option<Estimate>,
    pub sampling: ModelSampling,
    pub renders_in: RendersIn,
    /// Adapters of the model.
    pub loras: Vec<Lora>,
    pub draft_model: Option<CurrentDraftModel>,
    pub recall_model: Option<CurrentRecallModel>,
}

/// Opens the slots directory, before everything else: a second daemon fails here at once.
pub(super) fn own(settings: &Settings) -> Result<Arc<Store>> {
    let mut store = Store::open(&settings.slots_dir).map_err(|error| match error {
        owned @ StoreError::Owned { .. } => AlreadyRunning(owned).into(),
        other => anyhow::Error::from(other),
    })?;
    if settings.slots_encrypt {
        store = store.sealed_with_new(&settings.slots_key_file)?;
    }
    Ok(Arc::new(store))
}

/// What tests replace.
#[derive(Default)]
pub struct Overrides {
    pub model: Option<Loaded>,
    pub engine: Option<EngineOptions>,
    /// The directories of models.
    pub roots: Option<Roots>,
    /// Reads the machine's battery.
    pub battery: Option<ReadBattery>,
    /// Leaves out sweeps, the trash's loop, grammars and file watches: the test changes the files.
    pub without_background: bool,
}

/// What the engine is opened with.
pub(super) struct Opening {
    pub store: Arc<Store>,
    pub clock: Clock,
    /// Whether the daemon before is known to have crashed.
    pub after_crash: bool,
    /// `None`: that of the settings.
    pub model: Option<Loaded>,
    /// `None`: those of the settings.
    pub options: Option<EngineOptions>,
}

/// Loads the model and starts the engine.
pub(super) fn open(
    resolved: &Resolved,
    opening: Opening,
    report: &mut Report<'_>,
) -> Result<Opened> {
    let settings = &resolved.settings;
    let Opening { store, clock, after_crash, model, options } = opening;
    let loaded = match (model, &settings.upstream) {
        (Some(loaded), _) => loaded,
        (None, Some(url)) => upstream::placeholder(resolved, url),
        (None, None) => model::load(resolved, report)?,
    };
    let drafting = drafting(&loaded);
    for fingerprint in [Some(&loaded.fingerprint), drafting.map(|(_, fingerprint)| fingerprint)] {
        let Some(fingerprint) = fingerprint else { continue };
        store.write_model_toml(fingerprint)?;
        give_up_crashing(&store, fingerprint.hash(), after_crash);
    }
    let options = options.unwrap_or_else(|| engine_options(settings, &loaded, clock));
    let fingerprint = loaded.fingerprint.hash();
    let loras = loaded.fingerprint.loras.clone();
    let draft_model = loaded.drafter.as_ref().map(|drafter| drafter.current());
    let recall_model = loaded.recall_model.as_ref().map(|it| it.current());
    let engine = Engine::start(loaded.model, fingerprint, Some(store.clone()), options)?;
    let Loaded { name, shown, files, context, estimate, sampling, renders_in, .. } = loaded;
    if settings.upstream.is_none() {
        log_context(&engine, context);
    }
    Ok(Opened {
        engine,
        store,
        name,
        shown,
        files,
        context,
        estimate,
        sampling,
        renders_in,
        loras,
        draft_model,
        recall_model,
    })
}

/// The draft model and its fingerprint, where it can be used.
fn drafting(loaded: &Loaded) -> Option<&(DraftModel, Fingerprint)> {
    loaded.drafter.as_ref()?.model.as_ref().ok()
}

fn engine_options(settings: &Settings, loaded: &Loaded, clock: Clock) -> EngineOptions {
    let memory = MachineMemory::read().map_or(ASSUMED_MEMORY_BYTES, |memory| memory.total_bytes);
    EngineOptions {
        context_tokens: loaded.context.tokens as usize,
        slots: settings.slots as usize,
        prefixes: settings.prefix_slots(),
        // The fake model, which has no file, answers at a pace that tests wait for.
        drafts: settings.draft == DraftChoice::Auto && !loaded.files.is_empty(),
        draft_model: drafting(loaded).map(|(model, _)| model.clone()),
        away: (settings.eviction != EvictionChoice::Off).then(Policy::default),
        recovery: match settings.eviction {
            EvictionChoice::Breadcrumb => Recovery::Breadcrumb,
            EvictionChoice::Discard => Recovery::Discard,
            EvictionChoice::Restore | EvictionChoice::Off => Recovery::Restore,
        },
        lossy: sweep::lossy(settings),
        embedder: loaded.recall_model.as_ref().and_then(|it| it.embedder.clone().ok()),
        queue: settings.queue,
        memory_budget_bytes: settings.warm_budget_bytes(memory),
        unsaved_budget_bytes: settings.unsaved_budget_bytes(memory),
        clock,
        ..EngineOptions::default()
    }
}

/// What was chosen, and why it is not larger.
fn log_context(engine: &Engine, context: ChosenContext) {
    let ChosenContext { tokens, limit } = context;
    let conversation_tokens = engine.conversation_tokens();
    let trained_tokens = engine.model().facts().trained_context;
    let available_bytes = match limit {
        Limit::Memory { available_bytes } => Some(available_bytes),
        _ => None,
    };
    let limit = limit.as_str();
    tracing::info!(tokens, conversation_tokens, limit, trained_tokens, available_bytes, "context");
}

/// Moves the saved KV to quarantine that the engine used in each of its last crashes.
fn give_up_crashing(store: &Store, model: ModelHash, after_crash: bool) {
    match store.count_crashes(model, after_crash) {
        Ok(given_up) => {
            for conversation in given_up {
                let reason = "the engine crashed three times in a row while it used this KV: its \
                              tokens are computed again";
                tracing::error!(%conversation, "{reason}");
            }
        }
        Err(error) => tracing::warn!(%error, "crashes were not counted"),
    }
}
