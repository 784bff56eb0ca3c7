//! How long it takes, and how often the passage that answers is among those that come back. Needs
//! no model.
//!
//! `cargo test --release -p hob-slots --test recall -- --ignored measure_recall --nocapture`

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::Instant;

use hob_slots::recall::{Index, Query, choose};

use crate::blocks::{Blocks, Ends, blocks};
use crate::corpus::{Draw, Probe, session};
use crate::resident_where;

/// The constants of `recall` were chosen on the sessions of other seeds, those from 0.
const HELD_OUT: u64 = 1000;

/// The newest blocks, which stay.
const RESIDENT: usize = 12;

#[test]
#[ignore = "measures; run it with --release and --nocapture"]
fn measure_recall() {
    speed();
    for (size, ends) in [
        (1000, Ends::AtMessages),
        (150, Ends::AtMessages),
        (1000, Ends::Nowhere),
        (150, Ends::Nowhere),
    ] {
        for room in [128, 256, 512] {
            println!("{}", quality(size, ends, room, 1000));
        }
    }
}

fn speed() {
    let mut draw = Draw::new(1);
    let session = session(&mut draw, 4000);
    let Blocks { mut passages, .. } = blocks(&session.messages, Ends::Nowhere);
    passages.truncate(1000);
    let words: usize = passages.iter().map(|passage| passage.text.split_whitespace().count()).sum();
    let mut built_ms = f64::MAX;
    let mut index = Index::default();
    for _ in 0..5 {
        let passages = passages.clone();
        let start = Instant::now();
        index = passages.into_iter().collect();
        built_ms = built_ms.min(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("{} blocks, {words} words: index built in {built_ms:.1} ms", index.len());
    let last = passages.len() - RESIDENT;
    let pasted: String = passages.iter().map(|passage| &*passage.text).collect();
    let pasted: String = pasted.split_inclusive(' ').take(10_000).collect();
    let questions: Vec<&str> = session.probes.iter().map(|probe| &*probe.question).collect();
    for (name, queries) in [("question", &questions[..]), ("text of 10,000 words", &[&*pasted])] {
        let rounds = 200_usize.div_ceil(queries.len());
        let mut us: Vec<f64> = Vec::new();
        for text in queries.iter().cycle().take(rounds * queries.len()) {
            let start = Instant::now();
            black_box(
                choose(&index, &Query::new(text), &resident_where(|block| block >= last), 512).back,
            );
            us.push(start.elapsed().as_secs_f64() * 1e6);
        }
        us.sort_by(f64::total_cmp);
        let at = |share: f64| us[((us.len() - 1) as f64 * share) as usize];
        println!("one {name}: median {:.0} us, 99 % within {:.0} us", at(0.5), at(0.99));
    }
}

fn quality(size: usize, ends: Ends, room_tokens: usize, questions: usize) -> String {
    let mut draw = Draw::new(size as u64 + HELD_OUT);
    let mut asked = 0;
    let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut blocks_back = 0;
    while asked < questions {
        let mut session = session(&mut draw, size);
        let blocks = blocks(&session.messages, ends);
        let last = blocks.passages.len() - RESIDENT;
        let index: Index = blocks.passages.iter().cloned().collect();
        for _ in 0..50 {
            let kind = *draw.of(&["fact", "file", "secret"]);
            let of_kind = |probe: &Probe| probe.kind == kind;
            let Some(at) = session.probes.iter().position(of_kind) else { continue };
            let probe = session.probes.remove(at);
            let needle = blocks.of(probe.message, &probe.bytes);
            if asked == questions || needle.iter().any(|&block| block >= last) {
                continue;
            }
            let query = Query::new(&probe.question);
            let chosen =
                choose(&index, &query, &resident_where(|block| block >= last), room_tokens).back;
            let back: BTreeSet<usize> = chosen.iter().map(|choice| choice.block).collect();
            let hit = needle.iter().all(|block| back.contains(block));
            let (right, all) = found.entry(probe.kind).or_default();
            *right += usize::from(hit);
            *all += 1;
            asked += 1;
            blocks_back += back.len();
        }
    }
    let right: usize = found.values().map(|(right, _)| right).sum();
    let kinds: Vec<String> =
        found.iter().map(|(kind, (right, all))| format!("{kind} {right}/{all}")).collect();
    format!(
        "{size} messages, {ends:?}, {room_tokens} tokens: {:.1} % ({}); {:.1} blocks",
        100.0 * right as f64 / asked as f64,
        kinds.join(", "),
        blocks_back as f64 / asked as f64
    )
}
