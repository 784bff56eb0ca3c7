//! Classes of blocks: by turn, end of the last answer, size and sharing.

use super::super::{AnswerEnd, Run};

/// Blocks of a class are expected to be reused alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u16);

const TURNS: u16 = 4;
const ENDS: u16 = 3;
const SIZES: u16 = 4;
const PACES: u16 = 4;
const SHARINGS: u16 = 2;

impl Class {
    pub const FIRST: Self = Self(0);

    pub const COUNT: usize = (TURNS * ENDS * SIZES * PACES * SHARINGS) as usize;

    /// Classes without size and sharing.
    pub const COARSE_COUNT: usize = (TURNS * ENDS * PACES) as usize;

    /// The class of blocks that `run` used last. `gap_secs`: since the conversation's previous run.
    pub fn of(run: &Run, gap_secs: Option<u64>, shared: bool) -> Self {
        let turn = match run.turn {
            0 | 1 => 0,
            2 => 1,
            3..=5 => 2,
            _ => 3,
        };
        let ended = match run.ended {
            AnswerEnd::Unknown => 0,
            AnswerEnd::ToolCall => 1,
            AnswerEnd::Turn => 2,
        };
        let size = match run.tokens {
            0..=8_192 => 0,
            8_193..=32_768 => 1,
            32_769..=131_072 => 2,
            _ => 3,
        };
        let pace = match gap_secs {
            None => 0,
            Some(0..=15) => 1,
            Some(16..=120) => 2,
            Some(_) => 3,
        };
        let coarse = (turn * ENDS + ended) * PACES + pace;
        Self((coarse * SIZES + size) * SHARINGS + u16::from(shared))
    }

    pub fn index(self) -> usize {
        self.0.into()
    }

    /// The index without size and sharing.
    pub fn coarse_index(self) -> usize {
        (self.0 / (SIZES * SHARINGS)).into()
    }
}
