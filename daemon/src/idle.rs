//! What happens in silence. The loop that parks holds the clock; `hob_prewarm` decides.

use std::time::Duration;

use hob_prewarm::{Action, Event, Planner, Settings};
use hob_runtime::{Engine, SlotState, SlotStatus};
use hob_slots::{ConversationId, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::clock::Clock;

/// Wall time may jump while a laptop sleeps, which no timer notices: look at it this often.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Nobody spoke when we looked, this long apart.
const SILENCE: Duration = Duration::from_secs(5);

/// Does what the planner says until the last sender of events is gone.
pub async fn run(
    engine: Engine,
    settings: Settings,
    clock: Clock,
    mut inbox: UnboundedReceiver<Event>,
) {
    let mut planner = Planner::new(settings);
    loop {
        match tokio::time::timeout(wait(planner.next_wake(), clock()), inbox.recv()).await {
            Ok(Some(event)) => planner.handle(event, clock()),
            Ok(None) => return,
            Err(_) => planner.wake(clock()),
        }
        while let Some(action) = planner.next_action() {
            match action {
                Action::Park(conversation) => {
                    tracing::debug!(%conversation, "parked after silence");
                    engine.park(conversation).await;
                }
                Action::Warm(_) | Action::Touch(_) | Action::Cancel(_) => {}
            }
        }
    }
}

/// Makes what structured answers need once nobody speaks, so that the first of them need not wait.
pub async fn prepare_grammars(engine: Engine) {
    loop {
        tokio::time::sleep(SILENCE).await;
        let Ok(status) = engine.status().await else { return };
        let silent = |slot: &SlotStatus| matches!(slot.state, SlotState::Free | SlotState::Idle);
        if status.waiting == 0 && status.slots.iter().all(silent) {
            break;
        }
    }
    // An error: the daemon ends.
    let _ = tokio::task::spawn_blocking(move || engine.prepare_grammars()).await;
}

/// At least a moment, so that a due time that has just come is behind us when we look again.
fn wait(next: Option<Timestamp>, now: Timestamp) -> Duration {
    let until = next.map_or(LONGEST_WAIT, |next| now.age(next));
    until.clamp(Duration::from_millis(1), LONGEST_WAIT)
}

/// A turn of a conversation, announced to the planner for as long as this lives.
#[derive(Debug)]
pub struct Speaking {
    conversation: ConversationId,
    planner: UnboundedSender<Event>,
}

impl Speaking {
    /// Announces the turn's beginning. Without a loop that listens nothing happens.
    pub fn announce(conversation: ConversationId, planner: UnboundedSender<Event>) -> Self {
        let _ = planner.send(Event::TurnStarted { conversation: conversation.clone() });
        Self { conversation, planner }
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        let conversation = self.conversation.clone();
        let _ = self.planner.send(Event::TurnEnded { conversation });
    }
}
