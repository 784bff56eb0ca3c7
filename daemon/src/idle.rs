//! Who speaks, and what happens once when nobody does.

use std::time::Duration;

use hob_prewarm::Event;
use hob_runtime::{Engine, SlotState, SlotStatus};
use hob_slots::ConversationId;
use tokio::sync::mpsc::UnboundedSender;

/// Nobody spoke when we looked, this long apart.
const SILENCE: Duration = Duration::from_secs(5);

/// Makes what structured answers need once nobody speaks, so that the first of them need not wait.
pub async fn prepare_grammars(engine: Engine) {
    loop {
        tokio::time::sleep(SILENCE).await;
        let Ok(status) = engine.status().await else { return };
        let silent = |slot: &SlotStatus| matches!(slot.state, SlotState::Free | SlotState::Idle);
        if status.waiting == 0 && status.slots.iter().chain(&status.prefixes).all(silent) {
            break;
        }
    }
    // An error: the daemon ends.
    let _ = tokio::task::spawn_blocking(move || engine.prepare_grammars()).await;
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
