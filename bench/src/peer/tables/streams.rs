//! Tokens a second, and the gaps between tokens, of several answers at a time, with newcomers.
//!
//! - The prompts of the answers were computed before, so that all of them begin together.
//! - Tokens a second: from the moment at which every answer has begun until a newcomer comes.
//! - Gaps: of all answers from their first token to their last, while the prompts of newcomers are
//!   computed beside them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::peer::bench::{Bench, Sheet, order};
use crate::peer::side::{Ask, Side};
use crate::peer::stream::Arrivals;
use crate::peer::text::{message, text};
use crate::record::{Row, Unit};

const STREAMS: [usize; 3] = [1, 4, 16];

/// Words of an answer's prompt, and of a newcomer's.
const WORDS: usize = 64;
const NEWCOMER_WORDS: usize = 200;
const NEWCOMERS: usize = 2;

/// Tokens of each answer, and those that are timed without a newcomer.
const TOKENS: usize = 80;
const ALONE: usize = 24;
/// Tokens between two newcomers.
const BETWEEN: usize = 6;

const BAR: f64 = 1.02;
/// Maximum ratio of the gaps that 99 % are within, of several streams.
const GAP_BAR: f64 = 1.0;

pub fn measure(bench: &Bench) -> Result<Sheet> {
    let rows = STREAMS.iter().flat_map(|&streams| {
        let of = if streams == 1 { "1 stream".to_owned() } else { format!("{streams} streams") };
        let key = |what: &str| format!("{what}-{streams}");
        let speed = format!("tokens a second, {of}");
        [
            Row::higher(&key("speed"), speed, Unit::TokensPerSecond).bar(BAR),
            Row::lower(&key("p50"), format!("{of}: median gap"), Unit::Ms).bar(BAR),
            Row::lower(&key("p99"), format!("{of}: 99 % of gaps within"), Unit::Ms)
                .bar(if streams > 1 { GAP_BAR } else { BAR }),
            Row::lower(&key("newcomer"), format!("{of}: first token of a newcomer"), Unit::Ms),
        ]
    });
    let mut sheet = Sheet::new("Several answers at a time", bench.rounds, rows.collect());
    for streams in STREAMS {
        let mut sides = bench.sides(&format!("streams-{streams}"))?;
        for side in &mut sides {
            side.start_warm(&bench.setup.slots(streams + NEWCOMERS))?;
        }
        for round in 0..bench.rounds {
            for index in order(round) {
                one(&sides[index], streams, round, bench, &mut sheet)?;
            }
        }
    }
    sheet.conditions = format!(
        "Answers of {TOKENS} tokens to prompts of {} words that were computed before, sampled with temperature \
         0.8, top-k 40, top-p 0.95 and min-p 0.05; {NEWCOMERS} newcomers with prompts of {} words come one after \
         the other. Both have {NEWCOMERS} slots more than streams. A newcomer's first token has no bar: hobd \
         lets the answers go on meanwhile, which delays it.",
        bench.words(WORDS),
        bench.words(NEWCOMER_WORDS)
    );
    Ok(sheet)
}

/// Times of one round of one side.
struct RoundTimes {
    arrivals: Vec<Arrivals>,
    /// Without newcomers, while all answers ran.
    alone: [Instant; 2],
    newcomers_ms: Vec<f64>,
}

fn one(side: &Side, streams: usize, round: usize, bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let RoundTimes { arrivals, alone: [start, end], newcomers_ms } =
        watch(side, streams, round, bench)?;
    for answer in &arrivals {
        let pieces = answer.0.len();
        // Of a real model, a piece may hold two tokens.
        ensure!(pieces * 2 > TOKENS, "an answer of {pieces} pieces, not of {TOKENS}");
    }
    let tokens: usize = arrivals.iter().map(|answer| answer.between(start, end)).sum();
    let mut gaps: Vec<f64> = arrivals.iter().flat_map(Arrivals::gaps).collect();
    gaps.sort_by(f64::total_cmp);
    let within = |part: f64| gaps[((gaps.len() - 1) as f64 * part).ceil() as usize];
    for (what, figure) in [
        ("speed", tokens as f64 / (end - start).as_secs_f64()),
        ("p50", within(0.5)),
        ("p99", within(0.99)),
        ("newcomer", newcomers_ms.iter().sum::<f64>() / NEWCOMERS as f64),
    ] {
        sheet.push(&format!("{what}-{streams}"), side.who, figure);
    }
    Ok(())
}

fn watch(side: &Side, streams: usize, round: usize, bench: &Bench) -> Result<RoundTimes> {
    let names: Vec<String> = (0..streams).map(|n| format!("stream {round} {n}")).collect();
    let prompt = |name: &String| {
        let seed = format!("{name} {}", side.name());
        [message("user", &text(bench.words(WORDS), &seed))]
    };
    let prompts: Vec<[Value; 1]> = names.iter().map(prompt).collect();
    for (slot, (name, prompt)) in names.iter().zip(&prompts).enumerate() {
        side.ask(&Ask { slot: Some(slot), ..Ask::one_token(name, prompt) })?;
    }
    std::thread::sleep(Duration::from_millis(300)); // Hob saves behind the answer.
    let seen: Vec<AtomicUsize> = names.iter().map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        let answer = |slot: usize| {
            let (conversation, messages) = (names[slot].as_str(), prompts[slot].as_slice());
            let ask = Ask { conversation, messages, max_tokens: TOKENS, slot: Some(slot) };
            let seen = &seen[slot];
            scope.spawn(move || side.stream(&ask, round * 100 + slot, seen))
        };
        let answers: Vec<_> = (0..streams).map(answer).collect();
        let least = || seen.iter().map(|seen| seen.load(Ordering::Relaxed)).min().unwrap_or(0);
        let wait_for = |tokens: usize| {
            while least() < tokens && !answers.iter().any(ScopedJoinHandle::is_finished) {
                std::thread::sleep(Duration::from_millis(2));
            }
            Instant::now()
        };
        let alone = [wait_for(1), wait_for(least() + ALONE)];
        let mut newcomers_ms = Vec::new();
        for newcomer in 0..NEWCOMERS {
            let name = format!("newcomer {round} {newcomer} {}", side.name());
            let words = [message("user", &text(bench.words(NEWCOMER_WORDS), &name))];
            newcomers_ms.push(side.ask(&Ask::one_token(&name, &words))?.took.as_secs_f64() * 1e3);
            wait_for(least() + BETWEEN);
        }
        let arrivals = answers.into_iter().map(|answer| answer.join().expect("it returns errors"));
        Ok(RoundTimes { arrivals: arrivals.collect::<Result<_>>()?, alone, newcomers_ms })
    })
}
