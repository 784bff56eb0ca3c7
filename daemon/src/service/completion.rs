//! From a completion request to its turns.

use hob_runtime::turn::TurnRequest;
use hob_slots::Token;
use serde_json::Value;

use super::ahead::purpose;
use super::answering::{Answering, Begun};
use super::assembly::Assembly;
use super::choices::Choices;
use super::continuation::{common_prefix, continue_tokens};
use super::identity::Identity;
use super::recording::Recording;
use super::{Service, compute};
use crate::error::ApiError;
use crate::explain::Subject;
use crate::wire::completion::{CompletionRequest, Prompt};

/// OpenAI's default for this endpoint.
const DEFAULT_TOKENS: usize = 16;

impl Service {
    /// Begins to continue the prompts of `body`.
    pub async fn complete(
        &self,
        body: &Value,
        session: Option<&str>,
    ) -> Result<(CompletionRequest, Answering), ApiError> {
        let engine = self.engine();
        let vocabulary = engine.model().vocabulary().len();
        let request = CompletionRequest::parse(body, vocabulary)?;
        let identity = Identity::of(body, session)?;
        let known = match identity.pinned() {
            Some(id) => self.inner.transcript.tokens(id, engine.fingerprint()).done().await?,
            None => Vec::new(),
        };
        self.recall_speed().await;
        let (service, job) = (self.clone(), request.clone());
        let pinned = identity.pinned().cloned();
        let (choices, subject) = compute(move || {
            let model = service.engine().model().as_ref();
            let cut = |prompt: &Prompt| match prompt {
                Prompt::Text(text) => continue_tokens(model, &known, text),
                Prompt::Tokens(tokens) => tokens.clone(),
            };
            let prompts: Vec<Vec<Token>> = job.prompts.iter().map(cut).collect();
            let mut turns = turns(&service, &job, &prompts);
            turns[0].conversation = pinned;
            let choices = Choices::start(service.engine().clone(), turns)?;
            let prompt = prompts.into_iter().next().unwrap_or_default();
            let remembered = common_prefix(&known, &prompt);
            Ok::<_, ApiError>((choices, Subject { prompt, segments: Vec::new(), remembered }))
        })
        .await?;
        let recording = Recording::new(
            self.inner.transcript.clone(),
            self.inner.clock.clone(),
            engine.fingerprint(),
            identity.pinned().cloned().filter(|_| !request.shape.is_prewarm()),
            None,
            subject.prompt.clone(),
        );
        let count = request.prompts.len() * request.shape.choices;
        let begun = Begun {
            head: self.head("cmpl"),
            conversation: identity.pinned().cloned(),
            choices,
            assemblies: (0..count).map(|_| Assembly::verbatim()).collect(),
            choices_per_prompt: request.shape.choices,
            recording,
            subject,
            guard: None,
        };
        Ok((request, Answering::new(self.clone(), begun)))
    }
}

/// All choices of the first prompt, then all of the next.
fn turns(
    service: &Service,
    request: &CompletionRequest,
    prompts: &[Vec<Token>],
) -> Vec<TurnRequest> {
    let max_tokens = request.shape.max_tokens.unwrap_or(DEFAULT_TOKENS);
    let max_tokens = max_tokens.min(service.engine().context_tokens());
    let turn = |prompt: &Vec<Token>| TurnRequest {
        sampling: request.shape.sampling.clone(),
        stop: request.shape.stop.clone(),
        logprobs: request.logprobs,
        ignore_eog: request.shape.ignore_eos,
        purpose: purpose(&request.shape),
        ..TurnRequest::answer(None, prompt.clone(), max_tokens)
    };
    let copies = request.shape.choices;
    prompts.iter().flat_map(|prompt| std::iter::repeat_n(turn(prompt), copies)).collect()
}
