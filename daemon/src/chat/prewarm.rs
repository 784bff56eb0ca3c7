//! Prefills the prompt that a chat would be answered from, and generates nothing.
//!
//! - It records no text, no timeline and no use of the saved KV.
//! - What it computes of a conversation's stored text is saved; of other text nothing is.
//! - Without a question at the end, it prefills everything before the question.

use serde_json::{Value, json};

use super::Chat;
use super::answer::Answer;
use super::identity::Session;
use crate::error::ApiError;
use crate::wire::fields::wrong_type;

impl Chat {
    /// Begins to prefill the prompt of a chat body. Without `messages` it is the history of the
    /// conversation.
    ///
    /// # Errors
    /// As for [`Chat::answer`].
    pub async fn prewarm(&self, body: &Value, session: &Session) -> Result<Answer, ApiError> {
        let mut body = without_question(body)?;
        body["max_tokens"] = 0.into();
        body["n"] = 1.into();
        let (_, answer) = self.answer(&body, session).await?;
        Ok(answer)
    }
}

/// A chat body whose question may be missing: without `messages` it appends to the conversation.
/// `profile` is short for `hob.profile`.
///
/// # Errors
/// When the body is not an object.
pub fn without_question(body: &Value) -> Result<Value, ApiError> {
    let mut body = match body {
        Value::Null => json!({}),
        Value::Object(_) => body.clone(),
        other => return Err(wrong_type("body", "an object", other)),
    };
    if body.get("hob").is_none_or(Value::is_null) {
        body["hob"] = json!({});
    }
    let profile = body.as_object_mut().and_then(|body| body.shift_remove("profile"));
    if let (Some(profile), Some(hob)) = (profile, body["hob"].as_object_mut()) {
        hob.entry("profile").or_insert(profile);
    }
    if body.get("messages").is_none_or(Value::is_null) {
        body["messages"] = json!([]);
    }
    if body["messages"].as_array().is_none_or(Vec::is_empty)
        && let Some(hob) = body["hob"].as_object_mut()
    {
        hob.insert("append".to_owned(), true.into());
    }
    Ok(body)
}
