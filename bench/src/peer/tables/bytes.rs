//! Bytes on disk.
//!
//! - hobd saves behind every answer. llama-server saves a slot when a client asks it to, whole.
//! - Bytes are counted once: they do not depend on time.

use anyhow::Result;
use serde_json::Value;

use crate::peer::bench::{Bench, Sheet};
use crate::peer::setup::Setup;
use crate::peer::side::{Ask, Side};
use crate::peer::text::{message, text};
use crate::record::{Row, Unit};

const CONVERSATIONS: usize = 50;
/// Words of the instructions, which all share, and of each message.
const INSTRUCTIONS: usize = 500;
const WORDS: usize = 40;

/// llama-server answers all in this slot, so that the instructions stay in it.
const SLOT: usize = 0;

const BAR: f64 = 1.0;

pub fn measure(bench: &Bench) -> Result<Sheet> {
    let row = |key, title: String| Row::lower(key, title, Unit::Bytes).bar(BAR);
    let conversations = row("conversations", format!("{CONVERSATIONS} conversations"));
    let turn = row("turn", "a turn more of one".to_owned());
    let mut sheet = Sheet::new("Bytes on disk", 1, vec![conversations, turn]);
    let setup = Setup { saves: true, ..bench.setup.clone() };
    for mut side in bench.sides("bytes")? {
        side.start_warm(&setup)?;
        let before = side.saved_bytes()?;
        let mut last = Vec::new();
        for at in 0..CONVERSATIONS {
            let instructions = message("system", &text(bench.words(INSTRUCTIONS), "instructions"));
            last = vec![instructions];
            say(&mut side, at, &mut last, bench)?;
        }
        let saved = side.saved_bytes()?;
        sheet.push("conversations", side.who, saved.saturating_sub(before) as f64);

        let written = side.written_bytes()?;
        say(&mut side, CONVERSATIONS - 1, &mut last, bench)?;
        side.saved_bytes()?; // All of it is written.
        let turn = side.written_bytes()? - written;
        sheet.push("turn", side.who, turn as f64);
    }
    sheet.conditions = format!(
        "Conversations of {} words behind instructions of {} words, which all share; then a turn of {} words in \
         one of them, and what is written for it. hobd writes new blocks behind each answer; llama-server \
         writes all of a slot, when a client asks it to. Counted once: bytes do not depend on time.",
        bench.words(WORDS),
        bench.words(INSTRUCTIONS),
        bench.words(WORDS)
    );
    Ok(sheet)
}

/// A message, its answer, and what a client of llama-server does to have them saved.
fn say(side: &mut Side, at: usize, chat: &mut Vec<Value>, bench: &Bench) -> Result<()> {
    let name = format!("chat {at}");
    chat.push(message("user", &text(bench.words(WORDS), &format!("{name} {}", chat.len()))));
    let said = side.ask(&Ask { slot: Some(SLOT), ..Ask::one_token(&name, chat) })?;
    chat.push(message("assistant", &said.text));
    side.save(SLOT, &format!("chat-{at}"))
}
