//! What the daemon that owns the directory says of its conversations, if it says so at once.

use std::collections::BTreeSet;
use std::time::Duration;

use hob_config::Settings;
use hob_slots::ConversationId;
use hob_slots::maintenance::Live;
use serde_json::Value;

use super::daemon_of;
use crate::client::Client;

/// Nobody waits longer for it.
const PATIENCE: Duration = Duration::from_millis(250);

/// `None` without such a daemon, or when it is too busy to answer: a listing does without.
pub fn ask(settings: &Settings) -> Option<Live> {
    let running = daemon_of(settings)?;
    let client = Client::of(&running, Some(PATIENCE)).ok()?;
    told(&client.get("/v1/status").ok()?)
}

fn told(status: &Value) -> Option<Live> {
    let named = |entry: &Value| ConversationId::new(entry["conversation"].as_str()?).ok();
    let slots = status["slots"].as_array()?;
    let speaks = |slot: &&Value| !matches!(slot["state"].as_str(), Some("free" | "idle"));
    Some(Live {
        fingerprint: status["fingerprint"].as_str()?.parse().ok()?,
        open: slots.iter().filter(speaks).filter_map(named).collect(),
        hot: slots.iter().filter_map(named).collect(),
        parked: status["parked"].as_array()?.iter().filter_map(named).collect::<BTreeSet<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use hob_slots::maintenance::SlotState;
    use serde_json::json;

    use super::*;

    #[test]
    fn where_conversations_are_is_read_from_the_status() {
        let status = json!({
            "fingerprint": "abababababababab",
            "slots": [
                {"slot": 0, "conversation": "speaks", "state": "decoding"},
                {"slot": 1, "conversation": "silent", "state": "idle"},
                {"slot": 2, "conversation": null, "state": "free"},
            ],
            "parked": [{"conversation": "away", "tokens": 7}],
        });
        let live = told(&status).unwrap();
        let state = |name: &str| live.state(live.fingerprint, &name.parse().unwrap());
        assert_eq!(state("speaks"), Some(SlotState::Open));
        assert_eq!(state("silent"), Some(SlotState::Hot));
        assert_eq!(state("away"), Some(SlotState::Parked));
        assert_eq!(state("unknown"), None);
        assert_eq!(live.state("0000000000000000".parse().unwrap(), &"away".parse().unwrap()), None);
        assert_eq!(told(&json!({"version": "9"})), None);
    }
}
