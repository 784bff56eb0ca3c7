//! The rows of a sequence that the context of MTP heads keeps until it computes them.
//!
//! - Pure: positions, tokens and hidden states.
//! - A row of the heads is a token and the hidden state of the token before it. The rows of a trail have adjacent
//!   positions, up to the newest token.
//! - A trail drops its first row beyond [`MAX_KEPT`]: of a longer prompt, the heads compute the end.
//! - Trails share hidden states: the worker marks a running state before each draft, and the mark's trail copies none of
//!   up to 14 MB.

use std::collections::VecDeque;
use std::sync::Arc;

use hob_slots::Token;

/// Rows that a trail keeps at most. A hidden state takes 4 to 28 KB.
const MAX_KEPT: usize = 512;

/// A row that the heads have not computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub position: usize,
    pub token: Token,
    /// The hidden state of the token before it.
    pub before: Arc<[f32]>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trail {
    /// The position behind the heads' cells; those of guesses do not count.
    pub end: usize,
    /// Cells of guesses may be behind `end`.
    pub has_guesses: bool,
    kept: VecDeque<Kept>,
    /// The position and the hidden state of the newest token.
    newest: Option<(usize, Arc<[f32]>)>,
}

impl Trail {
    /// The model has computed the token at `position`.
    pub fn keep(&mut self, position: usize, token: Token, hidden: Arc<[f32]>) {
        let before = match self.newest.take() {
            Some((newest, before)) if newest + 1 == position => Some(before),
            // As llama.cpp's own drafter begins. Elsewhere, the heads' cells would be dropped for a gap of one.
            _ if self.kept.is_empty() && position == self.end => {
                Some(Arc::from(vec![0.0_f32; hidden.len()]))
            }
            _ => None,
        };
        let is_adjacent = self.kept.back().is_none_or(|last| last.position + 1 == position);
        if before.is_none() || !is_adjacent {
            self.kept.clear();
        }
        self.kept.extend(before.map(|before| Kept { position, token, before }));
        if self.kept.len() > MAX_KEPT {
            self.kept.pop_front();
        }
        self.newest = Some((position, hidden));
    }

    /// The model has computed tokens whose hidden states the trail does not get.
    pub fn pass(&mut self) {
        self.kept.clear();
        self.newest = None;
    }

    /// Only the first `len` tokens of the sequence stay. Returns the position from which the caller drops the
    /// heads' cells, if it must.
    pub fn cut(&mut self, len: usize) -> Option<usize> {
        let stay = self.kept.partition_point(|kept| kept.position < len);
        if self.newest.as_ref().is_some_and(|(newest, _)| *newest >= len) {
            let next = self.kept.get(stay).filter(|next| next.position == len);
            let before = next.map(|next| next.before.clone());
            self.newest = len.checked_sub(1).zip(before);
        }
        self.kept.truncate(stay);
        let is_shorter = len < self.end;
        self.end = self.end.min(len);
        (std::mem::take(&mut self.has_guesses) || is_shorter).then_some(self.end)
    }

    /// The trail of another sequence that has the first `len` tokens.
    pub fn of_first(&self, len: usize) -> Self {
        let stay = self.kept.iter().take_while(|kept| kept.position < len);
        let next = self.kept.iter().find(|kept| kept.position == len);
        let newest = self.newest.as_ref().filter(|(newest, _)| newest + 1 == len).cloned();
        let before = || len.checked_sub(1).zip(next.map(|next| next.before.clone()));
        Self {
            end: self.end.min(len),
            has_guesses: false,
            kept: stay.cloned().collect(),
            newest: newest.or_else(before),
        }
    }

    /// The rows that the heads lack, in order.
    pub fn kept(&self) -> impl ExactSizeIterator<Item = &Kept> {
        self.kept.iter()
    }

    /// The position and the hidden state of the newest token.
    pub fn newest(&self) -> Option<(usize, &[f32])> {
        self.newest.as_ref().map(|(position, hidden)| (*position, &hidden[..]))
    }

    /// The position of the row that the heads compute next.
    pub fn next_position(&self) -> Option<usize> {
        let behind = || self.newest.as_ref().map(|(position, _)| position + 1);
        self.kept.front().map(|kept| kept.position).or_else(behind)
    }

    /// The heads have computed the first `rows` of those that they lacked.
    pub fn computed(&mut self, rows: usize) {
        if let Some(last) = self.kept.drain(..rows).next_back() {
            self.end = last.position + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence of `len` tokens from the first one on.
    fn trail_of(len: usize) -> Trail {
        let mut trail = Trail::default();
        for position in 0..len {
            trail.keep(position, token(position), hidden(position));
        }
        trail
    }

    fn token(position: usize) -> Token {
        Token(i32::try_from(position).unwrap())
    }

    fn hidden(position: usize) -> Arc<[f32]> {
        Arc::from([position as f32, 0.5])
    }

    fn no_hidden() -> Arc<[f32]> {
        Arc::from([0.0_f32; 2])
    }

    fn positions(trail: &Trail) -> Vec<usize> {
        trail.kept().map(|kept| kept.position).collect()
    }

    #[test]
    fn each_row_has_the_hidden_state_of_the_token_before_it() {
        let trail = trail_of(3);
        let before: Vec<Arc<[f32]>> = trail.kept().map(|kept| kept.before.clone()).collect();
        assert_eq!(before, [no_hidden(), hidden(0), hidden(1)]);
        assert_eq!(trail.newest(), Some((2, &hidden(2)[..])));
    }

    #[test]
    fn behind_tokens_that_were_not_kept_it_begins_anew() {
        let mut trail = trail_of(3);
        trail.pass();
        assert_eq!((trail.next_position(), trail.newest()), (None, None));
        trail.keep(7, token(7), hidden(7));
        assert_eq!((positions(&trail), trail.next_position()), (vec![], Some(8)));
        trail.keep(8, token(8), hidden(8));
        assert_eq!((positions(&trail), trail.next_position()), (vec![8], Some(8)));
    }

    #[test]
    fn behind_the_heads_cells_it_goes_on_without_a_hidden_state() {
        let mut trail = trail_of(3);
        trail.computed(3);
        trail.pass();
        trail.keep(3, token(3), hidden(3));
        let kept: Vec<Kept> = trail.kept().cloned().collect();
        assert_eq!(kept, [Kept { position: 3, token: token(3), before: no_hidden() }]);
    }

    #[test]
    fn wrong_guesses_are_cut_off_as_if_they_had_not_been_computed() {
        let mut trail = trail_of(6);
        trail.computed(3);
        assert_eq!(trail.end, 3);
        let mut guessed = trail.clone();
        guessed.has_guesses = true;
        assert_eq!(guessed.cut(4), Some(3), "guesses are behind what the heads have computed");
        assert_eq!(trail.cut(4), None, "the heads had not computed them");
        assert_eq!(trail, guessed);
        let mut other = trail_of(4);
        other.computed(3);
        assert_eq!(trail, other);
        assert_eq!(trail.cut(2), Some(2), "the heads had computed one of them");
        assert_eq!(
            (trail.end, trail.next_position()),
            (2, None),
            "that state is not kept any more"
        );
        trail.cut(0);
        assert_eq!(trail, Trail::default());
    }

    #[test]
    fn a_sequence_that_shares_the_first_tokens_has_the_trail_up_to_there() {
        let mut trail = trail_of(6);
        trail.computed(2);
        let mut cut = trail.clone();
        cut.cut(4);
        assert_eq!(trail.of_first(4), cut);
        assert_eq!(trail.of_first(6), trail);
        assert_eq!(trail.of_first(0), Trail::default());
        let shared = trail.of_first(6);
        let [own, other] = [&trail, &shared].map(|trail| trail.newest().unwrap().1);
        assert!(std::ptr::eq(own, other), "the hidden state is copied");
    }

    #[test]
    fn of_a_long_prompt_the_end_is_kept() {
        let trail = trail_of(MAX_KEPT + 10);
        assert_eq!((trail.kept().len(), trail.next_position()), (MAX_KEPT, Some(10)));
    }
}
