//! The warming loop: holds the clock and executes what `hob_prewarm::Planner` decides.
//!
//! Reading order: [`events`] (the events of the loop), [`prefixes`] (what can be warmed), `job`
//! (warms one prefix), [`warm_status`] (what the loop publishes), `battery`, [`idle`] (work for an
//! idle engine).
//!
//! - One prefix is warmed at a time. A cancelled job reports nothing.
//! - A prefix that fails is logged, counted and tried again; no request waits for it. One that is no
//!   longer learned is left: its removal may have overtaken the event by which it was learned.

pub mod battery;
pub mod events;
pub mod idle;
pub mod job;
pub mod prefixes;
pub mod warm_status;

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use hob_prewarm::{Action, Event, Planner, PrefixName, Settings, TokenOrigins};
use hob_runtime::{Engine, Purpose, Residency, TurnError};
use hob_slots::Timestamp;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::blocking::compute;
use crate::clock::{Clock, ProcessTime};
use battery::ReadBattery;
use prefixes::{Prefixes, default_first};
use warm_status::{Outcome, WarmStatusWriter};

/// Timers stand still while a laptop sleeps, so the loop compares wall time at least this often.
const MAX_WAIT: Duration = Duration::from_secs(60);

type Job = Pin<Box<dyn Future<Output = Result<TokenOrigins, job::Failure>> + Send>>;

struct WarmLoop<P> {
    engine: Engine,
    prefixes: P,
    planner: Planner,
    warm_status: WarmStatusWriter,
    running: Option<(PrefixName, Job)>,
}

/// `prefixes`: those that it keeps warm. `settings`: those of the planner.
pub struct Options<P> {
    pub engine: Engine,
    pub prefixes: P,
    pub settings: Settings,
    pub time: ProcessTime,
    pub read_battery: ReadBattery,
    pub events: UnboundedReceiver<Event>,
    pub warm_status: WarmStatusWriter,
}

/// Executes the planner's actions until the engine stops or the last [`events::WarmEvents`] is
/// dropped.
pub async fn run<P: Prefixes + Clone>(options: Options<P>) {
    let Options { engine, prefixes, settings, time, read_battery, mut events, warm_status } =
        options;
    let planner = Planner::new(settings);
    let clock = time.wall_clock();
    let mut residency = engine.residency();
    let mut warm = WarmLoop { engine, prefixes, planner, warm_status, running: None };
    loop {
        let next = warm.planner.next_wake();
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => warm.planner.handle(event, clock()),
                None => return,
            },
            // An error: the engine has stopped, and the next call to it says so.
            Ok(()) = residency.changed() => {
                let now_is = *residency.borrow_and_update();
                warm.residency_changed(now_is, clock());
            }
            result = finished(&mut warm.running) => {
                if matches!(result, Err(job::Failure::Turn(TurnError::Stopped))) {
                    return;
                }
                warm.report(result, clock());
            }
            () = tokio::time::sleep(time.sleep(wait(next, clock()))) => {
                if next.is_some_and(|next| next <= clock())
                    && let Some(battery) = compute(read_battery).await
                {
                    warm.planner.handle(Event::Battery(battery), clock());
                }
                warm.planner.wake(clock());
            }
        }
        while let Some(action) = warm.planner.next_action() {
            warm.execute(action, &clock).await;
        }
        warm.warm_status.show(warm.planner.prefixes(), warm.planner.unload_at());
    }
}

impl<P: Prefixes + Clone> WarmLoop<P> {
    /// Any turn reloads the weights without asking the planner.
    fn residency_changed(&mut self, residency: Residency, now: Timestamp) {
        match residency {
            Residency::Resident => {
                let known = self.planner.prefixes().map(|(name, _)| name.clone());
                let prefixes = default_first(known.collect());
                self.planner.handle(Event::ModelReady { prefixes }, now);
            }
            Residency::Unloaded => self.planner.handle(Event::ModelUnloaded, now),
            Residency::Loading { .. } => {}
        }
    }

    async fn execute(&mut self, action: Action, clock: &Clock) {
        match action {
            Action::Unload => {
                // On success the residency changes, which the loop watches.
                if !self.engine.unload().await {
                    self.planner.handle(Event::UnloadRefused, clock());
                }
            }
            Action::Park(conversation) => {
                tracing::debug!(%conversation, "parking an idle conversation");
                self.engine.park(conversation).await;
            }
            Action::Renew(prefix) => self.engine.renew(prefix.id()),
            Action::Warm(prefix) => self.begin(prefix, Purpose::Prewarm),
            Action::Touch(prefix) => self.begin(prefix, Purpose::KeepAlive),
            Action::Cancel(prefix) => {
                if self.running.take_if(|(running, _)| *running == prefix).is_some() {
                    tracing::debug!(%prefix, "prewarm cancelled");
                    self.warm_status.count(Outcome::Cancelled);
                }
            }
        }
    }

    fn begin(&mut self, prefix: PrefixName, purpose: Purpose) {
        tracing::debug!(%prefix, ?purpose, "prewarm started");
        let (engine, prefixes) = (self.engine.clone(), self.prefixes.clone());
        let job = Box::pin(job::make_hot(engine, prefixes, prefix.clone(), purpose));
        self.running = Some((prefix, job));
    }

    fn report(&mut self, result: Result<TokenOrigins, job::Failure>, now: Timestamp) {
        let (prefix, _) = self.running.take().expect("only a running job can finish");
        let event = match result {
            Ok(from) => {
                self.warm_status.count(Outcome::Warm(from.main()));
                let TokenOrigins { shared, memory, disk, computed } = from;
                if from.tokens() > shared {
                    tracing::info!(%prefix, shared, memory, disk, computed, "prefix warm");
                }
                Event::PrefixDone { prefix, from }
            }
            Err(failure) if failure.is_of_a_removed_prefix() => Event::PrefixRemoved { prefix },
            Err(failure) => {
                self.warm_status.count(Outcome::Failed);
                tracing::warn!(%prefix, %failure, "prewarm failed");
                Event::PrefixFailed { prefix, reason: failure.to_string() }
            }
        };
        self.planner.handle(event, now);
    }
}

/// The result of the running job; pending while there is none.
async fn finished(running: &mut Option<(PrefixName, Job)>) -> Result<TokenOrigins, job::Failure> {
    match running {
        Some((_, job)) => job.await,
        None => pending().await,
    }
}

/// At least 1 ms, so that a wake-up that is due now is in the past at the next look.
fn wait(next: Option<Timestamp>, now: Timestamp) -> Duration {
    let until = next.map_or(MAX_WAIT, |next| now.age(next));
    until.clamp(Duration::from_millis(1), MAX_WAIT)
}

#[cfg(test)]
mod tests;
