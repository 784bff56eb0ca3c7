//! Messages to turns in the engine's queue.
//!
//! - Rendering and tokenizing take milliseconds a thousand tokens: they run on the blocking pool.
//! - A prewarm of a conversation whose user speaks or types is not submitted: the speculative prefill
//!   computes its prompt, and more. The check and the submission are one step.
//! - Further choices share the cells of the first.

use std::sync::Arc;

use hob_dialect::opens_reasoning;
use hob_runtime::adapters::Adapters;
use hob_runtime::grammar::Grammar;
use hob_runtime::sample::Sampling;
use hob_runtime::turn::{Retention, TurnError, TurnRequest};
use hob_slots::format::SegmentRef;
use hob_slots::{ConversationId, Token, common_prefix};

use super::account::Extract;
use super::assembly::Reading;
use super::branch_prompt::BranchPrompt;
use super::choices::{self, Copies};
use super::grammar::NoCall;
use super::newest::Newest;
use super::reanchor::{self, Anchored, Limits};
use super::request::{ResolvedRequest, purpose};
use super::reuse_guard::{ReuseDecision, Watch};
use super::source::Source;
use super::{Chat, bad_words, continuing, grammar};
use crate::blocking::compute;
use crate::conversations::transcript::{Continuation, TurnStart, TurnTicket, Window};
use crate::error::ApiError;
use crate::explain::Subject;
use crate::prompt::{Extent, Rendered};
use crate::wire::chat::ChatRequest;
use crate::wire::message::Message;

/// A chat that is to be rendered.
pub struct Job {
    pub resolved: ResolvedRequest,
    pub start: TurnStart,
    pub extent: Extent,
    /// The conversation, or the hint.
    pub conversation: Option<ConversationId>,
    pub adapters: Adapters,
    pub keep: Retention,
    pub ticket: Option<TurnTicket>,
}

/// A chat whose turns are queued.
pub struct Submitted {
    pub source: Source,
    pub subject: Subject,
    pub reading: Reading,
    pub begun: Begun,
    /// What later prompts of the conversation have; `None`: the same, and what follows.
    pub next_window: Option<Window>,
    pub extract: Extract,
    /// Set for a turn that may move KV because its profile says so.
    pub reuse_watch: Option<Watch>,
    /// Why the turn may not move KV, although its profile says so.
    pub exact_because: Option<String>,
}

/// What precedes the tokens of an answer.
#[derive(Default)]
pub struct Begun {
    /// The prompt ends within the think mark.
    pub thinks: bool,
    /// The text of an answer that goes on.
    pub text: String,
}

/// A prompt on its way to the engine.
struct Prompt {
    rendered: Rendered,
    /// Tokens at its beginning that a timeline has.
    remembered: usize,
    begun: Begun,
    selection: Selection,
}

/// A prompt, and which messages of its conversation it has.
struct Selection {
    next_window: Option<Window>,
    extract: Extract,
    /// The prompt is a part of a conversation that goes on past the context.
    is_part: bool,
}

impl Submitted {
    /// A chat that the engine at another address answers: nothing is known of its tokens.
    pub fn forwarded(source: Source) -> Self {
        Self {
            source,
            subject: Subject::default(),
            reading: Reading::default(),
            begun: Begun::default(),
            next_window: None,
            extract: Extract::default(),
            reuse_watch: None,
            exact_because: None,
        }
    }
}

impl Job {
    /// All messages of the prompt.
    pub fn messages(&self) -> &[Message] {
        match &self.start.continuation {
            Some(continuation) => &continuation.history,
            None => {
                let messages = &self.resolved.request.messages;
                let after = usize::from(self.resolved.request.continues_final);
                &messages[..messages.len() - after]
            }
        }
    }

    /// The answer that goes on: a stored one, or the request's last message.
    pub fn continued(&self) -> Option<&Message> {
        let request = &self.resolved.request;
        match &self.start.continuation {
            Some(continuation) => Some(&continuation.continued.as_ref()?.message),
            None => request.messages.last().filter(|_| request.continues_final),
        }
    }

    /// The conversation of a prewarm.
    fn prewarmed(&self) -> Option<ConversationId> {
        self.conversation.clone().filter(|_| self.resolved.request.shape.is_prewarm())
    }
}

impl Chat {
    /// Renders a chat and queues its turns.
    ///
    /// # Errors
    /// When the template refuses the messages, or the engine the turns.
    pub(super) async fn render_and_submit(&self, job: Job) -> Result<(Job, Submitted), ApiError> {
        let chat = self.clone();
        compute(move || {
            let prompt = chat.render(&job)?;
            let submit = || chat.submit(&job, prompt);
            let submitted = match job.prewarmed() {
                Some(id) => chat.shared.options.sessions.unless_open(&id, chat.now(), submit),
                None => Some(submit()),
            };
            let submitted = submitted.ok_or(TurnError::Superseded)??;
            Ok((job, submitted))
        })
        .await
    }

    /// How many tokens the prompt has.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub(super) fn prompt_length(&self, job: &Job) -> Result<usize, ApiError> {
        Ok(self.render(job)?.rendered.tokens.len())
    }

    /// The text of the prompt, with that of an answer that goes on behind it.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub(super) fn prompt_text_of(&self, job: &Job) -> Result<String, ApiError> {
        if job.extent == Extent::Whole {
            let Prompt { rendered, begun, .. } = self.render(job)?;
            return Ok(rendered.text + &begun.text);
        }
        // A partial prompt has tokens alone: this is the text that they begin.
        let parts = job.resolved.prompt_parts(job.messages(), &job.start.documents);
        let text = self.shared.options.renderer.text(&parts)?;
        let reading = self.reading(&job.resolved.request);
        let begun = job.continued().map(|answer| continuing::text_of(&text, answer, &reading));
        Ok(text + &begun.unwrap_or_default())
    }

    /// The prompt, and its segments.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub(super) fn prompt_of(&self, job: &Job) -> Result<(Vec<Token>, Vec<SegmentRef>), ApiError> {
        let rendered = self.render(job)?.rendered;
        Ok((rendered.tokens, rendered.segments))
    }

    fn render(&self, job: &Job) -> Result<Prompt, ApiError> {
        let (mut rendered, selection) = self.prompt(job)?;
        let thinks = opens_reasoning(&rendered.text);
        let text = match job.continued() {
            Some(answer) => self.begin_with(job, &mut rendered, answer)?,
            None => String::new(),
        };
        let remembered = remembered(&job.start.timelines, &rendered.tokens);
        Ok(Prompt { rendered, remembered, begun: Begun { thinks, text }, selection })
    }

    /// The prompt; with `hob.newest`, of as many of the newest messages as fit, and with `hob.beyond`, of those
    /// with which the conversation goes on.
    fn prompt(&self, job: &Job) -> Result<(Rendered, Selection), ApiError> {
        let Job { resolved, start, extent, .. } = job;
        let of =
            |next_window| Selection { next_window, extract: Extract::default(), is_part: false };
        if let Some(continuation) = &start.continuation
            && resolved.reanchors()
        {
            return self.anchored(job, continuation);
        }
        let (messages, documents) = (job.messages(), &start.documents);
        let (renderer, known) = (&self.shared.options.renderer, &start.timelines);
        if let Some(Continuation { branch, .. }) = &start.continuation
            && resolved.request.newest
            && *extent == Extent::Whole
        {
            let prompt = BranchPrompt { renderer, request: resolved, branch, documents, known };
            let context_tokens = self.engine().conversation_tokens();
            let Newest { rendered, window } = prompt.newest_part(context_tokens)?;
            return Ok((rendered, of(window)));
        }
        let parts = resolved.prompt_parts(messages, documents);
        Ok((renderer.prompt(&parts, extent, known)?, of(None)))
    }

    /// The prompt of a conversation that goes on past the context.
    fn anchored(
        &self,
        job: &Job,
        continuation: &Continuation,
    ) -> Result<(Rendered, Selection), ApiError> {
        let Job { resolved, start, extent, .. } = job;
        let renderer = &self.shared.options.renderer;
        let (documents, known) = (&start.documents, start.timelines.as_slice());
        if *extent != Extent::Whole {
            let parts = resolved.prompt_parts(&continuation.history, documents);
            let rendered = renderer.prompt(&parts, extent, known)?;
            let (extract, is_part) = (Extract::default(), continuation.is_part());
            return Ok((rendered, Selection { next_window: None, extract, is_part }));
        }
        let continued = job.continued();
        let continued =
            continued.map_or(0, |answer| reanchor::size(renderer.model().as_ref(), answer));
        let context_tokens = self.engine().conversation_tokens();
        let limits = Limits::of(context_tokens, resolved.request.shape.max_tokens, continued);
        let branch = &continuation.branch;
        let prompt = BranchPrompt { renderer, request: resolved, branch, documents, known };
        let Anchored { rendered, changed, is_part, began, recalled } = prompt.anchor(limits)?;
        let extract = Extract { recalled, began, ..Extract::default() };
        Ok((rendered, Selection { next_window: changed, extract, is_part }))
    }

    /// Puts an answer that goes on behind its prompt. Returns its text.
    fn begin_with(
        &self,
        job: &Job,
        rendered: &mut Rendered,
        answer: &Message,
    ) -> Result<String, ApiError> {
        let model = self.shared.options.renderer.model().as_ref();
        let reading = self.reading(&job.resolved.request);
        continuing::extend(model, rendered, answer, &job.start.timelines, &reading)
    }

    fn reading(&self, request: &ChatRequest) -> Reading {
        let template = self.shared.options.renderer.template();
        grammar::reading(request, template.dialect(&request.tools))
    }

    fn submit(&self, job: &Job, prompt: Prompt) -> Result<Submitted, ApiError> {
        let request = &job.resolved.request;
        let Prompt { rendered, remembered, begun, selection } = prompt;
        let Selection { next_window, extract, is_part } = selection;
        let Rendered { tokens, segments, .. } = rendered;
        let options = &self.shared.options;
        let reading = self.reading(request);
        let (sampling, grammar) = self.form(request, &reading, &begun)?;
        let guard = self.reuse_guard();
        let ReuseDecision { reuse, reanchored, is_by_profile, exact_because } =
            guard.decide(&job.resolved, is_part);
        let first = TurnRequest {
            grammar: grammar.map(Arc::new),
            sampling,
            adapters: job.adapters.clone(),
            budget: job.resolved.budget(),
            drafts: job.resolved.drafts(),
            reuse,
            lossless: job.resolved.lossless(),
            reanchored,
            keep: Retention { segments: segments.clone(), ..job.keep.clone() },
            ..turn(
                request,
                job.conversation.clone(),
                tokens.clone(),
                options.engine.conversation_tokens(),
            )
        };
        let is_watched = is_by_profile && first.accepts_moved();
        let watched = job.resolved.profile.as_ref().filter(|_| is_watched);
        let reuse_watch = watched.and_then(|profile| guard.watch(profile, &first));
        let turns = with_others(first, request.shape.choices);
        let choices = choices::start(options.engine.clone(), turns, job.ticket.as_ref())
            .map_err(|error| refused(&job.resolved, error))?;
        let subject = Subject { prompt: tokens, segments, remembered, is_appended: request.append };
        let source = Source::Engine(choices);
        Ok(Submitted {
            source,
            subject,
            reading,
            begun,
            next_window,
            extract,
            reuse_watch,
            exact_because,
        })
    }

    /// What the answer may be: its grammar, and a sampling that begins no call where none may be.
    fn form(
        &self,
        request: &ChatRequest,
        reading: &Reading,
        begun: &Begun,
    ) -> Result<(Sampling, Option<Grammar>), ApiError> {
        let requested = grammar::grammar(request, reading.dialect)?;
        if (request.continues || request.continues_final) && requested.is_some() {
            let field = request.form.as_ref().map_or("tool_choice", |form| form.field.as_str());
            let message = format!("an answer that has begun cannot follow `{field}`");
            return Err(ApiError::field(field, message).code("unsupported"));
        }
        let no_call = if reading.drops_calls {
            let model = self.shared.options.renderer.model().as_ref();
            grammar::no_call(model, reading.dialect, &begun.text)
        } else {
            NoCall::default()
        };
        let mut sampling = request.shape.sampling.clone();
        sampling.logit_bias.extend(no_call.tokens.into_iter().map(|token| (token, NEVER)));
        sampling.banned =
            bad_words::banned(self.shared.options.renderer.model().as_ref(), &request.shape)?;
        let grammar = requested.or(no_call.grammar).map(|grammar| {
            if begun.thinks { grammar.after_reasoning(reading.dialect) } else { grammar }
        });
        let of_calls = || grammar::of_calls(request, reading, begun.thinks, &begun.text);
        Ok((sampling, grammar.or_else(of_calls)))
    }
}

/// The bias of a token that is never chosen.
const NEVER: f32 = -100.0;

/// Names the profile where its budget is refused, and not the request's.
fn refused(resolved: &ResolvedRequest, error: TurnError) -> ApiError {
    let is_budget = matches!(error, TurnError::BudgetTooSmall(_));
    let error = grammar::refused(&resolved.request, error);
    match &resolved.profile {
        Some(profile) if is_budget && resolved.request.budget.is_none() => {
            let message = format!("{}; the profile `{profile}` sets it", error.message);
            ApiError { message, ..error }
        }
        _ => error,
    }
}

/// What the request asks of a turn.
fn turn(
    request: &ChatRequest,
    conversation: Option<ConversationId>,
    tokens: Vec<Token>,
    context_tokens: usize,
) -> TurnRequest {
    let shape = &request.shape;
    let max_tokens = shape.max_tokens.unwrap_or(context_tokens).min(context_tokens);
    TurnRequest {
        sampling: shape.sampling.clone(),
        min_tokens: shape.min_tokens,
        stop: shape.stop.clone(),
        stop_tokens: shape.stop_tokens.clone(),
        max_time_to_line: shape.max_time_to_line,
        logprobs: request.logprobs,
        ignore_eog: shape.ignore_eos,
        purpose: purpose(shape),
        cold: request.cold,
        is_stored: is_stored(request),
        restores_only: shape.is_prewarm() && request.restores_only,
        reports_progress: request.progress && shape.stream,
        ..TurnRequest::answer(conversation, tokens, max_tokens)
    }
}

/// The turn that belongs to the conversation, and those of the further choices.
fn with_others(first: TurnRequest, count: usize) -> Vec<Copies> {
    let other =
        TurnRequest { conversation: None, cold: false, reports_progress: false, ..first.clone() };
    vec![Copies::new(first, 0..1), Copies::new(other, 1..count as u64)]
}

/// How many tokens of the prompt a timeline of its conversation has.
pub fn remembered(timelines: &[Vec<Token>], prompt: &[Token]) -> usize {
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
