//! A day of an agent, out of recorded sessions: who asks when, and how much of each prompt is new.
//!
//! - Turn structure and lengths are the trace's; the text is synthetic, see `tables/agent_day`.
//! - Pure, but for reading the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde::Deserialize;

/// The project's own, from this crate's directory.
pub const DEFAULT: &str = "../assets/traces/claude_code_sessions.jsonl.gz";

/// Tokens of a block of the trace.
const BLOCK_TOKENS: usize = 64;

/// The first blocks of every session are the agent's own instructions and tools: the trace gives them
/// other names in each session, because it has no text.
const SHARED_BLOCKS: usize = 234;

const SHARED: &str = "shared ";

/// A session of the day has a number of requests in this range, lasts at least this long, and has no prompt longer
/// than this.
const REQUESTS: std::ops::RangeInclusive<usize> = 8..=30;
const MIN_SECS: f64 = 1_200.0;
const MAX_TOKENS: u64 = 130_000;

/// Seconds from the beginning of one session to that of the next.
const SPACING: f64 = 4_800.0;

#[derive(Deserialize)]
struct Line {
    s: String,
    th: String,
    t: f64,
    r#in: u64,
    out: usize,
    keep: usize,
    add: Vec<(u64, u64)>,
    #[serde(default)]
    api: Option<f64>,
}

/// A request of the day.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Of the day, in order.
    pub thread: String,
    /// Blocks of the prompt, by seeds of their texts; those of all sessions begin alike.
    pub blocks: Vec<String>,
    pub answer_tokens: usize,
    /// Seconds without any request before it.
    pub pause: f64,
}

/// A request that drops the end of its thread's prompt. In blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Blocks of the prompt before.
    pub before: usize,
    /// Blocks of the new prompt's beginning that an earlier prompt of the session began with: exact reuse has them.
    pub kept: usize,
    /// Behind that.
    pub added: usize,
}

impl Rewrite {
    /// Whether the history was compacted. A longer prompt has text that none before it had, of which the trace does
    /// not say what it is.
    pub fn is_compaction(&self) -> bool {
        self.kept + self.added <= self.before
    }
}

/// A request that drops fewer blocks rewrites nothing: the last block of most prompts is not full.
const MIN_DROPPED: usize = 2;

/// The first `sessions` of the trace that fit, as one day.
pub fn day(path: &Path, sessions: usize) -> Result<Vec<Turn>> {
    let turns = merge(&lines(path)?, sessions)?;
    ensure!(!turns.is_empty(), "{} has no session that fits", path.display());
    Ok(turns)
}

/// The rewritten prompts of all sessions, in order, and the number of all requests.
pub fn rewrites(path: &Path) -> Result<(Vec<Rewrite>, usize)> {
    let lines = lines(path)?;
    Ok((rewrites_of(&lines), lines.len()))
}

fn rewrites_of(lines: &[Line]) -> Vec<Rewrite> {
    let mut rewrites = Vec::new();
    for session in lines.chunk_by(|a, b| a.s == b.s) {
        let mut threads: BTreeMap<&str, usize> = BTreeMap::new();
        let mut seen = BTreeSet::new(); // The names of blocks say what is before them, too.
        for line in session {
            let added: Vec<u64> =
                line.add.iter().flat_map(|&(first, count)| first..first + count).collect();
            let known = added.iter().take_while(|block| seen.contains(*block)).count();
            let (kept, len) = (line.keep + known, line.keep + added.len());
            let before = threads.insert(&line.th, len).unwrap_or(0);
            seen.extend(added);
            if before >= kept + MIN_DROPPED {
                rewrites.push(Rewrite { before, kept, added: len - kept });
            }
        }
    }
    rewrites
}

fn lines(path: &Path) -> Result<Vec<Line>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let lines = lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<Result<Vec<Line>>>();
    lines.with_context(|| {
        format!("{} holds no sessions, one request a line, gzipped", path.display())
    })
}

fn merge(lines: &[Line], sessions: usize) -> Result<Vec<Turn>> {
    let fits = |session: &&[Line]| {
        REQUESTS.contains(&session.len())
            && session.last().is_some_and(|last| last.t >= MIN_SECS)
            && session.iter().all(|line| line.r#in <= MAX_TOKENS)
    };
    let chosen = lines.chunk_by(|a, b| a.s == b.s).filter(fits).take(sessions);
    let mut timed: Vec<(f64, f64, Turn)> = Vec::new();
    for (number, session) in chosen.enumerate() {
        let mut threads: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for line in session {
            let blocks = threads.entry(&line.th).or_default();
            ensure!(line.keep <= blocks.len(), "{} keeps more than there was", line.s);
            blocks.truncate(line.keep);
            blocks.extend(line.add.iter().flat_map(|&(first, count)| first..first + count));
            let seed = |(at, block): (usize, &u64)| match at {
                0..SHARED_BLOCKS => format!("{SHARED}{at}"),
                _ => format!("{number} {block}"),
            };
            let turn = Turn {
                thread: format!("{number} {}", line.th),
                blocks: blocks.iter().enumerate().map(seed).collect(),
                answer_tokens: line.out,
                pause: 0.0,
            };
            let at = number as f64 * SPACING + line.t;
            timed.push((at, at + line.api.unwrap_or(0.0), turn));
        }
    }
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut idle_since = timed.first().map_or(0.0, |first| first.0);
    Ok(timed
        .into_iter()
        .map(|(begins, ends, turn)| {
            let pause = (begins - idle_since).max(0.0);
            idle_since = idle_since.max(ends);
            Turn { pause, ..turn }
        })
        .collect())
}

/// Whether all sessions have this block.
pub fn is_shared(seed: &str) -> bool {
    seed.starts_with(SHARED)
}

/// Tokens of the replay that stand for this many of the trace.
pub fn scaled(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(session: &str, t: f64, keep: usize, add: (u64, u64)) -> Line {
        let (s, th) = (session.to_owned(), "0".to_owned());
        Line { s, th, t, r#in: 100, out: 65, keep, add: vec![add], api: Some(10.0) }
    }

    fn session(name: &str) -> Vec<Line> {
        (0..8)
            .map(|n| line(name, 200.0 * n as f64, if n == 0 { 0 } else { 300 }, (n, 300)))
            .collect()
    }

    #[test]
    fn sessions_share_their_first_blocks_and_no_others() {
        let lines: Vec<Line> = [session("a"), session("b")].into_iter().flatten().collect();

        let turns = merge(&lines, 2).expect("a trace");

        assert_eq!(turns.len(), 16);
        let (first, second) = (&turns[0], &turns[8]);
        assert_eq!((first.thread.as_str(), second.thread.as_str()), ("0 0", "1 0"));
        assert_eq!(first.blocks[..234], second.blocks[..234]);
        assert!(first.blocks[234..].iter().all(|block| !second.blocks.contains(block)));
        assert_eq!(turns[1].blocks[..300], first.blocks[..300], "it keeps them");
        assert_eq!((turns[0].pause, turns[1].pause), (0.0, 190.0));
        assert_eq!(scaled(turns[0].answer_tokens), 2);
    }

    #[test]
    fn a_request_that_drops_much_of_its_threads_prompt_rewrites_it() {
        let lines = [
            line("a", 0.0, 0, (0, 400)),
            line("a", 1.0, 399, (400, 9)),
            line("a", 2.0, 9, (500, 50)),
            line("a", 3.0, 9, (9, 391)), // As the first one.
            line("a", 4.0, 398, (600, 50)),
        ];
        let found = rewrites_of(&lines);
        let compacted = Rewrite { before: 408, kept: 9, added: 50 };
        let longer = Rewrite { before: 400, kept: 398, added: 50 };
        assert_eq!(found, [compacted, longer]);
        assert!(compacted.is_compaction() && !longer.is_compaction());
        let others = [line("a", 0.0, 0, (0, 400)), line("b", 0.0, 0, (0, 5))];
        assert_eq!(rewrites_of(&others), []);
    }

    #[test]
    fn a_trace_that_keeps_what_was_not_there_is_refused() {
        let mut lines = session("a");
        lines[0].keep = 5;
        assert!(merge(&lines, 1).is_err());
    }

    #[test]
    fn the_project_has_a_day() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DEFAULT);
        let turns = day(&path, 4).expect("it is in the repository");
        assert_eq!(turns.len(), 67);
        assert!(turns.iter().filter(|turn| turn.pause > 300.0).count() >= 10);
        let (rewrites, requests) = rewrites(&path).expect("it is in the repository");
        let compactions = rewrites.iter().filter(|it| it.is_compaction()).count();
        assert_eq!((rewrites.len(), compactions, requests), (199, 62, 7973));
    }
}
