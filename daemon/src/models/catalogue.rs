//! The models of this machine: what was found, and what each of them needs.
//!
//! - It reads headers, never whole files. The saved KV of a model is known only if its content was
//!   hashed before.
//! - A listing is reused for five seconds.
//! - Directories are read without a lock that others wait for, and by one job at a time: one of a network may hang.

use std::path::PathBuf;
use std::sync::Arc;

use hob_config::ModelChoice;
use hob_models::{
    Available, ChosenContext, ContextSettings, HashCache, MachineMemory, ModelError, ModelFile,
    ProbeCache, Roots, Source, discover,
};
use hob_prewarm::PrefixName;
use hob_runtime::Residency;
use hob_runtime::backend::Offload;
use hob_slots::store::StoreReader;
use hob_slots::usage::total_bytes;
use hob_slots::{FileDigest, ModelHash, SavedContents, Timestamp};
use tokio::sync::watch;

use super::devices::{DeviceSettings, share_memory};
use super::entry::{self, Contexts, Entry, SavedKv};
use super::room::{MemoryUse, Room};
use super::sampling::ModelSampling;
use super::switch::{SwitchFailure, SwitchRequest};
use crate::blocking::compute;
use parking_lot::Mutex;

const MAX_LIST_AGE_MS: u64 = 5_000;

/// The bundled model is written to this file.
const BUNDLED_FILE: &str = "hob-tiny-f16.gguf";

/// The fakes that tests run. Their fingerprints differ.
pub(super) const FAKE_MODELS: [&str; 2] = ["fake", "fake:second"];

/// The fingerprint of a model file under the settings of this daemon, and by whether it rotates by long factors.
pub type Naming = Box<dyn Fn(FileDigest, bool) -> ModelHash + Send + Sync>;

/// What [`Catalogue`] is made of.
pub struct Options {
    /// The directories that are searched for models.
    pub roots: Roots,
    /// The directory of the user's own models.
    pub models_dir: PathBuf,
    /// The file with the hashes of model files that were read before.
    pub hashes: PathBuf,
    /// What probes of model files found.
    pub probes: ProbeCache,
    /// The settings by which the context of each model is chosen.
    pub context: ContextSettings,
    pub devices: DeviceSettings,
    /// `None`: no KV on disk.
    pub store: Option<StoreReader>,
    pub naming: Naming,
    pub current: CurrentModel,
    /// Where the current model's weights are.
    pub residency: watch::Receiver<Residency>,
    /// The flag or variable that chooses the model at each start: a switch holds for this run.
    pub fixed: Option<String>,
    /// The flag or variable that sets the context.
    pub fixed_context: Option<String>,
    /// Why the model requested last did not run when this daemon started.
    pub failure: Option<SwitchFailure>,
}

#[derive(Clone, Debug)]
pub struct CurrentModel {
    /// The value of the setting `model`.
    pub choice: ModelChoice,
    pub name: String,
    /// Its first file; `None` for a fake.
    pub path: Option<PathBuf>,
    pub fingerprint: ModelHash,
    pub context: ChosenContext,
    /// `None` if its file is unknown.
    pub kv_bytes_per_token: Option<u64>,
    /// What its file recommends.
    pub sampling: ModelSampling,
    /// `None`: the processor computes all of it.
    pub offload: Option<Offload>,
    /// Guesses tokens of its answers, if the settings name one.
    pub draft_model: Option<CurrentDraftModel>,
    /// Finds what left conversations by its meaning, if the settings name one.
    pub recall_model: Option<CurrentRecallModel>,
}

/// The draft model of the settings.
#[derive(Clone, Debug)]
pub struct CurrentDraftModel {
    pub name: String,
    /// `None`: the model does not draft.
    pub fingerprint: Option<ModelHash>,
    /// Why the model does not draft.
    pub refused: Option<String>,
}

/// The embedding model of the settings.
#[derive(Clone, Debug)]
pub struct CurrentRecallModel {
    pub name: String,
    /// Why the model finds nothing.
    pub refused: Option<String>,
}

#[derive(Default)]
struct Found {
    list: Option<(Timestamp, Arc<ModelList>)>,
    /// How often it was forgotten: a list that was begun before is not reused.
    forgotten: u64,
}

/// The models of this machine.
pub struct Catalogue {
    options: Options,
    found: Mutex<Found>,
    /// Held by the job that may read directories.
    turn: Arc<tokio::sync::Mutex<()>>,
    switch_request: SwitchRequest,
    failure: Mutex<Option<SwitchFailure>>,
}

#[derive(Debug)]
pub struct ModelList {
    /// The models, the bundled one first.
    pub entries: Vec<Entry>,
    /// Why model files cannot be loaded, one text per file.
    pub problems: Vec<String>,
    pub memory: Option<MachineMemory>,
    /// Memory of the machine for another model: the free memory, the KV of the current model, and what it has on
    /// devices that share this memory.
    pub free_bytes: Option<u64>,
    /// Memory for another model on the devices that the settings use, with the current model's weights there; 0
    /// without a device, and where devices share the machine's memory.
    pub device_free_bytes: u64,
    /// What of the current model's weights is in the machine's memory.
    pub own_weights_bytes: u64,
}

impl ModelList {
    /// What a context is chosen by: the free memory, or an assumption.
    pub fn usable(&self) -> Available {
        let host_bytes =
            self.free_bytes.unwrap_or_else(|| MachineMemory::usable_bytes(self.memory));
        Available { host_bytes, device_bytes: self.device_free_bytes }
    }

    /// Memory for the current model, whose weights are in memory already.
    pub fn usable_by_current(&self) -> Available {
        let usable = self.usable();
        let host_bytes = usable.host_bytes.saturating_add(self.own_weights_bytes);
        Available { host_bytes, ..usable }
    }
}

impl Catalogue {
    /// Searches no directory yet.
    pub fn new(options: Options) -> Self {
        let failure = Mutex::new(options.failure.clone());
        let (found, turn, switch_request) = Default::default();
        Self { options, found, turn, switch_request, failure }
    }

    pub fn current(&self) -> &CurrentModel {
        &self.options.current
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn switch_request(&self) -> &SwitchRequest {
        &self.switch_request
    }

    /// Why the model requested last does not run.
    pub fn failure(&self) -> Option<SwitchFailure> {
        self.failure.lock().clone()
    }

    /// The requested model, or the file that replaced the current one, cannot be used: this daemon goes on.
    pub fn go_on(&self, failure: SwitchFailure) {
        *self.failure.lock() = Some(failure);
        self.forget();
    }

    /// Runs a job that may read directories. While one hangs, further jobs wait without a thread, also where the
    /// caller of the first is gone.
    pub async fn in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let (turn, this) = (self.turn.clone().lock_owned().await, self.clone());
        compute(move || {
            let _turn = turn;
            job(&this)
        })
        .await
    }

    /// The models; reads directories and headers if the last list is older than five seconds. To be called within
    /// [`Self::in_turn`].
    pub fn list(&self, now: Timestamp) -> Arc<ModelList> {
        let forgotten = {
            let found = self.found.lock();
            match &found.list {
                // The difference is absolute: a clock that is set back does not make a list last
                // forever.
                Some((at, list)) if now.0.abs_diff(at.0) < MAX_LIST_AGE_MS => return list.clone(),
                _ => found.forgotten,
            }
        };
        let list = Arc::new(self.read());
        let mut found = self.found.lock();
        if found.forgotten == forgotten {
            found.list = Some((now, list.clone()));
        }
        list
    }

    /// Makes the next [`Self::list`] read the directories again.
    pub fn forget(&self) {
        let mut found = self.found.lock();
        found.list = None;
        found.forgotten += 1;
    }

    fn read(&self) -> ModelList {
        self.provide_bundled();
        let (models, problems) = self.discover();
        let mut list = self.without_entries(&models, problems);
        let hashes = HashCache::at(self.options.hashes.clone());
        let files = models.iter().map(|model| {
            let is_bundled = cfg!(feature = "llama")
                && model.source == Source::Own
                && model.path == self.options.models_dir.join(BUNDLED_FILE);
            let is_current = self.runs(model);
            let usable = if is_current { list.usable_by_current() } else { list.usable() };
            let contexts = self.contexts(model, is_current, usable);
            // Unknown where the system does not report its free memory.
            let room = list.free_bytes.map(|_| usable);
            let saved_kv = self.saved_kv_of_file(&hashes, model, contexts.chosen.tokens);
            Entry::of_file(model, is_bundled, is_current, saved_kv, contexts, room)
        });
        let mut entries: Vec<Entry> = self.fake_models().chain(files).collect();
        entries.sort_by_key(|entry| entry.source != entry::BUNDLED); // The others keep their order.
        list.entries = entries;
        list
    }

    /// The files that can be used, among them that of the current model, and what is wrong with others.
    fn discover(&self) -> (Vec<ModelFile>, Vec<String>) {
        let mut found = discover(&self.options.roots);
        let mut problems: Vec<String> = found.problems.iter().map(ModelError::to_string).collect();
        if let Some(path) = &self.options.current.path
            && !found.models.iter().any(|model| self.runs(model))
        {
            match ModelFile::open(path) {
                Ok(model) => found.models.insert(0, model),
                Err(problem) => problems.push(problem.to_string()),
            }
        }
        found.models.retain(|model| match self.check_probe(model) {
            Ok(()) => true,
            Err(problem) => {
                problems.push(problem.to_string());
                false
            }
        });
        (found.models, problems)
    }

    /// The list without its models: the memory for another model than the current one of `models`.
    fn without_entries(&self, models: &[ModelFile], problems: Vec<String>) -> ModelList {
        let memory = MachineMemory::read();
        let current = &self.options.current;
        let has_memory = *self.options.residency.borrow() != Residency::Unloaded;
        let running = models.iter().find(|model| has_memory && self.runs(model));
        let demand = self.options.context.demand(current.context.tokens);
        let running = running.map(|model| model.estimate(&demand));
        let offload = current.offload.as_ref();
        let held =
            running.map_or(MemoryUse::default(), |estimate| MemoryUse::of(&estimate, offload));
        let available_bytes = memory.and_then(|memory| memory.available_bytes);
        let device_bytes = self.options.devices.available(0).device_bytes;
        let shares_memory = offload.is_some_and(|offload| share_memory(&offload.devices));
        let Room { free_bytes, device_free_bytes } =
            Room::beside(held, available_bytes, device_bytes, shares_memory);
        ModelList {
            entries: Vec::new(),
            problems,
            memory,
            free_bytes,
            device_free_bytes,
            own_weights_bytes: held.weights_bytes,
        }
    }

    fn contexts(&self, model: &ModelFile, is_current: bool, usable: Available) -> Contexts {
        let settings = self.options.context;
        let of = |settings: ContextSettings| settings.context_of(model, usable);
        let chosen = if is_current { self.options.current.context } else { of(settings) };
        let automatic = if settings.ctx.is_none() { chosen } else { of(settings.automatic()) };
        Contexts { settings, chosen, automatic }
    }

    fn runs(&self, model: &ModelFile) -> bool {
        let path = self.options.current.path.as_ref();
        path.is_some_and(|path| entry::is_same(path, &model.path))
    }

    /// Listed only while one of them runs.
    fn fake_models(&self) -> impl Iterator<Item = Entry> {
        let current = &self.options.current;
        let names = if current.path.is_none() { &FAKE_MODELS[..] } else { &[] };
        names.iter().map(|name| {
            let is_current = current.name == *name;
            let saved_kv = is_current.then(|| self.saved_kv(current.fingerprint)).flatten();
            let per_token = current.kv_bytes_per_token.unwrap_or(0);
            let kv_bytes = |tokens| per_token.saturating_mul(tokens);
            let contexts = Contexts {
                settings: self.options.context,
                chosen: current.context,
                automatic: ChosenContext::of_fake(None),
            };
            Entry::of_fake(name, is_current, saved_kv, contexts, kv_bytes)
        })
    }

    /// `tokens`: of its context.
    fn saved_kv_of_file(
        &self,
        hashes: &HashCache,
        model: &ModelFile,
        tokens: u64,
    ) -> Option<SavedKv> {
        let content = hashes.cached(&model.files)?;
        let is_long = model.rotates_by_long_factors(tokens);
        self.saved_kv((self.options.naming)(FileDigest(content.0), is_long))
    }

    /// Reads no model file.
    ///
    /// # Errors
    /// [`ModelError::Refused`] for a file whose probe found that it cannot be used.
    pub fn check_probe(&self, model: &ModelFile) -> Result<(), ModelError> {
        let content = HashCache::at(self.options.hashes.clone()).cached(&model.files);
        match content.and_then(|content| self.options.probes.get(content)) {
            Some(Err(reason)) => Err(ModelError::Refused { path: model.path.clone(), reason }),
            _ => Ok(()),
        }
    }

    /// `None` if this daemon stores no KV, or the store cannot be read.
    pub fn saved_kv(&self, fingerprint: ModelHash) -> Option<SavedKv> {
        let listing = self.options.store.as_ref()?.contents(fingerprint).ok()?;
        // Prefixes are saved like conversations.
        let is_conversation =
            |slot: &&SavedContents| PrefixName::of_id(&slot.entry.conversation).is_none();
        let conversations = listing.slots.iter().filter(is_conversation).count();
        Some(SavedKv { fingerprint, conversations, bytes: total_bytes(&listing.slots) })
    }

    #[cfg(feature = "llama")]
    fn provide_bundled(&self) {
        if let Err(error) = hob_models::bundled::materialise(&self.options.models_dir) {
            tracing::warn!(%error, "the bundled model cannot be written");
        }
    }

    #[cfg(not(feature = "llama"))]
    fn provide_bundled(&self) {}
}
