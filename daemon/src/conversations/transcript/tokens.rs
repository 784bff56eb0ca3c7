//! The timelines of each conversation, as tokens: `i32`, little endian. The last one, and those that
//! another branch has replaced: the newest [`MAX_BRANCHES`].
//!
//! - A turn writes what it adds, and not the whole timeline. The last timeline is stored in parts; a turn replaces
//!   those that it has changed. A branch is stored as what differs from the next newer timeline.
//! - A hint has rows here and no text. They are deleted after a day without use.

use std::collections::BTreeSet;
use std::time::Duration;

use hob_slots::{ConversationId, ModelHash, Timestamp, Token, common_prefix};
use rusqlite::{Connection, OptionalExtension};

use super::tree::millis;
use super::{SaveIf, TranscriptError};

/// Replaced timelines of a conversation under one model.
const MAX_BRANCHES: usize = 16;

const MAX_UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

/// Tokens of a part: 16 KiB, of which a turn rewrites one, and 25 for a timeline of 100,000.
const PART: usize = 4096;

/// The last timeline.
#[derive(Default)]
struct Last {
    tokens: Vec<Token>,
    /// An earlier hobd has stored it whole, in the row of `tokens`.
    is_whole: bool,
}

fn last(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
) -> Result<Last, TranscriptError> {
    let (conversation, fingerprint) = (conversation.as_str(), fingerprint.to_string());
    let whole: Option<Vec<u8>> = connection
        .prepare_cached("SELECT tokens FROM tokens WHERE conversation = ?1 AND fingerprint = ?2")?
        .query_row((conversation, &fingerprint), |row| row.get(0))
        .optional()?;
    let Some(whole) = whole else { return Ok(Last::default()) };
    if !whole.is_empty() {
        return Ok(Last { tokens: tokens_of(&whole), is_whole: true });
    }
    let mut select = connection.prepare_cached(
        "SELECT tokens FROM timeline_parts WHERE conversation = ?1 AND fingerprint = ?2
         ORDER BY place",
    )?;
    let mut rows = select.query((conversation, &fingerprint))?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.extend(tokens_of(&row.get::<_, Vec<u8>>(0)?));
    }
    Ok(Last { tokens, is_whole: false })
}

pub fn load(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
) -> Result<Vec<Token>, TranscriptError> {
    Ok(last(connection, conversation, fingerprint)?.tokens)
}

/// The length of the last timeline of each of these conversations that has one.
pub fn lengths(
    connection: &Connection,
    of: &BTreeSet<ConversationId>,
    fingerprint: ModelHash,
) -> Result<Vec<(ConversationId, usize)>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT (length(tokens) + coalesce((SELECT sum(length(part.tokens)) FROM timeline_parts part
             WHERE part.conversation = ?1 AND part.fingerprint = ?2), 0)) / 4
         FROM tokens WHERE conversation = ?1 AND fingerprint = ?2",
    )?;
    let fingerprint = fingerprint.to_string();
    let mut lengths = Vec::new();
    for id in of {
        let length = select.query_row((id.as_str(), &fingerprint), |row| row.get(0)).optional()?;
        lengths.extend(length.map(|length| (id.clone(), length)));
    }
    Ok(lengths)
}

/// The last timeline, and then those of other branches, the newest first.
pub fn load_all(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
) -> Result<Vec<Vec<Token>>, TranscriptError> {
    let last = load(connection, conversation, fingerprint)?;
    let branches = branches(connection, conversation, fingerprint, &last)?;
    Ok(std::iter::once(last).chain(branches.into_iter().map(|(_, it)| it)).collect())
}

/// The models that the conversation has a timeline of.
pub fn models(
    connection: &Connection,
    conversation: &ConversationId,
) -> Result<Vec<ModelHash>, TranscriptError> {
    let mut select =
        connection.prepare_cached("SELECT fingerprint FROM tokens WHERE conversation = ?1")?;
    let names = select.query_map([conversation.as_str()], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Saves the timelines of a new conversation, in the order of [`load_all`].
pub fn put_all(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
    timelines: &[Vec<Token>],
    now: Timestamp,
) -> Result<(), TranscriptError> {
    for timeline in timelines.iter().rev() {
        save(connection, conversation, fingerprint, timeline, SaveIf::Always, now)?;
    }
    Ok(())
}

/// `last`: the timeline that has replaced the newest of them.
fn branches(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
    last: &[Token],
) -> Result<Vec<(i64, Vec<Token>)>, TranscriptError> {
    let mut select = connection.prepare_cached(
        "SELECT id, shared, tokens FROM branches WHERE conversation = ?1 AND fingerprint = ?2
         ORDER BY id DESC",
    )?;
    let mut rows = select.query((conversation.as_str(), fingerprint.to_string()))?;
    let mut branches: Vec<(i64, Vec<Token>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, shared, own): (i64, usize, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let newer = branches.last().map_or(last, |(_, newer)| newer.as_slice());
        let mut branch = newer[..shared.min(newer.len())].to_vec();
        branch.extend(tokens_of(&own));
        branches.push((id, branch));
    }
    Ok(branches)
}

fn tokens_of(bytes: &[u8]) -> Vec<Token> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|&word| Token(i32::from_le_bytes(word))).collect()
}

fn bytes_of(timeline: &[Token]) -> Vec<u8> {
    timeline.iter().flat_map(|token| token.0.to_le_bytes()).collect()
}

pub fn save(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
    timeline: &[Token],
    save_if: SaveIf,
    now: Timestamp,
) -> Result<(), TranscriptError> {
    let Last { tokens: before, is_whole } = last(connection, conversation, fingerprint)?;
    let saved = connection
        .prepare_cached(
            "INSERT INTO tokens (conversation, fingerprint, tokens, used_at)
             SELECT ?1, ?2, x'', ?3
             WHERE NOT ?4 OR EXISTS (SELECT 1 FROM conversations WHERE id = ?1)
             ON CONFLICT DO UPDATE SET tokens = excluded.tokens, used_at = excluded.used_at",
        )?
        .execute((
            conversation.as_str(),
            fingerprint.to_string(),
            millis(now),
            save_if.needs_text(),
        ))?;
    if saved == 0 {
        return Ok(());
    }
    let shared = common_prefix(&before, timeline);
    let in_parts = if is_whole { 0 } else { shared };
    save_parts(connection, conversation, fingerprint, timeline, in_parts)?;
    if shared < before.len() {
        add_branch(connection, conversation, fingerprint, before, timeline, shared)?;
    }
    Ok(())
}

/// The parts hold the first `kept` tokens of the timeline already.
fn save_parts(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
    timeline: &[Token],
    kept: usize,
) -> Result<(), TranscriptError> {
    let (conversation, fingerprint) = (conversation.as_str(), fingerprint.to_string());
    let first = kept / PART * PART;
    connection
        .prepare_cached(
            "DELETE FROM timeline_parts
             WHERE conversation = ?1 AND fingerprint = ?2 AND place >= ?3",
        )?
        .execute((conversation, &fingerprint, first))?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO timeline_parts (conversation, fingerprint, place, tokens)
         VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (n, part) in timeline[first..].chunks(PART).enumerate() {
        insert.execute((conversation, &fingerprint, first + n * PART, bytes_of(part)))?;
    }
    Ok(())
}

/// `timeline` has replaced `before`, of which it begins with `shared` tokens.
fn add_branch(
    connection: &Connection,
    conversation: &ConversationId,
    fingerprint: ModelHash,
    before: Vec<Token>,
    timeline: &[Token],
    shared: usize,
) -> Result<(), TranscriptError> {
    let older = branches(connection, conversation, fingerprint, &before)?;
    connection
        .prepare_cached(
            "INSERT INTO branches (conversation, fingerprint, shared, tokens)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((
            conversation.as_str(),
            fingerprint.to_string(),
            shared,
            bytes_of(&before[shared..]),
        ))?;
    let newest = (connection.last_insert_rowid(), before);
    let all: Vec<(i64, Vec<Token>)> = std::iter::once(newest).chain(older).collect();
    // What the new timeline continues is a branch no longer.
    let (mut newer, mut lost_newer) = (timeline, false);
    for (number, (id, branch)) in all.iter().enumerate() {
        if number >= MAX_BRANCHES || timeline.starts_with(branch) {
            connection.prepare_cached("DELETE FROM branches WHERE id = ?1")?.execute([id])?;
            lost_newer = true;
            continue;
        }
        if lost_newer {
            let shared = common_prefix(branch, newer);
            connection
                .prepare_cached("UPDATE branches SET shared = ?2, tokens = ?3 WHERE id = ?1")?
                .execute((id, shared, bytes_of(&branch[shared..])))?;
        }
        newer = branch;
        lost_newer = false;
    }
    Ok(())
}

pub fn delete_stale(connection: &Connection, now: Timestamp) -> Result<(), TranscriptError> {
    let unused = i64::try_from(MAX_UNUSED.as_millis()).expect("a day fits");
    // In a row, the time stands behind the timeline: only that of a hint is read.
    connection.execute(
        "DELETE FROM tokens
         WHERE CASE WHEN conversation IN (SELECT id FROM conversations) THEN 0
                    ELSE used_at < ?1 END",
        [millis(now) - unused],
    )?;
    connection.execute(
        "DELETE FROM branches WHERE (conversation, fingerprint) NOT IN
             (SELECT conversation, fingerprint FROM tokens)",
        [],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conversations::transcript::schema;

    const MODEL: ModelHash = ModelHash([1; 8]);

    fn id() -> ConversationId {
        ConversationId::new("v5:abc").unwrap()
    }

    fn database() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        connection
    }

    fn put(connection: &Connection, timeline: &[Token]) {
        let transaction = connection.unchecked_transaction().unwrap();
        save(&transaction, &id(), MODEL, timeline, SaveIf::Always, Timestamp(0)).unwrap();
        transaction.commit().unwrap();
    }

    /// The store with all timelines whole.
    #[derive(Default)]
    struct Naive {
        last: Vec<Token>,
        branches: Vec<Vec<Token>>,
    }

    impl Naive {
        fn put(&mut self, timeline: &[Token]) {
            let before = std::mem::replace(&mut self.last, timeline.to_vec());
            if !timeline.starts_with(&before) {
                self.branches.insert(0, before);
                self.branches.truncate(MAX_BRANCHES);
                self.branches.retain(|branch| !timeline.starts_with(branch));
            }
        }

        fn all(&self) -> Vec<Vec<Token>> {
            std::iter::once(&self.last).chain(&self.branches).cloned().collect()
        }
    }

    /// Lengths about the ends of parts.
    fn length() -> impl Strategy<Value = usize> {
        prop::sample::select(vec![0, 1, 2, PART - 1, PART, PART + 1, 2 * PART])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn timelines_are_those_that_were_saved(
            steps in prop::collection::vec((length(), length(), 0..3_i32), 1..24),
        ) {
            let (connection, mut naive) = (database(), Naive::default());
            for (kept, added, token) in steps {
                let mut timeline = naive.last.clone();
                timeline.truncate(kept);
                timeline.extend(vec![Token(token); added]);
                put(&connection, &timeline);
                naive.put(&timeline);
                let all = load_all(&connection, &id(), MODEL).unwrap();
                prop_assert!(all == naive.all(), "{kept} kept, {added} of {token} added");
                let found = lengths(&connection, &BTreeSet::from([id()]), MODEL).unwrap();
                prop_assert_eq!(found, vec![(id(), timeline.len())]);
            }
        }
    }

    #[test]
    fn a_timeline_that_an_earlier_hobd_has_stored_goes_on() {
        let connection = database();
        let tokens: Vec<Token> = (0..10_000).map(Token).collect();
        let branch = vec![Token(1), Token(2)];
        let insert = |into: &str, tokens: &[Token]| {
            let values = (id().to_string(), MODEL.to_string(), bytes_of(tokens));
            connection.execute(&format!("INSERT INTO {into}"), values).unwrap();
        };
        let of_tokens =
            "tokens (conversation, fingerprint, tokens, used_at) VALUES (?1, ?2, ?3, 0)";
        insert(of_tokens, &tokens);
        insert("branches (conversation, fingerprint, tokens) VALUES (?1, ?2, ?3)", &branch);
        let all = || load_all(&connection, &id(), MODEL).unwrap();
        assert_eq!(all(), [tokens.clone(), branch.clone()]);
        let longer = [tokens, branch.clone()].concat();
        put(&connection, &longer);
        assert_eq!(all(), [longer, branch]);
        connection.execute("DELETE FROM tokens", []).unwrap();
        let parts = "SELECT count(*) FROM timeline_parts";
        assert_eq!(connection.query_row(parts, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }

    #[test]
    fn a_turn_of_a_long_conversation_writes_what_it_adds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.pragma_update(None, "secure_delete", true).unwrap();
        schema::migrate(&mut connection).unwrap();
        let log = || std::fs::metadata(path.with_extension("sqlite-wal")).unwrap().len();
        let mut timeline: Vec<Token> = (0..100_000).map(Token).collect();
        put(&connection, &timeline);
        for turn in 1..5 {
            let before = log();
            // The template leaves out the reasoning of the last answer: the timeline is another branch.
            timeline.truncate(timeline.len() - 300);
            timeline.extend((0..600).map(|n| Token(-1000 * turn - n)));
            put(&connection, &timeline);
            let written = log() - before;
            assert!(written < 100_000, "{written} bytes, of a timeline of 400,000");
        }
    }
}
