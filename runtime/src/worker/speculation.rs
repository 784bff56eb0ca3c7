//! What speculations have done to a slot since the last answer. The next answer reports it.

use crate::turn::{Moved, Way};

#[derive(Default)]
pub(super) struct Speculation {
    /// Speculations made the tokens from here on hot.
    from: Option<usize>,
    /// Blocks that moved, and are not again where they were then.
    moved: Vec<Moved>,
}

impl Speculation {
    /// A turn begins with the first `hot` tokens in place. Returns how many of them were there before
    /// speculation.
    pub fn turn_begins(&mut self, speculates: bool, hot: usize) -> usize {
        let before = self.from.map_or(hot, |from| from.min(hot));
        self.from = speculates.then_some(before);
        before
    }

    /// Whether the last turn that began was a speculation.
    pub fn is_last(&self) -> bool {
        self.from.is_some()
    }

    /// A block has moved in a speculation.
    pub fn add_moved(&mut self, moved: Moved) {
        let undoes = |before: &Moved| {
            let is_out = |it: &Moved| it.way == Way::Out;
            before.range == moved.range && is_out(before) != is_out(&moved)
        };
        match self.moved.iter().position(undoes) {
            Some(before) => drop(self.moved.remove(before)),
            None => self.moved.push(moved),
        }
    }

    pub fn take_moved(&mut self) -> Vec<Moved> {
        std::mem::take(&mut self.moved)
    }
}
