//! Answers of an engine at another address: the same request, conversation and profile, without a turn of the
//! engine in this process.
//!
//! - The engine gets messages, not tokens: its own chat template writes the prompt.
//! - Requests that need KV in this process are refused, with the field in `param`. What only makes an answer
//!   faster (`hob.budget`, `hob.cold`, `hob.draft`, `hob.reuse`, labels) has no effect.
//! - The wait for the beginning of an answer is part of the answer once it takes more than a moment: so the question
//!   is stored while the engine computes the prompt.

use std::time::{Duration, Instant};

use hob_slots::ConversationId;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Chat;
use super::assembly::{Assembly, Delta};
use super::privacy::Scope;
use super::source::{Forwarded, Forwarding, Source};
use super::submit::{Job, Submitted};
use crate::error::{ApiError, ErrorKind};
use crate::prompt::documents::{DocumentPlace, with_documents};
use crate::upstream::{CacheHint, EngineKind, Privacy, Upstream, request};
use crate::wire::chat::ChatRequest;
use crate::wire::completion::{CompletionRequest, DEFAULT_TOKENS};
use crate::wire::form::AnswerForm;
use crate::wire::message::{Message, Role};
use crate::wire::sampling::Shape;
use crate::wire::tools::ToolChoice;

/// An engine that is down, or refuses a request, says so within this.
const MOMENT: Duration = Duration::from_secs(5);

/// Where a daemon that answers itself has no limit, the vocabulary bounds the ids of tokens.
pub const ANY_TOKEN: usize = i32::MAX as usize;

impl Chat {
    /// The engine at another address that answers; `None`: the one in this process does.
    pub fn upstream(&self) -> Option<&Upstream> {
        self.shared.options.upstream.as_ref()
    }

    /// Token ids of requests are below this.
    pub(crate) fn token_bound(&self) -> usize {
        match self.upstream() {
            Some(_) => ANY_TOKEN,
            None => self.engine().model().vocabulary().len(),
        }
    }

    /// Begins to answer a chat there. `body`: the client's.
    ///
    /// # Errors
    /// When the request needs KV in this process, or the engine gives no answer.
    pub(super) async fn forward(
        &self,
        upstream: &Upstream,
        body: &Value,
        job: &Job,
        scope: &Scope,
    ) -> Result<Submitted, ApiError> {
        let request = &job.resolved.request;
        let served = upstream.served().await?;
        refuse_local(&request.shape)?;
        if request.newest {
            return Err(local("hob.newest", "only the engine can count the tokens of a prompt"));
        }
        check_followed(upstream, served.kind, request.form.as_ref(), &request.shape)?;
        let forwarded = Value::Object(forwarded_chat(job, body)?);
        let source = self.begin_forward(upstream, "/v1/chat/completions", forwarded, scope).await?;
        Ok(Submitted::forwarded(source))
    }

    /// Forwards the continuation of a text to the engine at another address.
    pub(super) async fn forward_completion(
        &self,
        upstream: &Upstream,
        body: &Value,
        request: &CompletionRequest,
        scope: &Scope,
    ) -> Result<Source, ApiError> {
        refuse_local(&request.shape)?;
        let served = upstream.served().await?;
        check_followed(upstream, served.kind, request.form.as_ref(), &request.shape)?;
        let mut forwarded = request::body_of(body);
        set_shape(&mut forwarded, body, &request.shape);
        if request.shape.max_tokens.is_none() {
            forwarded.insert("max_tokens".into(), DEFAULT_TOKENS.into());
        }
        self.begin_forward(upstream, "/v1/completions", forwarded.into(), scope).await
    }

    async fn begin_forward(
        &self,
        upstream: &Upstream,
        path: &'static str,
        body: Value,
        scope: &Scope,
    ) -> Result<Source, ApiError> {
        let id = scope.identity.pinned().map(ConversationId::as_str);
        let random = || super::names::answer("private");
        let privacy = match (scope.is_private, scope.stays_in_memory()) {
            (true, _) => Privacy::Alone,
            (false, true) => Privacy::InMemory,
            (false, false) => Privacy::None,
        };
        let hint = CacheHint::of(id, privacy, random);
        let name = body["model"].as_str();
        let mut model = upstream.served_for(name).await?.model(name).to_owned();
        let (asked, url) = (upstream.clone(), upstream.url().to_owned());
        let begun = Instant::now();
        let mut opening = JoinSet::new();
        opening.spawn(async move { asked.begin(path, body, hint).await });
        let state = match timeout(MOMENT, opening.join_next()).await {
            Ok(opened) => {
                let opened = opened.expect("it has a task").expect("the task does not panic")?;
                opened.model().clone_into(&mut model);
                Forwarding::Open(opened)
            }
            Err(_) => Forwarding::Opening(opening),
        };
        Ok(Source::Upstream(Box::new(Forwarded { state, begun, model, url })))
    }
}

/// The body of a chat for the engine. `body`: the client's.
fn forwarded_chat(job: &Job, body: &Value) -> Result<Map<String, Value>, ApiError> {
    let request = &job.resolved.request;
    let mut forwarded = request::body_of(body);
    set_shape(&mut forwarded, body, &request.shape);
    forwarded.insert("messages".into(), messages(job)?.into());
    if request.tools.is_empty() {
        forwarded.shift_remove("tools");
        forwarded.shift_remove("tool_choice");
        forwarded.shift_remove("parallel_tool_calls");
    } else {
        let tools = request.tools.iter().map(|tool| tool.definition.clone());
        forwarded.insert("tools".into(), tools.collect());
        set_choice(&mut forwarded, request);
    }
    if job.continued().is_some() {
        forwarded.insert("continue_final_message".into(), true.into());
        forwarded.insert("add_generation_prompt".into(), false.into());
    }
    Ok(forwarded)
}

/// The prompt's messages, with the profile's in front and the texts of documents in them.
fn messages(job: &Job) -> Result<Vec<Value>, ApiError> {
    let all = with_documents(job.messages(), &job.start.documents, DocumentPlace::Joined)?;
    let all = match &job.resolved.preamble {
        Some(preamble) => preamble.before(&all),
        None => all.into_owned(),
    };
    let mut written = without_silent(&all);
    written.extend(job.continued().map(for_engine));
    Ok(written)
}

/// The messages without answers that broke off before their first word: engines that check messages refuse one without
/// content. The questions around such an answer become one, because many chat templates refuse two in a row.
fn without_silent(all: &[Message]) -> Vec<Value> {
    let mut written: Vec<Value> = Vec::with_capacity(all.len());
    let mut is_behind_silent = false;
    for message in all {
        let has_text = !message.text().is_empty() || !message.reasoning().is_empty();
        if message.role == Role::Assistant && !has_text && !message.has_calls() {
            is_behind_silent = true;
            continue;
        }
        let next = for_engine(message);
        match written.last_mut() {
            Some(before) if is_behind_silent && are_one_users(before, &next) => {
                let texts = [&*before, &next].map(|it| it["content"].as_str().unwrap_or_default());
                before["content"] = texts.join("\n\n").into();
            }
            _ => written.push(next),
        }
        is_behind_silent = false;
    }
    written
}

fn are_one_users(before: &Value, next: &Value) -> bool {
    let is_user = |message: &Value| message["role"] == Role::User.as_str();
    is_user(before) && is_user(next) && before["name"] == next["name"]
}

/// A call that was cut has the beginning of its arguments. vLLM, which parses them, would refuse each further message of
/// the conversation: here they are empty.
fn for_engine(message: &Message) -> Value {
    let mut message = message.for_template();
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    for call in calls.into_iter().flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments")
            && arguments.as_str().is_some_and(|text| !is_json(text))
        {
            *arguments = "{}".into();
        }
    }
    message
}

/// Writes a choice among custom tools, or of a client that sent `functions`, as that among functions.
fn set_choice(body: &mut Map<String, Value>, request: &ChatRequest) {
    let function = |name: &String| json!({"type": "function", "function": {"name": name}});
    let allowed = request.allowed_tools.as_ref().map(|names| names.iter().map(function));
    let choice = match (&request.tool_choice, allowed) {
        (ToolChoice::Named(name), _) => function(name),
        (choice, Some(names)) => {
            let mode = if *choice == ToolChoice::Required { "required" } else { "auto" };
            let names: Vec<Value> = names.collect();
            json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": names}})
        }
        (ToolChoice::None, None) if request.calls_functions => "none".into(),
        _ => return,
    };
    body.insert("tool_choice".into(), choice);
}

/// Sets the parameters that anyone has set, under the client's name of the limit.
fn set_shape(body: &mut Map<String, Value>, client: &Value, shape: &Shape) {
    if shape.given.seed.is_none() {
        body.shift_remove("seed"); // -1, which hobd takes for none.
    }
    body.extend(shape.given.to_fields());
    const NEWER: &str = "max_completion_tokens";
    if client.get(NEWER).is_some_and(|limit| !limit.is_null())
        && let Some(limit) = body.shift_remove("max_tokens")
    {
        body.insert(NEWER.into(), limit);
    }
}

fn refuse_local(shape: &Shape) -> Result<(), ApiError> {
    if shape.is_prewarm() {
        return Err(local("max_tokens", "a prompt can be computed ahead in this process alone"));
    }
    if !shape.lora.is_empty() {
        return Err(local("lora", "the engine there has adapters of its own, as models"));
    }
    Ok(())
}

/// A request that only an engine in this process can serve.
pub fn local(param: &str, why: &str) -> ApiError {
    let message = format!("`{param}` needs an engine in hobd, which runs with `upstream`: {why}");
    ApiError::new(ErrorKind::NotImplemented, message).param(param).code(NEEDS_ENGINE)
}

/// The code of a refusal because of the setting `upstream`.
pub const NEEDS_ENGINE: &str = "upstream";

/// Refuses what the engine would ignore: a form, or a field about the answer's tokens.
fn check_followed(
    upstream: &Upstream,
    kind: EngineKind,
    form: Option<&AnswerForm>,
    shape: &Shape,
) -> Result<(), ApiError> {
    let unfollowed = |field: &str, way: &str| {
        let message = format!("the upstream {} does not know `{field}`{way}", upstream.url());
        ApiError::new(ErrorKind::Invalid, message).param(field).code("unsupported")
    };
    if let Some(form) = form.filter(|form| !request::follows(kind, &form.field)) {
        return Err(unfollowed(&form.field, ": demand the form in `response_format`"));
    }
    let foreign = form.and_then(|form| form.foreign.as_deref());
    if let Some(option) = foreign.filter(|option| !request::follows(kind, option)) {
        return Err(unfollowed(option, ": leave it out"));
    }
    let limit = shape.limit_of_tokens().filter(|_| !request::limits_tokens(kind));
    let end = shape.end_by_tokens().filter(|_| !request::ends_by_tokens(kind));
    let time = shape.max_time_to_line.filter(|_| !request::limits_time(kind));
    match limit.or(end).or(time.map(|_| "t_max_predict_ms")) {
        Some(field) => Err(unfollowed(field, "")),
        None => Ok(()),
    }
}

/// Collects an answer whose calls and reasoning the engine has parsed. `continued`: the stored message that goes on. The
/// client of another one has it.
pub fn assembly(continued: Option<&Message>) -> Assembly {
    let mut assembly = Assembly::verbatim();
    if let Some(message) = continued {
        let (content, reasoning) = (message.text().to_owned(), message.reasoning().to_owned());
        let tool_calls = message.to_json()["tool_calls"].as_array().cloned().unwrap_or_default();
        assembly.accept(Delta { content, reasoning, tool_calls });
    }
    assembly
}
