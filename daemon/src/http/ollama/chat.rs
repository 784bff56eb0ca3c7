//! `/api/chat`

use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

use super::super::body::JsonBody;
use super::answer::Reply;
use super::figures::Timer;
use super::load::{self, KeepAlive, keep_alive};
use super::messages::translated;
use super::object::Form;
use super::request::{common, renamed, streams};
use crate::chat::Chat;
use crate::chat::identity::{Identity, Session};
use crate::error::ApiError;
use crate::wire::chat::CONTINUES_FINAL;
use crate::wire::fields::Fields;
use crate::wire::form;

/// `POST /api/chat`: without messages it loads the weights.
pub async fn chat(State(chat): State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    let JsonBody { value, session } = body;
    let fields = Fields::of_body(&value)?;
    let stay = keep_alive(&fields)?;
    let messages = fields.list("messages")?.map_or(&[][..], Vec::as_slice);
    if messages.is_empty() && value.pointer("/hob/append") != Some(&true.into()) {
        return load::answer(chat, Form::Chat, stay).await;
    }
    let mut request = Value::from(common(&fields)?);
    if request.get(CONTINUES_FINAL).is_none() && ends_with_an_answer(messages, &request, &session)?
    {
        request[CONTINUES_FINAL] = true.into();
    }
    let continues_last = request[CONTINUES_FINAL] == true;
    request["messages"] = translated(messages, continues_last)?.into();
    if let Some(tools) = fields.list("tools")? {
        request["tools"] = tools.iter().map(with_type).collect();
    }
    let timer = Timer::start(chat.engine());
    let keep_alive = KeepAlive::new(chat.clone(), stay);
    let answer = chat.answer(&request, &session).await;
    let (_, answer) = answer.map_err(|error| renamed(error, &[]))?;
    Reply::new(Form::Chat, &[], answer, timer, keep_alive).respond(streams(&fields)?).await
}

/// Older clients leave the type of a tool out.
fn with_type(tool: &Value) -> Value {
    let mut tool = tool.clone();
    if let Some(tool) = tool.as_object_mut() {
        tool.entry("type").or_insert_with(|| "function".into());
    }
    tool
}

/// Whether the answer goes on with the last of Ollama's messages, as Ollama's does. A conversation has `hob.continue`.
fn ends_with_an_answer(
    messages: &[Value],
    request: &Value,
    session: &Session,
) -> Result<bool, ApiError> {
    let is_answer = messages.last().is_some_and(|last| {
        last["role"] == "assistant" && last["tool_calls"].as_array().is_none_or(Vec::is_empty)
    });
    let has_form = form::NAMES.iter().any(|name| request.get(*name).is_some());
    Ok(is_answer && !has_form && Identity::of(request, session)?.named().is_none())
}
