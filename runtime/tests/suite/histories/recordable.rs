//! What a turn may have recorded. A record that begins with the tokens of a later one, and has more,
//! stays in its place, with what its own tokens saw.

use hob_slots::Token;

pub struct Recordable {
    /// The prompt, and the answer as far as it was seen.
    pub timeline: Vec<Token>,
    /// Answer tokens that may follow and that were not seen.
    pub unseen: usize,
}

impl Recordable {
    /// Whether the turn's timeline may begin with `kept` and go on.
    pub fn may_cover(&self, kept: &[Token]) -> bool {
        let Self { timeline, unseen } = self;
        let is_alike = timeline.starts_with(kept) || kept.starts_with(timeline);
        is_alike && timeline.len() + unseen > kept.len()
    }
}
