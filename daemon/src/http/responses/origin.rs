//! What a response continues, and where it is stored.
//!
//! - `previous_response_id` is a place in a stored conversation: the answer becomes the next one there,
//!   on a branch of its own if others follow already.
//! - A client that sends the whole history, with the ids of earlier items, goes on in their conversation.
//! - Instructions are those of one request: the next one does not inherit them from a response. System
//!   messages of the input stay, and so do instructions that the user has set.
//! - What is not stored is a chat with `store: false`: its KV stays in memory, so that a client that sends the whole
//!   history each time computes only what is new.

use hob_prewarm::profile::joined;
use serde_json::{Value, json};

use super::references;
use super::request::Request;
use super::stored::{self, StoredAnswer};
use crate::chat::answer::RESPONSE;
use crate::chat::identity::{Identity, Session};
use crate::chat::names;
use crate::conversations::Conversations;
use crate::conversations::transcript::ConversationText;
use crate::error::ApiError;
use crate::wire::message::Message;

/// Puts the request into its conversation. Returns the body of the chat.
///
/// # Errors
/// When the previous response does not exist, or a name is not valid.
pub async fn chat_body(
    request: &mut Request,
    body: &Value,
    session: &Session,
    conversations: &Conversations,
) -> Result<Value, ApiError> {
    let stores = request.stores && !request.is_private();
    let identity = Identity::of(body, session)?;
    if let Some(previous) = request.previous.clone() {
        let StoredAnswer { text, row, place } = stored::previous(&previous, conversations).await?;
        let path = text.path_to(row).into_iter();
        let history: Vec<Value> = path.map(|saved| saved.message.clone()).collect();
        let own = instructions(request, &history, are_of_a_response(&text, &history));
        if !stores {
            let mut prompt = conversations.transcript.prompt_to(&place.conversation, row, own);
            let prompt = prompt.done().await?;
            return Ok(unstored(request, prompt.iter().map(Message::to_json).collect()));
        }
        instruct(request, own);
        request.paths.add("hob.after".to_owned(), "previous_response_id");
        return Ok(append(request, &text.summary.id, Some(row)));
    }
    if let Some(id) = identity.named() {
        if request.instructions.is_some() {
            let text = conversations.text(id).await?;
            let path = text.iter().flat_map(|text| text.path());
            let mut history: Vec<Value> = path.map(|saved| saved.message.clone()).collect();
            if history.is_empty() {
                history = sent(request);
            }
            let own = instructions(request, &history, false);
            instruct(request, own);
        }
        if !request.stores {
            request.chat.insert("store".into(), false.into());
        }
        return Ok(append(request, id.as_str(), None));
    }
    let history = sent(request);
    if !stores {
        let own = instructions(request, &history, false);
        let system = own.map(|text| json!({"role": "system", "content": text}));
        if system.is_some() {
            request.input.leave_out(leading(&history).len());
        }
        return Ok(unstored(request, system.into_iter().collect()));
    }
    let (id, after, is_set) = match references::conversation(body, conversations).await? {
        Some(text) => {
            let is_set = are_of_a_response(&text, &history);
            (text.summary.id, Some(0), is_set)
        }
        None => (names::conversation(), None, false),
    };
    let own = instructions(request, &history, is_set);
    instruct(request, own);
    Ok(append(request, &id, after))
}

fn sent(request: &Request) -> Vec<Value> {
    request.input.messages.clone()
}

/// The system messages with which `history` begins, where the instructions of a response stand in their place.
pub fn before_a_response(text: &ConversationText, history: &[Value]) -> Option<String> {
    are_of_a_response(text, history).then(|| in_front(None, history))
}

/// Whether the conversation has instructions of a response; else its user has set them.
fn are_of_a_response(text: &ConversationText, history: &[Value]) -> bool {
    let Some(set) = &text.instructions else { return false };
    let asked = text
        .messages
        .iter()
        .filter_map(|saved| saved.finish.as_ref()?[RESPONSE]["instructions"].as_str());
    let mut of_responses = asked.map(Some).chain([None]);
    of_responses.any(|own| in_front(own, history) == *set)
}

/// What stands in front of the conversation, in place of the system messages with which `history` begins; `None`: what
/// stands there. `is_set`: it has instructions of a response, which are not inherited.
fn instructions(request: &Request, history: &[Value], is_set: bool) -> Option<String> {
    let own = request.instructions.as_deref();
    (own.is_some() || is_set).then(|| in_front(own, history))
}

fn instruct(request: &mut Request, own: Option<String>) {
    if let Some(text) = own {
        request.set_hob("instructions", text);
    }
}

/// The instructions, and behind them the system messages with which `history` begins: one message, because
/// not every chat template takes two.
fn in_front(own: Option<&str>, history: &[Value]) -> String {
    let leading: Vec<String> = leading(history).iter().map(text_of).collect();
    let own = own.unwrap_or_default().trim();
    joined(std::iter::once(own).chain(leading.iter().map(String::as_str)))
}

/// The system messages with which it begins.
fn leading(history: &[Value]) -> &[Value] {
    let instructs =
        |message: &&Value| message["role"] == "system" || message["role"] == "developer";
    &history[..history.iter().take_while(instructs).count()]
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}

/// `after`: the row that the new messages follow; 0 for the beginning, `None` for the last one.
fn append(request: &mut Request, conversation: &str, after: Option<i64>) -> Value {
    request.chat.insert("conversation".into(), conversation.into());
    request.set_hob("append", true);
    if let Some(row) = after {
        request.set_hob("after", row);
    }
    if request.truncates {
        request.set_hob("newest", true);
    }
    request.body(Vec::new())
}

/// A chat that carries its whole history.
fn unstored(request: &mut Request, history: Vec<Value>) -> Value {
    request.chat.insert("store".into(), false.into());
    request.body(history)
}
