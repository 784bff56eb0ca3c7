//! Messages as passages: cut into tokens much as a tokenizer would, and these into blocks.

use std::ops::Range;

use hob_slots::BLOCK_TOKENS;
use hob_slots::recall::Passage;

/// Where a block ends before it is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ends {
    /// With a message, as where the chat template has an end-of-turn token.
    AtMessages,
    Nowhere,
}

pub struct Blocks {
    pub passages: Vec<Passage>,
    /// Of each message: parts of its bytes, and the blocks that they are in.
    parts: Vec<Vec<(Range<usize>, usize)>>,
}

impl Blocks {
    /// The blocks with these bytes of a message.
    pub fn of(&self, message: usize, bytes: &Range<usize>) -> Vec<usize> {
        let overlaps = |part: &Range<usize>| part.start < bytes.end && bytes.start < part.end;
        let parts = self.parts[message].iter().filter(|(part, _)| overlaps(part));
        let mut blocks: Vec<usize> = parts.map(|&(_, block)| block).collect();
        blocks.dedup();
        blocks
    }
}

/// Each message begins with a token of the chat template, and is a group.
pub fn blocks(messages: &[String], ends: Ends) -> Blocks {
    let mut blocks = Blocks { passages: Vec::new(), parts: vec![Vec::new(); messages.len()] };
    let mut range = 0..0;
    let mut text = String::new();
    let mut group = 0;
    for (message, said) in messages.iter().enumerate() {
        let mut from = 0;
        let said = std::iter::once((true, "\n")).chain(tokens(said).map(|token| (false, token)));
        for (begins, token) in said {
            if range.len() == BLOCK_TOKENS || begins && ends == Ends::AtMessages {
                close(&mut blocks, &mut range, &mut text, group);
            }
            if range.is_empty() {
                group = message as u64 + 1;
            }
            range.end += 1;
            text.push_str(token);
            if !begins {
                blocks.parts[message].push((from..from + token.len(), blocks.passages.len()));
                from += token.len();
            }
        }
    }
    close(&mut blocks, &mut range, &mut text, group);
    blocks
}

fn close(blocks: &mut Blocks, range: &mut Range<usize>, text: &mut String, group: u64) {
    if range.start < range.end {
        let (block, text) = (blocks.passages.len(), std::mem::take(text));
        blocks.passages.push(Passage { block, range: range.clone(), text, key: None, group });
        *range = range.end..range.end;
    }
}

/// A space with up to four letters, up to four letters, a digit, or one other character.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let letters = |text: &str| -> usize {
            let letters = text.chars().take(4).take_while(|c| c.is_alphabetic());
            letters.map(char::len_utf8).sum()
        };
        let end = match first {
            ' ' => 1 + letters(&rest[1..]),
            _ => letters(rest).max(first.len_utf8()),
        };
        let (token, behind) = rest.split_at(end);
        rest = behind;
        Some(token)
    })
}
