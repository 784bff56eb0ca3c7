//! The work behind an answer waits until its caller has passed the answer on.
//!
//! - A caller drops its [`Turn`](crate::Turn) then. hobd stores an answer and sends its end first, by several threads
//!   that wake each other. While a micro-batch has every core, each wake-up waits for the scheduler.
//! - What waits: the slot's tail, the export of its blocks, its record, and the draft model's reading. Micro-batches of
//!   other turns go on.
//! - It waits for [`EngineOptions::delivery_patience`](crate::EngineOptions::delivery_patience) at most. It does not
//!   wait where a caller waits until KV is saved, nor where a turn needs the slot.

use std::time::{Duration, Instant};

use super::Worker;
use crate::turn::EventSender;

/// An answer on its way to the client.
pub(super) struct Delivery {
    events: EventSender,
    until: Instant,
}

impl Delivery {
    /// The last event was sent. `None`: the caller has dropped its turn.
    pub fn begin(events: &EventSender, patience: Duration) -> Option<Self> {
        let begin = || Self { events: events.clone(), until: Instant::now() + patience };
        (!events.is_closed()).then(begin)
    }

    fn is_over(&self) -> bool {
        self.events.is_closed() || self.left().is_zero()
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl Worker<'_> {
    /// Ends the deliveries whose caller has dropped its turn or whose patience is over; all of them while a caller
    /// waits until KV is saved. Called behind all queued commands: a caller that drops its turn sends one.
    pub(super) fn end_deliveries(&mut self) {
        let is_awaited = !self.settling.is_empty() || !self.saving.is_empty();
        for slot in &mut self.slots {
            slot.delivery.take_if(|delivery| is_awaited || delivery.is_over());
        }
    }

    /// The time until the first delivery ends by itself.
    pub(super) fn deliveries_end_in(&self) -> Option<Duration> {
        let deliveries = self.slots.iter().filter_map(|slot| slot.delivery.as_ref());
        deliveries.map(Delivery::left).min()
    }

    /// Whether a caller has an answer to pass on.
    pub(super) fn is_delivering(&self) -> bool {
        self.slots.iter().any(|slot| slot.delivery.is_some())
    }
}
