//! Changes the slots directory: directly when no daemon owns it, else by a request to that daemon.

use std::time::Duration;

use hob_slots::maintenance::{
    self, Collect, Collected, ConversationState, Prune, Pruned, Remove, Report, Request, SetClass,
    Skipped,
};
use hob_slots::{ConversationId, NoEngine, SAVE_GRACE, Store, StoreReader};

use super::dir::{self, Purpose};
use super::live;
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{plain, warn};

pub enum Access {
    /// This process owns the directory until the store is dropped.
    Direct(Box<Store>),
    Daemon(Box<Client>),
}

impl Access {
    pub fn open(purpose: Purpose, context: &Context) -> Result<Self, Failure> {
        match dir::own(purpose, context) {
            Ok(store) => Ok(Self::Direct(Box::new(store))),
            Err(owned @ Failure::Owned { .. }) => {
                let daemon = dir::owner_daemon(&context.settings);
                let client = daemon.and_then(|daemon| Client::of(&daemon, None).ok());
                client.map(|client| Self::Daemon(Box::new(client))).ok_or(owned)
            }
            Err(error) => Err(error),
        }
    }
}

/// Carries out `request`; a dry run only reads the directory.
pub fn maintain(request: &Request, context: &Context) -> Result<Report, Failure> {
    match dir::reader(context)? {
        Some(reader) if request.is_dry_run() => plan(&reader, request, context),
        Some(_) => carry_out(request, context),
        None => without_directory(request, context),
    }
}

fn plan(reader: &StoreReader, request: &Request, context: &Context) -> Result<Report, Failure> {
    let running = dir::owner_daemon(&context.settings).is_some();
    let live = live::ask(&context.settings);
    let is_open = |model, id: &ConversationId| {
        let state = live.as_ref().and_then(|live| live.state(model, id));
        matches!(state, Some(ConversationState::Open | ConversationState::Hot))
    };
    let grace = if running { SAVE_GRACE } else { Duration::ZERO };
    let context = maintenance_context(reader, grace, context);
    Ok(maintenance::plan(reader, request, &context, &is_open)?.into_report())
}

fn carry_out(request: &Request, context: &Context) -> Result<Report, Failure> {
    match Access::open(Purpose::Change, context)? {
        Access::Direct(store) => {
            // This process owns the directory: no save is under way.
            let context = maintenance_context(&store, Duration::ZERO, context);
            Ok(maintenance::run(&store, &NoEngine, request, &context)?)
        }
        Access::Daemon(client) => {
            let path = match request {
                Request::Prune(_) => "/v1/slots/prune",
                Request::Collect(_) => "/v1/slots/gc",
                Request::Remove(_) => "/v1/slots/remove",
                Request::SetClass(_) => "/v1/slots/class",
            };
            let body = serde_json::to_value(request).expect("a request is plain data");
            match (client.post(path, &body), request) {
                (Err(Failure::Refused { status: 404, .. }), Request::SetClass(set_class)) => {
                    Err(dir::absent(set_class.conversation.as_str(), context))
                }
                (answer, _) => confirmed(answer),
            }
        }
    }
}

/// The answer to a request that changes saved KV. [`Failure::Unconfirmed`] where it breaks off: hobd may have made the
/// change, a part of it or nothing.
pub fn confirmed<T>(answer: Result<T, Failure>) -> Result<T, Failure> {
    answer.map_err(|failure| match failure {
        Failure::BrokenAnswer(why) => Failure::Unconfirmed(why),
        other => other,
    })
}

/// The report when there is no directory: opening it as its owner would create it.
fn without_directory(request: &Request, context: &Context) -> Result<Report, Failure> {
    match request {
        &Request::Prune(Prune { dry_run, .. }) => {
            Ok(Report::Pruned(Pruned { dry_run, ..Pruned::default() }))
        }
        &Request::Collect(Collect { dry_run, .. }) => {
            Ok(Report::Collected(Collected { dry_run, ..Collected::default() }))
        }
        Request::Remove(Remove { conversations, .. }) => {
            Err(dir::absent(&conversations[0], context))
        }
        Request::SetClass(SetClass { conversation, .. }) => {
            Err(dir::absent(conversation.as_str(), context))
        }
    }
}

fn maintenance_context(
    reader: &StoreReader,
    grace: Duration,
    context: &Context,
) -> maintenance::Context {
    let (now, lifetimes) = (reader.adjusted_time(context.now.into()), context.lifetimes());
    maintenance::Context { now, lifetimes, grace }
}

pub fn warn_skipped(skipped: &[Skipped]) {
    for skipped in skipped {
        warn(&format!("hob: {} skipped: {}", plain(&skipped.conversation), skipped.reason));
    }
}
