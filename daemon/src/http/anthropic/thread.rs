//! `thread`: a conversation that the server holds, so that a client sends only what is new.
//!
//! - A thread is a stored conversation; the id of a message names its place there, and outlives a restart.
//! - Its system prompt and its tools are those with which it was created.
//! - A message may be continued more than once: each continuation is a branch.
//! - What is not found is refused by the code upon which clients send the whole history again.

use serde_json::{Map, Value, json};

use crate::chat::answer::RESPONSE;
use crate::chat::identity::{Identity, Session};
use crate::chat::names;
use crate::conversations::Conversations;
use crate::error::ApiError;
use crate::http::responses::origin;
use crate::http::responses::stored::StoredAnswer;
use crate::wire::fields::{Fields, unsupported};

/// Error codes of Anthropic's threads. Clients read them below `details`.
pub const NOT_FOUND: &str = "thread_not_found";
pub const UNSUPPORTED: &str = "thread_unsupported_request";
pub const CHANGED: &str = "thread_fingerprint_mismatch";

/// What is stored with an answer.
const KEPT: &str = "thread";

/// What a request does with a thread.
#[derive(Debug)]
pub enum Thread {
    Create,
    /// Behind the message of this id.
    Continue(String),
}

impl Thread {
    /// # Errors
    /// Names the wrong field.
    pub fn read(fields: &Fields<'_>) -> Result<Option<Self>, ApiError> {
        let Some(thread) = fields.get("thread") else { return Ok(None) };
        let thread = Fields::of(thread, "thread")?;
        let read = match thread.required_string("type")? {
            "create" => Self::Create,
            "continue" => Self::Continue(thread.required_string("previous_message_id")?.to_owned()),
            other => {
                let other = other.escape_debug();
                let message = format!("`thread.type` must be create or continue, not `{other}`");
                return Err(ApiError::field("thread.type", message));
            }
        };
        if fields.boolean("store")? == Some(false) {
            let message = "`thread` is stored: it cannot be combined with `store: false`";
            return Err(ApiError::field("thread", message).code(UNSUPPORTED));
        }
        if let Self::Continue(_) = read {
            for name in ["system", "tools"] {
                if fields.get(name).is_some() {
                    let message = format!("`{name}` is that of the thread: leave it out");
                    return Err(ApiError::field(name, message).code(CHANGED));
                }
            }
            if fields.get("conversation").is_some() {
                let message = "`previous_message_id` names the conversation already";
                return Err(unsupported("conversation", message));
            }
        }
        Ok(Some(read))
    }

    /// Puts the chat into the conversation of the thread.
    ///
    /// # Errors
    /// When the message that it continues is not stored.
    pub async fn place(
        &self,
        chat: &mut Value,
        session: &Session,
        conversations: &Conversations,
    ) -> Result<(), ApiError> {
        let Self::Continue(previous) = self else {
            if Identity::of(chat, session)?.named().is_none() {
                chat["conversation"] = names::conversation().into();
            }
            return Ok(());
        };
        let found = StoredAnswer::find(previous, conversations).await?;
        let StoredAnswer { text, row, .. } = found.ok_or_else(|| {
            let message = format!(
                "no message `{}` is stored: create the thread again, with all messages",
                previous.escape_debug()
            );
            let error = ApiError::not_found(message).param("thread.previous_message_id");
            error.code(NOT_FOUND)
        })?;
        // An answer that broke off when hobd was killed has nothing stored with it; those before it have the same.
        let path = text.path_to(row);
        let kept = path.iter().rev().find_map(|saved| saved.finish.as_ref()?[RESPONSE].get(KEPT));
        if let Some(tools) = kept.and_then(|kept| kept.get("tools")) {
            chat["tools"] = tools.clone();
        }
        let history: Vec<Value> = path.iter().map(|saved| saved.message.clone()).collect();
        let system = origin::before_a_response(&text, &history);
        chat["conversation"] = text.summary.id.as_str().into();
        let hob = chat.as_object_mut().map(|chat| chat.entry("hob").or_insert_with(|| json!({})));
        if let Some(Value::Object(hob)) = hob {
            hob.insert("append".into(), true.into());
            hob.insert("after".into(), row.into());
            if let Some(system) = system {
                hob.entry("instructions").or_insert(system.into());
            }
        }
        Ok(())
    }
}

/// What of `chat` the next request of its thread leaves out.
pub fn kept(chat: &Value) -> Value {
    let mut kept = Map::new();
    if let Some(tools) = chat.get("tools") {
        kept.insert("tools".into(), tools.clone());
    }
    json!({KEPT: kept})
}
