//! OpenAI's wire format: checks requests, and writes answers.
//!
//! - Touches no model, no file and no socket.
//!
//! Reading order: `fields` (reading and refusing a field), `message`, `sampling` with `lora` and `tokens`, one file per request
//! (`chat` with `hob`, `document`, `form`, `label`, `thinking`, `tools` with `freeform`, and `functions` with `call_ids`;
//! `completion`, `embedding`), `ranking`, `answer`.

pub mod answer;
pub mod call_ids;
pub mod chat;
pub mod completion;
pub mod document;
pub mod embedding;
pub mod fields;
pub mod form;
pub mod freeform;
pub mod functions;
pub mod hob;
pub mod label;
pub mod lora;
pub mod message;
pub mod ranking;
pub mod sampling;
pub mod thinking;
pub mod tokens;
pub mod tools;
