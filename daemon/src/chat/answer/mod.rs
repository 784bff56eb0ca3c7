//! An answer in progress: events of its turns in, pieces for the client out.
//!
//! - It hands out no piece before the request's text is on disk, and no end before the answer's is.
//! - The wait for a piece may be cancelled and repeated without a loss.
//! - Dropping it cancels the turns; the transcript keeps the text generated so far.

mod ending;
mod held;
mod partial;
mod piece;
mod upstream;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hob_runtime::backend::Model;
use hob_runtime::turn::{Logprobs, TurnEvent, TurnReport};
use hob_runtime::{Engine, Vocabulary};
use hob_slots::{ConversationId, Token};
use serde_json::{Value, json};

use super::account::{Account, Extract};
use super::assembly::Assembly;
use super::figures::{End, Figures};
use super::locks::ConversationGuard;
use super::progress::BeforeTheEngine;
use super::recording::Recording;
use super::reuse_guard::Watch;
use super::source::{AnswerEvent, Source};
use super::speed::Speed;
use crate::conversations::transcript::Pending;
use crate::error::ApiError;
use crate::explain::Subject;
use crate::metrics::Metrics;
use crate::warm::events::ActiveTurn;
use crate::wire::answer::{Head, Usage};
use crate::wire::message::Message;

use held::TokenRun;
use partial::{Growth, LastToken, PartialChoice};

pub use piece::{Choice, Piece};

/// The field of a stored answer's `finish` that [`Answer::keep`] sets.
pub const RESPONSE: &str = "response";

/// What an answer needs beside its turns.
pub(super) struct Context {
    pub engine: Engine,
    pub model: Arc<dyn Model>,
    pub metrics: Arc<Metrics>,
    pub speed: Arc<Speed>,
    pub head: Head,
    /// The conversation, or the hint.
    pub conversation: Option<ConversationId>,
    pub recording: Recording,
    pub _active_turn: ActiveTurn,
}

/// The turns of a request, queued, or the request to an engine at another address.
pub(super) struct NewAnswer {
    pub source: Source,
    /// One a choice.
    pub assemblies: Vec<Assembly>,
    pub choices_per_prompt: usize,
    /// The prompts that the protocol shows to the client.
    pub prompts: Vec<Vec<Token>>,
    /// What an explanation of the first prompt needs; only that prompt may belong to a conversation.
    pub subject: Subject,
    /// The stored message that goes on.
    pub continued: Option<Value>,
    pub extract: Extract,
    /// The request's limit of one answer.
    pub max_tokens: Option<usize>,
    /// Tokens of the request that end an answer.
    pub stop_tokens: BTreeSet<Token>,
    /// Hand out [`Piece::Progress`].
    pub reports_progress: bool,
    pub guard: Option<ConversationGuard>,
    /// Watches the answer, once its first choice has moved KV.
    pub reuse_watch: Option<Watch>,
    /// Why no KV is moved although the profile says so.
    pub exact_because: Option<String>,
}

pub struct Answer {
    context: Context,
    source: Source,
    partial: Vec<PartialChoice>,
    /// The first choice of each prompt reports where the prompt came from.
    choices_per_prompt: usize,
    prompts: Vec<Vec<Token>>,
    subject: Subject,
    /// The report of the first choice, until its end: to explain it reads the whole prompt, which then delays no
    /// token.
    unexplained: Option<TurnReport>,
    continued: Option<Value>,
    extract: Extract,
    max_tokens: Option<usize>,
    stop_tokens: BTreeSet<Token>,
    _guard: Option<ConversationGuard>,
    reuse_watch: Option<Watch>,
    ready: VecDeque<Piece>,
    /// The end of the recorded choice, until its text is on disk.
    closing: Option<(Pending<()>, Piece)>,
    account: Account,
    /// The stop text that ended the first choice.
    stop_text: Option<String>,
    /// Until the first choice begins, if the request asks for reports.
    before: Option<BeforeTheEngine>,
    /// Stored with the answer.
    kept: Option<Value>,
    has_failed: bool,
}

impl Answer {
    pub(super) fn new(context: Context, new: NewAnswer) -> Self {
        let prompt_tokens = new.subject.prompt.len();
        let upstream = new.source.upstream().map(|forwarded| forwarded.url.clone());
        let account = Account::of(new.subject.segments.clone(), upstream, new.exact_because);
        let before = new.reports_progress;
        let before = before.then(|| BeforeTheEngine::new(&context.engine, prompt_tokens));
        let first = before.as_ref().map(|before| Piece::Progress(before.first()));
        Self {
            context,
            source: new.source,
            partial: new.assemblies.into_iter().map(PartialChoice::new).collect(),
            choices_per_prompt: new.choices_per_prompt,
            prompts: new.prompts,
            subject: new.subject,
            unexplained: None,
            continued: new.continued,
            extract: new.extract,
            max_tokens: new.max_tokens,
            stop_tokens: new.stop_tokens,
            _guard: new.guard,
            reuse_watch: new.reuse_watch,
            ready: first.into_iter().collect(),
            closing: None,
            account,
            stop_text: None,
            before,
            kept: None,
            has_failed: false,
        }
    }

    /// The fields that every object of this answer repeats.
    pub fn head(&self) -> &Head {
        &self.context.head
    }

    /// Stores what the answer's protocol repeats of its request beside the answer. Before its first piece.
    pub fn keep(&mut self, request: Value) {
        self.kept = Some(request);
    }

    /// The tokens so far.
    pub fn usage(&self) -> Usage {
        self.account.usage
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        self.context.model.vocabulary()
    }

    /// What a choice has cost so far.
    pub fn figures(&self, choice: usize) -> &Figures {
        &self.partial[choice].figures
    }

    /// The prompt of a choice as text, control tokens included, where the protocol shows it.
    pub fn prompt(&self, choice: usize) -> Option<String> {
        let prompt = self.prompts.get(choice / self.choices_per_prompt)?;
        let bytes = self.context.model.vocabulary().bytes(prompt);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The stop text of the request that ended the first choice.
    pub fn stop_text(&self) -> Option<&str> {
        self.stop_text.as_deref()
    }

    /// Whether the first choice ended because the context was full.
    pub fn is_context_full(&self) -> bool {
        self.account.is_context_full()
    }

    /// Whether the KV of the prompt is kept under the name of a conversation or of a hint.
    pub fn is_named(&self) -> bool {
        self.context.conversation.is_some()
    }

    /// Where the prompt came from and what the answer cost: the `hob` object.
    pub fn hob(&self) -> Value {
        let conversation = self.context.conversation.as_ref();
        let turn = self.account.turn(conversation, self.context.recording.rows(), self.extract);
        serde_json::to_value(turn).expect("texts and numbers are JSON")
    }

    fn conversation(&self) -> Option<&ConversationId> {
        self.context.conversation.as_ref().filter(|id| !id.is_hint())
    }

    /// The rows of its text, known before the end, and the message that goes on; `None` without a
    /// conversation.
    pub fn address(&self) -> Option<Value> {
        let rows = self.context.recording.rows()?;
        let mut address = json!({
            "conversation": self.conversation(),
            "message": rows.answer,
            "parent": rows.parent,
        });
        if let Some(continued) = &self.continued {
            address["continued"] = continued.clone();
        }
        Some(address)
    }

    /// Waits until the request's text is on disk: its rows are known then. Before the first piece. The wait may be
    /// cancelled and repeated.
    ///
    /// # Errors
    /// When the text cannot be written; then there is no piece.
    pub async fn stored(&mut self) -> Result<(), ApiError> {
        let stored = self.context.recording.stored().await;
        if stored.is_err() {
            self.break_off();
        }
        stored
    }

    /// The next piece; `None` at the end, and after an error.
    pub async fn next(&mut self) -> Option<Result<Piece, ApiError>> {
        match self.try_next().await {
            Ok(piece) => piece.map(Ok),
            Err(error) => {
                self.break_off();
                Some(Err(error))
            }
        }
    }

    /// The text of a choice so far.
    pub fn message(&self, choice: usize) -> Message {
        self.partial[choice].assembly.message()
    }

    /// Waits for the end: one entry a choice.
    pub async fn collect(&mut self) -> Result<Vec<Choice>, ApiError> {
        let mut runs = vec![TokenRun::default(); self.partial.len()];
        while let Some(piece) = self.next().await {
            if let Piece::More { choice, tokens, logprobs, .. } = piece? {
                runs[choice].tokens.extend(tokens);
                runs[choice].logprobs.extend(logprobs);
            }
        }
        let whole = |(partial, run): (&PartialChoice, TokenRun)| Choice {
            message: partial.assembly.message(),
            reason: partial.reason,
            tokens: run.tokens,
            logprobs: run.logprobs,
        };
        Ok(self.partial.iter().zip(runs).map(whole).collect())
    }

    async fn try_next(&mut self) -> Result<Option<Piece>, ApiError> {
        loop {
            if self.has_failed {
                return Ok(None);
            }
            self.context.recording.stored().await?;
            if let Some((pending, _)) = &mut self.closing {
                pending.done().await?;
                if let Some((_, end)) = self.closing.take() {
                    self.end(end);
                }
            }
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            let next = match &mut self.before {
                Some(before) => tokio::select! {
                    biased;
                    next = self.source.next() => next?,
                    report = before.loading() => {
                        self.ready.push_back(Piece::Progress(report));
                        continue;
                    }
                },
                None => self.source.next().await?,
            };
            match next {
                Some(AnswerEvent::Turn(choice, event)) => self.handle_turn_event(choice, event)?,
                Some(AnswerEvent::Upstream(event)) => self.handle_upstream_event(event),
                None => {
                    self.check_all_given()?;
                    return Ok(None);
                }
            }
        }
    }

    fn handle_turn_event(&mut self, choice: usize, event: TurnEvent) -> Result<(), ApiError> {
        match event {
            TurnEvent::Progress(progress) => {
                self.ready.push_back(Piece::Progress(progress.into()));
            }
            TurnEvent::Started(report) => self.begin(choice, report),
            TurnEvent::Moved(moved) => {
                self.context.metrics.moved(&moved);
                if choice == 0 {
                    self.account.add_moved(moved);
                }
            }
            TurnEvent::Token { token, text, logprobs } => {
                self.token(choice, token, &text, logprobs);
            }
            TurnEvent::Finished {
                reason,
                text,
                stop_text,
                completion_tokens,
                generation_ms,
                drafts,
                timeline,
                cells,
            } => {
                self.context.metrics.generated(completion_tokens, drafts);
                self.context.metrics.used_cells(cells);
                let last = self.partial[choice].finish(reason, stop_text.is_some(), &text);
                let account = &mut self.account;
                account.usage.completion += completion_tokens;
                account.usage.drafts += drafts;
                self.partial[choice].figures.end(End {
                    reason,
                    stop_text: stop_text.clone(),
                    completion_tokens,
                    generation_ms,
                    drafts,
                    max_tokens: self.max_tokens,
                });
                if choice == 0 {
                    self.stop_text = stop_text;
                    account.cells = cells;
                    account.first_drafts = drafts;
                    account.end_first(reason, completion_tokens, generation_ms, self.max_tokens);
                    self.report_tool_calls();
                }
                self.conclude(choice, last, timeline);
            }
            TurnEvent::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The prompt of a choice is computed.
    fn begin(&mut self, choice: usize, mut report: TurnReport) {
        self.before = None;
        self.context.metrics.started(&report);
        report.prefill_tokens_per_second = self.context.speed.learn(&report);
        self.partial[choice].figures.begin(&report);
        if choice == 0 {
            if let Some(watch) = self.reuse_watch.take()
                && report.tokens.moved > 0
            {
                watch.moved();
            }
            self.account.begin_first(&mut report);
            self.unexplained = Some(report.clone());
        }
        if choice.is_multiple_of(self.choices_per_prompt) {
            self.account.add_prompt(report);
        }
        self.ready.push_back(Piece::Begin { choice });
    }

    fn token(&mut self, choice: usize, token: Token, text: &str, logprobs: Option<Logprobs>) {
        let partial = &mut self.partial[choice];
        let delta = partial.assembly.push(text);
        let reasoning = usize::from(partial.assembly.is_reasoning());
        self.account.usage.reasoning += reasoning;
        partial.figures.reasoning += reasoning;
        let vocabulary = self.context.model.vocabulary();
        partial.last_token = LastToken::of(token, vocabulary, &self.stop_tokens);
        partial.figures.predicted += 1;
        if partial.last_token == LastToken::Text {
            partial.held.push(token, vocabulary.piece(token).len(), logprobs);
        }
        partial.held.add_text(text.len());
        if choice == 0 {
            self.context.recording.token(token, || partial.assembly.message());
        }
        if !delta.is_empty() {
            let run = partial.held.take_begun();
            self.more(choice, Growth { delta, run });
        }
    }

    /// Hands out what is new of a choice: text, tokens and their log-probabilities. A token whose text no piece shows,
    /// such as a mark of reasoning, is in the piece behind it.
    fn more(&mut self, choice: usize, Growth { delta, mut run }: Growth) {
        if delta.is_empty() && run.logprobs.is_empty() {
            return;
        }
        let more = delta.split().into_iter().map(|delta| {
            let TokenRun { tokens, logprobs } = std::mem::take(&mut run);
            Piece::More { choice, delta, tokens, logprobs }
        });
        self.ready.extend(more);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.break_off();
    }
}
