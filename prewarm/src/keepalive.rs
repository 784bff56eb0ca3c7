//! Decides when to touch warm prefixes, so that they stay warm without turns.
//!
//! - A round touches each prefix that was untouched for 80 % of the short TTL, or would exceed the
//!   TTL before the next round.
//! - Rounds are at least an interval apart. Without warm prefixes there are no rounds and no
//!   wake-ups.
//! - On a battery below the threshold a round touches nothing.
//! - After a jump of the clock, or a laptop's sleep, there is one round at most.

use std::time::Duration;

use hob_slots::{Lifetimes, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Minimum time between two rounds.
    pub interval: Duration,
    /// Maximum time between two touches of a prefix.
    pub short_ttl: Duration,
    /// Charge below which rounds touch nothing; 0: never.
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

/// The power supply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Battery {
    pub percent: u8,
    /// Whether the machine runs on mains power.
    pub charging: bool,
}

impl Battery {
    /// Whether the machine runs on a battery below `percent`.
    pub fn is_below(self, percent: u8) -> bool {
        !self.charging && self.percent < percent
    }
}

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

    /// When the machine is back on power, the next round is due at once.
    pub(crate) fn observe(&mut self, battery: Battery) {
        let saved = self.saves_battery();
        self.battery = Some(battery);
        if saved && !self.saves_battery() {
            self.last = None;
        }
    }

    pub(crate) fn saves_battery(&self) -> bool {
        self.battery.is_some_and(|battery| battery.is_below(self.rules.battery_percent))
    }

    /// When the next round is due, by the last touches of all prefixes.
    pub(crate) fn next(&self, touched: impl Iterator<Item = Timestamp>) -> Option<Timestamp> {
        let due = touched.min()?.after(self.max_untouched());
        let allowed = self.last.map(|last| last.after(self.rules.interval));
        Some(allowed.map_or(due, |allowed| allowed.max(due)))
    }

    /// Begins a round. The result decides by the time of a prefix's last touch whether the round
    /// touches it.
    pub(crate) fn begin(&mut self, now: Timestamp) -> impl Fn(Timestamp) -> bool + use<> {
        self.last = Some(now);
        let (saves_battery, max_untouched) = (self.saves_battery(), self.max_untouched());
        let rules = self.rules;
        move |touched| {
            let age = touched.age(now);
            !saves_battery && (age >= max_untouched || age + rules.interval > rules.short_ttl)
        }
    }

    pub(crate) fn clock_stepped_back(&mut self, now: Timestamp) {
        self.last = self.last.map(|last| last.min(now));
    }

    fn max_untouched(&self) -> Duration {
        self.rules.short_ttl * 4 / 5
    }
}
