//! JSON answers of the daemon's HTTP API as types: the daemon writes them, the command line reads
//! them. `docs/HTTP.md` and the files in `docs/http/` are their reference.
//!
//! - The names and the order of fields are public: renaming one breaks clients.
//! - Another version's answer is readable: a missing field has its default, an unknown one is
//!   ignored.
//! - An answer that only the daemon writes and no program of ours reads has its type there.
//!
//! Reading order: [`status`], [`device`], [`models`], [`conversations`], [`turn`], [`learned`], [`documents`].

use std::borrow::Cow;

pub mod conversations;
pub mod device;
pub mod documents;
pub mod learned;
pub mod models;
pub mod status;
pub mod turn;

pub use conversations::{AnswerMoves, Conversation, ConversationText, Explained, List, Message};
pub use device::{Build, Device, Offload};
pub use documents::Document;
pub use learned::LearnedPrefix;
pub use models::ModelMemory;
pub use status::Status;
pub use turn::{Explanation, Progress, Turn};

/// A text that the daemon mostly takes from its code.
pub type Text = Cow<'static, str>;
