//! The slots directory as the commands use it: opening it, its models, and the daemon that owns it.

use std::path::Path;

use hob_config::{RunningDaemon, Settings};
use hob_slots::{Fingerprint, Listing, ModelHash, Store, StoreError, StoreReader};

use crate::context::Context;
use crate::failure::Failure;

/// Opens the slots directory for reading; `None` when it does not exist yet.
pub fn reader(context: &Context) -> Result<Option<StoreReader>, Failure> {
    context.settings.slots_dir.exists().then(|| open(context)).transpose()
}

/// The saved conversations of the slots directory, which exists, and its files that cannot be used.
pub fn saved(context: &Context) -> Result<Listing, Failure> {
    Ok(open(context)?.all_conversations()?)
}

/// Before `hobd` has made the key of an encrypted directory, no file is encrypted with it.
fn open(context: &Context) -> Result<StoreReader, Failure> {
    let Settings { slots_dir, slots_encrypt, slots_key_file, .. } = &context.settings;
    let reader = StoreReader::open(slots_dir)?;
    Ok(if *slots_encrypt { reader.sealed_with(slots_key_file)? } else { reader })
}

/// What a command does with the slots directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Changes saved KV, and makes no missing key.
    Change,
    /// Writes new KV, and makes the key of an encrypted directory if it has none.
    Add,
}

/// Opens the slots directory for writing; an error while a daemon owns it.
pub fn own(purpose: Purpose, context: &Context) -> Result<Store, Failure> {
    let Settings { slots_dir: dir, slots_encrypt, slots_key_file, .. } = &context.settings;
    let store = Store::open(dir).map_err(|error| match error {
        StoreError::Owned { dir, owner } => {
            let address =
                owner_daemon(&context.settings).map(|it| format!(", hobd at {}", it.address));
            Failure::Owned { owner: owner + &address.unwrap_or_default(), dir }
        }
        source => source.into(),
    })?;
    Ok(match purpose {
        _ if !slots_encrypt => store,
        Purpose::Change => store.sealed_with(slots_key_file)?,
        Purpose::Add => store.sealed_with_new(slots_key_file)?,
    })
}

/// The daemon that has announced itself as the owner of the directory. It may have died since.
pub fn owner_daemon(settings: &Settings) -> Option<RunningDaemon> {
    let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let running = RunningDaemon::read(&settings.data_dir).ok().flatten()?;
    (real(&running.slots_dir) == real(&settings.slots_dir)).then_some(running)
}

/// The models that have saved KV here; `wanted` selects one.
pub fn models(reader: &StoreReader, wanted: Option<ModelHash>) -> Result<Vec<ModelHash>, Failure> {
    let mut models = reader.models()?;
    models.retain(|model| wanted.is_none_or(|wanted| wanted == *model));
    Ok(models)
}

/// The model and the options that a fingerprint stands for; `None` when they are not recorded.
pub fn origin(reader: &StoreReader, model: ModelHash) -> Option<Fingerprint> {
    reader.read_model_toml(model).ok()
}

/// The failure for the most recently used conversation where none has saved KV.
pub fn empty(context: &Context) -> Failure {
    let dir = context.settings.slots_dir.display();
    Failure::NotFound(format!("no KV of a conversation is saved in {dir}; `hob chat` starts one"))
}

/// The failure for a conversation without saved KV.
pub fn absent(id: &str, context: &Context) -> Failure {
    let dir = context.settings.slots_dir.display();
    Failure::NotFound(format!("no KV of `{id}` is saved in {dir}; `hob slots ls` lists what is"))
}
