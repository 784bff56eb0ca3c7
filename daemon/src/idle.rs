//! Who speaks, and what happens once when nobody does.

use std::time::Duration;

use hob_prewarm::Event;
use hob_runtime::Engine;
use hob_slots::ConversationId;
use tokio::sync::mpsc::UnboundedSender;

use crate::silence::until_silent;

/// Who starts a daemon often has something to ask: until then there is no silence.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// Makes what structured answers need once nobody speaks, so that the first of them need not wait.
pub async fn prepare_grammars(engine: Engine) {
    tokio::time::sleep(SETTLED_AFTER).await;
    if until_silent(&engine).await.is_err() {
        return;
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
