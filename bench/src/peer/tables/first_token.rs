//! Time to the first token.
//!
//! - A request asks for one token, so its answer's last byte is its first token's.
//! - The two take turns in each part of each round, the first of them alternates, and no text is used
//!   twice. The other one sleeps meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::peer::bench::{Bench, Sheet, order};
use crate::peer::side::{Ask, Side};
use crate::peer::text::{message, text};
use crate::record::{Row, Unit, Who};

/// Words of the instructions, which are nearly as many tokens, and of those that are long.
const WORDS: usize = 800;
const LONG_WORDS: usize = 3000;

/// Words of a question behind a prompt, of one behind a long one, and of one that is typed.
const QUESTION: usize = 12;
const SHORT_QUESTION: usize = 3;
const TYPED: usize = 24;

/// Conversations that are asked between two turns of one, and their words.
const OTHERS: usize = 5;
const OTHER_WORDS: usize = 120;

/// Conversations over two slots, and their words.
const CONVERSATIONS: usize = 4;
const CONVERSATION_WORDS: usize = 250;

/// Both free the weights after this time without a request.
const UNLOAD_AFTER: Duration = Duration::from_secs(1);

/// Between two letters: about 150 words a minute.
const LETTER: Duration = Duration::from_millis(67);
/// The page sends what was typed at most this often.
const EVERY: Duration = Duration::from_millis(300);

/// Hob saves behind the answer.
const SAVING: Duration = Duration::from_millis(300);

/// Maximum ratio, beyond the noise.
const BAR: f64 = 1.02;
/// Where llama-server has to compute a long prompt again: 50 times faster.
const AGAIN_BAR: f64 = 0.02;

pub fn measure(bench: &Bench) -> Result<Sheet> {
    let row = |key, title: String| Row::lower(key, title, Unit::Ms).bar(BAR);
    let mut sheet = Sheet::new(
        "Time to the first token",
        bench.rounds,
        vec![
            row("cold", "cold".to_owned()),
            row("follow-up", "follow-up".to_owned()),
            row("warm-prefix", "new conversation, same instructions".to_owned()),
            row("after-others", format!("follow-up after {OTHERS} other conversations")),
            row("two-slots", format!("{CONVERSATIONS} conversations in turn over 2 slots")),
            row("after-restart", "follow-up after a restart".to_owned()),
            row("after-unload", "follow-up after the weights were freed".to_owned()),
            row("restart-long", "long follow-up after a restart".to_owned()).bar(AGAIN_BAR),
            row("typed", format!("{TYPED} words typed ahead")).against("hobd, sent whole"),
        ],
    );
    let tokens = turns(bench, &mut sheet)?;
    two_slots(bench, &mut sheet)?;
    let long = again(bench, &mut sheet)?;
    typed(bench, &mut sheet)?;
    let long = Unit::Tokens.show(long as f64);
    sheet.row("restart-long").title = format!("follow-up of {long} tokens after a restart");
    sheet.conditions = format!(
        "Prompts of {} tokens, and of {long} where the row says so; questions of {} words, behind the long \
         prompt of {SHORT_QUESTION}. Both free the weights after {} s without a request where the row says so.",
        Unit::Tokens.show(tokens as f64),
        bench.words(QUESTION),
        UNLOAD_AFTER.as_secs()
    );
    Ok(sheet)
}

/// Conversations from their first prompt through a restart. Returns the tokens of the cold prompt.
fn turns(bench: &Bench, sheet: &mut Sheet) -> Result<u64> {
    let mut sides = bench.sides("turns")?;
    for side in &mut sides {
        side.start_warm(&bench.setup)?;
    }
    let mut tokens = 0;
    for round in 0..bench.rounds {
        let mut talks = [0, 1].map(|index| Talk::new(&sides[index], round, bench));
        for part in Part::ALL {
            for index in order(round) {
                let computed = talks[index].go(part, &mut sides[index], bench, sheet)?;
                if part == Part::Cold {
                    tokens = computed;
                }
            }
        }
    }
    Ok(tokens)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Cold,
    FollowUp,
    WarmPrefix,
    AfterOthers,
    AfterRestart,
    AfterUnload,
}

impl Part {
    const ALL: [Self; 6] = [
        Self::Cold,
        Self::FollowUp,
        Self::WarmPrefix,
        Self::AfterOthers,
        Self::AfterRestart,
        Self::AfterUnload,
    ];

    fn key(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::FollowUp => "follow-up",
            Self::WarmPrefix => "warm-prefix",
            Self::AfterOthers => "after-others",
            Self::AfterRestart => "after-restart",
            Self::AfterUnload => "after-unload",
        }
    }
}

/// A conversation of one side in one round.
struct Talk {
    name: String,
    messages: Vec<Value>,
}

impl Talk {
    fn new(side: &Side, round: usize, bench: &Bench) -> Self {
        let name = format!("chat {round} {}", side.name());
        let instructions = text(bench.words(WORDS), &format!("instructions {name}"));
        Self { name, messages: vec![message("system", &instructions)] }
    }

    /// Measures one part. Returns the tokens of its prompt.
    fn go(&mut self, part: Part, side: &mut Side, bench: &Bench, sheet: &mut Sheet) -> Result<u64> {
        match part {
            Part::Cold | Part::FollowUp => {}
            Part::WarmPrefix => return self.of_other(side, bench, sheet),
            Part::AfterOthers => {
                for other in 0..OTHERS {
                    let name = format!("stranger {other} {}", self.name);
                    let words = [message("user", &text(bench.words(OTHER_WORDS), &name))];
                    side.ask(&Ask::one_token(&name, &words))?;
                }
            }
            // With the timer of the next part; the question comes before it has run.
            Part::AfterRestart => side.start_warm(&bench.setup.unload_after(UNLOAD_AFTER))?,
            Part::AfterUnload => side.wait_until_unloaded()?,
        }
        self.messages.push(self.question(part, bench));
        let said = side.ask(&Ask::one_token(&self.name, &self.messages))?;
        sheet.push(part.key(), side.who, ms(said.took));
        self.messages.push(message("assistant", &said.text));
        std::thread::sleep(SAVING);
        if part == Part::AfterUnload {
            side.start_warm(&bench.setup)?; // Without the timer again.
        }
        Ok(said.prompt_tokens)
    }

    fn of_other(&self, side: &Side, bench: &Bench, sheet: &mut Sheet) -> Result<u64> {
        let other = [self.messages[0].clone(), self.question(Part::WarmPrefix, bench)];
        let said = side.ask(&Ask::one_token(&format!("other {}", self.name), &other))?;
        sheet.push(Part::WarmPrefix.key(), side.who, ms(said.took));
        std::thread::sleep(SAVING);
        Ok(said.prompt_tokens)
    }

    fn question(&self, part: Part, bench: &Bench) -> Value {
        let seed = format!("{} {}", part.key(), self.name);
        message("user", &text(bench.words(QUESTION), &seed))
    }
}

/// Conversations in turn, more than there are slots.
fn two_slots(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let mut sides = bench.sides("two-slots")?;
    let mut chats: Vec<Vec<Vec<Value>>> = Vec::new();
    for side in &mut sides {
        side.start_warm(&bench.setup.slots(2))?;
        let first = |at: usize| -> Result<Vec<Value>> {
            let words = text(bench.words(CONVERSATION_WORDS), &format!("{at} {}", side.name()));
            let mut chat = vec![message("user", &words)];
            let said = side.ask(&Ask::one_token(&format!("chat {at}"), &chat))?;
            chat.push(message("assistant", &said.text));
            Ok(chat)
        };
        chats.push((0..CONVERSATIONS).map(first).collect::<Result<_>>()?);
    }
    for round in 0..bench.rounds {
        for index in order(round) {
            let side = &sides[index];
            let mut total = Duration::ZERO;
            for (at, chat) in chats[index].iter_mut().enumerate() {
                let seed = format!("{round} {at} {}", side.name());
                chat.push(message("user", &text(bench.words(QUESTION), &seed)));
                let said = side.ask(&Ask::one_token(&format!("chat {at}"), chat))?;
                chat.push(message("assistant", &said.text));
                total += said.took;
                std::thread::sleep(SAVING);
            }
            sheet.push("two-slots", side.who, ms(total) / CONVERSATIONS as f64);
        }
    }
    Ok(())
}

/// A long conversation after a restart, which llama-server computes again. Returns its tokens.
fn again(bench: &Bench, sheet: &mut Sheet) -> Result<u64> {
    let mut sides = bench.sides("restart-long")?;
    let words = text(bench.words(LONG_WORDS), "long");
    let mut chats = [0, 1].map(|_| vec![message("user", &words)]);
    // hobd reads it once; llama-server has nothing to remember it by.
    sides[0].start_warm(&bench.setup)?;
    let said = sides[0].ask(&Ask::one_token("long", &chats[0]))?;
    for chat in &mut chats {
        chat.push(message("assistant", &said.text));
    }
    let mut tokens = 0;
    for round in 0..bench.rounds {
        for index in order(round) {
            let (side, chat) = (&mut sides[index], &mut chats[index]);
            side.start_warm(&bench.setup)?;
            let seed = format!("short {round} {}", side.name());
            chat.push(message("user", &text(SHORT_QUESTION, &seed)));
            let said = side.ask(&Ask::one_token("long", chat))?;
            sheet.push("restart-long", side.who, ms(said.took));
            chat.push(message("assistant", &said.text));
            tokens = tokens.max(said.prompt_tokens);
            side.stop()?;
        }
    }
    Ok(tokens)
}

/// A question that is computed while it is typed, against one that is sent whole.
fn typed(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let [mut side, _] = bench.sides("typed")?;
    side.start_warm(&bench.setup)?;
    let words = text(bench.words(WORDS / 2), "typed");
    let ways = [("typed", Who::Hobd), ("whole", Who::Other)];
    let mut chats = ways.map(|_| vec![message("user", &words)]);
    for ((name, _), chat) in ways.into_iter().zip(&mut chats) {
        let said = side.ask(&Ask::one_token(name, chat))?;
        chat.push(message("assistant", &said.text));
    }
    for round in 0..bench.rounds {
        for index in order(round) {
            let ((name, who), chat) = (ways[index], &mut chats[index]);
            let question = text(TYPED, &format!("{name} {round}"));
            if who == Who::Hobd {
                type_ahead(&side, name, &question)?;
            }
            chat.push(message("user", &question));
            let said = side.ask(&Ask::one_token(name, chat))?;
            chat.push(message("assistant", &said.text));
            sheet.push("typed", who, ms(said.took));
            std::thread::sleep(SAVING);
        }
    }
    Ok(())
}

/// Types as the page does: after each finished word, it sends the text so far.
fn type_ahead(side: &Side, conversation: &str, text: &str) -> Result<()> {
    let path = format!("/v1/conversations/{conversation}/typing");
    let mut sent_at: Option<Instant> = None;
    for (at, letter) in text.char_indices() {
        std::thread::sleep(LETTER);
        if letter == ' ' && sent_at.is_none_or(|at| at.elapsed() >= EVERY) {
            let answer = side.hobd()?.post(&path, &json!({"text": &text[..=at]}))?;
            ensure!(answer["ahead"] == true, "nothing is computed ahead: {answer}");
            sent_at = Some(Instant::now());
        }
    }
    Ok(())
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
