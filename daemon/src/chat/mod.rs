//! From a request to its answer: chats, completions, embeddings and tokens.
//!
//! Reading order: [`request`] (what is asked), [`identity`] (whose conversation it is), this file
//! (the way of a chat to the engine), `newest` (a chat that outgrew the context), [`shorten`] (room in it), `grammar`,
//! `choices` (its turns), [`answer`] (their events to the client), `progress` (what the client
//! reads before them), `continuing` (an answer that was cut short), `privacy` (what may reach the disk),
//! [`assembly`] (text to messages and tool calls), `recording` (what is saved), `documents` (those that
//! messages name), [`context`] (how full it is). Beside it: [`detached`] (answers that outlive their client),
//! [`completion`], `embedding`, `tokens`, and [`prewarm`], a chat that generates nothing.
//!
//! - The request's text is durable before the client gets the first piece of the answer.
//! - The transcript's thread is visited once before a prompt exists, and once after the answer.
//! - Dropping an [`Answer`] cancels its turns.
//! - A turn that began before its conversation was deleted computes and stores nothing after.

pub mod answer;
pub mod assembly;
mod choices;
mod completion;
pub mod context;
mod continuing;
pub mod detached;
pub mod documents;
mod embedding;
mod grammar;
pub mod identity;
pub mod locks;
pub(crate) mod names;
mod newest;
pub mod prewarm;
mod privacy;
pub mod progress;
mod recording;
pub mod request;
pub mod shorten;
mod speed;
mod tokens;

use std::sync::Arc;

use hob_dialect::{Dialect, opens_reasoning};
use hob_prewarm::{Event, PrefixName};
use hob_runtime::Engine;
use hob_runtime::turn::{Retention, TurnError, TurnRequest};
use hob_slots::{ConversationId, Timestamp, Token, TtlClass, common_prefix};
use serde_json::Value;

use crate::blocking::compute;
use crate::clock::Clock;
use crate::conversations::transcript::{
    Append, Transcript, TranscriptError, TurnQuery, TurnStart, TurnTicket, named_documents,
};
use crate::error::ApiError;
use crate::explain::Subject;
use crate::learned::Learned;
use crate::metrics::Metrics;
use crate::profiles::Profiles;
use crate::prompt::{DocumentTexts, Extent, Rendered, Renderer};
use crate::settings::LiveSettings;
use crate::speech::sessions::SpeechSessions;
use crate::warm::events::WarmEvents;
use crate::wire::answer::Head;
use crate::wire::chat::ChatRequest;
use crate::wire::message::{Message, Role};
use crate::wire::tools::ToolChoice;
use answer::{Answer, NewAnswer};
use assembly::Assembly;
use choices::Choices;
use detached::DetachedAnswers;
use identity::Identity;
use locks::{ConversationGuard, ConversationLocks};
use newest::Newest;
use recording::Recording;
use request::{ResolvedRequest, purpose};
use speed::Speed;

/// What [`Chat`] is made of.
pub struct Options {
    pub engine: Engine,
    /// The name that clients see.
    pub model_name: String,
    pub renderer: Arc<Renderer>,
    pub profiles: Profiles,
    /// Learns from the prompts.
    pub learned: Learned,
    pub transcript: Transcript,
    pub clock: Clock,
    /// The utterances in progress. A turn closes its conversation's.
    pub sessions: Arc<SpeechSessions>,
    pub events: WarmEvents,
    pub metrics: Arc<Metrics>,
    /// Requests that may wait for the previous answer of their conversation, over all
    /// conversations.
    pub max_waiting: usize,
    /// Has the TTL class of conversations with stored text for which none was asked.
    pub settings: LiveSettings,
}

/// The TTL class of saved KV without stored text: no list of chats shows it, so it leaves by itself.
pub(crate) const CLASS_WITHOUT_TEXT: TtlClass = TtlClass::Extended;

/// Answers requests. Clones share everything.
#[derive(Clone)]
pub struct Chat {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    locks: ConversationLocks,
    detached: DetachedAnswers,
    speed: Arc<Speed>,
}

impl Chat {
    pub fn new(options: Options) -> Self {
        let locks = ConversationLocks::new(options.max_waiting);
        let speed = Speed::new(options.transcript.clone(), options.engine.fingerprint());
        Self {
            shared: Arc::new(Shared {
                options,
                locks,
                detached: DetachedAnswers::default(),
                speed: Arc::new(speed),
            }),
        }
    }

    pub fn engine(&self) -> &Engine {
        &self.shared.options.engine
    }

    pub fn model_name(&self) -> &str {
        &self.shared.options.model_name
    }

    pub(crate) fn events(&self) -> &WarmEvents {
        &self.shared.options.events
    }

    pub(crate) fn detached(&self) -> &DetachedAnswers {
        &self.shared.detached
    }

    pub(crate) fn locks(&self) -> &ConversationLocks {
        &self.shared.locks
    }

    /// Begins to answer a chat. `session`: the header `X-Session-Id`.
    ///
    /// # Errors
    /// When the request is invalid, or the engine's queue is full.
    pub async fn answer(
        &self,
        body: &Value,
        session: Option<&str>,
    ) -> Result<(ChatRequest, Answer), ApiError> {
        let options = &self.shared.options;
        let mut resolved = self.resolve(body)?;
        let identity = Identity::of(body, session)?;
        self.name_documents(&mut resolved.request, &identity).await?;
        let request = &resolved.request;
        let is_prewarm = request.shape.is_prewarm();
        let in_memory = request.in_memory;
        let scope = self.scope(identity, request.private, in_memory, !is_prewarm).await?;
        let identity = scope.identity.clone();
        let ticket = self.ticket(&identity)?;
        let transcript = options.transcript.of_turn(ticket.clone());
        let guard = self.lock(request, &identity).await?;
        if let Some(ticket) = &ticket {
            ticket.check()?; // The lock may have waited for an answer that a deletion ended.
        }
        let extent = resolved.extent();
        let start = self.begin_turn(request, &identity, &extent).await?;
        let TurnStart { mut continuation, timelines, documents, sampling, .. } = start;
        resolved.fill(sampling.as_ref());
        let request = &resolved.request;
        let continued = continuation.as_ref().and_then(|it| it.continued.as_ref());
        let continued = continued.map(|continued| continued.message.clone());
        let address = continued.as_ref().map(Message::to_json);
        if let Some(id) = identity.named().filter(|_| !is_prewarm) {
            options.sessions.close(id); // No speculative prefill begins from here on.
        }
        let has_documents = !documents.is_empty();
        if !is_prewarm && !scope.is_private {
            self.renew_documents(&documents);
        }
        let history = continuation.as_ref().map(|continuation| continuation.history.clone());
        let conversation = identity.pinned().cloned();
        let default_class = identity.named();
        let default_class =
            default_class.map_or(CLASS_WITHOUT_TEXT, |_| options.settings.default_class());
        let keep = Retention {
            class: request.ttl,
            default_class,
            in_memory: scope.in_memory,
            segments: Vec::new(),
        };
        let (chat, job) = (self.clone(), resolved.clone());
        let submitted = compute(move || {
            let messages = history.as_ref().unwrap_or(&job.request.messages);
            let Newest { mut rendered, start } =
                chat.prompt(&job, messages, &documents, &extent, &timelines)?;
            let thinks = opens_reasoning(&rendered.text);
            let begun = match &continued {
                Some(answer) => chat.begin_with(&job.request, &mut rendered, answer, &timelines)?,
                None => String::new(),
            };
            let remembered = remembered(&timelines, &rendered.tokens);
            let prompt = Prompt { rendered, remembered, begun: Begun { thinks, text: begun } };
            let speaker = is_prewarm.then(|| conversation.clone()).flatten();
            let submit = || chat.submit(&job.request, prompt, conversation, keep, ticket);
            let submitted = match speaker {
                Some(id) => chat.shared.options.sessions.unless_open(&id, submit),
                None => Some(submit()),
            };
            // While the user speaks or types, a speculative prefill computes this prompt, and more.
            let submitted = submitted.ok_or(TurnError::Superseded)??;
            Ok::<_, ApiError>((submitted, start))
        });
        let (Submitted { choices, subject, dialect, begun }, start) = submitted.await?;
        if let (Some(continuation), Some(start)) = (&mut continuation, start) {
            continuation.start_at(start);
        }
        let left_out = continuation.as_ref().map_or(0, |continuation| continuation.left_out);
        let is_private = scope.is_private;
        let mut recording =
            Recording::new(options, transcript.clone(), subject.prompt.clone(), is_private);
        if !is_prewarm {
            if let Some(profile) = resolved.profile.clone() {
                options.events.send(Event::Used { prefix: PrefixName::Profile(profile) });
            }
            let text = identity.named().map(|id| match continuation {
                Some(continuation) => transcript.append(id, continuation, self.now()),
                None => transcript.sync(id, request.messages.clone(), self.now()),
            });
            scope.has_text();
            recording.keep(scope.recorded(), text);
            // A document has saved KV of its own.
            if scope.in_memory != Some(true) && !has_documents {
                let prefix = resolved.preamble.as_ref().map(|preamble| &preamble.prefix);
                let covered = prefix.and_then(|prefix| prefix.tokens());
                let conversation = identity.named().cloned();
                options.learned.observe(conversation, &subject.prompt, covered.unwrap_or(0));
            }
        }
        let count = request.shape.choices;
        let reads_calls = request.tool_choice != ToolChoice::None;
        let answer = self.begin_answer(
            "chatcmpl",
            &identity,
            recording,
            NewAnswer {
                choices,
                assemblies: (0..count)
                    .map(|_| Assembly::begun(dialect, reads_calls, begun.thinks, &begun.text))
                    .collect(),
                continued: address,
                choices_per_prompt: count,
                subject,
                left_out,
                max_tokens: request.shape.max_tokens,
                reports_progress: request.progress && request.shape.stream,
                guard: guard.filter(|_| !is_prewarm),
            },
        );
        Ok((resolved.request, answer))
    }

    /// The prompt; with `hob.newest`, of as many of the newest messages as fit.
    fn prompt(
        &self,
        job: &ResolvedRequest,
        messages: &[Message],
        documents: &DocumentTexts,
        extent: &Extent,
        known: &[Vec<Token>],
    ) -> Result<Newest, ApiError> {
        let renderer = &self.shared.options.renderer;
        if job.request.newest && *extent == Extent::Whole {
            let context_tokens = self.engine().conversation_tokens();
            return newest::render(renderer, job, messages, documents, known, context_tokens);
        }
        let rendered = renderer.prompt(&job.prompt_parts(messages, documents), extent, known)?;
        Ok(Newest { rendered, start: None })
    }

    /// Puts an answer that goes on behind its prompt. Returns its text.
    fn begin_with(
        &self,
        request: &ChatRequest,
        rendered: &mut Rendered,
        answer: &Message,
        known: &[Vec<Token>],
    ) -> Result<String, ApiError> {
        let renderer = &self.shared.options.renderer;
        let reading = continuing::Reading {
            dialect: grammar::dialect(request, renderer.template().dialect()),
            reads_calls: request.tool_choice != ToolChoice::None,
        };
        continuing::extend(renderer.model().as_ref(), rendered, answer, known, reading)
    }

    /// Checks a body and looks up the profile that it names.
    pub(crate) fn resolve(&self, body: &Value) -> Result<ResolvedRequest, ApiError> {
        let vocabulary = self.engine().model().vocabulary().len();
        ResolvedRequest::parse(body, &self.shared.options.profiles, vocabulary)
    }

    /// The tokens of a prompt that a later turn will probably ask for.
    pub(crate) async fn prompt_tokens(
        &self,
        resolved: ResolvedRequest,
        identity: &Identity,
        extent: Extent,
    ) -> Result<Vec<Token>, ApiError> {
        let start = self.begin_turn(&resolved.request, identity, &extent).await?;
        let renderer = self.shared.options.renderer.clone();
        compute(move || {
            let history = start.continuation.as_ref().map(|continuation| &continuation.history);
            let messages = history.unwrap_or(&resolved.request.messages);
            let parts = resolved.prompt_parts(messages, &start.documents);
            renderer.prompt(&parts, &extent, &start.timelines).map(|prompt| prompt.tokens)
        })
        .await
    }

    /// An append waits until the previous answer of its conversation is complete.
    async fn lock(
        &self,
        request: &ChatRequest,
        identity: &Identity,
    ) -> Result<Option<ConversationGuard>, ApiError> {
        match identity.named() {
            Some(id) if request.append => Ok(Some(self.shared.locks.enter(id).await?)),
            Some(id) => Ok(self.shared.locks.try_enter(id)),
            None => Ok(None),
        }
    }

    /// Permission to write to the turn's conversation, from before its turns wait for another.
    pub(super) fn ticket(&self, identity: &Identity) -> Result<Option<TurnTicket>, ApiError> {
        let transcript = &self.shared.options.transcript;
        Ok(identity.pinned().map(|id| transcript.ticket(id)).transpose()?)
    }

    /// Reads what the prompt continues: the history of an append, and the timelines.
    async fn begin_turn(
        &self,
        request: &ChatRequest,
        identity: &Identity,
        extent: &Extent,
    ) -> Result<TurnStart, ApiError> {
        let has_placeholder = matches!(extent, Extent::Before(_));
        let append = if request.append { Some(append(request, identity, extent)?) } else { None };
        let query = TurnQuery {
            fingerprint: self.engine().fingerprint(),
            timeline_of: identity.pinned().cloned(),
            append,
            documents: named_documents(&request.messages),
            is_private: self.is_private(request, identity),
            reads_speed: self.shared.speed.is_unknown(),
        };
        let start = self.shared.options.transcript.begin_turn(query).await;
        let mut start = start.map_err(|error| refused(request, error))?;
        self.shared.speed.recall(start.prefill_tokens_per_second);
        if let Some(continuation) = &mut start.continuation {
            continuation.history.pop_if(|_| has_placeholder);
        }
        Ok(start)
    }

    /// Submits the turns of a chat. Further choices share the cells of the first.
    fn submit(
        &self,
        request: &ChatRequest,
        prompt: Prompt,
        conversation: Option<ConversationId>,
        keep: Retention,
        ticket: Option<TurnTicket>,
    ) -> Result<Submitted, ApiError> {
        let Prompt { rendered: Rendered { tokens, segments, .. }, remembered, begun } = prompt;
        let options = &self.shared.options;
        let dialect = grammar::dialect(request, options.renderer.template().dialect());
        let grammar = grammar::grammar(request, dialect)?;
        if request.continues && grammar.is_some() {
            let message = "`hob.continue` cannot force a tool call: set `tool_choice` to auto";
            return Err(ApiError::field("tool_choice", message).code("unsupported"));
        }
        let grammar =
            grammar.map(|grammar| if begun.thinks { grammar.after_reasoning() } else { grammar });
        let max_tokens = options.engine.context_tokens();
        let max_tokens = request.shape.max_tokens.unwrap_or(max_tokens).min(max_tokens);
        let first = TurnRequest {
            sampling: request.shape.sampling.clone(),
            stop: request.shape.stop.clone(),
            grammar: grammar.map(Arc::new),
            logprobs: request.logprobs,
            ignore_eog: request.shape.ignore_eos,
            keep: Retention { segments: segments.clone(), ..keep },
            purpose: purpose(&request.shape),
            cold: request.cold,
            is_stored: is_stored(request),
            restores_only: request.shape.is_prewarm() && request.restores_only,
            reports_progress: request.progress && request.shape.stream,
            ..TurnRequest::answer(conversation, tokens.clone(), max_tokens)
        };
        let other = TurnRequest {
            conversation: None,
            cold: false,
            reports_progress: false,
            ..first.clone()
        };
        let others = choices::copies(other, request.shape.choices).skip(1);
        let turns = std::iter::once(first).chain(others).collect();
        let choices = choices::start(options.engine.clone(), turns, ticket.as_ref())
            .map_err(|error| grammar::refused(request, error))?;
        let subject = Subject { prompt: tokens, segments, remembered };
        Ok(Submitted { choices, subject, dialect, begun })
    }

    fn begin_answer(
        &self,
        prefix: &str,
        identity: &Identity,
        recording: Recording,
        new: NewAnswer,
    ) -> Answer {
        let options = &self.shared.options;
        let head = Head {
            id: names::answer(prefix),
            created: self.now().0 / 1000,
            model: options.model_name.clone(),
            fingerprint: format!("fp_{}", options.engine.fingerprint()),
        };
        let conversation = identity.pinned().cloned();
        let active_turn = options.events.turn(conversation.clone());
        Answer::new(
            answer::Context {
                engine: options.engine.clone(),
                model: options.engine.model().clone(),
                metrics: options.metrics.clone(),
                speed: self.shared.speed.clone(),
                head,
                conversation,
                recording,
                _active_turn: active_turn,
            },
            new,
        )
    }

    fn now(&self) -> Timestamp {
        (self.shared.options.clock)()
    }
}

/// How many tokens of the prompt a timeline of its conversation has.
fn remembered(timelines: &[Vec<Token>], prompt: &[Token]) -> usize {
    timelines.iter().map(|timeline| common_prefix(timeline, prompt)).max().unwrap_or(0)
}

/// Whether the prompt of a request that generates nothing is stored text: that of its conversation,
/// or documents alone.
fn is_stored(request: &ChatRequest) -> bool {
    let messages = &request.messages;
    let is_history = request.append && messages.is_empty();
    let has_only_documents = !request.append && messages.iter().all(Message::is_documents_alone);
    request.shape.is_prewarm() && (is_history || has_only_documents)
}

/// A chat whose turns are queued.
struct Submitted {
    choices: Choices,
    subject: Subject,
    dialect: Dialect,
    begun: Begun,
}

/// A prompt on its way to the engine.
struct Prompt {
    rendered: Rendered,
    /// Tokens at its beginning that a timeline has.
    remembered: usize,
    begun: Begun,
}

/// What precedes the tokens of an answer.
struct Begun {
    /// The prompt ends within the think mark.
    thinks: bool,
    /// The text of an answer that goes on.
    text: String,
}

fn append(request: &ChatRequest, identity: &Identity, extent: &Extent) -> Result<Append, ApiError> {
    let id = identity.named().ok_or_else(|| {
        ApiError::field("hob.append", "`hob.append` needs a `conversation` to append to")
    })?;
    let mut new = request.messages.clone();
    if matches!(extent, Extent::Before(_)) {
        new.push(Message::plain(Role::User, "")); // Stands for the message that is not complete.
    }
    let (continues, instructions) = (request.continues, request.instructions.clone());
    Ok(Append { conversation: id.clone(), after: request.after, new, continues, instructions })
}

fn refused(request: &ChatRequest, error: TranscriptError) -> ApiError {
    match error {
        TranscriptError::NothingToAnswer if request.after.is_some() => {
            let message = "there is nothing to answer there: name a message of the user or of \
                           a tool in `hob.after`, or send one";
            ApiError::field("messages", message)
        }
        TranscriptError::NothingToAnswer => {
            ApiError::field("messages", "this conversation has nothing to answer yet")
        }
        TranscriptError::NothingToContinue => {
            let message = "there is no answer to go on with: name one in `hob.after` that no \
                           message follows, or let the conversation end with it";
            ApiError::field("hob.continue", message)
        }
        TranscriptError::NoSuchMessage { .. } => ApiError::field("hob.after", error.to_string()),
        error => error.into(),
    }
}
