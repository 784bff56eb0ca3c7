//! `/v1/conversations/{id}/audio`: sound in pieces, transcribed while it arrives.

use std::ops::RangeInclusive;

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::PcmBody;
use super::query::Query;
use super::speech::name;
use crate::error::{ApiError, ErrorKind};
use crate::speech::Speech;
use crate::speech::utterances::Piece;
use crate::speech::vad::SAMPLE_RATE;

const OBJECT: &str = "conversation.audio";

/// Sample rates of microphones.
const RATES: RangeInclusive<u32> = 8_000..=192_000;

#[derive(Debug, Deserialize)]
pub struct PieceOptions {
    utterance: Option<String>,
    rate: Option<u32>,
    #[serde(default)]
    end: bool,
}

/// `POST /v1/conversations/{id}/audio?utterance=&rate=&end=`: 16-bit mono PCM, little endian.
pub async fn receive(
    State(speech): State<Speech>,
    Path(id): Path<String>,
    Query(options): Query<PieceOptions>,
    PcmBody(pcm): PcmBody,
) -> Result<Json<Value>, ApiError> {
    let PieceOptions { utterance, rate, end: ends } = options;
    let rate = rate.unwrap_or(SAMPLE_RATE as u32);
    if !RATES.contains(&rate) {
        let (least, most) = RATES.into_inner();
        let message = format!("`rate` must be between {least} and {most} samples a second");
        return Err(ApiError::field("rate", message));
    }
    if pcm.len() % 2 != 0 {
        let message = format!("the body has {} bytes, but a sample has two", pcm.len());
        return Err(ApiError::new(ErrorKind::Invalid, message).code("invalid_audio"));
    }
    let samples = pcm.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let id = name(&id)?;
    let understood = speech.receive_sound(&id, Piece { utterance, samples, rate, ends }).await?;
    Ok(Json(json!({
        "conversation": id, "object": OBJECT, "utterance": understood.utterance,
        "transcript": understood.transcript, "final": understood.is_final,
    })))
}

/// `DELETE /v1/conversations/{id}/audio`: no message follows.
pub async fn discard(
    State(speech): State<Speech>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = name(&id)?;
    speech.discard_utterance(&id);
    Ok(Json(json!({"conversation": id, "object": OBJECT, "discarded": true})))
}
