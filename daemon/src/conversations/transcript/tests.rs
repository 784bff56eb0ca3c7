//! Compares the tree with a naive model over random requests.

use std::collections::BTreeSet;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A path of the tree: role and content of each message, from the first one on.
type Path = Vec<(String, String)>;

/// A client's request. A `usize` chooses a known history, and a message of it.
#[derive(Clone, Debug)]
enum Request {
    /// The whole history and a new message.
    Sync(usize, u8),
    Append(u8),
    /// Another answer to the last message.
    Regenerate,
    AppendAfter(usize, usize, u8),
    RegenerateAt(usize, usize),
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = prop_oneof![
        (any::<usize>(), 0..3u8).prop_map(|(path, said)| Request::Sync(path, said)),
        (0..3u8).prop_map(Request::Append),
        Just(Request::Regenerate),
        (any::<usize>(), any::<usize>(), 0..3u8)
            .prop_map(|(p, m, said)| Request::AppendAfter(p, m, said)),
        (any::<usize>(), any::<usize>()).prop_map(|(path, m)| Request::RegenerateAt(path, m)),
    ];
    prop::collection::vec(one, 1..15)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_message_is_lost_and_the_head_is_the_last_answer(requests in requests()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check(requests))?;
    }
}

async fn check(requests: Vec<Request>) -> Result<(), TestCaseError> {
    let (transcript, id, now) = world();
    let mut known: Vec<Path> = vec![Vec::new()];
    let mut head = Path::new();
    for (round, request) in requests.into_iter().enumerate() {
        let (mut path, mut open) = match request {
            Request::Sync(chosen, said) => {
                let mut path = known[chosen % known.len()].clone();
                path.push(("user".to_owned(), said.to_string()));
                let open = transcript.sync(&id, messages(&path), now);
                (path, open)
            }
            Request::Append(said) => {
                let mut path = head.clone();
                path.push(("user".to_owned(), said.to_string()));
                let new = messages(&path[head.len()..]);
                let continuation = continuation(&transcript, &id, None, new).await.unwrap();
                prop_assert_eq!(&continuation.history, &messages(&path));
                (path, transcript.append(&id, continuation, now))
            }
            Request::Regenerate if head.is_empty() => continue,
            Request::Regenerate => {
                let path = head[..head.len() - 1].to_vec();
                let continuation = continuation(&transcript, &id, None, Vec::new()).await.unwrap();
                prop_assert_eq!(&continuation.history, &messages(&path));
                (path, transcript.append(&id, continuation, now))
            }
            Request::AppendAfter(chosen, length, said) => {
                let mut path = known[chosen % known.len()].clone();
                path.truncate(length % (path.len() + 1));
                let after = place(&transcript, &id, &path).await;
                path.push(("user".to_owned(), said.to_string()));
                let new = messages(&path[path.len() - 1..]);
                let continuation = continuation(&transcript, &id, Some(after), new).await.unwrap();
                prop_assert_eq!(&continuation.history, &messages(&path));
                (path, transcript.append(&id, continuation, now))
            }
            Request::RegenerateAt(chosen, length) => {
                let mut path = known[chosen % known.len()].clone();
                path.truncate(length % (path.len() + 1));
                let after = place(&transcript, &id, &path).await;
                let continuation = continuation(&transcript, &id, Some(after), Vec::new()).await;
                if path.last().is_none_or(|(role, _)| role == "assistant") {
                    prop_assert!(matches!(continuation, Err(TranscriptError::NothingToAnswer)));
                    continue;
                }
                (path, transcript.append(&id, continuation.unwrap(), now))
            }
        };
        open.stored().await.unwrap();
        let answer = format!("answer {round}");
        let answer_message = Message::answer(&answer, "", &[]);
        let end = TurnEnd {
            fingerprint: ModelHash([0; 8]),
            answer: Some(open.complete(&answer_message, &json!({}))),
            timeline: None,
            explanation: None,
            is_private: false,
            save_if: SaveIf::HasText,
            now,
        };
        transcript.end_turn(end).unwrap().done().await.unwrap();
        path.push(("assistant".to_owned(), answer));
        known.push(path.clone());
        head = path;

        let stored = transcript.get(&id).done().await.unwrap().unwrap();
        prop_assert_eq!(contents(stored.path()), head.clone());
        prop_assert_eq!(stored.messages.len(), nodes(&known), "no message twice, none missing");
    }
    Ok(())
}

async fn continuation(
    transcript: &Transcript,
    id: &ConversationId,
    after: Option<After>,
    new: Vec<Message>,
) -> Result<Continuation, TranscriptError> {
    let query = TurnQuery {
        history: HistoryQuery::Append(Append {
            conversation: id.clone(),
            after,
            new,
            continues: false,
            instructions: None,
        }),
        ..TurnQuery::nothing(ModelHash([0; 8]))
    };
    transcript.begin_turn(query).await.map(|start| start.continuation.unwrap())
}

/// The place after the last message of a saved path.
async fn place(transcript: &Transcript, id: &ConversationId, path: &Path) -> After {
    let Some(stored) = transcript.get(id).done().await.unwrap() else { return After::Nothing };
    let mut at = None;
    for (role, content) in path {
        let is_it = |stored: &&SavedMessage| {
            stored.parent == at
                && stored.message["role"] == role.as_str()
                && stored.message["content"] == content.as_str()
        };
        at = Some(stored.messages.iter().find(is_it).unwrap().id);
    }
    at.map_or(After::Nothing, After::Message)
}

/// How many messages a tree of these paths has.
fn nodes(paths: &[Path]) -> usize {
    let beginnings = paths.iter().flat_map(|path| (1..=path.len()).map(|length| &path[..length]));
    beginnings.collect::<BTreeSet<_>>().len()
}

fn contents(path: Vec<&SavedMessage>) -> Path {
    let field =
        |stored: &SavedMessage, name: &str| stored.message[name].as_str().unwrap().to_owned();
    path.iter().map(|stored| (field(stored, "role"), field(stored, "content"))).collect()
}

fn messages(path: &[(String, String)]) -> Vec<Message> {
    let message = |(role, content): &(String, String)| {
        Message::parse(&json!({"role": role, "content": content}), "messages").unwrap()
    };
    path.iter().map(message).collect()
}

fn world() -> (Transcript, ConversationId, Timestamp) {
    let now = Timestamp(1_000_000);
    (Transcript::in_memory(now).unwrap(), ConversationId::new("a").unwrap(), now)
}

#[tokio::test]
async fn a_dropped_answer_is_interrupted() {
    let (transcript, id, now) = world();
    let hello = messages(&[("user".into(), "Hello".into())]);
    drop(transcript.sync(&id, hello, now));
    let stored = transcript.get(&id).done().await.unwrap().unwrap();
    assert_eq!(stored.messages[1].status, Status::Interrupted);
}

#[tokio::test]
async fn a_conversation_of_any_length_can_be_deleted() {
    let (transcript, id, now) = world();
    let words = (0..2500).map(|n| (["user", "assistant"][n % 2].to_owned(), n.to_string()));
    drop(transcript.sync(&id, messages(&words.collect::<Vec<_>>()), now));
    assert!(transcript.delete(&id).done().await.unwrap());
    assert!(transcript.get(&id).done().await.unwrap().is_none());
}

#[tokio::test]
async fn deleted_text_is_overwritten_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text.sqlite");
    let transcript = Transcript::open(&path, Timestamp(0)).unwrap();
    let [kept, deleted] = ["kept", "deleted"].map(|id| ConversationId::new(id).unwrap());
    for (id, word) in [(&kept, "SPARROW "), (&deleted, "CANARY ")] {
        let said = messages(&[("user".to_owned(), word.repeat(2_000))]);
        drop(transcript.sync(id, said, Timestamp(1)));
    }
    assert!(transcript.delete(&deleted).done().await.unwrap());
    drop(transcript);
    let bytes = std::fs::read(&path).unwrap();
    let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    assert!(has(b"SPARROW SPARROW"));
    assert!(!has(b"CANARY"));
}

#[tokio::test]
async fn deleted_text_is_in_no_file_of_an_open_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text.sqlite");
    let transcript = Transcript::open(&path, Timestamp(0)).unwrap();
    // The write-ahead log is one of them.
    let has = |word: &[u8]| {
        std::fs::read_dir(directory.path()).unwrap().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes.windows(word.len()).any(|part| part == word)
        })
    };
    let id = ConversationId::new("deleted").unwrap();
    let said = messages(&[("user".to_owned(), "CANARY ".repeat(2_000))]);
    drop(transcript.sync(&id, said, Timestamp(1)));
    let document = StoredDocument {
        name: "a.txt".to_owned(),
        kind: "text".to_owned(),
        text: "SPARROW ".repeat(2_000),
    };
    let sparrow = document.id();
    transcript.put_document(document, DocumentHome::Library, Timestamp(1)).done().await.unwrap();
    assert!(has(b"SPARROW") && has(b"CANARY"));
    assert!(transcript.delete_document(&sparrow).await.unwrap());
    assert!(!has(b"SPARROW") && has(b"CANARY"));
    assert!(transcript.delete(&id).done().await.unwrap());
    assert!(!has(b"CANARY"));
}

#[tokio::test]
async fn a_turn_that_began_before_a_deletion_writes_nothing_after_it() {
    let (transcript, id, now) = world();
    let model = ModelHash([0; 8]);
    let hello = messages(&[("user".into(), "Hello".into())]);
    let of_turn = || transcript.of_turn(Some(transcript.ticket(&id).unwrap()));
    let end = |answer| TurnEnd {
        fingerprint: model,
        answer,
        timeline: Some((id.clone(), vec![Token(1)])),
        explanation: None,
        save_if: SaveIf::Always,
        is_private: false,
        now,
    };
    let [before, begun] = [of_turn(), of_turn()];
    let mut open = begun.sync(&id, hello.clone(), now);
    open.stored().await.unwrap();

    let deletion = transcript.begin_deletion(&id);
    assert!(matches!(transcript.ticket(&id), Err(TranscriptError::Deleted)));
    assert!(transcript.delete(&id).done().await.unwrap());
    drop(deletion);
    let late = before.sync(&id, hello.clone(), now).stored().await;
    assert!(matches!(late, Err(TranscriptError::Deleted)));
    let answer = open.complete(&Message::answer("Hi", "", &[]), &json!({}));
    let ended = begun.end_turn(end(Some(answer))).unwrap().done().await;
    assert!(matches!(ended, Err(TranscriptError::Deleted)));
    before.end_turn(end(None));
    assert!(transcript.get(&id).done().await.unwrap().is_none());
    assert_eq!(transcript.tokens(&id, model).done().await.unwrap(), []);

    of_turn().sync(&id, hello, now).stored().await.unwrap();
    assert!(transcript.get(&id).done().await.unwrap().is_some(), "a later turn begins it anew");
}

#[tokio::test]
async fn a_text_from_elsewhere_that_arrives_after_a_deletion_is_not_merged() {
    let (transcript, id, now) = world();
    let export = ConversationExport::from_json(&json!({
        "format": "hob conversation", "id": id.as_str(),
        "messages": [{"id": 1, "message": {"role": "user", "content": "Hello"}}],
    }));
    let export = export.unwrap();
    let merge = |transcript: &Transcript| {
        transcript.merge(id.clone(), export.clone(), MergedHead::Exported, now)
    };
    let begun = transcript.of_turn(Some(transcript.ticket(&id).unwrap()));
    drop(transcript.begin_deletion(&id));
    let merged = merge(&begun).done().await;
    assert!(matches!(merged, Err(TranscriptError::Deleted)), "{merged:?}");
    assert!(transcript.get(&id).done().await.unwrap().is_none());

    let later = transcript.of_turn(Some(transcript.ticket(&id).unwrap()));
    merge(&later).done().await.unwrap();
    assert!(transcript.get(&id).done().await.unwrap().is_some());
}

#[tokio::test]
async fn a_newer_text_from_elsewhere_says_where_prompts_begin() {
    let (transcript, id, now) = world();
    let export = |starts: bool| {
        let message = |n: i64, role: &str| {
            json!({"id": n, "parent": (n > 1).then_some(n - 1),
                "message": {"role": role, "content": n.to_string()}})
        };
        let mut third = message(3, "user");
        if starts {
            third["starts_prompt"] = json!(true);
            third["summary"] = json!("Older.");
            third["brings"] = json!([0]);
        }
        let messages = [message(1, "user"), message(2, "assistant"), third];
        let json = json!({"format": "hob conversation", "id": id.as_str(), "messages": messages});
        ConversationExport::from_json(&json).unwrap()
    };
    let whole = (false, None, Vec::<u32>::new());
    let part = (true, Some("Older.".to_owned()), vec![0]);
    for (starts, head, expected) in [
        (false, MergedHead::Exported, &whole),
        (true, MergedHead::Stored, &whole),
        (true, MergedHead::Exported, &part),
        (false, MergedHead::Exported, &whole),
    ] {
        transcript.merge(id.clone(), export(starts), head, now).done().await.unwrap();
        let text = transcript.get(&id).done().await.unwrap().unwrap();
        let SavedMessage { starts_prompt, summary, brings, .. } = text.messages[2].clone();
        assert_eq!(&(starts_prompt, summary, brings), expected);
    }
}

#[tokio::test]
async fn a_conversation_is_private_while_a_private_request_of_it_runs_or_has_left_text() {
    let (transcript, id, now) = world();
    let first = transcript.open_private(&id).await.unwrap();
    let second = transcript.enter_private(&id).unwrap();
    drop(first); // It failed; the second one still relies on its privacy.
    assert!(transcript.is_private(&id));
    drop(second);
    assert!(!transcript.is_private(&id) && transcript.enter_private(&id).is_none());

    let deleted = transcript.open_private(&id).await.unwrap();
    transcript.delete(&id).done().await.unwrap();
    let anew = transcript.open_private(&id).await.unwrap();
    drop(deleted);
    assert!(transcript.is_private(&id), "it was opened anew");
    drop(transcript.sync(&id, messages(&[("user".into(), "Hello".into())]), now));
    anew.has_text();
    drop(anew);
    assert!(transcript.is_private(&id));
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text.sqlite");
    drop(Transcript::open(&path, Timestamp(0)).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    let error = Transcript::open(&path, Timestamp(0)).unwrap_err();
    assert!(matches!(error, TranscriptError::Newer { found: 99, known: 16 }), "{error}");
}

#[tokio::test]
async fn the_timelines_of_other_branches_stay_until_the_conversation_is_deleted() {
    let (transcript, _, now) = world();
    let (id, fingerprint) = (ConversationId::new("v5:abc").unwrap(), ModelHash([1; 8]));
    let timelines = async || {
        let query = TurnQuery { timeline_of: Some(id.clone()), ..TurnQuery::nothing(fingerprint) };
        transcript.begin_turn(query).await.unwrap().timelines
    };
    let tokens = |text: &str| text.bytes().map(|byte| Token(byte.into())).collect::<Vec<_>>();
    for text in ["ab", "abc", "abx", "y", "abcd"] {
        transcript.put_tokens(&id, fingerprint, tokens(text), SaveIf::Always, now);
    }
    assert_eq!(timelines().await, ["abcd", "y", "abx"].map(tokens));
    for number in 0..30 {
        transcript.put_tokens(&id, fingerprint, tokens(&format!("z{number}")), SaveIf::Always, now);
    }
    assert_eq!(timelines().await.len(), 1 + 16);
    transcript.delete(&id).done().await.unwrap();
    assert_eq!(timelines().await, vec![Vec::new()]);
}

#[tokio::test]
async fn timelines_without_text_are_deleted_after_a_day() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text.sqlite");
    let (id, model) = (ConversationId::new("v5:abc").unwrap(), ModelHash([1; 8]));
    let timeline = vec![Token(3), Token(-1), Token(i32::MAX)];
    let at = |hours: u64| Timestamp(hours * 3_600_000);
    let open = |hours| Transcript::open(&path, at(hours)).unwrap();

    open(0).put_tokens(&id, model, timeline.clone(), SaveIf::Always, at(0));
    assert_eq!(open(23).tokens(&id, model).done().await.unwrap(), timeline);
    assert_eq!(open(23).tokens(&id, ModelHash([2; 8])).done().await.unwrap(), []);
    assert_eq!(open(25).tokens(&id, model).done().await.unwrap(), []);

    open(25).put_tokens(&id, model, timeline, SaveIf::HasText, at(25));
    assert_eq!(open(25).tokens(&id, model).done().await.unwrap(), [], "its text is gone");
}

#[tokio::test]
async fn timelines_without_text_are_deleted_after_a_day_while_the_database_is_open() {
    let (transcript, talk, _) = world();
    let (hint, model) = (ConversationId::new("v5:abc").unwrap(), ModelHash([1; 8]));
    let at = |hours: u64| Timestamp(hours * 3_600_000);
    let hello = messages(&[("user".into(), "Hello".into())]);
    transcript.sync(&talk, hello, at(0)).stored().await.unwrap();
    for id in [&talk, &hint] {
        transcript.put_tokens(id, model, vec![Token(1)], SaveIf::Always, at(0));
    }
    let length =
        async |id: &ConversationId| transcript.tokens(id, model).done().await.unwrap().len();
    transcript.delete_stale(at(23));
    assert_eq!((length(&talk).await, length(&hint).await), (1, 1));
    transcript.delete_stale(at(25));
    assert_eq!((length(&talk).await, length(&hint).await), (1, 0));
}
