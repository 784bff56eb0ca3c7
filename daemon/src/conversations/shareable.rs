//! What other daemons may read of a conversation.

use hob_slots::ConversationId;

use super::transcript::{ConversationExport, Extent, Status, Transcript, TranscriptError};

/// The text with its documents; `None`: there is none, or an answer grows. The end of an answer publishes: another
/// daemon would store the beginning of it as an answer of its own, on a branch that stays.
pub async fn text_of(
    transcript: &Transcript,
    id: &ConversationId,
) -> Result<Option<ConversationExport>, TranscriptError> {
    let Some(text) = transcript.get(id).done().await? else { return Ok(None) };
    if text.messages.iter().any(|saved| saved.status == Status::Streaming) {
        return Ok(None);
    }
    let mut export = ConversationExport::of(&text, Extent::Tree);
    if export.messages.is_empty() {
        return Ok(None);
    }
    let stored = transcript.stored_documents(export.named_documents(), false).await?;
    export.documents = stored.into_values().collect();
    Ok(Some(export))
}

#[cfg(test)]
mod tests {
    use hob_slots::Timestamp;

    use super::*;
    use crate::wire::message::{Message, Role};

    #[tokio::test]
    async fn an_answer_that_grows_is_not_published() {
        let now = Timestamp(1_000);
        let transcript = Transcript::in_memory(now).unwrap();
        let id = ConversationId::new("a").unwrap();
        assert!(text_of(&transcript, &id).await.unwrap().is_none());
        let mut answer = transcript.sync(&id, vec![Message::plain(Role::User, "Hello")], now);
        answer.stored().await.unwrap();
        assert!(text_of(&transcript, &id).await.unwrap().is_none());
        drop(answer); // It is interrupted.
        let text = text_of(&transcript, &id).await.unwrap().unwrap();
        assert_eq!(text.messages.len(), 2);
    }
}
