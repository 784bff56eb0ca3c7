//! The models of this machine: what was found, and what each of them needs.
//!
//! - It reads headers, never whole files. The saved KV of a model is known only if its content was
//!   hashed before.
//! - A listing is reused for five seconds.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hob_config::ModelChoice;
use hob_models::{
    Demand, HashCache, MachineMemory, ModelError, ModelFile, Roots, Source, discover,
};
use hob_prewarm::ProfileName;
use hob_slots::store::StoreReader;
use hob_slots::usage::total_bytes;
use hob_slots::{FileDigest, ModelHash, SavedContents, Timestamp};

use super::entry::{self, Entry, Kept};
use super::switch::{SwitchFailure, Wanted};

/// For so long what was found is not looked for again.
const REMEMBERED_MS: u64 = 5_000;

/// The file that the bundled model is written to.
const BUNDLED_FILE: &str = "hob-tiny-f16.gguf";

/// The names of the stand-ins that tests run. They are told apart by what their KV is named by.
pub(super) const STAND_INS: [&str; 2] = ["fake", "fake:second"];

/// What KV of a file with this content is named by, under the settings of this daemon.
pub type Naming = Box<dyn Fn(FileDigest) -> ModelHash + Send + Sync>;

/// What a catalogue is made of.
pub struct Options {
    /// Where models are looked for.
    pub roots: Roots,
    /// Where the user's own models belong.
    pub models_dir: PathBuf,
    /// Hashes of model files that were read before.
    pub hashes: PathBuf,
    /// What is asked of each model.
    pub demand: Demand,
    /// Where kept KV lies, if it is kept.
    pub kept: Option<StoreReader>,
    /// What KV is named by.
    pub naming: Naming,
    /// The model that runs.
    pub current: Current,
    /// Who fixed the choice of the model, if it cannot be changed here.
    pub fixed: Option<String>,
    /// Why the model that was wanted last does not run.
    pub failure: Option<SwitchFailure>,
}

/// The model that runs.
#[derive(Clone, Debug)]
pub struct Current {
    /// What chose it.
    pub choice: ModelChoice,
    /// The name under which it is found.
    pub name: String,
    /// Its first file; `None` for a stand-in.
    pub path: Option<PathBuf>,
    /// What its KV is named by.
    pub fingerprint: ModelHash,
    /// KV that one more token takes, as far as that is known.
    pub kv_bytes_per_token: Option<u64>,
}

/// The models of this machine, for one daemon.
pub struct Catalogue {
    options: Options,
    found: Mutex<Option<(Timestamp, Arc<Shelf>)>>,
    wanted: Wanted,
}

/// What there is.
#[derive(Debug)]
pub struct Shelf {
    /// The models, the bundled one first.
    pub entries: Vec<Entry>,
    /// Files that look like models and cannot be loaded, and why.
    pub problems: Vec<String>,
    /// The machine's memory.
    pub memory: Option<MachineMemory>,
    /// What another model could take: what is free, and the KV of the one that runs.
    pub free_bytes: Option<u64>,
}

impl Catalogue {
    /// A catalogue; nothing is looked for yet.
    pub fn new(options: Options) -> Self {
        Self { options, found: Mutex::default(), wanted: Wanted::default() }
    }

    /// The model that runs.
    pub fn current(&self) -> &Current {
        &self.options.current
    }

    /// What it was made of.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The switch to another model.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// What is there. Reads headers and directories, unless it did so just now.
    pub fn shelf(&self, now: Timestamp) -> Arc<Shelf> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match &*found {
            // A clock that was set back makes nothing look new.
            Some((at, shelf)) if now.0.abs_diff(at.0) < REMEMBERED_MS => shelf.clone(),
            _ => found.insert((now, Arc::new(self.look()))).1.clone(),
        }
    }

    /// Looks at the machine anew when it is asked next.
    pub fn forget(&self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn look(&self) -> Shelf {
        self.provide_bundled();
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
        let memory = MachineMemory::read();
        let running = found.models.iter().find(|model| self.runs(model));
        let given_back = running.map_or(0, |model| model.estimate(&self.options.demand).kv_bytes);
        let free_bytes = memory.and_then(|memory| memory.available_bytes);
        let free_bytes = free_bytes.map(|free| free.saturating_add(given_back));
        let hashes = HashCache::at(self.options.hashes.clone());
        let kept = |model: &ModelFile| self.kept_of_file(&hashes, model);
        let files = found.models.iter().map(|model| {
            let is_bundled = cfg!(feature = "llama")
                && model.source == Source::Own
                && model.path == self.options.models_dir.join(BUNDLED_FILE);
            let estimate = model.estimate(&self.options.demand);
            let is_current = self.runs(model);
            Entry::of_file(model, is_bundled, is_current, kept(model), estimate, free_bytes)
        });
        let mut entries: Vec<Entry> = self.stand_ins().chain(files).collect();
        entries.sort_by_key(|entry| entry.source != entry::BUNDLED); // The others keep their order.
        Shelf { entries, problems, memory, free_bytes }
    }

    fn runs(&self, model: &ModelFile) -> bool {
        let path = self.options.current.path.as_ref();
        path.is_some_and(|path| entry::is_same(path, &model.path))
    }

    /// Those are told of where one of them runs.
    fn stand_ins(&self) -> impl Iterator<Item = Entry> {
        let current = &self.options.current;
        let names = if current.path.is_none() { &STAND_INS[..] } else { &[] };
        names.iter().map(|name| {
            let is_current = current.name == *name;
            let kept = is_current.then(|| self.kept(current.fingerprint)).flatten();
            Entry::of_stand_in(name, is_current, kept)
        })
    }

    fn kept_of_file(&self, hashes: &HashCache, model: &ModelFile) -> Option<Kept> {
        let content = hashes.cached(&model.files)?;
        self.kept((self.options.naming)(FileDigest(content.0)))
    }

    /// What is kept under a fingerprint; `None` when nothing is ever kept, or when it cannot be read.
    pub fn kept(&self, fingerprint: ModelHash) -> Option<Kept> {
        let listing = self.options.kept.as_ref()?.contents(fingerprint).ok()?;
        // Prefixes are kept like conversations, and nobody speaks in them.
        let is_spoken =
            |slot: &&SavedContents| ProfileName::of_prefix(&slot.entry.conversation).is_none();
        let conversations = listing.slots.iter().filter(is_spoken).count();
        Some(Kept { fingerprint, conversations, bytes: total_bytes(&listing.slots) })
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
