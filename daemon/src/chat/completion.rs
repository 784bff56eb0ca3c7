//! From a completion request to its answer.

use std::iter;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hob_runtime::Engine;
use hob_runtime::adapters::Adapters;
use hob_runtime::backend::Model;
use hob_runtime::turn::{Retention, TurnRequest};
use hob_slots::content::Accepted;
use hob_slots::{ConversationId, Token};
use serde_json::Value;

use super::account::Extract;
use super::answer::{Answer, NewAnswer};
use super::assembly::Assembly;
use super::choices::{self, Choices, Copies};
use super::grammar;
use super::identity::{Identity, Session};
use super::privacy::PrivacyFields;
use super::recording::Recording;
use super::request::{purpose, reuse_of};
use super::source::Source;
use super::submit::remembered;
use super::{CLASS_WITHOUT_TEXT, Chat, bad_words};
use crate::blocking::compute;
use crate::conversations::transcript::{TurnQuery, TurnTicket};
use crate::error::ApiError;
use crate::explain::Subject;
use crate::prompt::infill::infill;
use crate::prompt::retokenize::{continue_tokens, likeliest};
use crate::upstream::Upstream;
use crate::wire::completion::{CompletionRequest, DEFAULT_TOKENS, Prompt};

impl Chat {
    /// Begins to continue the prompts of `body`.
    ///
    /// # Errors
    /// When the request is invalid, or the engine's queue is full.
    pub async fn complete(
        &self,
        body: &Value,
        session: &Session,
    ) -> Result<(CompletionRequest, Answer), ApiError> {
        let options = &self.shared.options;
        let mut request = CompletionRequest::parse(body, self.token_bound())?;
        request.shape.fill(&[options.model_sampling.fields()]);
        if let Some(upstream) = self.upstream() {
            return self.complete_there(upstream, body, request, session).await;
        }
        if let Some(suffix) = &request.suffix {
            fill_in(options.engine.model().as_ref(), &mut request.prompts, suffix)?;
        }
        let adapters = self.adapters(&request.shape).await?;
        let identity = Identity::of(body, session)?;
        let scope = self.scope(identity, PrivacyFields::from(&request), false).await?;
        let identity = scope.identity.clone();
        let ticket = self.ticket(&identity)?;
        let transcript = options.transcript.of_turn(ticket.clone());
        let job = CompletionJob {
            engine: options.engine.clone(),
            request: request.clone(),
            timelines: self.timelines(&identity).await?,
            conversation: identity.pinned().cloned(),
            adapters,
            in_memory: scope.in_memory,
            ticket,
        };
        let SubmittedCompletion { choices, subject, prompts } =
            compute(move || job.submit()).await?;
        let is_private = scope.is_private;
        let mut recording = Recording::new(options, transcript, subject.prompt.clone(), is_private);
        if !request.shape.is_prewarm() {
            recording.keep(scope.recorded(), None);
            if !scope.stays_in_memory() && request.shape.lora.is_empty() {
                // The last token may go on in a longer prompt.
                let end = subject.prompt.len().saturating_sub(1);
                options.learned.observe(identity.named().cloned(), &subject.prompt, end, 0);
            }
        }
        let new = NewAnswer {
            prompts,
            max_tokens: Some(request.shape.max_tokens.unwrap_or(DEFAULT_TOKENS)),
            reports_progress: request.progress && request.shape.stream,
            ..new_answer(&request, Source::Engine(choices), subject)
        };
        let answer = self.begin_answer("cmpl", &identity, recording, new);
        Ok((request, answer))
    }

    /// The conversation's last timeline, and then those of other branches.
    async fn timelines(&self, identity: &Identity) -> Result<Vec<Vec<Token>>, ApiError> {
        let options = &self.shared.options;
        let query = TurnQuery {
            timeline_of: identity.pinned().cloned(),
            reads_speed: self.shared.speed.is_unknown(),
            ..TurnQuery::nothing(options.engine.fingerprint())
        };
        let start = options.transcript.begin_turn(query).await?;
        self.shared.speed.recall(start.prefill_tokens_per_second);
        Ok(start.timelines)
    }

    /// Completes a text by an engine at another address; nothing is stored.
    async fn complete_there(
        &self,
        upstream: &Upstream,
        body: &Value,
        request: CompletionRequest,
        session: &Session,
    ) -> Result<(CompletionRequest, Answer), ApiError> {
        let identity = Identity::of(body, session)?;
        let scope = self.scope(identity, PrivacyFields::from(&request), false).await?;
        let source = self.forward_completion(upstream, body, &request, &scope).await?;
        let options = &self.shared.options;
        let transcript = options.transcript.of_turn(None);
        let recording = Recording::new(options, transcript, Vec::new(), scope.is_private);
        let subject = Subject::default();
        let max_tokens = Some(request.shape.max_tokens.unwrap_or(DEFAULT_TOKENS));
        let new = NewAnswer { max_tokens, ..new_answer(&request, source, subject) };
        let answer = self.begin_answer("cmpl", &scope.identity, recording, new);
        Ok((request, answer))
    }
}

/// A request that is to be tokenized and queued. Tokenizing takes milliseconds a thousand tokens: it runs on
/// the blocking pool.
struct CompletionJob {
    engine: Engine,
    request: CompletionRequest,
    timelines: Vec<Vec<Token>>,
    /// The conversation of the first turn; the others belong to none.
    conversation: Option<ConversationId>,
    adapters: Adapters,
    in_memory: Option<bool>,
    ticket: Option<TurnTicket>,
}

struct SubmittedCompletion {
    choices: Choices,
    /// What an explanation of the first prompt needs.
    subject: Subject,
    prompts: Vec<Vec<Token>>,
}

impl CompletionJob {
    fn submit(self) -> Result<SubmittedCompletion, ApiError> {
        let Self { engine, request, timelines, conversation, adapters, in_memory, ticket } = self;
        let tokenize = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => {
                let model = engine.model().as_ref();
                continue_tokens(model, likeliest(model, &timelines, text), text)
            }
            Prompt::Tokens(tokens) => tokens.clone(),
        };
        let prompts: Vec<Vec<Token>> = request.prompts.iter().map(tokenize).collect();
        let mut turns = turns(&request, &prompts, engine.conversation_tokens());
        let grammar = request.form.as_ref().map(grammar::of_form).transpose()?.map(Arc::new);
        let banned = bad_words::banned(engine.model().as_ref(), &request.shape)?;
        for turn in &mut turns {
            turn.grammar = grammar.clone();
            turn.sampling.banned.clone_from(&banned);
            turn.keep.in_memory = in_memory;
            turn.adapters = adapters.clone();
        }
        let reports_progress = request.progress && request.shape.stream;
        let first = TurnRequest { conversation, reports_progress, ..turns[0].clone() };
        // All choices of the first prompt, then all of the next.
        let count = request.shape.choices as u64;
        let others = turns.into_iter().enumerate();
        let others = others.map(|(at, turn)| Copies::new(turn, u64::from(at == 0)..count));
        let turns = iter::once(Copies::new(first, 0..1)).chain(others).collect();
        let choices = choices::start(engine, turns, ticket.as_ref())
            .map_err(|error| grammar::refused_form(request.form.as_ref(), "prompt", error))?;
        let prompt = prompts.first().cloned().unwrap_or_default();
        let remembered = remembered(&timelines, &prompt);
        let subject = Subject { prompt, remembered, ..Subject::default() };
        Ok(SubmittedCompletion { choices, subject, prompts })
    }
}

/// Answers whose text is handed out as it is.
fn new_answer(request: &CompletionRequest, source: Source, subject: Subject) -> NewAnswer {
    let count = request.prompts.len() * request.shape.choices;
    NewAnswer {
        source,
        assemblies: (0..count).map(|_| Assembly::verbatim()).collect(),
        choices_per_prompt: request.shape.choices,
        prompts: Vec::new(),
        subject,
        continued: None,
        extract: Extract::default(),
        max_tokens: None,
        stop_tokens: request.shape.stop_tokens.clone(),
        reports_progress: false,
        guard: None,
        reuse_watch: None,
        exact_because: None,
    }
}

/// Maximum bytes of the suffix, counted once for each prompt: it stands in each.
const MAX_SUFFIX_BYTES: usize = 16 << 20;

/// Asks for the text between each prompt and the suffix.
fn fill_in(model: &dyn Model, prompts: &mut [Prompt], suffix: &str) -> Result<(), ApiError> {
    let (count, most) = (prompts.len(), MAX_SUFFIX_BYTES >> 20);
    if suffix.len().saturating_mul(count) > MAX_SUFFIX_BYTES {
        let message = format!(
            "`suffix`, which stands in each of {count} prompts, may have {most} MiB in all of them"
        );
        return Err(ApiError::field("suffix", message));
    }
    for prompt in prompts {
        if let Prompt::Text(text) = prompt {
            *text = infill(model, text, suffix).ok_or_else(|| {
                let message = "this model has no marks for a text that is filled in: \
                               `suffix` needs one that was trained for it";
                ApiError::field("suffix", message).code("unsupported_model")
            })?;
        }
    }
    Ok(())
}

/// One of each prompt.
fn turns(
    request: &CompletionRequest,
    prompts: &[Vec<Token>],
    context_tokens: usize,
) -> Vec<TurnRequest> {
    let max_tokens = request.shape.max_tokens.unwrap_or(DEFAULT_TOKENS).min(context_tokens);
    let turn = |prompt: &Vec<Token>| TurnRequest {
        sampling: request.shape.sampling.clone(),
        min_tokens: request.shape.min_tokens,
        stop: request.shape.stop.clone(),
        stop_tokens: request.shape.stop_tokens.clone(),
        max_time_to_line: request.shape.max_time_to_line,
        logprobs: request.logprobs,
        logprobs_of_sampling: request.logprobs_of_sampling,
        ignore_eog: request.shape.ignore_eos,
        cold: request.cold,
        budget: request.budget.map(NonZeroUsize::get),
        drafts: request.draft,
        reuse: reuse_of(request.reuse),
        lossless: request.reuse == Some(Accepted::Exact),
        purpose: purpose(&request.shape),
        keep: Retention {
            class: request.ttl,
            default_class: CLASS_WITHOUT_TEXT,
            ..Retention::default()
        },
        ..TurnRequest::answer(None, prompt.clone(), max_tokens)
    };
    prompts.iter().map(turn).collect()
}
