//! Makes room in the context: later prompts begin with a newer message, behind the instructions and,
//! if asked for, a summary of what is left out.
//!
//! - The text stays whole in the transcript. Exchanges with a pinned message stay in prompts, between the summary and
//!   the newer messages.
//! - The model writes the summary. Its request continues the prompt that the conversation had, so
//!   hot KV of the older messages is reused. It belongs to no conversation and leaves nothing.
//! - More text than fits into the context is summarised piece by piece, each behind the summary of
//!   those before it.
//! - While it runs, turns of the conversation wait. Dropping it changes nothing.

use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hob_slots::{ConversationId, Token};
use serde_json::{Value, json};

use super::Chat;
use super::answer::{Answer, Piece};
use super::branch_prompt::BranchPrompt;
use super::identity::{Identity, Session};
use super::locks::ConversationGuard;
use super::newest::Newest;
use super::prewarm::without_question;
use super::progress::Report;
use super::request::ResolvedRequest;
use crate::blocking::compute;
use crate::conversations::transcript::{Branch, Continuation, Pending, Window};
use crate::error::{ApiError, ErrorKind};
use crate::prompt::{DocumentTexts, Extent};
use crate::wire::fields::Fields;
use crate::wire::message::{Message, Role};

const REQUEST: &str = "Summarise our conversation so far, in the language in which we write. Keep \
                       names, numbers, facts, decisions and open questions. Write only the \
                       summary.";
const SO_FAR: &str = "Summary of the earlier part of this conversation:";

/// The part of the context that the messages behind the cut fill at most.
const NEWEST_SHARE: usize = 2;
/// The part of the context that a summary fills at most.
const SUMMARY_SHARE: usize = 8;
const MAX_SUMMARY_TOKENS: usize = 768;

/// A conversation that is being shortened.
pub struct Shortening {
    chat: Chat,
    id: ConversationId,
    profile: Option<Value>,
    _guard: ConversationGuard,
    /// The instructions, and the messages to leave out.
    instructions: Vec<Message>,
    old: Vec<Message>,
    /// The texts of the documents that the messages name.
    documents: Arc<DocumentTexts>,
    /// The saved message behind them.
    start: i64,
    /// What later prompts have.
    continuation: Continuation,
    /// The messages of `old` before this index are summarised.
    done: usize,
    summary: Option<String>,
    writing: Option<Writing>,
    saving: Option<Pending<()>>,
    summarises: bool,
    has_ended: bool,
}

/// The summary of as many further messages as fit.
enum Writing {
    /// It goes on when the wait for it is cancelled: a long text takes longer than one.
    Begins(BoxFuture<'static, Result<(Answer, usize), ApiError>>),
    /// With where the messages end.
    Runs(Box<Answer>, usize),
}

pub enum ShorteningEvent {
    /// How far the prompt of the summary is.
    Progress(Report),
    /// More of the summary.
    Text(String),
    Done(Shortened),
}

#[derive(Clone, Debug)]
pub struct Shortened {
    /// The message with which prompts begin.
    pub start: i64,
    /// All messages that prompts leave out.
    pub left_out: usize,
    pub summary: Option<String>,
}

/// What to leave out.
struct Cut {
    instructions: Vec<Message>,
    old: Vec<Message>,
    start: i64,
    continuation: Continuation,
}

impl Chat {
    /// Begins to shorten a conversation. `body`: `summarise`, and what a chat's `hob` says of
    /// `after` and `profile`.
    ///
    /// # Errors
    /// When the request is invalid, the conversation is not stored, or nothing can be left out.
    pub async fn shorten(&self, id: ConversationId, body: Value) -> Result<Shortening, ApiError> {
        let summarises = Fields::of_body(&body)?.boolean("summarise")?.unwrap_or(true);
        let mut body = without_question(&body)?;
        body["conversation"] = id.as_str().into();
        body["messages"] = json!([]);
        body["max_tokens"] = 0.into();
        let resolved = self.resolve(&body)?;
        let identity = Identity::of(&body, &Session::default())?;
        let guard = self.shared.locks.enter(&id).await?;
        self.catch_up(&identity).await;
        if !self.shared.options.transcript.exists(&id).done().await? {
            return Err(ApiError::no_such_conversation());
        }
        let extent = Extent::Before(String::new());
        let start = self.begin_turn(&resolved, &identity, &extent).await?;
        let continuation = start.continuation.expect("it is an append");
        let (chat, timelines) = (self.clone(), start.timelines);
        let documents = Arc::new(start.documents);
        let texts = documents.clone();
        let cut = compute(move || chat.cut(&resolved, continuation, &texts, &timelines)).await?;
        let Cut { instructions, old, start, continuation } = cut;
        Ok(Shortening {
            chat: self.clone(),
            id,
            profile: body["hob"].get("profile").cloned(),
            _guard: guard,
            instructions,
            old,
            documents,
            start,
            continuation,
            done: 0,
            summary: None,
            writing: None,
            saving: None,
            summarises,
            has_ended: false,
        })
    }

    fn cut(
        &self,
        resolved: &ResolvedRequest,
        mut continuation: Continuation,
        documents: &DocumentTexts,
        known: &[Vec<Token>],
    ) -> Result<Cut, ApiError> {
        let (renderer, branch) = (&self.shared.options.renderer, &continuation.branch);
        let prompt = BranchPrompt { renderer, request: resolved, branch, documents, known };
        let budget = self.engine().conversation_tokens() / NEWEST_SHARE;
        let Newest { window, .. } = prompt.newest_part_within(budget)?;
        let cut = window.and_then(|window| {
            let (old, start) = (left_out(branch, &window), continuation.saved(window.start)?);
            (!old.is_empty()).then_some((old, start, window))
        });
        let Some((old, start, window)) = cut else {
            let message =
                "nothing to leave out: all but pinned messages fit into half of the context";
            return Err(ApiError::new(ErrorKind::Invalid, message).code("nothing_to_shorten"));
        };
        let instructions = branch.front.clone();
        continuation.go_on_with(window);
        Ok(Cut { instructions, old, start, continuation })
    }

    fn max_summary_tokens(&self) -> usize {
        (self.engine().conversation_tokens() / SUMMARY_SHARE).min(MAX_SUMMARY_TOKENS)
    }
}

impl Shortening {
    /// The next event; `None` at the end, and after an error. The wait may be cancelled and repeated.
    pub async fn next(&mut self) -> Option<Result<ShorteningEvent, ApiError>> {
        if self.has_ended {
            return None;
        }
        let event = self.try_next().await;
        self.has_ended =
            !matches!(&event, Ok(ShorteningEvent::Progress(_) | ShorteningEvent::Text(_)));
        Some(event)
    }

    async fn try_next(&mut self) -> Result<ShorteningEvent, ApiError> {
        while self.summarises && self.done < self.old.len() {
            let (answer, end) = match &mut self.writing {
                None => {
                    self.writing = Some(Writing::Begins(self.write_next()));
                    continue;
                }
                Some(Writing::Begins(beginning)) => {
                    let (answer, end) = beginning.await?;
                    self.writing = Some(Writing::Runs(Box::new(answer), end));
                    continue;
                }
                Some(Writing::Runs(answer, end)) => (answer, *end),
            };
            match answer.next().await.transpose()? {
                Some(Piece::Progress(report)) => return Ok(ShorteningEvent::Progress(report)),
                Some(Piece::More { delta, .. }) if !delta.content.is_empty() => {
                    return Ok(ShorteningEvent::Text(delta.content));
                }
                Some(_) => {}
                None => {
                    self.summary = Some(summary_of(answer)?);
                    self.done = end;
                    self.writing = None;
                }
            }
        }
        let Self { chat, id, start, continuation, summary, saving, .. } = self;
        let saving = saving.get_or_insert_with(|| {
            continuation.replace_summary(summary.clone());
            let options = &chat.shared.options;
            let shortened = options.transcript.shorten(id, continuation.clone());
            // The transcript's thread reads the text for it after this write.
            if let Some(sharing) = &options.sharing {
                sharing.changed(id);
            }
            shortened
        });
        saving.done().await?;
        Ok(ShorteningEvent::Done(Shortened {
            start: *start,
            left_out: continuation.left_out,
            summary: summary.clone(),
        }))
    }

    /// Begins the summary of as many further messages as fit. Returns where they end.
    fn write_next(&self) -> BoxFuture<'static, Result<(Answer, usize), ApiError>> {
        let (chat, old) = (self.chat.clone(), self.old.clone());
        let (front, from, documents) = (self.front(), self.done, self.documents.clone());
        let mut body = json!({
            "messages": [],
            "stream": true,
            "temperature": 0, // The same text gives the same summary.
            "max_tokens": chat.max_summary_tokens(),
            "chat_template_kwargs": {"enable_thinking": false},
            "hob": {"private": true, "progress": true},
        });
        if let Some(profile) = &self.profile {
            body["hob"]["profile"] = profile.clone();
        }
        let answering = chat.clone();
        let piece = compute(move || {
            let with = |piece: Range<usize>| {
                let question = [Message::plain(Role::User, REQUEST)];
                [&front, &old[piece], &question].concat()
            };
            let room = chat.engine().conversation_tokens() - chat.max_summary_tokens();
            let resolved = chat.resolve(&with_messages(&body, &with(from..old.len())))?;
            let fits = |end: usize| {
                let parts = with(from..end);
                let renderer = &chat.shared.options.renderer;
                let parts = resolved.prompt_parts(&parts, &documents);
                let prompt = renderer.prompt(&parts, &Extent::Whole, &[])?;
                Ok::<_, ApiError>(prompt.tokens.len() <= room)
            };
            // Up to a message of the user: templates expect the roles in turns.
            let is_end = |&at: &usize| at == old.len() || old[at].role == Role::User;
            let ends: Vec<usize> = (from + 1..=old.len()).filter(is_end).collect();
            let end = last_that_fits(&ends, fits)?;
            Ok::<_, ApiError>((with_messages(&body, &with(from..end)), end))
        });
        Box::pin(async move {
            let (body, end) = piece.await?;
            let (_, answer) = answering.answer(&body, &Session::default()).await?;
            Ok((answer, end))
        })
    }

    /// The instructions, and the summary of the pieces so far: one system message.
    fn front(&self) -> Vec<Message> {
        let Some(summary) = &self.summary else { return self.instructions.clone() };
        let texts = self.instructions.iter().map(Message::text);
        let summary = format!("{SO_FAR}\n{summary}");
        let text = hob_prewarm::profile::joined(texts.chain([summary.as_str()]));
        vec![Message::plain(Role::System, &text)]
    }
}

/// The last of `ends` that fits, or the first one. Before one that fits, all do.
fn last_that_fits(
    ends: &[usize],
    fits: impl Fn(usize) -> Result<bool, ApiError>,
) -> Result<usize, ApiError> {
    let (mut low, mut high) = (0, ends.len() - 1);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(ends[middle])? { low = middle } else { high = middle - 1 }
    }
    Ok(ends[low])
}

/// The messages of the prompt that one with `window` has no more.
fn left_out(branch: &Branch, window: &Window) -> Vec<Message> {
    let stays = window.all_brought();
    let leaves = |place: usize| place < window.start && !stays.contains(&place);
    let entries = branch.entries(&branch.window).into_iter();
    let left = entries.filter(|entry| entry.place.is_some_and(leaves));
    left.map(|entry| entry.message).collect()
}

fn with_messages(body: &Value, messages: &[Message]) -> Value {
    let mut body = body.clone();
    body["messages"] = messages.iter().map(Message::to_json).collect();
    body
}

fn summary_of(answer: &Answer) -> Result<String, ApiError> {
    let text = answer.message(0).text().trim().to_owned();
    if text.is_empty() {
        let message = "the model wrote no summary: go on with the newest part instead";
        return Err(ApiError::new(ErrorKind::Internal, message).code("no_summary"));
    }
    Ok(text)
}
