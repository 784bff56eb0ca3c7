//! Typing ahead: prefills the finished words of a message while the user still types it.
//!
//! - The words run through the same session, task and priority as a partial transcript: nothing of
//!   them is recorded, and the answer takes over what was computed.
//! - While an answer of the conversation runs, its next message is not prefilled: its history is
//!   incomplete.
//! - Typed words replace no spoken ones: those, which another client may have sent, are answered at the end of speech.
//! - On a battery below the threshold nothing is prefilled; the battery is read once a minute.

use std::time::Duration;

use hob_prewarm::UtteranceEvent;
use hob_slots::{ConversationId, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use super::Speech;
use crate::blocking::compute;
use crate::error::ApiError;
use crate::warm::battery::ReadBattery;

const READ_BATTERY_EVERY: Duration = Duration::from_secs(60);

/// When typed words are prefilled.
#[derive(Debug)]
pub struct TypeAhead {
    is_on: bool,
    /// Charge below which nothing is prefilled.
    battery_percent: u8,
    read_battery: ReadBattery,
    /// Whether the charge was below the threshold when it was last read.
    low: Mutex<Option<(Timestamp, bool)>>,
}

/// What happens to typed words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// The finished ones are being prefilled.
    Ahead,
    /// The setting `type_ahead` is off.
    Off,
    /// The battery is low.
    Battery,
    /// An answer of the conversation runs.
    Answering,
    /// Words of the conversation's next message are spoken.
    Speaking,
}

impl Typed {
    /// Why the words are not prefilled.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Ahead => None,
            Self::Off => Some("off"),
            Self::Battery => Some("battery"),
            Self::Answering => Some("answering"),
            Self::Speaking => Some("speaking"),
        }
    }
}

impl TypeAhead {
    /// `battery_percent`: the charge below which nothing is prefilled.
    pub fn new(is_on: bool, battery_percent: u8, read_battery: ReadBattery) -> Self {
        Self { is_on, battery_percent, read_battery, low: Mutex::default() }
    }

    async fn has_low_battery(&self, now: Timestamp) -> bool {
        let known = *self.low.lock();
        // A time in the future: the clock has stepped back.
        let is_recent = |at: Timestamp| at <= now && at.age(now) < READ_BATTERY_EVERY;
        if let Some((_, low)) = known.filter(|&(at, _)| is_recent(at)) {
            return low;
        }
        let battery = compute(self.read_battery).await; // Some firmware is slow.
        let low = battery.is_some_and(|battery| battery.is_below(self.battery_percent));
        *self.low.lock() = Some((now, low));
        low
    }
}

impl Speech {
    /// The user has typed `text`, the whole message so far: prefills its finished words. `options`:
    /// the fields of the next request beside the words.
    ///
    /// # Errors
    /// When the options are invalid.
    pub async fn typed(
        &self,
        id: &ConversationId,
        text: String,
        options: &Value,
    ) -> Result<Typed, ApiError> {
        let rules = &self.options().type_ahead;
        if !rules.is_on {
            return Ok(Typed::Off);
        }
        if rules.has_low_battery(self.now()).await {
            return Ok(Typed::Battery);
        }
        if self.options().sessions.has_spoken_words(id, self.now()) {
            return Ok(Typed::Speaking);
        }
        if self.chat().locks().is_taken(id) {
            return Ok(Typed::Answering);
        }
        self.open_session(id, options)?;
        self.chat().engine().load(); // Unloaded weights load while the user types.
        self.options().sessions.handle(id, UtteranceEvent::Typed(text), self.now());
        Ok(Typed::Ahead)
    }

    /// The user has left the message: cancels its prefill. Speech that has started stays, and its words.
    pub fn typing_left(&self, id: &ConversationId) {
        self.options().sessions.cancel_typed(id);
    }
}

#[cfg(test)]
mod tests {
    use hob_prewarm::Battery;

    use super::*;

    fn on_battery(percent: u8) -> Option<Battery> {
        Some(Battery { percent, charging: false })
    }

    #[tokio::test]
    async fn the_battery_is_read_once_a_minute() {
        let rules = TypeAhead::new(true, 20, || on_battery(19));
        *rules.low.lock() = Some((Timestamp(1_000), false));
        assert!(!rules.has_low_battery(Timestamp(60_999)).await);
        assert!(rules.has_low_battery(Timestamp(61_000)).await);
    }

    #[tokio::test]
    async fn the_battery_is_read_again_when_the_clock_has_stepped_back() {
        let rules = TypeAhead::new(true, 20, || on_battery(19));
        *rules.low.lock() = Some((Timestamp(3_600_000), false));
        assert!(rules.has_low_battery(Timestamp(1_000)).await);
    }

    #[tokio::test]
    async fn a_charged_battery_and_mains_power_do_not_count_as_low() {
        for read in [|| on_battery(20), || None] {
            assert!(!TypeAhead::new(true, 20, read).has_low_battery(Timestamp(0)).await);
        }
        let charging = || Some(Battery { percent: 3, charging: true });
        assert!(!TypeAhead::new(true, 20, charging).has_low_battery(Timestamp(0)).await);
        assert!(!TypeAhead::new(true, 0, || on_battery(1)).has_low_battery(Timestamp(0)).await);
    }
}
