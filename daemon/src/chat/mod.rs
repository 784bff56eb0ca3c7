//! From a request to its answer: chats, completions, embeddings and tokens.
//!
//! Reading order of a chat:
//! - [`request`] (what is asked), [`identity`] (which conversation), this file (the steps), `privacy` (what may
//!   reach the disk), [`documents`] (those that messages name), [`locks`].
//! - The prompt: `history` (what it continues), `branch_prompt` (of some of its messages), `newest` (the conversation
//!   outgrew the context), `reanchor` (it goes on past the context), `continuing` (the last answer was cut short).
//! - The turns: `submit` (queues them) with `grammar`, `bad_words` and `choices`, or `forward` (to an engine at another
//!   address); `source` joins the events of both. [`reuse_guard`] decides on moved KV, by what `reuse_comparison`
//!   measures and `reuse_findings` stores.
//! - The answer: `queued` (opens it), [`answer`] (events to the client), [`assembly`] (text to messages and tool
//!   calls), [`progress`] (before the first token), `recording` (what is saved), `account` (what it cost) with
//!   [`figures`] (of each choice), `moves` (what moved) and `away` (what has no cells at the end).
//!
//! Beside it: [`prewarm`] (a chat that generates nothing), [`detached`] (answers that outlive their client),
//! [`shorten`] (room in the context), [`context`] (how full it is), [`correctness`] (moved KV against exact),
//! `completion`, `embedding`, `ranking`, `tokens`, `weights`.
//!
//! - The request's text is durable before the client gets the first piece of the answer.
//! - A turn makes two calls of the transcript's thread: one before its prompt exists, one after the answer.
//! - Dropping an [`Answer`] cancels its turns.
//! - After a conversation was deleted, a turn that began before computes and stores nothing more.

mod account;
pub mod answer;
pub mod assembly;
mod away;
mod bad_words;
mod branch_prompt;
mod choices;
mod completion;
pub mod context;
mod continuing;
pub mod correctness;
pub mod detached;
pub mod documents;
mod embedding;
pub mod figures;
mod forward;
mod grammar;
mod history;
pub mod identity;
pub mod locks;
mod moves;
pub(crate) mod names;
mod newest;
pub mod prewarm;
mod privacy;
pub mod progress;
mod queued;
mod ranking;
mod reanchor;
mod recording;
pub mod request;
mod reuse_comparison;
mod reuse_findings;
pub mod reuse_guard;
pub mod shorten;
mod source;
mod speed;
mod submit;
mod tokens;
mod weights;

use std::sync::Arc;

use hob_runtime::Engine;
use hob_runtime::adapters::Adapters;
use hob_runtime::turn::Retention;
use hob_slots::reanchor::Beyond;
use hob_slots::{Timestamp, TtlClass};
use serde_json::Value;

use crate::adapters::RequestAdapters;
use crate::clock::Clock;
use crate::conversations::sharing::Sharing;
use crate::conversations::transcript::{Transcript, TurnTicket};
use crate::error::ApiError;
use crate::learned::Learned;
use crate::metrics::Metrics;
use crate::models::ModelSampling;
use crate::profiles::Profiles;
use crate::prompt::infill::infill;
use crate::prompt::{DocumentTexts, Renderer};
use crate::settings::LiveSettings;
use crate::speech::sessions::SpeechSessions;
use crate::upstream::Upstream;
use crate::warm::events::WarmEvents;
use crate::wire::chat::ChatRequest;
use crate::wire::sampling::Shape;
use answer::Answer;
use detached::DetachedAnswers;
pub use forward::NEEDS_ENGINE;
use identity::{Identity, Session};
use locks::{ConversationGuard, ConversationLocks};
use prewarm::WaitingPrewarms;
use privacy::{PrivacyFields, Scope};
use queued::Queued;
use request::ResolvedRequest;
use reuse_guard::ReuseGuard;
use speed::Speed;
use submit::Job;

/// What [`Chat`] is made of.
pub struct Options {
    pub engine: Engine,
    /// The name that clients see.
    pub model_name: String,
    pub model_sampling: ModelSampling,
    pub renderer: Arc<Renderer>,
    pub profiles: Profiles,
    /// The adapters that requests may add.
    pub adapters: RequestAdapters,
    /// Learns from the prompts.
    pub learned: Learned,
    pub reuse_guard: ReuseGuard,
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
    /// With the other daemons that answer the same conversations.
    pub sharing: Option<Sharing>,
    /// Answers in place of `engine`, which then computes nothing.
    pub upstream: Option<Upstream>,
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
    waiting_prewarms: WaitingPrewarms,
    speed: Arc<Speed>,
}

/// A request's place in its conversation.
struct Claim {
    ticket: Option<TurnTicket>,
    guard: Option<ConversationGuard>,
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
                waiting_prewarms: WaitingPrewarms::default(),
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

    /// Whether the chat template writes tools.
    pub fn supports_tools(&self) -> bool {
        self.shared.options.renderer.template().supports_tools()
    }

    /// Whether the model has the marks for a text that is filled in.
    pub fn supports_suffix(&self) -> bool {
        infill(self.engine().model().as_ref(), "", "").is_some()
    }

    pub(crate) fn events(&self) -> &WarmEvents {
        &self.shared.options.events
    }

    pub(crate) fn reuse_guard(&self) -> &ReuseGuard {
        &self.shared.options.reuse_guard
    }

    pub(crate) fn detached(&self) -> &DetachedAnswers {
        &self.shared.detached
    }

    pub(crate) fn locks(&self) -> &ConversationLocks {
        &self.shared.locks
    }

    /// Begins to answer a chat. `session`: what the headers name.
    ///
    /// # Errors
    /// When the request is invalid, or the engine's queue is full.
    pub async fn answer(
        &self,
        body: &Value,
        session: &Session,
    ) -> Result<(ChatRequest, Answer), ApiError> {
        let mut resolved = self.resolve(body)?;
        let adapters = self.adapters(&resolved.request.shape).await?;
        let identity = Identity::of(body, session)?;
        let documents = self.name_documents(&mut resolved.request, &identity).await?;
        let request = &resolved.request;
        let opens = !request.shape.is_prewarm();
        let scope = self.scope(identity, PrivacyFields::from(request), opens).await?;
        check_conversation(request, &scope.identity)?;
        let tickets = self.document_tickets(request, &documents, &scope.identity)?;
        let Claim { ticket, guard } = self.claim(request, &scope.identity, tickets).await?;
        if guard.is_some() && !scope.is_private {
            self.catch_up(&scope.identity).await;
        }
        let extent = resolved.extent();
        let start = self.begin_turn(&resolved, &scope.identity, &extent).await?;
        let model = self.shared.options.model_sampling.fields();
        resolved.fill(start.sampling.as_ref(), model);
        self.note_question(&resolved.request, &scope, &start.documents);
        let keep = self.retention(&resolved.request, &scope);
        let conversation = scope.identity.pinned().cloned();
        let transcript = self.shared.options.transcript.of_turn(ticket.clone());
        let job = Job { resolved, start, extent, conversation, adapters, keep, ticket };
        let (job, submitted) = match self.upstream() {
            Some(upstream) => {
                let submitted = self.forward(upstream, body, &job, &scope).await?;
                (job, submitted)
            }
            None => self.render_and_submit(job).await?,
        };
        let Job { resolved, start, .. } = job;
        let queued =
            Queued { resolved: &resolved, scope: &scope, transcript, start, submitted, guard };
        let answer = self.open(queued);
        Ok((resolved.request, answer))
    }

    /// Checks a body and looks up the profile that it names.
    pub(crate) fn resolve(&self, body: &Value) -> Result<ResolvedRequest, ApiError> {
        ResolvedRequest::parse(body, &self.shared.options.profiles, self.token_bound())
    }

    /// The adapters that a request names.
    ///
    /// # Errors
    /// Names the field of an adapter that is unknown or cannot be used.
    pub(crate) async fn adapters(&self, shape: &Shape) -> Result<Adapters, ApiError> {
        self.shared.options.adapters.resolve(&shape.lora).await
    }

    /// Enters the conversation: its ticket first, then its lock. An append waits until the previous
    /// answer is complete. `tickets`: of the request's documents.
    async fn claim(
        &self,
        request: &ChatRequest,
        identity: &Identity,
        mut tickets: Vec<TurnTicket>,
    ) -> Result<Claim, ApiError> {
        tickets.extend(self.ticket(identity)?);
        let ticket = tickets.into_iter().reduce(TurnTicket::and);
        let guard = match identity.named() {
            Some(id) if request.append => Some(self.shared.locks.enter(id).await?),
            Some(id) => self.shared.locks.try_enter(id),
            None => None,
        };
        if let Some(ticket) = &ticket {
            ticket.check()?; // The lock may have waited for an answer that a deletion ended.
        }
        Ok(Claim { ticket, guard })
    }

    /// Reads what another daemon has added to the conversation. A conversation that this one is answering is
    /// not looked up.
    async fn catch_up(&self, identity: &Identity) {
        if let (Some(sharing), Some(id)) = (&self.shared.options.sharing, identity.named()) {
            sharing.catch_up(id, self.shared.speed.now()).await;
        }
    }

    /// Permission to write to the turn's conversation, from before its turns wait for another.
    pub(super) fn ticket(&self, identity: &Identity) -> Result<Option<TurnTicket>, ApiError> {
        let transcript = &self.shared.options.transcript;
        Ok(identity.pinned().map(|id| transcript.ticket(id)).transpose()?)
    }

    /// Before a question is rendered: no speculative prefill of its conversation begins from here
    /// on, and its documents stay longer.
    fn note_question(&self, request: &ChatRequest, scope: &Scope, documents: &DocumentTexts) {
        if request.shape.is_prewarm() {
            return;
        }
        if let Some(id) = scope.identity.named() {
            self.shared.options.sessions.close(id);
        }
        if !scope.is_private {
            self.renew_documents(documents);
        }
    }

    /// How long the turns' KV stays, and where.
    fn retention(&self, request: &ChatRequest, scope: &Scope) -> Retention {
        let of_text = || self.shared.options.settings.default_class();
        let default_class = scope.identity.named().map_or(CLASS_WITHOUT_TEXT, |_| of_text());
        let (class, in_memory) = (request.ttl, scope.in_memory);
        Retention { class, default_class, in_memory, segments: Vec::new() }
    }

    pub fn now(&self) -> Timestamp {
        (self.shared.options.clock)()
    }
}

/// # Errors
/// Names a field that needs a conversation, or that a conversation has another one for.
fn check_conversation(request: &ChatRequest, identity: &Identity) -> Result<(), ApiError> {
    match identity.named() {
        Some(_) if request.continues_final => {
            let message = "a conversation goes on with `hob.continue`";
            Err(ApiError::field("continue_final_message", message).code("unsupported"))
        }
        None if request.beyond == Some(Beyond::Reanchor) => {
            let message =
                "`hob.beyond: \"reanchor\"` needs a `conversation`, which remembers how it goes on";
            Err(ApiError::field("hob.beyond", message))
        }
        _ => Ok(()),
    }
}
