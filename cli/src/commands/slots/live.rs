//! Asks the daemon that owns the directory which conversations are in memory, and for its quota.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_api::Status;
use hob_config::Settings;
use hob_slots::Quota;
use hob_slots::maintenance::Live;

use super::dir;
use crate::client::Client;
use crate::names;

/// A daemon answers in milliseconds, on a machine with ten times more work than cores in half a
/// second. One that hangs may not hold a listing longer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// `None` without a daemon, or when it is too busy to answer in time.
pub fn ask(settings: &Settings) -> Option<Live> {
    of(status(settings)?)
}

/// `None` without a daemon, or when it is too busy to answer in time.
pub fn status(settings: &Settings) -> Option<Status> {
    let running = dir::owner_daemon(settings)?;
    let client = Client::of(&running, Some(TIMEOUT)).ok()?;
    client.status().ok()
}

/// The titles of the daemon's conversations, by id; none without a daemon.
pub fn titles(settings: &Settings) -> BTreeMap<String, String> {
    let known = || {
        let running = dir::owner_daemon(settings)?;
        let client = Client::of(&running, Some(TIMEOUT)).ok()?;
        names::of_daemon(&client).ok()
    };
    let known = known().unwrap_or_default().into_iter();
    known.filter_map(|known| Some((known.id, known.title?))).collect()
}

/// The quota that the daemon holds; without a daemon, the one that the next would read from file
/// and environment.
pub fn quota(status: Option<&Status>, settings: &Settings) -> Quota {
    // An older daemon does not name the quota.
    let held = status.map(|status| &status.disk_quota).filter(|held| !held.origin.is_empty());
    let set_bytes = match held {
        Some(held) => held.set_bytes.unwrap_or_default(),
        None => settings.slots_quota_bytes,
    };
    Quota::of_setting(set_bytes)
}

pub fn of(status: Status) -> Option<Live> {
    let Status { fingerprint, slots, parked, .. } = status;
    Some(Live {
        fingerprint: fingerprint?,
        open: slots
            .iter()
            .filter(|slot| slot.is_busy())
            .filter_map(|slot| slot.conversation.clone())
            .collect(),
        hot: slots.into_iter().filter_map(|slot| slot.conversation).collect(),
        warm: parked
            .into_iter()
            .filter(|parked| parked.tier == "warm")
            .map(|parked| parked.conversation)
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use hob_slots::maintenance::ConversationState;
    use serde_json::{Value, json};

    use super::*;

    fn live(status: Value) -> Option<Live> {
        of(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn states_are_read_from_the_status() {
        let status = json!({
            "fingerprint": "abababababababab",
            "slots": [
                {"slot": 0, "conversation": "speaks", "state": "decoding"},
                {"slot": 1, "conversation": "silent", "state": "idle"},
                {"slot": 2, "conversation": null, "state": "free"},
            ],
            "parked": [
                {"conversation": "away", "tokens": 7, "tier": "warm"},
                {"conversation": "far", "tokens": 7, "tier": "cold"},
            ],
        });
        let found = live(status).unwrap();
        let state = |name: &str| found.state(found.fingerprint, &name.parse().unwrap());
        assert_eq!(state("speaks"), Some(ConversationState::Open));
        assert_eq!(state("silent"), Some(ConversationState::Hot));
        assert_eq!(state("away"), Some(ConversationState::Warm));
        assert_eq!(state("far"), None, "a restore of it reads the disk");
        assert_eq!(state("unknown"), None);
        let other_model = "0000000000000000".parse().unwrap();
        assert_eq!(found.state(other_model, &"away".parse().unwrap()), None);
        assert_eq!(live(json!({"version": "9"})), None);
    }
}
