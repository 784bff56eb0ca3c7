//! The slots directory as the commands use it: opening it, its models, and the daemon that owns it.

use std::path::Path;

use hob_config::{RunningDaemon, Settings};
use hob_slots::store::Key;
use hob_slots::{Fingerprint, Listing, ModelHash, Store, StoreError, StoreReader};

use crate::context::Context;
use crate::failure::Failure;

/// Opens the slots directory for reading; `None` when it does not exist yet.
pub fn reader(context: &Context) -> Result<Option<StoreReader>, Failure> {
    let Settings { slots_dir, slots_encrypt, slots_key_file, .. } = &context.settings;
    if !slots_dir.exists() {
        return Ok(None);
    }
    let reader = StoreReader::open(slots_dir)?;
    let key = slots_encrypt.then(|| Key::load(slots_key_file)).transpose()?;
    Ok(Some(match key {
        Some(key) => reader.sealed(&key)?,
        None => reader,
    }))
}

/// The saved conversations of the slots directory, which exists, and its files that cannot be used. Before `hobd` has
/// made the key of an encrypted directory, no file is encrypted with it.
pub fn saved(context: &Context) -> Result<Listing, Failure> {
    let Settings { slots_dir, slots_encrypt, slots_key_file, .. } = &context.settings;
    let reader = StoreReader::open(slots_dir)?;
    let reader = if *slots_encrypt && slots_key_file.exists() {
        reader.sealed(&Key::load(slots_key_file)?)?
    } else {
        reader
    };
    Ok(reader.all_conversations()?)
}

/// Opens the slots directory for writing; an error while a daemon owns it.
pub fn own(context: &Context) -> Result<Store, Failure> {
    let Settings { slots_dir: dir, slots_encrypt, slots_key_file, .. } = &context.settings;
    let store = Store::open(dir).map_err(|error| match error {
        StoreError::Owned { dir, owner } => {
            let address =
                owner_daemon(&context.settings).map(|it| format!(", hobd at {}", it.address));
            Failure::Owned { owner: owner + &address.unwrap_or_default(), dir }
        }
        source => source.into(),
    })?;
    let key = slots_encrypt.then(|| Key::load_or_make(slots_key_file)).transpose()?;
    Ok(match key {
        Some(key) => store.sealed(&key)?,
        None => store,
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
