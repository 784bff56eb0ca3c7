//! Messages to a prompt.
//!
//! - The model's tokenizer cuts the text between control tokens; the tokens that the conversation
//!   had before are kept.
//! - Each token belongs to a segment: a part of the profile, a document, or one message.

use std::borrow::Cow;
use std::sync::Arc;

use hob_runtime::backend::Model;
use hob_slots::Token;
use hob_slots::format::SegmentRef;
use serde_json::{Map, Value};

use super::documents::{DocumentPlace, DocumentTexts, with_documents};
use super::preamble::Preamble;
use super::retokenize::{continue_tokens, ends_in, likeliest};
use super::segments::{message_segments, preamble_ends, with_preamble};
use super::template::{RendersIn, Template};
use crate::error::ApiError;
use crate::wire::message::Message;
use crate::wire::tools::Tool;

/// What a prompt is rendered from.
#[derive(Clone, Copy)]
pub struct PromptParts<'a> {
    /// The profile's part, in front.
    pub preamble: Option<&'a Preamble>,
    pub messages: &'a [Message],
    /// The profile's tools first.
    pub tools: &'a [Tool],
    /// Variables for the chat template.
    pub variables: &'a Map<String, Value>,
    /// Of the documents that the messages name.
    pub documents: &'a DocumentTexts,
}

#[derive(Debug)]
pub struct Rendered {
    /// As the template wrote it.
    pub text: String,
    pub tokens: Vec<Token>,
    pub segments: Vec<SegmentRef>,
}

/// Renders prompts for one model.
pub struct Renderer {
    model: Arc<dyn Model>,
    template: Template,
    document_place: DocumentPlace,
}

impl Renderer {
    /// With the model's own template, or ChatML.
    pub fn of(model: Arc<dyn Model>, place: RendersIn) -> Self {
        let template = Template::of(model.as_ref(), place);
        Self::new(model, template)
    }

    pub fn new(model: Arc<dyn Model>, template: Template) -> Self {
        let document_place = DocumentPlace::of(&template);
        Self { model, template, document_place }
    }

    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    pub fn template(&self) -> &Template {
        &self.template
    }

    /// The prompt. `known`: timelines, of which it probably continues one.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn render(
        &self,
        parts: &PromptParts<'_>,
        known: &[Vec<Token>],
    ) -> Result<Rendered, ApiError> {
        let model = self.model.as_ref();
        let (messages, text) = self.written(parts)?;
        let tokens = continue_tokens(model, likeliest(model, known, &text), &text);
        let mut segments = message_segments(&messages, &tokens, model.vocabulary());
        if let Some(preamble) = parts.preamble {
            let token_ends = ends_in(model, &tokens, &text);
            segments = with_preamble(preamble_ends(preamble, &text), &token_ends, segments);
        }
        Ok(Rendered { text, tokens, segments })
    }

    /// The text of the prompt.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn text(&self, parts: &PromptParts<'_>) -> Result<String, ApiError> {
        Ok(self.written(parts)?.1)
    }

    /// The messages with the preamble in front, and what the template writes for them.
    fn written<'a>(
        &self,
        parts: &PromptParts<'a>,
    ) -> Result<(Cow<'a, [Message]>, String), ApiError> {
        let PromptParts { preamble, messages, tools, variables, documents } = *parts;
        let messages = with_documents(messages, documents, self.document_place);
        let messages = match preamble {
            Some(preamble) => Cow::Owned(preamble.before(&messages)),
            None => messages,
        };
        let text = self.template.render(&messages, tools, variables)?;
        Ok((messages, text))
    }
}
