//! The two visits of a turn to the database thread: one before its prompt, one after its answer.
//!
//! - The first reads everything that rendering a prompt needs.
//! - The second is one transaction: the answer, the timeline and the explanation are committed
//!   together, or none of them is.
//! - Between the two only the request's text and throttled flushes of the answer are written.

use std::collections::BTreeSet;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token};
use rusqlite::Connection;
use serde_json::Value;

use super::answer::ClosedAnswer;
use super::continuation::{self, Continuation};
use super::writer::Pending;
use super::{
    After, SaveIf, Transcript, TranscriptError, TurnTicket, answer_ends, explanations, library,
    read, speed, tokens,
};
use crate::prompt::DocumentTexts;
use crate::wire::document::DocumentId;
use crate::wire::message::Message;

/// What to read before a prompt is rendered.
#[derive(Clone, Debug)]
pub struct TurnQuery {
    pub fingerprint: ModelHash,
    /// The conversation whose last timeline the prompt probably continues.
    pub timeline_of: Option<ConversationId>,
    pub history: HistoryQuery,
    /// Documents to read beside those of the history.
    pub documents: BTreeSet<DocumentId>,
    /// Whether they may be private ones.
    pub is_private: bool,
    /// Whether to read the prefill speed that was measured last.
    pub reads_speed: bool,
}

/// Which messages of a conversation to read for a prompt.
#[derive(Clone, Debug, Default)]
pub enum HistoryQuery {
    #[default]
    Nothing,
    /// Those in front of new ones.
    Append(Append),
    /// Those that the request repeats. It has all messages of the prompt, and prompts may leave out older ones.
    Whole { conversation: ConversationId, messages: Vec<Message> },
}

/// New messages for a saved conversation. Without any, its last answer is generated again, or,
/// with `after`, an answer to that message. With `continues`, the last answer or the answer `after`
/// goes on.
#[derive(Clone, Debug)]
pub struct Append {
    pub conversation: ConversationId,
    pub after: Option<After>,
    pub new: Vec<Message>,
    pub continues: bool,
    /// What stands in front of the conversation from now on; `None`: as before.
    pub instructions: Option<String>,
}

/// What [`Transcript::begin_turn`] read.
#[derive(Clone, Debug, Default)]
pub struct TurnStart {
    /// `None` for [`HistoryQuery::Nothing`].
    pub continuation: Option<Continuation>,
    /// The last timeline under this model, and then those of other branches.
    pub timelines: Vec<Vec<Token>>,
    /// Parameters of the conversation's answers, as they were set.
    pub sampling: Option<Value>,
    /// The documents that the messages name.
    pub documents: DocumentTexts,
    pub prefill_tokens_per_second: Option<f64>,
}

/// What to write after an answer.
#[derive(Debug)]
pub struct TurnEnd {
    pub fingerprint: ModelHash,
    /// The text of the answer, where the request has any in the database.
    pub answer: Option<ClosedAnswer>,
    pub timeline: Option<(ConversationId, Vec<Token>)>,
    /// Why the turn computed tokens that had been computed before.
    pub explanation: Option<(ConversationId, Value)>,
    /// Of the timeline and the explanation.
    pub save_if: SaveIf,
    /// Write to the database in memory.
    pub is_private: bool,
    pub now: Timestamp,
}

impl TurnQuery {
    /// Reads nothing. `fingerprint`: of the model that later fields are about.
    pub fn nothing(fingerprint: ModelHash) -> Self {
        Self {
            fingerprint,
            timeline_of: None,
            history: HistoryQuery::Nothing,
            documents: BTreeSet::new(),
            is_private: false,
            reads_speed: false,
        }
    }

    fn reads_nothing(&self) -> bool {
        self.conversation().is_none() && self.documents.is_empty() && !self.reads_speed
    }

    fn conversation(&self) -> Option<&ConversationId> {
        let of_history = match &self.history {
            HistoryQuery::Nothing => None,
            HistoryQuery::Append(Append { conversation, .. })
            | HistoryQuery::Whole { conversation, .. } => Some(conversation),
        };
        self.timeline_of.as_ref().or(of_history)
    }
}

impl Transcript {
    /// Reads what the prompt of a turn needs, in one visit; a query for nothing makes none.
    pub async fn begin_turn(&self, query: TurnQuery) -> Result<TurnStart, TranscriptError> {
        if query.reads_nothing() {
            return Ok(TurnStart::default());
        }
        let writer = query.conversation().map_or(&self.writer, |id| self.writer_of(id));
        let (asked, is_private) = (query.documents.clone(), query.is_private);
        let mut start = writer.read(move |connection| read(connection, query)).done().await?;
        let history = start.continuation.iter().flat_map(|continuation| &continuation.history);
        let missing = library::named(history).into_iter().chain(asked);
        let missing = missing.filter(|id| !start.documents.contains_key(id)).collect();
        // A private conversation may name a document of the library.
        start.documents.extend(self.document_texts(missing, is_private).await?);
        Ok(start)
    }

    /// Writes what a turn leaves, in one transaction. The result of a complete answer arrives once
    /// its text is on disk; for anything else there is none to wait for, and failures are logged.
    /// Without room it is an error, and the writer repeats the write until there is. Once the conversation, or a
    /// document of the request, was deleted, nothing is written but that the answer has ended.
    pub fn end_turn(&self, end: TurnEnd) -> Option<Pending<()>> {
        let writer = self.writer_for(end.is_private);
        let is_complete = end.answer.as_ref().is_some_and(ClosedAnswer::is_complete);
        if end.answer.is_none() && end.timeline.is_none() && end.explanation.is_none() {
            return None;
        }
        let turn = self.turn.clone();
        let write = move |connection: &mut Connection| {
            match turn.as_ref().map_or(Ok(()), TurnTicket::check) {
                Ok(()) => end.write(connection),
                // A conversation stays where only a document was removed. While a row streams, it cannot be changed.
                Err(refused) => end.interrupt(connection).and(Err(refused)),
            }
        };
        if is_complete {
            return Some(writer.write_until_stored(write));
        }
        writer.post_until_stored(move |connection| match write(connection) {
            Err(TranscriptError::Deleted) => Ok(()),
            written => written,
        });
        None
    }
}

fn read(connection: &Connection, query: TurnQuery) -> Result<TurnStart, TranscriptError> {
    let TurnQuery { fingerprint, timeline_of, history, documents, reads_speed, .. } = query;
    let sampling = match &timeline_of {
        Some(conversation) => read::sampling(connection, conversation)?,
        None => None,
    };
    let continuation = match history {
        HistoryQuery::Nothing => None,
        HistoryQuery::Append(append) => Some(continuation::continuation(connection, append)?),
        HistoryQuery::Whole { conversation, messages } => {
            Some(continuation::of_whole(connection, &conversation, &messages)?)
        }
    };
    let history = continuation.iter().flat_map(|continuation| &continuation.history);
    let named = library::named(history).into_iter().chain(documents).collect();
    let stored = library::texts(connection, &named)?;
    let timelines = match timeline_of {
        Some(conversation) => tokens::load_all(connection, &conversation, fingerprint)?,
        None => Vec::new(),
    };
    let prefill_tokens_per_second =
        if reads_speed { speed::load(connection, fingerprint)? } else { None };
    let documents = stored.into_iter().map(|(id, document)| (id, document.into())).collect();
    Ok(TurnStart { continuation, timelines, documents, sampling, prefill_tokens_per_second })
}

impl TurnEnd {
    fn write(&self, connection: &mut Connection) -> Result<(), TranscriptError> {
        let Self { fingerprint, save_if, now, .. } = *self;
        let transaction = connection.transaction()?;
        if let Some(answer) = &self.answer {
            answer.write(&transaction, now)?;
        }
        if let Some((conversation, timeline)) = &self.timeline {
            tokens::save(&transaction, conversation, fingerprint, timeline, save_if, now)?;
            if let Some(row) = self.answer.as_ref().and_then(ClosedAnswer::row) {
                answer_ends::save(&transaction, row, fingerprint, timeline)?;
            }
        }
        if let Some((conversation, explanation)) = &self.explanation {
            let explanation = explanation.to_string();
            explanations::save(&transaction, conversation, &explanation, save_if, now)?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn interrupt(&self, connection: &Connection) -> Result<(), TranscriptError> {
        self.answer.as_ref().map_or(Ok(()), |answer| answer.interrupt(connection))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversations::transcript::Status;
    use crate::error::ApiError;
    use crate::wire::message::{Role, tool_call};

    const MODEL: ModelHash = ModelHash([1; 8]);
    const NOW: Timestamp = Timestamp(1_000_000);

    fn world() -> (Transcript, ConversationId) {
        (Transcript::in_memory(NOW).unwrap(), ConversationId::new("a").unwrap())
    }

    fn user(text: &str) -> Message {
        Message::parse(&json!({"role": "user", "content": text}), "messages").unwrap()
    }

    fn append(id: &ConversationId, text: &str) -> TurnQuery {
        TurnQuery {
            timeline_of: Some(id.clone()),
            history: HistoryQuery::Append(Append {
                conversation: id.clone(),
                after: None,
                new: vec![user(text)],
                continues: false,
                instructions: None,
            }),
            reads_speed: true,
            ..TurnQuery::nothing(MODEL)
        }
    }

    fn appended(query: &mut TurnQuery) -> &mut Append {
        match &mut query.history {
            HistoryQuery::Append(append) => append,
            other => panic!("{other:?}"),
        }
    }

    fn end(id: &ConversationId, answer: Option<ClosedAnswer>, timeline: &[Token]) -> TurnEnd {
        TurnEnd {
            fingerprint: MODEL,
            answer,
            timeline: Some((id.clone(), timeline.to_vec())),
            explanation: Some((id.clone(), json!({"reason": "clock"}))),
            save_if: SaveIf::HasText,
            is_private: false,
            now: NOW,
        }
    }

    #[tokio::test]
    async fn a_turn_begins_with_the_history_the_timeline_and_the_speed_of_the_last_one() {
        let (transcript, id) = world();
        let mut answer = transcript.sync(&id, vec![user("Hello")], NOW);
        answer.stored().await.unwrap();
        let reply = Message::answer("Hi", "", &[]);
        let closed = answer.complete(&reply, &json!({"finish_reason": "stop"}));
        let timeline = [Token(1), Token(2)];
        transcript.end_turn(end(&id, Some(closed), &timeline)).unwrap().done().await.unwrap();
        transcript.put_prefill_speed(MODEL, 50.0);

        let start = transcript.begin_turn(append(&id, "Bye")).await.unwrap();
        let history = start.continuation.unwrap().history;
        assert_eq!(history, [user("Hello"), reply, user("Bye")]);
        assert_eq!(
            (start.timelines, start.prefill_tokens_per_second),
            (vec![timeline.into()], Some(50.0))
        );
        let explanation = transcript.explanation(&id).done().await.unwrap().unwrap();
        assert_eq!(explanation.explanation["reason"], "clock");
        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        assert_eq!(stored.messages[1].status, Status::Complete);
        assert_eq!(stored.messages[1].finish, Some(json!({"finish_reason": "stop"})));
    }

    #[tokio::test]
    async fn instructions_replace_the_system_messages_of_the_first_request_as_those_of_later_ones()
    {
        let (transcript, id) = world();
        let system = Message::plain(Role::System, "Be kind.");
        let instructed = |text: &str, new: Vec<Message>| {
            let mut query = append(&id, "");
            let append = appended(&mut query);
            (append.new, append.instructions) = (new, Some(text.to_owned()));
            query
        };
        let query = instructed("Be brief.", vec![system.clone(), user("Hello")]);
        let first = transcript.begin_turn(query).await.unwrap().continuation.unwrap();
        let brief = Message::plain(Role::System, "Be brief.");
        assert_eq!(first.history, [brief.clone(), user("Hello")]);
        transcript.append(&id, first, NOW).stored().await.unwrap();
        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        assert_eq!(stored.messages[0].message, system.to_json(), "nothing is lost");

        let next = transcript.begin_turn(instructed("Be brief.", vec![user("Bye")])).await.unwrap();
        let history = next.continuation.unwrap().history;
        assert_eq!((&history[0], &history[1], history.len()), (&brief, &user("Hello"), 4));
    }

    #[tokio::test]
    async fn a_message_that_is_deleted_while_a_prompt_is_rendered_is_a_conflict() {
        let (transcript, id) = world();
        let mut answer = transcript.sync(&id, vec![user("Hello")], NOW);
        answer.stored().await.unwrap();
        let closed = answer.complete(&Message::answer("Hi", "", &[]), &json!({}));
        transcript.end_turn(end(&id, Some(closed), &[])).unwrap().done().await.unwrap();
        let mut again = append(&id, "");
        let goes_on = appended(&mut again);
        (goes_on.new, goes_on.continues) = (Vec::new(), true);
        let mut begun = Vec::new();
        for query in [append(&id, "Bye"), again] {
            begun.push(transcript.begin_turn(query).await.unwrap().continuation.unwrap());
        }
        transcript.delete_message(&id, 2, NOW).done().await.unwrap();

        for continuation in begun {
            let late = transcript.append(&id, continuation, NOW).stored().await.unwrap_err();
            let error = ApiError::from(late);
            assert_eq!((error.kind.status(), error.code), (409, Some("message_deleted")));
        }
        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        assert_eq!((stored.messages.len(), stored.head), (1, Some(1)), "nothing is stored");
    }

    #[tokio::test]
    async fn an_interrupted_turn_keeps_its_text_and_its_timeline() {
        let (transcript, id) = world();
        let answer = transcript.sync(&id, vec![user("Hello")], NOW);
        let closed = answer.break_off(&Message::answer("H", "", &[]), None);
        assert!(transcript.end_turn(end(&id, Some(closed), &[Token(1)])).is_none());

        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        assert_eq!(stored.messages[1].status, Status::Interrupted);
        assert_eq!(stored.messages[1].message["content"], "H");
        assert_eq!(transcript.tokens(&id, MODEL).done().await.unwrap(), [Token(1)]);
    }

    #[tokio::test]
    async fn messages_sent_again_after_an_answer_without_a_word_stand_in_the_prompt_once() {
        let (transcript, id) = world();
        let call = |id: &str| tool_call(id, "look", "{}");
        let result = |id: &str| {
            let result = json!({"role": "tool", "tool_call_id": id, "content": id});
            Message::parse(&result, "messages").unwrap()
        };
        let calls = Message::answer("", "", &[call("c1"), call("c2")]);
        let mut answer = transcript.sync(&id, vec![user("Look")], NOW);
        answer.stored().await.unwrap();
        let closed = answer.complete(&calls, &json!({}));
        transcript.end_turn(end(&id, Some(closed), &[])).unwrap().done().await.unwrap();

        let results = [result("c1"), result("c2")];
        let mut further = results.to_vec();
        further.push(user("So?"));
        let sent = [results.to_vec(), results.to_vec(), further];
        for new in sent {
            let mut query = append(&id, "");
            appended(&mut query).new.clone_from(&new);
            let continuation = transcript.begin_turn(query).await.unwrap().continuation.unwrap();
            let before = [user("Look"), calls.clone()];
            assert_eq!(continuation.history, [&before[..], &new[..]].concat());
            let mut answer = transcript.append(&id, continuation, NOW);
            answer.stored().await.unwrap();
            let closed = answer.break_off(&Message::answer("", "", &[]), None);
            assert!(transcript.end_turn(end(&id, Some(closed), &[])).is_none());
        }
        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        let tools = stored.messages.iter().filter(|saved| saved.message["role"] == "tool").count();
        assert_eq!(tools, 2, "each is stored once");
    }

    #[tokio::test]
    async fn an_answer_whose_turn_was_cancelled_ends_where_its_conversation_stays() {
        let (transcript, id) = world();
        let turn = transcript.of_turn(Some(transcript.ticket(&id).unwrap()));
        let mut answer = turn.sync(&id, vec![user("Hello")], NOW);
        answer.stored().await.unwrap();
        drop(transcript.begin_deletion(&id)); // As the removal of a document that it is about does.
        let closed = answer.break_off(&Message::answer("Hi", "", &[]), None);
        assert!(turn.end_turn(end(&id, Some(closed), &[Token(1)])).is_none());
        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        let answer = &stored.messages[1];
        assert_eq!((answer.status, &answer.message["content"]), (Status::Interrupted, &json!("")));
        assert_eq!(transcript.tokens(&id, MODEL).done().await.unwrap(), []);
    }

    #[tokio::test]
    async fn an_end_without_room_is_written_before_the_next_write_once_there_is_room() {
        let (transcript, id) = world();
        let mut answer = transcript.sync(&id, vec![user("Hello")], NOW);
        answer.stored().await.unwrap();
        transcript.writer.set_full(true).await;
        let text = "Hi. ".repeat(10_000);
        let closed = answer.complete(&Message::answer(&text, "", &[]), &json!({}));
        let written =
            transcript.end_turn(end(&id, Some(closed), &[Token(1)])).unwrap().done().await;
        assert!(matches!(written, Err(TranscriptError::DiskFull { .. })), "{written:?}");
        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        assert_eq!(stored.messages[1].status, Status::Streaming);

        transcript.writer.set_full(false).await;
        transcript.put_prefill_speed(MODEL, 50.0);
        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        assert_eq!(stored.messages[1].status, Status::Complete);
        assert_eq!(stored.messages[1].message["content"], text);
        assert_eq!(transcript.tokens(&id, MODEL).done().await.unwrap(), [Token(1)]);
    }

    #[tokio::test]
    async fn an_answer_that_is_dropped_without_room_grows_no_longer_once_there_is_room() {
        let (transcript, id) = world();
        let mut answer = transcript.sync(&id, vec![user("Hello")], NOW);
        answer.stored().await.unwrap();
        let row = answer.rows().unwrap().answer;
        // The index of a long text needs more pages than there are.
        let words: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        let text = Message::answer(&words.join(" "), "", &[]).to_json().to_string();
        let mut flushed = transcript.writer.write(move |connection| {
            connection.execute("UPDATE messages SET content = ?2 WHERE id = ?1", (row, text))?;
            Ok(())
        });
        flushed.done().await.unwrap();
        transcript.writer.set_full(true).await;
        drop(answer);
        assert!(!transcript.is_idle(&id).done().await.unwrap(), "there is no room");

        transcript.writer.set_full(false).await;
        assert!(transcript.is_idle(&id).done().await.unwrap());
        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        assert_eq!(stored.messages[1].status, Status::Interrupted);
    }

    #[tokio::test]
    async fn a_turn_begins_with_the_whole_answer_once_there_is_room_for_its_end() {
        let (transcript, id) = world();
        let mut answer = transcript.sync(&id, vec![user("Hello")], NOW);
        answer.stored().await.unwrap();
        transcript.writer.set_full(true).await;
        let reply = Message::answer(&"Hi. ".repeat(10_000), "", &[]);
        let closed = answer.complete(&reply, &json!({}));
        transcript.end_turn(end(&id, Some(closed), &[Token(1)])).unwrap().done().await.unwrap_err();
        transcript.writer.set_full(false).await;

        let start = transcript.begin_turn(append(&id, "Bye")).await.unwrap();
        let history = start.continuation.unwrap().history;
        assert_eq!(history, [user("Hello"), reply, user("Bye")]);
        assert_eq!(start.timelines, [vec![Token(1)]]);
    }

    #[tokio::test]
    async fn a_conversation_deleted_during_its_turn_leaves_nothing() {
        let (transcript, id) = world();
        let answer = transcript.sync(&id, vec![user("Hello")], NOW);
        assert!(transcript.delete(&id).done().await.unwrap());
        let closed = answer.complete(&Message::answer("Hi", "", &[]), &json!({}));
        transcript.end_turn(end(&id, Some(closed), &[Token(1)])).unwrap().done().await.unwrap();

        assert!(transcript.get(&id).done().await.unwrap().is_none());
        assert_eq!(transcript.tokens(&id, MODEL).done().await.unwrap(), []);
        assert_eq!(transcript.explanation(&id).done().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_query_for_nothing_reads_nothing() {
        let (transcript, _) = world();
        let start = transcript.begin_turn(TurnQuery::nothing(MODEL)).await.unwrap();
        assert!(start.continuation.is_none() && start.timelines.is_empty());
    }
}
