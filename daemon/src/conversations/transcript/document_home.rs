//! Where a new document belongs.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentHome {
    /// It stays until it is removed.
    Library,
    /// It belongs to the conversations that name it, and goes with the last of them.
    Chat,
    /// It belongs to private conversations, and its text never reaches the disk.
    PrivateChat,
}
