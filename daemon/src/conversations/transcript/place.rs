//! Where in a saved conversation an append continues.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Before the first message: `0` on the wire.
    Nothing,
    Message(i64),
}
