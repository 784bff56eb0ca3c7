//! What is shown of the learned prefixes.

use hob_prewarm::{LearnedName, LearnedPrefix, PrefixName, PrefixState, Warmed};
use hob_runtime::EngineStatus;
use hob_slots::{Timestamp, Token};

use super::Learned;
use crate::blocking::compute;
use crate::profiles::status::{loaded_place, stored_place};

/// Characters of the beginning that is shown.
const SHOWN_CHARS: usize = 200;
/// Tokens that surely spell as many.
const SHOWN_TOKENS: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedStatus {
    pub name: LearnedName,
    /// The beginning of its text.
    pub text: String,
    pub tokens: usize,
    /// Conversations that began with it in the last 7 days, of the latest 16.
    pub conversations: usize,
    pub learned_at: Timestamp,
    pub used_at: Timestamp,
    /// `None`: the warming loop does not know it yet.
    pub state: Option<PrefixState>,
    /// `hot` (in cells), `warm` (in host memory), `cold` (on disk) or `none`.
    pub place: &'static str,
    /// The last time it became warm.
    pub warmed: Option<Warmed>,
    /// Why it is not warm.
    pub error: Option<String>,
}

impl Learned {
    /// In the order in which they were learned. `status`: the engine's.
    pub async fn list(&self, status: EngineStatus) -> Vec<LearnedStatus> {
        let learned = self.clone();
        compute(move || {
            let prefixes = learned.shared.state.lock().learner.prefixes().to_vec();
            prefixes.into_iter().map(|prefix| learned.status_of(prefix, &status)).collect()
        })
        .await
    }

    fn status_of(&self, prefix: LearnedPrefix, status: &EngineStatus) -> LearnedStatus {
        let options = &self.shared.options;
        let id = prefix.name.prefix_id();
        let place = loaded_place(&id, status).unwrap_or_else(|| {
            stored_place(options.reader.as_ref(), options.engine.fingerprint(), &id)
        });
        let name = PrefixName::Learned(prefix.name.clone());
        let tracked = options.warm_status.read().prefixes.remove(&name);
        let tokens = self.shared.state.lock().tokens.get(&prefix.name).cloned();
        LearnedStatus {
            text: self.beginning(&tokens.unwrap_or_default()),
            tokens: prefix.tokens,
            conversations: prefix.conversations(self.now()),
            learned_at: prefix.learned_at,
            used_at: prefix.used_at,
            state: tracked.as_ref().map(|tracked| tracked.state),
            place,
            warmed: tracked.as_ref().and_then(|tracked| tracked.warmed),
            error: tracked.and_then(|tracked| tracked.failed).map(|failed| failed.reason),
            name: prefix.name,
        }
    }

    /// The text without the template's marks.
    fn beginning(&self, tokens: &[Token]) -> String {
        let vocabulary = self.shared.options.engine.model().vocabulary();
        let words = tokens.iter().take(SHOWN_TOKENS).copied();
        let words: Vec<Token> = words.filter(|&token| !vocabulary.is_control(token)).collect();
        let text = String::from_utf8_lossy(&vocabulary.bytes(&words)).into_owned();
        text.trim().chars().take(SHOWN_CHARS).collect()
    }
}
