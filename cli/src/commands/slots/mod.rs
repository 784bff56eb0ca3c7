//! `hob slots`: works on the directory itself, without a daemon or a model.
//!
//! - Reading is always possible, also while a daemon runs.
//! - A command that changes files owns the directory meanwhile; when a daemon owns it, the command
//!   sends its request to that daemon.

mod access;
mod class;
mod dir;
mod du;
mod export;
mod gc;
mod import;
mod live;
mod ls;
mod named;
mod prune;
mod rejected;
mod rm;
mod show;
mod top;
mod verify;

use clap::Subcommand;
use hob_slots::NoRoom;
use hob_slots::maintenance::{Report, Request};

pub use self::dir::saved;
use crate::context::Context;
use crate::failure::Failure;

/// Inspect, prune, export and import the KV that is saved on disk
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    #[command(visible_alias = "list")]
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
    let list = Action::Ls(ls::Args::default());
    match args.action.as_ref().unwrap_or(&list) {
        Action::Ls(args) => ls::run(args, context),
        Action::Show(args) => show::run(args, context),
        Action::Verify(args) => verify::run(args, context),
        Action::Du(args) => du::run(args, context),
        Action::Top(args) => top::run(args, context),
        Action::Rm(args) => maintain(args.request(context)?, context),
        Action::Prune(args) => maintain(args.request(context)?, context),
        Action::Gc(args) => maintain(args.request(), context),
        Action::Class(args) => maintain(args.request(context)?, context),
        Action::Export(args) => export::run(args, context),
        Action::Import(args) => import::run(args, context),
    }
}

/// Carries out `request` and shows the report.
fn maintain(request: impl Into<Request>, context: &mut Context) -> Result<(), Failure> {
    let request = request.into();
    match (&request, access::maintain(&request, context)?) {
        (Request::Prune(_), Report::Pruned(report)) => prune::show(&report, context),
        (Request::Collect(_), Report::Collected(report)) => gc::show(&report, context),
        (Request::Remove(_), Report::Removed(report)) => rm::show(&report, context),
        (Request::SetClass(asked), Report::Reclassed(report)) => {
            class::show(&report, &asked.conversation, context)
        }
        _ => Err(Failure::BrokenAnswer("it is the report of another request".to_owned())),
    }
}

/// Why no saved KV may stay on disk; `None` if some may, or if the slots directory is missing or cannot be read.
pub fn no_room(context: &Context) -> Option<NoRoom> {
    let reader = dir::reader(context).ok()??;
    ls::read(&reader, None, context).ok()?.no_room
}
