//! OpenAI's wire shapes: requests are read and checked here, answers are written here.
//!
//! Reading order: `fields` (how a field is read and refused), `message`, `sampling`, then one file
//! a request (`chat`, `completion`, `embedding`) and `answer` for what goes back.
//! Nothing here touches a model, a file or a socket.

pub mod answer;
pub mod chat;
pub mod completion;
pub mod embedding;
pub mod fields;
pub mod message;
pub mod sampling;
