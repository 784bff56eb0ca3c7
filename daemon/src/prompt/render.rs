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
use super::segments::{preamble_ends, segments_of_texts, segments_of_turns, with_preamble};
use super::strict;
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
    /// The texts of the documents that the messages name.
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
        let segments = self.segments(parts.preamble, &messages, &text, &tokens);
        Ok(Rendered { text, tokens, segments })
    }

    fn segments(
        &self,
        preamble: Option<&Preamble>,
        messages: &[Message],
        text: &str,
        tokens: &[Token],
    ) -> Vec<SegmentRef> {
        let (model, vocabulary) = (self.model.as_ref(), self.model.vocabulary());
        let of_turns = segments_of_turns(messages, tokens, vocabulary);
        if let (Some(segments), None) = (&of_turns, preamble) {
            return segments.clone();
        }
        let token_ends = ends_in(model, tokens, text);
        let of_messages = of_turns.unwrap_or_else(|| {
            let texts: Vec<String> =
                messages.iter().map(|message| self.template.text_of(message)).collect();
            let is_end = |at: usize| tokens.get(at).is_some_and(|&token| vocabulary.is_eog(token));
            segments_of_texts(messages, &texts, text, &token_ends, is_end)
        });
        match preamble {
            Some(preamble) => {
                with_preamble(preamble_ends(preamble, text), &token_ends, of_messages)
            }
            None => of_messages,
        }
    }

    /// The text of the prompt.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn text(&self, parts: &PromptParts<'_>) -> Result<String, ApiError> {
        Ok(self.written(parts)?.1)
    }

    /// The messages with the preamble in front, in a form that the template takes, and what it writes for them.
    fn written<'a>(
        &self,
        parts: &PromptParts<'a>,
    ) -> Result<(Cow<'a, [Message]>, String), ApiError> {
        let PromptParts { preamble, messages, tools, variables, documents } = *parts;
        let messages = with_documents(messages, documents, self.document_place)?;
        let messages = match preamble {
            Some(preamble) => Cow::Owned(preamble.before(&messages)),
            None => messages,
        };
        strict::rendered(&self.template, messages, tools, variables)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hob_prewarm::profile::{Outline, Profile};
    use hob_runtime::backend::fake::FakeModel;
    use serde_json::json;

    use super::*;

    /// Only answers end with an end-of-turn token, and instructions stand in the last message.
    const MISTRAL: &str = include_str!("../../../runtime/tests/suite/templates/mistral.jinja");

    fn renderer() -> Renderer {
        let model = Arc::new(FakeModel::new());
        let template = Template::new(MISTRAL, model.vocabulary(), RendersIn::ThisProcess);
        Renderer::new(model, template)
    }

    fn messages(of: &[Value]) -> Vec<Message> {
        of.iter().map(|message| Message::parse(message, "messages").unwrap()).collect()
    }

    /// Key and text of each segment.
    fn segments(
        renderer: &Renderer,
        messages: &[Message],
        preamble: Option<&Preamble>,
    ) -> Vec<(String, String)> {
        let parts = PromptParts {
            preamble,
            messages,
            tools: &[],
            variables: &Map::new(),
            documents: &DocumentTexts::new(),
        };
        let Rendered { tokens, segments, .. } = renderer.render(&parts, &[]).unwrap();
        let mut begin = 0;
        let text = |range| {
            let bytes = renderer.model.vocabulary().bytes(&tokens[range]);
            String::from_utf8(bytes).unwrap()
        };
        let of_segment = |segment: SegmentRef| {
            let begin = std::mem::replace(&mut begin, segment.end as usize);
            (segment.key, text(begin..segment.end as usize))
        };
        segments.into_iter().map(of_segment).collect()
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|&(key, text)| (key.to_owned(), text.to_owned())).collect()
    }

    fn talk() -> [Value; 4] {
        [
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "user", "content": "Hello", "hob": {"key": "greeting"}}),
            json!({"role": "assistant", "content": "Good day"}),
            json!({"role": "user", "content": "Bye"}),
        ]
    }

    #[test]
    fn messages_are_segments_where_turns_have_no_end_of_turn_token() {
        let found = segments(&renderer(), &messages(&talk()), None);
        let expected = [
            ("greeting", "[INST] Hello"),
            ("message 3", "[/INST] Good day<|im_end|>"),
            ("message 1", "[INST] Be brief."),
            ("message 4", "\n\nBye"),
        ];
        assert_eq!(found, pairs(&expected));
    }

    #[test]
    fn a_profile_in_the_last_message_leaves_the_messages_before_it_theirs() {
        let renderer = renderer();
        let outline = "[[segment]]\nlayer = 'rules'\nkey = 'rules'\ntext = 'Be kind.'";
        let outline = Outline::parse(outline).unwrap();
        let profile = Profile::load(&outline, Path::new("/"), |_| unreachable!()).unwrap();
        let preamble = Preamble::new(profile, renderer.template()).unwrap();
        let found = segments(&renderer, &messages(&talk()[1..]), Some(&preamble));
        let expected = [
            ("greeting", "[INST] Hello"),
            ("message 3", "[/INST] Good day<|im_end|>"),
            ("rules", "[INST] Be kind."),
            ("message 4", "\n\nBye"),
        ];
        assert_eq!(found, pairs(&expected));
    }

    #[test]
    fn a_message_that_is_not_found_weighs_on_the_one_behind_it() {
        let call = json!({"id": "123456789", "type": "function",
                          "function": {"name": "f", "arguments": "{}"}});
        let talk = [
            json!({"role": "user", "content": "Look"}),
            json!({"role": "assistant", "content": null, "tool_calls": [call],
                   "hob": {"pin": true, "weight": 70}}),
            json!({"role": "tool", "tool_call_id": "123456789", "content": "nothing"}),
            json!({"role": "assistant", "content": "I see"}),
            json!({"role": "user", "content": "Again"}),
        ];
        let renderer = renderer();
        let messages = messages(&talk);
        let documents = DocumentTexts::new();
        let parts = PromptParts {
            preamble: None,
            messages: &messages,
            tools: &[],
            variables: &Map::new(),
            documents: &documents,
        };
        let segments = renderer.render(&parts, &[]).unwrap().segments;
        let labels = segments.iter().map(|it| (it.key.as_str(), it.weight, it.pinned));
        let expected = [
            ("message 1", 50, false),
            ("message 3", 70, true),
            ("message 4", 50, false),
            ("message 5", 50, false),
        ];
        assert_eq!(labels.collect::<Vec<_>>(), expected);
    }
}
