//! How answers over moved KV differ from exact ones, prompt by prompt and strategy by strategy.
//!
//! - The texts of `sources` are computed exactly first, in conversations of their own: chunks come from there, and
//!   from all that is saved beside.
//! - The exact answer of a prompt is computed cold, and none of its KV stays, so that the others cannot use it.
//! - All conversations of a comparison are forgotten at its end. It runs to its end although its client leaves.
//! - One comparison at a time.

use std::collections::BTreeMap;

use hob_runtime::Engine;
use hob_runtime::adapters::Adapters;
use hob_runtime::likeness::{Likeness, Measured};
use hob_runtime::turn::{Retention, TurnError, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::{ConversationId, TtlClass};
use serde_json::Value;
use tokio::sync::Mutex;

use super::identity::{Identity, Session};
use super::submit::Job;
use super::{Chat, names};
use crate::blocking::compute;
use crate::error::{ApiError, ErrorKind};
use crate::uncancelled::uncancelled;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Bodies of chats whose prompts are computed first.
    pub sources: Vec<Value>,
    /// Bodies of chats that are answered.
    pub prompts: Vec<Value>,
    pub strategies: Vec<Repair>,
    /// Maximum length of an answer.
    pub max_tokens: usize,
}

/// Answers whose prompts were moved by about the same part.
#[derive(Clone, Debug)]
pub struct Row {
    pub strategy: Repair,
    pub bucket: Bucket,
    pub likeness: Likeness,
}

/// How much of a prompt was moved, in percent: nothing, or more than `from` and up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket {
    pub from: u8,
    pub to: u8,
}

impl Bucket {
    fn of(moved: usize, prompt: usize) -> Self {
        let percent = (moved * 100).div_ceil(prompt.max(1));
        let to = percent.div_ceil(25) * 25;
        let to = u8::try_from(to.min(100)).expect("a percentage fits");
        Self { from: to.saturating_sub(25), to }
    }
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

impl Chat {
    /// Compares answers over moved KV with exact ones: a row for each strategy and bucket.
    ///
    /// # Errors
    /// When a body is invalid, the model's KV cannot be moved, another comparison runs, or the engine refuses a turn.
    pub async fn compare_reuse(&self, comparison: Comparison) -> Result<Vec<Row>, ApiError> {
        if let Err(why) = &self.engine().model().facts().rope {
            return Err(ApiError::new(ErrorKind::Invalid, why.to_string()).code("immovable"));
        }
        let mut sources = Vec::new();
        for (at, body) in comparison.sources.iter().enumerate() {
            sources.push(self.turn_of(body, &format!("sources[{at}]"), 0).await?);
        }
        let mut prompts = Vec::new();
        for (at, body) in comparison.prompts.iter().enumerate() {
            let path = format!("prompts[{at}]");
            prompts.push(self.turn_of(body, &path, comparison.max_tokens).await?);
        }
        let Ok(one) = ONE_AT_A_TIME.try_lock() else {
            let message = "another comparison is running: try again when it has ended";
            return Err(ApiError::new(ErrorKind::Busy, message).code("busy"));
        };
        let (engine, active) = (self.engine().clone(), self.events().turn(None));
        let compared = uncancelled(async move {
            let _until_the_end = (one, active);
            let mut conversations = Vec::new();
            let rows =
                compare(&engine, sources, &prompts, &comparison.strategies, &mut conversations);
            let rows = rows.await;
            for conversation in conversations {
                engine.forget(conversation).await?;
            }
            rows
        });
        Ok(compared.await?)
    }

    /// An anonymous, greedy turn with the prompt of a chat's body. Nothing is stored.
    async fn turn_of(
        &self,
        body: &Value,
        path: &str,
        max_tokens: usize,
    ) -> Result<TurnRequest, ApiError> {
        let within = |error: ApiError| {
            let param = error.param.as_ref().map_or(path.to_owned(), |it| format!("{path}.{it}"));
            error.param(param)
        };
        let mut resolved = self.resolve(body).map_err(within)?;
        let identity = Identity::of(body, &Session::default()).map_err(within)?;
        if identity.pinned().is_some() || resolved.request.append {
            let message = "a compared prompt has its messages, and no conversation";
            return Err(ApiError::field(path, message));
        }
        self.name_documents(&mut resolved.request, &identity).await.map_err(within)?;
        let extent = resolved.extent();
        let start = self.begin_turn(&resolved, &identity, &extent).await?;
        let adapters = self.adapters(&resolved.request.shape).await.map_err(within)?;
        let (keep, conversation) = (Retention::default(), None);
        let of_turn: Adapters = adapters.clone();
        let job = Job { resolved, start, extent, conversation, adapters, keep, ticket: None };
        let chat = self.clone();
        let (prompt, segments) = compute(move || chat.prompt_of(&job)).await.map_err(within)?;
        let keep = Retention { segments, ..Retention::default() };
        Ok(TurnRequest { adapters: of_turn, keep, ..TurnRequest::answer(None, prompt, max_tokens) })
    }
}

/// `conversations`: gets those that are to be forgotten, also where this fails.
async fn compare(
    engine: &Engine,
    sources: Vec<TurnRequest>,
    prompts: &[TurnRequest],
    strategies: &[Repair],
    conversations: &mut Vec<ConversationId>,
) -> Result<Vec<Row>, TurnError> {
    let mut own = || {
        let name = format!("compared-{}", names::unique());
        let id = ConversationId::new(&name).expect("a short name");
        conversations.push(id.clone());
        id
    };
    for source in sources {
        let keep = Retention { class: Some(TtlClass::Short), ..source.keep.clone() };
        let conversation = Some(own());
        Measured::ask(engine, TurnRequest { conversation, keep, ..source }).await?;
    }
    let mut rows: BTreeMap<(usize, Bucket), Likeness> = BTreeMap::new();
    for prompt in prompts {
        let exact = Measured::exactly(engine, prompt).await?;
        for (number, strategy) in strategies.iter().enumerate() {
            let likeness = exact.beside_moved(engine, prompt, own(), *strategy).await?;
            let bucket = Bucket::of(likeness.tokens.moved, likeness.tokens.prompt());
            rows.entry((number, bucket)).or_default().add(&likeness);
        }
    }
    let row = |((number, bucket), likeness): ((usize, Bucket), Likeness)| Row {
        strategy: strategies[number],
        bucket,
        likeness,
    };
    Ok(rows.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_quarters_and_nothing() {
        let of = |moved| {
            let Bucket { from, to } = Bucket::of(moved, 1000);
            (from, to)
        };
        assert_eq!(of(0), (0, 0));
        assert_eq!([1, 250].map(of), [(0, 25); 2]);
        assert_eq!([260, 500].map(of), [(25, 50); 2]);
        assert_eq!([760, 1000].map(of), [(75, 100); 2]);
        assert_eq!(Bucket::of(0, 0), Bucket { from: 0, to: 0 });
    }
}
