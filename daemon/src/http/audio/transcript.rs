//! A transcript in the forms of OpenAI's API.
//!
//! - It is one segment, from the beginning of the sound to its end.

use std::str::FromStr;

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::events;
use crate::error::ApiError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Text,
    VerboseJson,
    /// Subtitles.
    Srt,
    Vtt,
}

impl FromStr for Format {
    type Err = ApiError;

    fn from_str(word: &str) -> Result<Self, ApiError> {
        Ok(match word {
            "json" => Self::Json,
            "text" => Self::Text,
            "verbose_json" => Self::VerboseJson,
            "srt" => Self::Srt,
            "vtt" => Self::Vtt,
            other => {
                let other = other.escape_debug();
                let message = format!(
                    "`response_format` must be json, text, verbose_json, srt or vtt, not `{other}`"
                );
                return Err(ApiError::field("response_format", message));
            }
        })
    }
}

pub struct Transcript {
    pub text: String,
    /// Length of the sound.
    pub seconds: f64,
    /// As the client knows it.
    pub language: Option<String>,
}

impl Transcript {
    pub fn written(&self, format: Format) -> Response {
        let text = &self.text;
        let plain = |kind: &'static str, body: String| {
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        };
        match format {
            Format::Json => Json(json!({"text": text, "usage": self.usage()})).into_response(),
            Format::VerboseJson => Json(self.verbose()).into_response(),
            Format::Text => format!("{text}\n").into_response(),
            Format::Srt => plain("application/x-subrip", self.subtitle("1\n", ',')),
            Format::Vtt => plain("text/vtt", format!("WEBVTT\n\n{}", self.subtitle("", '.'))),
        }
    }

    /// The transcript as a stream of events.
    pub fn streamed(&self) -> Response {
        let (text, usage) = (&self.text, self.usage());
        let delta = json!({"type": "transcript.text.delta", "delta": text});
        let done = json!({"type": "transcript.text.done", "text": text, "usage": usage});
        events::stream((!text.is_empty()).then_some(delta).into_iter().chain([done]))
    }

    fn usage(&self) -> Value {
        json!({"type": "duration", "seconds": self.seconds.ceil() as u64})
    }

    fn verbose(&self) -> Value {
        let (text, end) = (&self.text, self.seconds);
        let segment = json!({"id": 0, "seek": 0, "start": 0.0, "end": end, "text": text});
        let segments: Vec<Value> = (!text.is_empty()).then_some(segment).into_iter().collect();
        json!({
            "task": "transcribe",
            "language": self.language.as_deref().unwrap_or("unknown"),
            "duration": end,
            "text": text,
            "segments": segments,
            "usage": self.usage(),
        })
    }

    /// `before`: the line in front. `point`: in front of the milliseconds.
    fn subtitle(&self, before: &str, point: char) -> String {
        if self.text.is_empty() {
            return String::new();
        }
        let (begin, end) = (time(0.0, point), time(self.seconds, point));
        format!("{before}{begin} --> {end}\n{}\n\n", self.text)
    }
}

/// `00:00:01,500`
fn time(seconds: f64, point: char) -> String {
    let millis = (seconds * 1e3).round() as u64;
    let (secs, millis) = (millis / 1000, millis % 1000);
    format!("{:02}:{:02}:{:02}{point}{millis:03}", secs / 3600, secs / 60 % 60, secs % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtitle_lasts_as_long_as_the_sound() {
        let transcript =
            Transcript { text: "Hello".to_owned(), seconds: 3_723.456_7, language: None };
        assert_eq!(transcript.subtitle("1\n", ','), "1\n00:00:00,000 --> 01:02:03,457\nHello\n\n");
        let silent = Transcript { text: String::new(), ..transcript };
        assert_eq!(silent.subtitle("1\n", ','), "");
        assert_eq!(silent.verbose()["segments"], json!([]));
    }
}
