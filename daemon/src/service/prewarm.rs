//! What a request would be answered from, made hot and nothing more.
//!
//! - It records nothing: no text, no timeline, no use of what is kept.
//! - Without a question at its end, what comes before the question is made hot.

use serde_json::{Value, json};

use super::Service;
use super::ahead::Extent;
use super::answering::Answering;
use crate::error::ApiError;
use crate::wire::chat::ChatRequest;
use crate::wire::fields::wrong_type;
use crate::wire::message::Role;

impl Service {
    /// Begins to make hot what the chat `body` would be answered from. `messages` may lack: then it
    /// is the conversation's history.
    pub async fn prewarm(
        &self,
        body: &Value,
        session: Option<&str>,
    ) -> Result<Answering, ApiError> {
        let mut body = without_a_turn(body)?;
        body["max_tokens"] = 0.into();
        body["n"] = 1.into();
        let (_, answering) = self.chat(&body, session).await?;
        Ok(answering)
    }
}

/// The body of a chat whose `messages` may lack: then it goes on from the conversation's history.
/// `profile` is short for `hob.profile`.
pub(super) fn without_a_turn(body: &Value) -> Result<Value, ApiError> {
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
    let is_empty = |messages: &Value| messages.as_array().is_none_or(Vec::is_empty);
    if body.get("messages").is_none_or(Value::is_null) {
        body["messages"] = json!([]);
    }
    if is_empty(&body["messages"])
        && let Some(hob) = body["hob"].as_object_mut()
    {
        hob.insert("append".to_owned(), true.into());
    }
    Ok(body)
}

/// How much of a request's prompt can be hot before its answer is asked for.
pub(super) fn extent(request: &ChatRequest) -> Extent {
    match request.messages.last().map(|message| message.role) {
        _ if !request.shape.is_prewarm() => Extent::Whole,
        Some(Role::User | Role::Tool) => Extent::Whole,
        _ => Extent::Before(String::new()),
    }
}
