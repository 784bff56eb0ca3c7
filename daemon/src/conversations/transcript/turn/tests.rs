//! Turns against a database: what one begins with, what its end writes, and what is left where it does not end.

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
async fn instructions_replace_the_system_messages_of_the_first_request_as_those_of_later_ones() {
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
    let written = transcript.end_turn(end(&id, Some(closed), &[Token(1)])).unwrap().done().await;
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
