//! The loop that keeps prefixes warm and parks who is silent. It holds the clock and does what
//! `hob_prewarm` decides.
//!
//! Reading order: [`Prefixes`] (what can be made warm), `job` (how one becomes so), [`warm_status`] (what
//! is told of them), `battery`.
//!
//! - One prefix at a time. What is cancelled tells nothing any more.
//! - A prefix that fails is told, counted and tried again; nobody waits for it.

mod battery;
mod job;
pub mod warm_status;

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use hob_prewarm::{Action, Event, Planner, ProfileName, Settings, Sources};
use hob_runtime::{Engine, Purpose, Residency, TurnError};
use hob_slots::Timestamp;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::clock::Clock;
use crate::error::ApiError;
use crate::service::{Prefix, Service};
use warm_status::{BoardWriter, Outcome};

/// Wall time may jump while a laptop sleeps, which no timer notices: look at it this often.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Knows what the prompts of each profile begin with.
pub trait Prefixes: Send + Sync + 'static {
    /// A profile's prefix as it is now.
    fn prefix(
        &self,
        profile: &ProfileName,
    ) -> impl Future<Output = Result<Prefix, ApiError>> + Send;
}

impl Prefixes for Service {
    fn prefix(
        &self,
        profile: &ProfileName,
    ) -> impl Future<Output = Result<Prefix, ApiError>> + Send {
        Self::prefix(self, profile)
    }
}

type Job = Pin<Box<dyn Future<Output = Result<Sources, job::Failure>> + Send>>;

struct KeepingWarm<P> {
    engine: Engine,
    prefixes: P,
    planner: Planner,
    warm_status: BoardWriter,
    under_way: Option<(ProfileName, Job)>,
}

/// Does what the planner says, until the engine stops or the last sender of events is gone.
pub async fn run<P: Prefixes + Clone>(
    engine: Engine,
    prefixes: P,
    settings: Settings,
    clock: Clock,
    mut inbox: UnboundedReceiver<Event>,
    warm_status: BoardWriter,
) {
    let planner = Planner::new(settings);
    let mut residency = engine.residency();
    let mut keeping = KeepingWarm { engine, prefixes, planner, warm_status, under_way: None };
    loop {
        let next = keeping.planner.next_wake();
        tokio::select! {
            event = inbox.recv() => match event {
                Some(event) => keeping.planner.handle(event, clock()),
                None => return,
            },
            // An error: the engine has stopped, as the next thing that it is asked will tell.
            Ok(()) = residency.changed() => {
                let is = *residency.borrow_and_update();
                keeping.hear_of_the_weights(is, clock());
            }
            result = over(&mut keeping.under_way) => {
                if matches!(result, Err(job::Failure::Turn(TurnError::Stopped))) {
                    return;
                }
                keeping.report(result, clock());
            }
            () = tokio::time::sleep(wait(next, clock())) => {
                if next.is_some_and(|next| next <= clock()) && let Some(battery) = battery::read().await {
                    keeping.planner.handle(Event::Battery(battery), clock());
                }
                keeping.planner.wake(clock());
            }
        }
        while let Some(action) = keeping.planner.next_action() {
            keeping.act(action, &clock).await;
        }
        keeping.warm_status.show(keeping.planner.prefixes());
    }
}

impl<P: Prefixes + Clone> KeepingWarm<P> {
    /// Whoever speaks brings the weights back: nobody asks the planner first.
    fn hear_of_the_weights(&mut self, residency: Residency, now: Timestamp) {
        match residency {
            Residency::Resident => {
                let known = self.planner.prefixes().map(|(profile, _)| profile.clone());
                let profiles = in_order(known.collect());
                self.planner.handle(Event::ModelReady { profiles }, now);
            }
            Residency::Unloaded => self.planner.handle(Event::ModelUnloaded, now),
            Residency::Loading { .. } => {}
        }
    }

    async fn act(&mut self, action: Action, clock: &Clock) {
        match action {
            Action::Unload => {
                // That they have left is heard from the engine, as is that they are back.
                if !self.engine.unload().await {
                    self.planner.handle(Event::ModelStays, clock());
                }
            }
            Action::Park(conversation) => {
                tracing::debug!(%conversation, "parked after silence");
                self.engine.park(conversation).await;
            }
            Action::Warm(profile) => self.begin(profile, Purpose::Prewarm),
            Action::Touch(profile) => self.begin(profile, Purpose::KeepAlive),
            Action::Cancel(profile) => {
                if self.under_way.take_if(|(at, _)| *at == profile).is_some() {
                    tracing::debug!(%profile, "broke off warming");
                    self.warm_status.count(Outcome::Cancelled);
                }
            }
        }
    }

    fn begin(&mut self, profile: ProfileName, purpose: Purpose) {
        tracing::debug!(%profile, ?purpose, "warming");
        let (engine, prefixes) = (self.engine.clone(), self.prefixes.clone());
        let job = Box::pin(job::make_hot(engine, prefixes, profile.clone(), purpose));
        self.under_way = Some((profile, job));
    }

    fn report(&mut self, result: Result<Sources, job::Failure>, now: Timestamp) {
        let (profile, _) = self.under_way.take().expect("a job that is over was under way");
        let event = match result {
            Ok(from) => {
                self.warm_status.count(Outcome::Warm(from.how()));
                let Sources { shared, memory, disk, computed } = from;
                if from.tokens() > shared {
                    tracing::info!(%profile, shared, memory, disk, computed, "warm");
                }
                Event::PrefixDone { profile, from }
            }
            Err(failure) => {
                self.warm_status.count(Outcome::Failed);
                tracing::warn!(%profile, %failure, "this prefix is not warm");
                Event::PrefixFailed { profile, reason: failure.to_string() }
            }
        };
        self.planner.handle(event, now);
    }
}

/// The default profile first: it is the one of whoever names none.
pub fn in_order(mut profiles: Vec<ProfileName>) -> Vec<ProfileName> {
    profiles.sort_by_key(|name| *name != ProfileName::default());
    profiles
}

/// What came of the job; never comes while there is none.
async fn over(under_way: &mut Option<(ProfileName, Job)>) -> Result<Sources, job::Failure> {
    match under_way {
        Some((_, job)) => job.await,
        None => pending().await,
    }
}

/// At least a moment, so that a due time that has just come is behind us when we look again.
fn wait(next: Option<Timestamp>, now: Timestamp) -> Duration {
    let until = next.map_or(LONGEST_WAIT, |next| now.age(next));
    until.clamp(Duration::from_millis(1), LONGEST_WAIT)
}

#[cfg(test)]
mod tests;
