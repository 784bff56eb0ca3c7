//! `hob slots`: works on the directory itself, without a daemon or a model.
//!
//! - Reading is always possible, beside a daemon too.
//! - What changes files owns the directory for that time; a daemon that owns it is asked to do it.

mod access;
mod class;
mod du;
mod export;
mod gc;
mod import;
mod live;
mod ls;
mod prune;
mod rejected;
mod rm;
mod show;
mod top;
mod verify;

use std::path::Path;

use clap::Subcommand;
use hob_config::{RunningDaemon, Settings};
use hob_slots::store::Key;
use hob_slots::{Fingerprint, ModelHash, Store, StoreError, StoreReader};

use crate::context::Context;
use crate::failure::Failure;

/// Inspect and prune the KV that is kept on disk
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Ls(ls::Args),
    Show(show::Args),
    Verify(verify::Args),
    Du(du::Args),
    Top(top::Args),
    Rm(rm::Args),
    Prune(prune::Args),
    Gc(gc::Args),
    Class(class::Args),
    Export(export::Args),
    Import(import::Args),
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    match &args.action {
        Action::Ls(args) => ls::run(args, context),
        Action::Show(args) => show::run(args, context),
        Action::Verify(args) => verify::run(args, context),
        Action::Du(args) => du::run(args, context),
        Action::Top(args) => top::run(args, context),
        Action::Rm(args) => rm::run(args, context),
        Action::Prune(args) => prune::run(args, context),
        Action::Gc(args) => gc::run(args, context),
        Action::Class(args) => class::run(args, context),
        Action::Export(args) => export::run(args, context),
        Action::Import(args) => import::run(args, context),
    }
}

/// The directory, when something was ever kept there.
fn reader(context: &Context) -> Result<Option<StoreReader>, Failure> {
    let Settings { slots_dir, slots_encrypt, slots_key_file, .. } = &context.settings;
    if !slots_dir.exists() {
        return Ok(None);
    }
    let reader = StoreReader::open(slots_dir)?;
    Ok(Some(match slots_encrypt {
        true => reader.sealed(&Key::load(slots_key_file)?)?,
        false => reader,
    }))
}

/// The directory, to change it: refused while a daemon owns it.
fn own(context: &Context) -> Result<Store, Failure> {
    let Settings { slots_dir: dir, slots_encrypt, slots_key_file, .. } = &context.settings;
    let store = Store::open(dir).map_err(|error| match error {
        StoreError::Owned { dir, owner } => {
            let address =
                daemon_of(&context.settings).map(|daemon| format!(", hobd at {}", daemon.address));
            Failure::Owned { owner: owner + &address.unwrap_or_default(), dir }
        }
        source => source.into(),
    })?;
    Ok(match slots_encrypt {
        true => store.sealed(&Key::load_or_make(slots_key_file)?)?,
        false => store,
    })
}

/// The daemon that described itself as the owner of the directory. It may have died since.
fn daemon_of(settings: &Settings) -> Option<RunningDaemon> {
    let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let running = RunningDaemon::read(&settings.data_dir).ok().flatten()?;
    (real(&running.slots_dir) == real(&settings.slots_dir)).then_some(running)
}

/// The models with a directory here, or the one that was asked for.
fn models(reader: &StoreReader, wanted: Option<ModelHash>) -> Result<Vec<ModelHash>, Failure> {
    let mut models = reader.models()?;
    models.retain(|model| wanted.is_none_or(|wanted| wanted == *model));
    Ok(models)
}

/// What the model's directory is named after, for people.
fn origin(reader: &StoreReader, model: ModelHash) -> Option<Fingerprint> {
    reader.read_model_toml(model).ok()
}

/// There is no such conversation.
fn absent(id: &str, context: &Context) -> Failure {
    let dir = context.settings.slots_dir.display();
    Failure::NotFound(format!("no KV of `{id}` is kept in {dir}; `hob slots ls` lists what is"))
}
