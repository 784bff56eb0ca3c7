//! `/v1/conversations/{id}/explain`: why a conversation last computed tokens again, and what left its cells
//! and came back.

use axum::Json;
use axum::extract::{Path, State};
use hob_api::{AnswerMoves, Turn};
use serde_json::{Value, json};

use super::conversations::name;
use crate::conversations::transcript::{ConversationText, SavedMessage};
use crate::conversations::{Conversations, LastExplanation};
use crate::error::ApiError;

/// Maximum answers whose moves the response lists.
const MAX_ANSWERS: usize = 8;

/// Maximum length of a question.
const MAX_CHARS: usize = 80;

/// `GET /v1/conversations/{id}/explain`
pub async fn explain(
    State(conversations): State<Conversations>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    let saved = match conversations.explanation(&id).await? {
        LastExplanation::UnknownConversation => return Err(ApiError::no_such_conversation()),
        LastExplanation::Never => None,
        LastExplanation::Saved(saved) => Some(saved),
    };
    let text = conversations.get(&id).await?;
    Ok(Json(json!({
        "id": id,
        "object": "conversation.explanation",
        "explained_at": saved.as_ref().map(|saved| saved.at / 1000),
        "explanation": saved.map(|saved| saved.explanation),
        "moves": text.map_or(Vec::new(), |(text, _)| moves(&text)),
    })))
}

/// The moves of the current branch, the latest first.
fn moves(text: &ConversationText) -> Vec<AnswerMoves> {
    let path = text.path();
    let answers = (0..path.len()).rev().filter_map(|at| {
        let question = path[..at].iter().rev().find(|message| message.message["role"] == "user");
        moves_of(path[at], question.copied())
    });
    answers.take(MAX_ANSWERS).collect()
}

/// `None`: nothing left or came back, or came from another place, nor was it to, and no timeline began.
fn moves_of(answer: &SavedMessage, question: Option<&SavedMessage>) -> Option<AnswerMoves> {
    let turn = answer.finish.as_ref()?.get("hob")?.clone();
    let Turn { cells, moved, tokens, immovable, recalled, reanchored, .. } =
        serde_json::from_value(turn).ok()?;
    let (cells, tokens) = (cells?, tokens.unwrap_or_default());
    let has_moved = !moved.is_empty() || tokens.moved > 0 || tokens.lossy > 0;
    let goes_on = recalled > 0 || reanchored.is_some();
    let says = has_moved || goes_on || cells.no_eviction.is_some() || immovable.is_some();
    let question = question.map_or(String::new(), |question| {
        let message: hob_api::Message =
            serde_json::from_value(question.message.clone()).unwrap_or_default();
        message.text().chars().take(MAX_CHARS).collect()
    });
    says.then(|| AnswerMoves {
        message: answer.id,
        at: answer.created_at.max(0) as u64 / 1000,
        question,
        away_tokens: tokens.away,
        moved_tokens: tokens.moved,
        repaired_tokens: tokens.repaired,
        lossy_tokens: tokens.lossy,
        immovable,
        recalled,
        reanchored,
        cells,
        moved,
    })
}
