//! From what a request says to its prompt: the one way, for turns and for what is made hot before
//! them.
//!
//! - Text between control tokens is cut into tokens by the model's tokenizer; tokens that the
//!   conversation had before are kept.
//! - Each token belongs to a segment: a part of the profile, then the messages, one by one.

use std::borrow::Cow;

use hob_runtime::backend::Model;
use hob_slots::format::SegmentRef;
use hob_slots::{Layer, Token};
use serde_json::{Map, Value};

use super::Service;
use super::continuation::{continue_tokens, ends_in};
use super::preamble::Preamble;
use super::prompt::Template;
use super::prompt_segments::prompt_segments;
use crate::error::ApiError;
use crate::wire::chat::Tool;
use crate::wire::message::Message;

/// What a prompt is made of.
#[derive(Clone, Copy)]
pub struct Ingredients<'a> {
    /// What the request's profile puts in front.
    pub preamble: Option<&'a Preamble>,
    /// What was said.
    pub messages: &'a [Message],
    /// All tools, the profile's first.
    pub tools: &'a [Tool],
    /// Variables for the chat template.
    pub variables: &'a Map<String, Value>,
}

/// A prompt.
pub struct Rendered {
    /// As the template wrote it.
    pub text: String,
    /// As the model reads it.
    pub tokens: Vec<Token>,
    /// Which part of it each token belongs to.
    pub segments: Vec<SegmentRef>,
}

impl Service {
    /// The prompt. `known` is the timeline that it probably continues.
    pub(super) fn render(
        &self,
        ingredients: &Ingredients<'_>,
        known: &[Token],
    ) -> Result<Rendered, ApiError> {
        render(&self.inner.template, self.engine().model().as_ref(), ingredients, known)
    }
}

/// The prompt of `ingredients` for a model and its template.
pub fn render(
    template: &Template,
    model: &dyn Model,
    ingredients: &Ingredients<'_>,
    known: &[Token],
) -> Result<Rendered, ApiError> {
    let (messages, text) = written(template, ingredients)?;
    let tokens = continue_tokens(model, known, &text);
    let mut segments = prompt_segments(&messages, &tokens, model.vocabulary());
    if let Some(preamble) = ingredients.preamble {
        let ends = ends_in(model, &tokens, &text);
        segments = with_parts(parts(preamble, &text), &ends, segments);
    }
    Ok(Rendered { text, tokens, segments })
}

/// The prompt as the template writes it.
pub fn rendered_text(
    template: &Template,
    ingredients: &Ingredients<'_>,
) -> Result<String, ApiError> {
    Ok(written(template, ingredients)?.1)
}

/// The messages that the model reads, and the prompt that the template makes of them.
fn written<'a>(
    template: &Template,
    ingredients: &Ingredients<'a>,
) -> Result<(Cow<'a, [Message]>, String), ApiError> {
    let Ingredients { preamble, messages, tools, variables } = *ingredients;
    let messages = match preamble {
        Some(preamble) => Cow::Owned(preamble.before(messages)),
        None => Cow::Borrowed(messages),
    };
    let text = template.render(&messages, tools, variables)?;
    Ok((messages, text))
}

/// What the part of the prompt is called that the template makes of the tools.
pub const TOOLS: &str = "tools";

/// A part of the profile: its label, and where it ends in the text.
type Part = (Layer, String, usize);

/// The parts of the profile that are found in the text, in the order in which they stand there.
fn parts(preamble: &Preamble, text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut begin = 0;
    let texts = preamble.profile.stable();
    let texts = texts.map(|(segment, text)| (segment.layer, segment.key.clone(), text));
    let tail = Some(preamble.tail()).filter(|tail| !tail.is_empty());
    let tail = tail.map(|tail| (Layer::Context, "tail".to_owned(), tail));
    for (layer, key, part) in texts.chain(tail) {
        let Some(at) = text[begin..].find(part) else { break };
        begin += at + part.len();
        parts.push((layer, key, begin));
    }
    // A schema is written as the template likes, its name as it is.
    let name = preamble.tools().last().map(|tool| format!("\"{}\"", tool.name));
    if let Some(at) = name.and_then(|name| Some(text.find(&name)? + name.len())) {
        parts.push((Layer::Capabilities, TOOLS.to_owned(), at));
        parts.sort_by_key(|(_, _, end)| *end);
    }
    parts
}

/// Puts the parts in front of the messages' own segments. `ends`: where each token ends in the text.
fn with_parts(parts: Vec<Part>, ends: &[usize], messages: Vec<SegmentRef>) -> Vec<SegmentRef> {
    let tokens = |end: usize| ends.partition_point(|&token_end| token_end <= end) as u32;
    let mut segments: Vec<SegmentRef> = Vec::new();
    for (n, (layer, key, end)) in parts.iter().enumerate() {
        let mut end = tokens(*end);
        if key == TOOLS {
            // What follows the last tool's name: the rest of its schema, and how to call it.
            let message = messages.iter().find(|message| message.end > end);
            let next = parts.get(n + 1).map_or(u32::MAX, |(_, _, next)| tokens(*next));
            let rest = message.filter(|it| it.layer == Layer::Identity && it.end < next);
            end = rest.map_or(end, |rest| rest.end);
        }
        if end > segments.last().map_or(0, |last| last.end) {
            segments.push(SegmentRef { end, layer: *layer, key: key.clone() });
        }
    }
    let covered = segments.last().map_or(0, |last| last.end);
    segments.extend(messages.into_iter().filter(|message| message.end > covered));
    segments
}
