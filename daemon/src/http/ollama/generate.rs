//! `/api/generate`: an answer to one prompt, or the continuation of a text.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::body::JsonBody;
use super::answer::Reply;
use super::figures::Timer;
use super::load::{self, KeepAlive, keep_alive};
use super::messages::refuse_images;
use super::object::Form;
use super::request::{Names, common, renamed, streams};
use crate::chat::Chat;
use crate::error::ApiError;
use crate::wire::fields::{Fields, unsupported};

/// `POST /api/generate`: without a prompt it loads the weights.
pub async fn generate(State(chat): State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    let JsonBody { value, session } = body;
    let fields = Fields::of_body(&value)?;
    let stay = keep_alive(&fields)?;
    let text = |name| Ok::<_, ApiError>(fields.string(name)?.filter(|text| !text.is_empty()));
    let (prompt, suffix, system) = (text("prompt")?, text("suffix")?, text("system")?);
    if prompt.is_none() && suffix.is_none() {
        return load::answer(chat, Form::Generate, stay).await;
    }
    refuse(&fields)?;
    refuse_images(&fields)?;
    let prompt = prompt.unwrap_or_default();
    let mut request = common(&fields)?;
    let timer = Timer::start(chat.engine());
    let keep_alive = KeepAlive::new(chat.clone(), stay);
    let is_verbatim = suffix.is_some() || fields.boolean("raw")?.unwrap_or(false);
    let names: &'static Names = match system {
        _ if is_verbatim => &[],
        Some(_) => &[("messages[0]", "system"), ("messages[1]", "prompt"), MESSAGES],
        None => &[("messages[0]", "prompt"), MESSAGES],
    };
    let begun = if is_verbatim {
        continues(&mut request, prompt, suffix, system)?;
        chat.complete(&request.into(), &session).await.map(|(_, answer)| answer)
    } else {
        request.insert("messages".into(), messages(system, prompt));
        chat.answer(&request.into(), &session).await.map(|(_, answer)| answer)
    };
    let answer = begun.map_err(|error| renamed(error, names))?;
    Reply::new(Form::Generate, names, answer, timer, keep_alive).respond(streams(&fields)?).await
}

/// The template refuses the messages as a whole.
const MESSAGES: (&str, &str) = ("messages", "prompt");

fn messages(system: Option<&str>, prompt: &str) -> Value {
    let system = system.map(|text| json!({"role": "system", "content": text}));
    let prompt = json!({"role": "user", "content": prompt});
    system.into_iter().chain([prompt]).collect()
}

/// Makes the request one for the continuation of a text, without a chat template.
fn continues(
    request: &mut Map<String, Value>,
    prompt: &str,
    suffix: Option<&str>,
    system: Option<&str>,
) -> Result<(), ApiError> {
    if system.is_some() {
        let message = "`system` needs the chat template, which `raw` and `suffix` leave out";
        return Err(unsupported("system", message));
    }
    request.insert("prompt".into(), prompt.into());
    if let Some(suffix) = suffix {
        request.insert("suffix".into(), suffix.into());
    }
    request.entry("max_tokens").or_insert_with(|| (-1).into()); // OpenAI's default is 16.
    let top = request.shift_remove("top_logprobs");
    if request.get("logprobs") == Some(&true.into()) {
        request.insert("logprobs".into(), top.unwrap_or_else(|| 0.into()));
    } else {
        request.shift_remove("logprobs");
    }
    Ok(())
}

/// Refuses what would have to be ignored, and changes the answer.
fn refuse(fields: &Fields<'_>) -> Result<(), ApiError> {
    if fields.string("template")?.is_some_and(|template| !template.is_empty()) {
        let message = "`template` is not supported: hobd writes prompts by the model's own template, or that of \
                       the setting `chat_template`; with `raw` the prompt is taken as it is";
        return Err(unsupported("template", message));
    }
    if fields.list("context")?.is_some_and(|context| !context.is_empty()) {
        let message =
            "`context` is not supported: send the messages to /api/chat, whose KV hobd finds again";
        return Err(unsupported("context", message));
    }
    Ok(())
}
