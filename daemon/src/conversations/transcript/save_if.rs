//! The condition under which a timeline or an explanation is saved.

/// A conversation may be deleted before the write comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveIf {
    /// Only if the conversation has text then.
    HasText,
    /// Also of a conversation that never has text, such as a hint.
    Always,
}

impl SaveIf {
    pub(super) fn needs_text(self) -> bool {
        self == Self::HasText
    }
}
