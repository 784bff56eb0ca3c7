//! `GET /v1/learned`

use serde::{Deserialize, Serialize};

use crate::Text;

/// A prefix that many prompts begin with. Flat, so that it is a row of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LearnedPrefix {
    pub name: String,
    /// The beginning of its text.
    pub text: String,
    pub tokens: usize,
    pub kv_bytes: Option<u64>,
    /// Conversations that began with it in the last 7 days, of the latest 16.
    pub conversations: usize,
    /// Seconds since 1970.
    pub learned_at: u64,
    /// Seconds since 1970.
    pub used_at: u64,
    /// `waiting`, `warming` or `warm`.
    pub state: Option<Text>,
    /// `hot` (in cells), `warm` (in host memory), `cold` (on disk) or `none`.
    pub place: Text,
    /// Where most of its tokens came from when it last became warm.
    pub how: Option<Text>,
    pub computed_tokens: Option<usize>,
    pub error: Option<String>,
}
