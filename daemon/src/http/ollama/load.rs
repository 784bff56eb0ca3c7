//! `keep_alive`, and requests without a prompt, which load or unload the weights.
//!
//! - KV is saved before weights are freed, so `keep_alive` costs the next request the load and nothing else.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use hob_prewarm::StayLoaded;

use super::figures::Timer;
use super::object::{Form, Part};
use crate::chat::Chat;
use crate::clock::rfc3339;
use crate::error::ApiError;
use crate::wire::fields::{Fields, wrong_type};

/// Longer than any daemon runs, and far from where adding to a clock overflows.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Reads `keep_alive`: seconds, or a text such as `5m`; below 0 for ever.
///
/// # Errors
/// Names it where it is neither.
pub fn keep_alive(fields: &Fields<'_>) -> Result<Option<StayLoaded>, ApiError> {
    const NAME: &str = "keep_alive";
    let Some(value) = fields.get(NAME) else { return Ok(None) };
    let secs = match value.as_str() {
        Some(text) => seconds(text),
        None => Some(value.as_f64().ok_or_else(|| {
            wrong_type(NAME, "a number of seconds or a duration such as \"5m\"", value)
        })?),
    };
    let secs = secs.ok_or_else(|| {
        ApiError::field(
            NAME,
            "`keep_alive` must be a number of seconds or a duration such as \"5m\"",
        )
    })?;
    Ok(Some(if secs < 0.0 {
        StayLoaded::Forever
    } else {
        StayLoaded::For(Duration::try_from_secs_f64(secs).map_or(LONGEST, |it| it.min(LONGEST)))
    }))
}

/// The seconds of a duration as Go writes it (`1h30m`, `500ms`), or of a number.
fn seconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 7] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let text = text.trim();
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    if !rest.is_empty() && rest.chars().all(is_number) {
        return Some(sign * rest.parse::<f64>().ok()?);
    }
    let mut sum = 0.0;
    while let Some(at) = rest.find(|c| !is_number(c)) {
        let (number, behind) = rest.split_at(at);
        let end = behind.find(is_number).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let (_, secs) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number.parse::<f64>().ok()? * secs;
        rest = behind;
        if rest.is_empty() {
            return Some(sign * sum);
        }
    }
    None
}

/// Says how long the weights stay once it is dropped, at the end of an answer.
pub struct KeepAlive {
    chat: Chat,
    stay: Option<StayLoaded>,
}

impl KeepAlive {
    /// `stay`: as the request says; `None`: as the settings say.
    pub fn new(chat: Chat, stay: Option<StayLoaded>) -> Self {
        Self { chat, stay }
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.chat.stay_loaded(self.stay);
    }
}

/// Loads the weights, or with a `keep_alive` of 0 frees them. Returns whether it has loaded them.
///
/// # Errors
/// When the weights cannot be loaded.
pub async fn load_or_free(
    chat: &Chat,
    stay: Option<StayLoaded>,
    timer: &Timer,
) -> Result<bool, ApiError> {
    if stay == Some(StayLoaded::For(Duration::ZERO)) {
        chat.free_weights().await;
        return Ok(false);
    }
    chat.load_weights().await?;
    timer.note_loaded();
    chat.stay_loaded(stay);
    Ok(true)
}

/// Answers a request without a prompt: loads the weights, or with a `keep_alive` of 0 frees them.
///
/// # Errors
/// When the weights cannot be loaded.
pub async fn answer(
    chat: Chat,
    form: Form,
    stay: Option<StayLoaded>,
) -> Result<Response, ApiError> {
    let timer = Timer::start(chat.engine());
    let reason = if load_or_free(&chat, stay, &timer).await? { "load" } else { "unload" };
    let mut body = form.object(chat.model_name(), &rfc3339(chat.now()), Part::default());
    body["done"] = true.into();
    body["done_reason"] = reason.into();
    timer.write_load(&mut body);
    Ok(Json(body).into_response())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Result<Option<StayLoaded>, ApiError> {
        let body = json!({"keep_alive": value});
        keep_alive(&Fields::of_body(&body).unwrap())
    }

    #[test]
    fn a_time_is_a_number_of_seconds_or_a_duration_of_go() {
        let stay = |secs| Ok(Some(StayLoaded::For(Duration::from_secs_f64(secs))));
        for (value, secs) in [
            (json!(300), 300.0),
            (json!(0), 0.0),
            (json!("0"), 0.0),
            (json!("5m"), 300.0),
            (json!("1h30m"), 5400.0),
            (json!("1.5s"), 1.5),
            (json!("250ms"), 0.25),
        ] {
            assert_eq!(read(value.clone()), stay(secs), "{value}");
        }
        for forever in [json!(-1), json!("-1"), json!("-1m")] {
            assert_eq!(read(forever), Ok(Some(StayLoaded::Forever)));
        }
        assert_eq!(read(json!(1e300)), Ok(Some(StayLoaded::For(LONGEST))));
        assert_eq!(read(Value::Null), Ok(None));
        for wrong in [json!("soon"), json!("5 parsecs"), json!("5m3"), json!(""), json!(true)] {
            let error = read(wrong.clone()).expect_err(&wrong.to_string());
            assert_eq!(error.param.as_deref(), Some("keep_alive"), "{wrong}");
        }
    }
}
