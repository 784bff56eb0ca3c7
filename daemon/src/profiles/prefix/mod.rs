//! The tokens that every first request of a profile begins with.
//!
//! - Found by rendering requests with different tails and questions: the prefix is what all of them
//!   share. Tokens that depend on what follows are not part of it.
//! - A prefix that is a token too long costs one prefill of that token, never a wrong answer: cells
//!   are shared only as far as tokens agree.

use std::sync::{Arc, LazyLock};

use hob_prewarm::ProfileName;
use hob_slots::{Token, common_prefix};
use serde_json::{Map, Value};

use super::Profiles;
use crate::blocking::compute;
use crate::error::ApiError;
use crate::prompt::DocumentTexts;
use crate::prompt::prefix_cache::SharedPrefix;
use crate::prompt::{Preamble, PromptParts, Rendered, Renderer};
use crate::warm::prefixes::ProfilePrefix;
use crate::wire::message::{Message, Role};

/// Beginnings that tokenizers merge with the text before them in different ways: letters, digits,
/// spaces, line breaks, punctuation, other scripts.
const PROBES: [&str; 12] =
    ["What", "is", "7", " x", "  x", "\n", "\n\nx", "'s", "...", "\"", "\u{fc}", "\u{8a9e}"];

impl Profiles {
    /// The prefix of a profile as it is now: a template may write the date.
    ///
    /// # Errors
    /// When the profile is unknown or broken, or the template refuses it.
    pub async fn prefix(&self, profile: &ProfileName) -> Result<ProfilePrefix, ApiError> {
        let (profiles, name) = (self.clone(), profile.clone());
        compute(move || profiles.prefix_now(&name)).await
    }

    /// The tokens of a profile's prefix, rendered on the caller's thread.
    ///
    /// # Errors
    /// When the profile is unknown or broken, or the template refuses it.
    pub fn prefix_tokens(&self, profile: &ProfileName) -> Result<Vec<Token>, ApiError> {
        Ok(self.prefix_now(profile)?.tokens)
    }

    fn prefix_now(&self, name: &ProfileName) -> Result<ProfilePrefix, ApiError> {
        let preamble = self.preamble(name)?;
        let SharedPrefix { tokens, segments } = self.shared_prefix(&preamble)?.as_ref().clone();
        Ok(ProfilePrefix { id: name.prefix_id(), class: preamble.profile.ttl, tokens, segments })
    }

    /// The prefix of a preamble, from its cache if that is still valid.
    pub(super) fn shared_prefix(&self, preamble: &Preamble) -> Result<Arc<SharedPrefix>, ApiError> {
        // An unstable tail, such as a clock, does not invalidate the prefix.
        let tail = if preamble.tail().is_empty() { "" } else { PROBES[0] };
        let text = self
            .renderer()
            .text(&with_question(&preamble.with_tail(tail), &[question(PROBES[0])]))?;
        Ok(match preamble.prefix.get(&text) {
            Some(known) => known,
            None => preamble.prefix.put(text, shared_prefix(self.renderer(), preamble)?),
        })
    }
}

/// Renders the probes.
///
/// # Errors
/// When the template refuses the profile.
pub fn shared_prefix(renderer: &Renderer, preamble: &Preamble) -> Result<SharedPrefix, ApiError> {
    let render = |preamble: &Preamble, text: &str| {
        renderer.render(&with_question(preamble, &[question(text)]), &[])
    };
    let Rendered { mut tokens, mut segments, .. } = render(preamble, PROBES[0])?;
    let mut keep_common = |other: Rendered| tokens.truncate(common_prefix(&tokens, &other.tokens));
    for question in &PROBES[1..] {
        keep_common(render(preamble, question)?);
    }
    if !preamble.tail().is_empty() {
        for tail in PROBES {
            keep_common(render(&preamble.with_tail(tail), PROBES[0])?);
        }
    }
    let len = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
    let complete = segments.iter().take_while(|segment| segment.end < len).count();
    segments.truncate(complete + 1);
    if let Some(last) = segments.last_mut() {
        last.end = len;
    }
    segments.retain(|segment| segment.end > 0);
    Ok(SharedPrefix { tokens, segments })
}

fn question(text: &str) -> Message {
    Message::plain(Role::User, text)
}

fn with_question<'a>(preamble: &'a Preamble, messages: &'a [Message]) -> PromptParts<'a> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    static NO_DOCUMENTS: DocumentTexts = DocumentTexts::new();
    PromptParts {
        preamble: Some(preamble),
        messages,
        tools: preamble.tools(),
        variables: &NONE,
        documents: &NO_DOCUMENTS,
    }
}

#[cfg(test)]
mod tests;
