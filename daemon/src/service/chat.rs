//! From a chat request to its turns.

use std::sync::Arc;

use hob_dialect::{Dialect, opens_reasoning};
use hob_prewarm::{Event, ProfileName};
use hob_runtime::grammar::{Calls, Grammar, ToolSignature};
use hob_runtime::turn::{Retention, TurnError, TurnRequest};
use hob_slots::{ConversationId, Token};
use serde_json::Value;

use super::ahead::{Extent, prompt, purpose};
use super::answering::{Answering, Begun};
use super::assembly::Assembly;
use super::choices::Choices;
use super::continuation::common_prefix;
use super::conversation_locks::ConversationGuard;
use super::identity::Identity;
use super::preamble::Preamble;
use super::prewarm::extent;
use super::recording::Recording;
use super::rendering::Rendered;
use super::{Service, compute};
use crate::error::{ApiError, ErrorKind};
use crate::explain::Subject;
use crate::transcript::{Continuation, OpenAnswer, TranscriptError};
use crate::wire::chat::{ChatRequest, ResponseFormat, Tool, ToolChoice, profile_name};
use crate::wire::message::{Message, Role};

const SCHEMA: &str = "response_format.json_schema.schema";

impl Service {
    /// Begins to answer `body`. `session` is the header `X-Session-Id`.
    pub async fn chat(
        &self,
        body: &Value,
        session: Option<&str>,
    ) -> Result<(ChatRequest, Answering), ApiError> {
        let asked = self.asked(body)?;
        let request = &asked.request;
        let identity = Identity::of(body, session)?;
        let guard = self.guard(request, &identity).await?;
        let extent = extent(request);
        let continuation = self.continuation(request, &identity, &extent).await?;
        let known = self.known(&identity).await?;
        self.recall_speed().await;
        let is_prewarm = request.shape.is_prewarm();
        if let Some(id) = identity.named().filter(|_| !is_prewarm) {
            self.inner.rooms.close(id); // From here on, nothing is computed ahead of this turn.
        }
        let begun = self.begin(&asked, &identity, continuation.as_ref(), extent, known).await?;
        let (kept, answer) = match is_prewarm {
            true => (None, None),
            false => {
                if let Some(profile) = asked.profile.clone() {
                    self.tell_planner(Event::Used { profile });
                }
                (identity.pinned().cloned(), self.store(request, &identity, continuation))
            }
        };
        let recording = Recording::new(
            self.inner.transcript.clone(),
            self.inner.clock.clone(),
            self.engine().fingerprint(),
            kept,
            answer,
            begun.subject.prompt.clone(),
        );
        let copies = request.shape.choices;
        let reads_calls = request.tool_choice != ToolChoice::None;
        let assembly = || Assembly::new(begun.dialect, reads_calls, begun.thinks);
        let begun = Begun {
            head: self.head("chatcmpl"),
            conversation: identity.pinned().cloned(),
            choices: begun.choices,
            assemblies: (0..copies).map(|_| assembly()).collect(),
            choices_per_prompt: copies,
            recording,
            subject: begun.subject,
            guard: guard.filter(|_| !is_prewarm),
        };
        Ok((asked.request, Answering::new(self.clone(), begun)))
    }

    /// Checks a body, and finds the profile that it names.
    pub(super) fn asked(&self, body: &Value) -> Result<ResolvedRequest, ApiError> {
        let profile = profile_name(body)?;
        let preamble = profile.as_ref().map(|name| self.preamble(name)).transpose()?;
        let tools = preamble.as_deref().map_or(&[][..], Preamble::tools);
        let vocabulary = self.engine().model().vocabulary().len();
        let request = ChatRequest::parse_with(body, vocabulary, tools)?;
        Ok(ResolvedRequest { request, profile, preamble })
    }

    /// The last timeline of whoever it is.
    pub(super) async fn known(&self, identity: &Identity) -> Result<Vec<Token>, ApiError> {
        match identity.pinned() {
            Some(id) => {
                let fingerprint = self.engine().fingerprint();
                Ok(self.inner.transcript.tokens(id, fingerprint).done().await?)
            }
            None => Ok(Vec::new()),
        }
    }

    /// An append waits for the answer that it continues.
    async fn guard(
        &self,
        request: &ChatRequest,
        identity: &Identity,
    ) -> Result<Option<ConversationGuard>, ApiError> {
        match identity.named() {
            Some(id) if request.append => Ok(Some(self.inner.conversation_locks.enter(id).await?)),
            Some(id) => Ok(self.inner.conversation_locks.try_enter(id)),
            None => Ok(None),
        }
    }

    /// What an append continues; `None` for a request with the full history.
    pub(super) async fn continuation(
        &self,
        request: &ChatRequest,
        identity: &Identity,
        extent: &Extent,
    ) -> Result<Option<Continuation>, ApiError> {
        if !request.append {
            return Ok(None);
        }
        let id = identity.named().ok_or_else(|| {
            ApiError::field("hob.append", "`hob.append` needs a `conversation` to append to")
        })?;
        let mut new = request.messages.clone();
        let is_cut = matches!(extent, Extent::Before(_));
        // Holds the place of the one that will come.
        new.extend(is_cut.then(|| Message::plain(Role::User, "")));
        match self.inner.transcript.continuation(id, request.after, new).done().await {
            Ok(mut continuation) => {
                continuation.history.pop_if(|_| is_cut);
                Ok(Some(continuation))
            }
            Err(TranscriptError::NothingToAnswer) if request.after.is_some() => {
                let message = "there is nothing to answer there: name a message of the user or of \
                               a tool in `hob.after`, or send one";
                Err(ApiError::field("messages", message))
            }
            Err(TranscriptError::NothingToAnswer) => {
                Err(ApiError::field("messages", "this conversation has nothing to answer yet"))
            }
            Err(error @ TranscriptError::NoSuchMessage { .. }) => {
                Err(ApiError::field("hob.after", error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Renders and submits.
    async fn begin(
        &self,
        asked: &ResolvedRequest,
        identity: &Identity,
        continuation: Option<&Continuation>,
        extent: Extent,
        known: Vec<Token>,
    ) -> Result<Submitted, ApiError> {
        let messages = continuation
            .map_or(&asked.request.messages, |continuation| &continuation.history)
            .clone();
        let (service, asked) = (self.clone(), asked.clone());
        let conversation = identity.pinned().cloned();
        compute(move || {
            let prompt = prompt(&service, &asked, &messages, &extent, &known)?;
            let remembered = common_prefix(&known, &prompt.tokens);
            submit(&service, &asked.request, prompt, conversation, remembered)
        })
        .await
    }

    /// Queues the text; the answer waits for it before its first word.
    fn store(
        &self,
        request: &ChatRequest,
        identity: &Identity,
        continuation: Option<Continuation>,
    ) -> Option<OpenAnswer> {
        let (id, now) = (identity.named()?, self.now());
        Some(match continuation {
            Some(continuation) => self.inner.transcript.append(id, continuation, now),
            None => self.inner.transcript.sync(id, request.messages.clone(), now),
        })
    }
}

/// A request, checked, and what its profile puts in front of it.
#[derive(Clone, Debug)]
pub(super) struct ResolvedRequest {
    pub request: ChatRequest,
    pub profile: Option<ProfileName>,
    pub preamble: Option<Arc<Preamble>>,
}

struct Submitted {
    choices: Choices,
    subject: Subject,
    dialect: Dialect,
    thinks: bool,
}

fn submit(
    service: &Service,
    request: &ChatRequest,
    rendered: Rendered,
    conversation: Option<ConversationId>,
    remembered: usize,
) -> Result<Submitted, ApiError> {
    let Rendered { text, tokens: prompt, segments } = rendered;
    let engine = service.engine();
    let dialect = dialect(request, service.inner.template.dialect());
    let thinks = opens_reasoning(&text);
    let grammar = grammar(request, dialect)?;
    let grammar = grammar.map(|grammar| if thinks { grammar.after_reasoning() } else { grammar });
    let grammar = grammar.map(Arc::new);
    let most = engine.context_tokens();
    let keep = Retention { class: request.ttl, segments: segments.clone() };
    let turn = |conversation, cold| TurnRequest {
        conversation,
        prompt: prompt.clone(),
        sampling: request.shape.sampling.clone(),
        max_tokens: request.shape.max_tokens.unwrap_or(most).min(most),
        stop: request.shape.stop.clone(),
        grammar: grammar.clone(),
        logprobs: request.logprobs,
        ignore_eog: request.shape.ignore_eos,
        keep: keep.clone(),
        purpose: purpose(&request.shape),
        cold,
    };
    // Further choices share what the first has just computed.
    let others = (1..request.shape.choices).map(|_| turn(None, false));
    let turns = std::iter::once(turn(conversation, request.cold)).chain(others).collect();
    let choices = Choices::start(engine.clone(), turns).map_err(|error| refused(request, error))?;
    let subject = Subject { prompt, segments, remembered };
    Ok(Submitted { choices, subject, dialect, thinks })
}

/// A form that cannot be followed is told by the field that asked for it.
fn refused(request: &ChatRequest, error: TurnError) -> ApiError {
    let is_grammar = matches!(error, TurnError::Grammar(_));
    match (&request.format, ApiError::from(error)) {
        (_, refused) if !is_grammar => refused,
        (ResponseFormat::Text, refused) => refused.param("tools"),
        (_, refused) => refused.param(SCHEMA),
    }
}

/// A call that is forced has a form, even if the template shows none that we can read.
fn dialect(request: &ChatRequest, of_template: Dialect) -> Dialect {
    match (&request.tool_choice, of_template) {
        (ToolChoice::Required | ToolChoice::Named(_), Dialect::Plain) => Dialect::Hermes,
        (_, dialect) => dialect,
    }
}

/// What the answer must look like.
fn grammar(request: &ChatRequest, dialect: Dialect) -> Result<Option<Grammar>, ApiError> {
    let forced = match &request.tool_choice {
        ToolChoice::None => return format_grammar(&request.format),
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(request.tools.iter().collect::<Vec<_>>()),
        ToolChoice::Named(name) => {
            Some(request.tools.iter().filter(|tool| tool.name == *name).collect())
        }
    };
    if request.format != ResponseFormat::Text {
        let message = "`response_format` cannot be combined with tools that may be called: \
                       set `tool_choice` to none";
        return Err(ApiError::field("response_format", message).code("unsupported"));
    }
    let Some(tools) = forced else { return Ok(None) };
    let signature = |tool: &&Tool| ToolSignature {
        name: tool.name.clone(),
        parameters: tool.definition.pointer("/function/parameters").cloned(),
    };
    let signatures: Vec<_> = tools.iter().map(signature).collect();
    let calls = match (&request.tool_choice, request.parallel_tool_calls) {
        (ToolChoice::Required, true) => Calls::Several,
        _ => Calls::One,
    };
    Grammar::tool_call(dialect, &signatures, calls)
        .map(Some)
        .map_err(|error| ApiError::field("tools", error.to_string()).code("grammar"))
}

fn format_grammar(format: &ResponseFormat) -> Result<Option<Grammar>, ApiError> {
    match format {
        ResponseFormat::Text => Ok(None),
        ResponseFormat::JsonObject => Ok(Some(Grammar::json_object())),
        ResponseFormat::JsonSchema(schema) => {
            Grammar::json_schema(schema).map(Some).map_err(|error| {
                ApiError::new(ErrorKind::Invalid, format!("the schema cannot be used: {error}"))
                    .param(SCHEMA)
                    .code("grammar")
            })
        }
    }
}
