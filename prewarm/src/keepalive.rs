//! When warm prefixes are touched again, so that they stay warm although nobody speaks.
//!
//! - A round touches what lay untouched for 80 % of the short TTL, and what would lie longer than
//!   the TTL before the next round may come.
//! - Rounds are an interval apart at least. With nothing warm there are none, and nothing wakes.
//! - While a battery below the threshold feeds the machine a round touches nothing.
//! - Pure: a clock that jumps, or a laptop that slept, leads to one round at most.

use std::time::Duration;

use hob_slots::{Lifetimes, Timestamp};

/// What rounds go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Time between two rounds at least.
    pub interval: Duration,
    /// How long a prefix may lie untouched.
    pub short_ttl: Duration,
    /// Charge below which a battery is spared; 0: never.
    pub battery_percent: u8,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(4 * 60),
            short_ttl: Lifetimes::default().short,
            battery_percent: 20,
        }
    }
}

/// What feeds the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Battery {
    /// How full it is.
    pub percent: u8,
    /// Whether something else feeds the machine, and perhaps the battery too.
    pub charging: bool,
}

/// The rounds so far.
#[derive(Debug)]
pub(crate) struct Rounds {
    rules: Keepalive,
    last: Option<Timestamp>,
    battery: Option<Battery>,
}

impl Rounds {
    pub(crate) fn new(rules: Keepalive) -> Self {
        Self { rules, last: None, battery: None }
    }

    /// A machine that is fed again makes up for its rest at once.
    pub(crate) fn feed(&mut self, battery: Battery) {
        let rested = self.rest();
        self.battery = Some(battery);
        if rested && !self.rest() {
            self.last = None;
        }
    }

    /// Whether the battery is spared.
    pub(crate) fn rest(&self) -> bool {
        let low = |battery: Battery| battery.percent < self.rules.battery_percent;
        self.battery.is_some_and(|battery| !battery.charging && low(battery))
    }

    /// When the next round is due, for prefixes that were last touched then; never without any.
    pub(crate) fn next(&self, touched: impl Iterator<Item = Timestamp>) -> Option<Timestamp> {
        let due = touched.min()?.after(self.patience());
        let allowed = self.last.map(|last| last.after(self.rules.interval));
        Some(allowed.map_or(due, |allowed| allowed.max(due)))
    }

    /// A round begins; says of each time of a last touch whether it asks for another.
    pub(crate) fn begin(&mut self, now: Timestamp) -> impl Fn(Timestamp) -> bool + use<> {
        self.last = Some(now);
        let (rest, patience, rules) = (self.rest(), self.patience(), self.rules);
        move |touched| {
            let age = touched.age(now);
            !rest && (age >= patience || age + rules.interval > rules.short_ttl)
        }
    }

    /// The clock stepped back: what it promises is counted from here.
    pub(crate) fn count_anew_from(&mut self, now: Timestamp) {
        self.last = self.last.map(|last| last.min(now));
    }

    fn patience(&self) -> Duration {
        self.rules.short_ttl * 4 / 5
    }
}
