//! The tokens that every first request of a profile begins with.
//!
//! - Told by rendering requests whose tails and questions begin unlike each other: what all of them
//!   share is the prefix. Tokens that depend on what follows are in none of it.
//! - A prefix that is a token too long costs that token, never an answer: cells are shared only as
//!   far as tokens agree.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use hob_prewarm::ProfileName;
use hob_runtime::backend::Model;
use hob_slots::format::SegmentRef;
use hob_slots::{ConversationId, Token, TtlClass};
use serde_json::{Map, Value};

use super::preamble::Preamble;
use super::prompt::Template;
use super::rendering::{Ingredients, Rendered, render, rendered_text};
use super::{Service, compute};
use crate::error::ApiError;
use crate::wire::message::{Message, Role};

/// What can be made hot before anybody asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Under which name the engine keeps it.
    pub id: ConversationId,
    /// For how long.
    pub class: TtlClass,
    /// Its tokens, from position 0.
    pub tokens: Vec<Token>,
    /// Which part of the profile each of them belongs to.
    pub segments: Vec<SegmentRef>,
}

/// Beginnings that tokenizers join to what stands before them in different ways: letters, digits,
/// spaces, line breaks, marks, other scripts.
const PROBES: [&str; 12] =
    ["What", "is", "7", " x", "  x", "\n", "\n\nx", "'s", "...", "\"", "\u{fc}", "\u{8a9e}"];

impl Service {
    /// The prefix of a profile as it is now: a template may write the date.
    ///
    /// # Errors
    /// When there is no such profile, or when the template refuses it.
    pub async fn prefix(&self, profile: &ProfileName) -> Result<Prefix, ApiError> {
        let (service, name) = (self.clone(), profile.clone());
        compute(move || service.prefix_now(&name)).await
    }

    /// The tokens of [`prefix`](Self::prefix), on the caller's thread.
    ///
    /// # Errors
    /// As for [`prefix`](Self::prefix).
    pub fn prefix_tokens(&self, profile: &ProfileName) -> Result<Vec<Token>, ApiError> {
        Ok(self.prefix_now(profile)?.tokens)
    }

    fn prefix_now(&self, name: &ProfileName) -> Result<Prefix, ApiError> {
        let preamble = self.preamble(name)?;
        let Shared { tokens, segments } = Shared::clone(&*self.shared_of(&preamble)?);
        Ok(Prefix { id: name.prefix_id(), class: preamble.profile.ttl, tokens, segments })
    }

    /// What the requests share that begin so.
    pub(super) fn shared_of(&self, preamble: &Preamble) -> Result<Arc<Shared>, ApiError> {
        let template = &self.inner.template;
        // A clock in the tail is no reason to tell the prefix anew.
        let tail = if preamble.tail().is_empty() { "" } else { PROBES[0] };
        let text = rendered_text(
            template,
            &with_question(&preamble.with_tail(tail), &[question(PROBES[0])]),
        )?;
        Ok(match preamble.prefix.of(&text) {
            Some(known) => known,
            None => {
                let shared = shared(template, self.engine().model().as_ref(), preamble)?;
                preamble.prefix.remember(text, shared)
            }
        })
    }
}

/// What the requests of a profile share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The tokens.
    pub tokens: Vec<Token>,
    /// The segments; the last one reaches to the end.
    pub segments: Vec<SegmentRef>,
}

/// A prefix and the request that it was told by: while that is written alike, so is the prefix.
/// Keep-alive asks every few minutes, and should cost one rendering.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<Option<(String, Arc<Shared>)>>);

impl Remembered {
    /// Tokens of the prefix that is remembered.
    pub fn tokens(&self) -> Option<usize> {
        self.lock().as_ref().map(|(_, shared)| shared.tokens.len())
    }

    fn of(&self, text: &str) -> Option<Arc<Shared>> {
        let lock = self.lock();
        lock.as_ref().filter(|(known, _)| known == text).map(|(_, shared)| shared.clone())
    }

    fn remember(&self, text: String, shared: Shared) -> Arc<Shared> {
        let shared = Arc::new(shared);
        *self.lock() = Some((text, shared.clone()));
        shared
    }

    fn lock(&self) -> MutexGuard<'_, Option<(String, Arc<Shared>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the prefix of a profile.
pub fn shared(
    template: &Template,
    model: &dyn Model,
    preamble: &Preamble,
) -> Result<Shared, ApiError> {
    let rendered = |preamble: &Preamble, text: &str| {
        render(template, model, &with_question(preamble, &[question(text)]), &[])
    };
    let Rendered { mut tokens, mut segments, .. } = rendered(preamble, PROBES[0])?;
    let mut compare = |other: Rendered| {
        let same = tokens.iter().zip(&other.tokens).take_while(|(a, b)| a == b).count();
        tokens.truncate(same);
    };
    for question in &PROBES[1..] {
        compare(rendered(preamble, question)?);
    }
    if !preamble.tail().is_empty() {
        for tail in PROBES {
            compare(rendered(&preamble.with_tail(tail), PROBES[0])?);
        }
    }
    let len = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
    let whole = segments.iter().take_while(|segment| segment.end < len).count();
    segments.truncate(whole + 1);
    if let Some(last) = segments.last_mut() {
        last.end = len;
    }
    segments.retain(|segment| segment.end > 0);
    Ok(Shared { tokens, segments })
}

fn question(text: &str) -> Message {
    Message::plain(Role::User, text)
}

fn with_question<'a>(preamble: &'a Preamble, messages: &'a [Message]) -> Ingredients<'a> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    Ingredients { preamble: Some(preamble), messages, tools: preamble.tools(), variables: &NONE }
}

#[cfg(test)]
mod tests;
