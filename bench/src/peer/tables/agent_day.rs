//! A day of an agent, replayed.
//!
//! - Turn structure and lengths come from a trace, see [`crate::peer::trace`]: a word stands for a block of 64
//!   tokens. The text is synthetic; answers are those of the server, of the trace's length.
//! - Time is compressed: a pause over five minutes lasts until both have freed their weights, as
//!   Ollama does by default after that time; a shorter one is left out.
//! - Computed tokens are those that each server reports. They hardly depend on time, and the day is long: it has
//!   rounds of its own, fewer than the other tables.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::peer::bench::{Bench, Sheet, order};
use crate::peer::side::{Ask, Side};
use crate::peer::text::{message, text};
use crate::peer::trace::{self, Turn};
use crate::record::{Row, Unit};

const SESSIONS: usize = 4;

const PAUSE_SECS: f64 = 300.0;
const UNLOAD_AFTER: Duration = Duration::from_secs(1);

/// Tokens of an answer at most.
const ANSWER: usize = 16;

const COMPUTED_BAR: f64 = 0.5;
const TIME_BAR: f64 = 1.02;

pub fn measure(bench: &Bench) -> Result<Sheet> {
    let turns = trace::day(&bench.trace, SESSIONS)?;
    let pauses = turns.iter().filter(|turn| is_long(turn)).count();
    let rounds = bench.day_rounds;
    let mut sheet = Sheet::new(
        "An agent's day, the weights freed in its pauses",
        rounds,
        vec![
            Row::lower("computed", "computed tokens of prompts", Unit::Tokens).bar(COMPUTED_BAR),
            Row::lower("again", "of them in turns behind a pause", Unit::Tokens),
            Row::lower("time", "time until all answers were there", Unit::Ms).bar(TIME_BAR),
        ],
    );
    let mut prompt_tokens = 0;
    for round in 0..rounds {
        let mut sides = bench.sides(&format!("agent-day-{round}"))?;
        for index in order(round) {
            let side = &mut sides[index];
            side.start_warm(&bench.setup.unload_after(UNLOAD_AFTER))?;
            let day = replay(side, &turns, bench)?;
            side.stop()?;
            prompt_tokens = day.prompt_tokens;
            sheet.push("computed", side.who, day.computed as f64);
            sheet.push("again", side.who, day.behind_pauses as f64);
            sheet.push("time", side.who, day.waited.as_secs_f64() * 1e3);
        }
    }
    sheet.conditions = format!(
        "{SESSIONS} recorded sessions of a coding agent, {} requests with {} tokens of prompts in all, \
         at 1/64 of their lengths; {pauses} pauses over five minutes, in which both free the weights. The day has \
         {rounds} rounds, because it is long and its tokens hardly differ between them.",
        turns.len(),
        Unit::Tokens.show(prompt_tokens as f64)
    );
    Ok(sheet)
}

struct Day {
    prompt_tokens: u64,
    computed: u64,
    behind_pauses: u64,
    waited: Duration,
}

/// A thread of a session, as messages.
#[derive(Default)]
struct Thread {
    messages: Vec<Value>,
    /// The blocks of the last prompt.
    blocks: Vec<String>,
    /// How many of them there are up to the end of each message. The last answer came behind them.
    ends: Vec<usize>,
    /// Blocks that the last answer stands for.
    answer_blocks: usize,
}

fn replay(side: &Side, turns: &[Turn], bench: &Bench) -> Result<Day> {
    let mut threads: BTreeMap<&str, Thread> = BTreeMap::new();
    let mut day = Day { prompt_tokens: 0, computed: 0, behind_pauses: 0, waited: Duration::ZERO };
    for turn in turns {
        if is_long(turn) {
            side.wait_until_unloaded()?;
        }
        let thread = threads.entry(&turn.thread).or_default();
        thread.ask(turn, bench);
        let max_tokens = trace::scaled(turn.answer_tokens).clamp(1, ANSWER);
        let name = format!("day {}", turn.thread);
        let ask = Ask { conversation: &name, messages: &thread.messages, max_tokens, slot: None };
        let said = side.ask(&ask)?;
        thread.answered(&said.text, max_tokens);
        day.prompt_tokens += said.prompt_tokens;
        day.computed += said.computed_tokens;
        day.waited += said.took;
        if is_long(turn) {
            day.behind_pauses += said.computed_tokens;
        }
    }
    Ok(day)
}

impl Thread {
    /// The messages of a turn: those of the blocks that it has in common with the last one, and one of
    /// the rest.
    fn ask(&mut self, turn: &Turn, bench: &Bench) {
        let same = self.blocks.iter().zip(&turn.blocks).take_while(|(a, b)| a == b).count();
        if same == self.blocks.len() && !self.messages.is_empty() {
            self.ends.push((same + self.answer_blocks).min(turn.blocks.len()));
        } else {
            let stay = self.ends.iter().take_while(|&&end| end <= same).count();
            self.ends.truncate(stay);
            self.messages.truncate(stay);
        }
        self.blocks.clone_from(&turn.blocks);
        let mut rest = &turn.blocks[self.end()..];
        if self.messages.is_empty() {
            let shared = rest.iter().take_while(|block| trace::is_shared(block)).count();
            self.push("system", &rest[..shared], bench);
            rest = &rest[shared..];
        }
        self.push("user", rest, bench);
    }

    fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn push(&mut self, role: &str, blocks: &[String], bench: &Bench) {
        let words: Vec<String> = blocks.iter().map(|seed| text(bench.words(1), seed)).collect();
        let content = if words.is_empty() { "Go on.".to_owned() } else { words.join(" ") };
        self.messages.push(message(role, &content));
        self.ends.push(self.end() + blocks.len());
    }

    fn answered(&mut self, answer: &str, tokens: usize) {
        self.messages.push(message("assistant", answer));
        self.answer_blocks = tokens;
    }
}

fn is_long(turn: &Turn) -> bool {
    turn.pause > PAUSE_SECS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> Bench {
        let setup = crate::peer::setup::Setup {
            model: "m".into(),
            context: 1,
            threads: 1,
            slots: None,
            unload_after: None,
            saves: false,
            cache_reuse: None,
            drafts: true,
        };
        let (directory, trace) = (".".into(), ".".into());
        let (rounds, day_rounds, scale, kv_bytes, weights_bytes) = (1, 1, 1.0, None, 0);
        Bench { setup, directory, rounds, day_rounds, scale, trace, kv_bytes, weights_bytes }
    }

    fn turn(blocks: &[&str]) -> Turn {
        let blocks = blocks.iter().map(|&block| block.to_owned()).collect();
        Turn { thread: "0 0".to_owned(), blocks, answer_tokens: 64, pause: 0.0 }
    }

    fn roles(thread: &Thread) -> Vec<&str> {
        thread.messages.iter().map(|message| message["role"].as_str().expect("a role")).collect()
    }

    #[test]
    fn a_prompt_that_goes_on_has_the_answer_in_it() {
        let mut thread = Thread::default();
        thread.ask(&turn(&["shared 0", "a"]), &bench());
        thread.answered("yes", 1);
        let before = thread.messages.clone();

        thread.ask(&turn(&["shared 0", "a", "answer", "b", "c"]), &bench());

        assert_eq!(roles(&thread), ["system", "user", "assistant", "user"]);
        assert_eq!(thread.messages[..3], before);
        assert_eq!(thread.messages[3]["content"].as_str().map(|it| it.split(' ').count()), Some(2));
    }

    #[test]
    fn a_prompt_that_was_cut_keeps_only_the_messages_before_the_cut() {
        let mut thread = Thread::default();
        thread.ask(&turn(&["shared 0", "a", "b"]), &bench());
        thread.answered("yes", 1);

        thread.ask(&turn(&["shared 0", "a", "x"]), &bench());

        assert_eq!(roles(&thread), ["system", "user"]);
        assert_eq!(thread.ends, [1, 3]);
    }
}
