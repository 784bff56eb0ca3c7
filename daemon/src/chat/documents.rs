//! The documents that messages name: looked up, read before a question, and marked as used.
//!
//! - The KV of a document has a key of its own, `seg:` and a hash of its text: it outlives the
//!   conversations about it, and is saved without a time limit.
//! - A conversation shares it by content, as every prompt does. It is its prompt's first tokens behind
//!   the instructions if the document came with the first message.

use hob_runtime::Engine;
use hob_slots::{ConversationId, Token};
use serde_json::{Value, json};

use super::Chat;
use super::answer::Answer;
use super::identity::{Identity, Session};
use super::request::ResolvedRequest;
use crate::conversations::transcript::{TurnTicket, named_documents};
use crate::error::ApiError;
use crate::prompt::documents::DocumentText;
use crate::prompt::{DocumentTexts, Extent, Layout};
use crate::wire::chat::ChatRequest;
use crate::wire::document::{DocumentId, document_key};
use crate::wire::message::Message;

impl Chat {
    /// Begins to compute a document behind the prefix of `profile`, by default the default profile's,
    /// and saves its KV. `text`: the document's.
    ///
    /// # Errors
    /// As for [`Chat::answer`].
    pub async fn read_document(
        &self,
        id: &DocumentId,
        text: &str,
        profile: Option<&str>,
    ) -> Result<Answer, ApiError> {
        let key = document_key(text);
        let mut body = document_prompt(id, profile);
        body["promptCacheKey"] = key.hint_key().expect("it is a hint's id").into();
        body["hob"]["progress"] = true.into();
        body["hob"]["ttl"] = "permanent".into();
        body["stream"] = true.into();
        let (_, answer) = self.answer(&body, &Session::default()).await?;
        Ok(answer)
    }

    /// The prompts about documents, under `profile`.
    ///
    /// # Errors
    /// When the profile is unknown.
    pub(crate) fn document_prompts(
        &self,
        profile: Option<&str>,
    ) -> Result<DocumentPrompts, ApiError> {
        let id = DocumentId::of_text("");
        let resolved = self.resolve(&document_prompt(&id, profile))?;
        Ok(DocumentPrompts { chat: self.clone(), resolved, id })
    }

    /// The speed of prefill that was measured last, in tokens a second.
    pub(crate) async fn prefill_speed(&self) -> Result<Option<f64>, ApiError> {
        if self.shared.speed.is_unknown() {
            let fingerprint = self.engine().fingerprint();
            let read = self.shared.options.transcript.prefill_speed(fingerprint).done().await?;
            self.shared.speed.recall(read);
        }
        Ok(self.shared.speed.now())
    }

    /// Checks that the documents of the request's messages are stored, and gives them the names under
    /// which they are. Returns the keys of their KV.
    pub(super) async fn name_documents(
        &self,
        request: &mut ChatRequest,
        identity: &Identity,
    ) -> Result<Vec<(DocumentId, ConversationId)>, ApiError> {
        let ids = named_documents(&request.messages);
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let with_private = self.is_private(request, identity);
        let texts = self.shared.options.transcript.document_texts(ids, with_private).await?;
        for (n, message) in request.messages.iter_mut().enumerate() {
            let mut documents = message.documents();
            for (at, document) in documents.iter_mut().enumerate() {
                let Some(text) = texts.get(&document.id) else {
                    return Err(unknown_document(&document.id).param(field_of(n, at)));
                };
                document.name.clone_from(&text.name);
            }
            message.set_documents(&documents);
        }
        Ok(texts.into_iter().map(|(id, document)| (id, document_key(&document.text))).collect())
    }

    /// Tickets that the removal of these documents of the request cancels, to be asked for before their text is read
    /// for the prompt. `identity`: the turn's.
    ///
    /// # Errors
    /// While one of them is being removed. Names its field.
    pub(super) fn document_tickets(
        &self,
        request: &ChatRequest,
        documents: &[(DocumentId, ConversationId)],
        identity: &Identity,
    ) -> Result<Vec<TurnTicket>, ApiError> {
        let transcript = &self.shared.options.transcript;
        let ticket = |(id, key): &(DocumentId, ConversationId)| {
            let ticket = transcript.document_ticket(key, identity.pinned());
            ticket.map_err(|_| {
                let param = path_of(&request.messages, id);
                ApiError { param, ..unknown_document(id) }
            })
        };
        documents.iter().map(ticket).collect()
    }

    pub(super) fn is_private(&self, request: &ChatRequest, identity: &Identity) -> bool {
        let transcript = &self.shared.options.transcript;
        request.private
            || request.unstored
            || identity.named().is_some_and(|id| transcript.is_private(id))
    }

    /// Counts an answer as a use of its documents' KV.
    pub(super) fn renew_documents(&self, documents: &DocumentTexts) {
        for document in documents.values() {
            self.engine().renew(document_key(&document.text));
        }
    }
}

/// Writes prompts that begin with a document, as one profile has them.
#[derive(Clone)]
pub(crate) struct DocumentPrompts {
    chat: Chat,
    resolved: ResolvedRequest,
    /// Stands for every document's: no prompt contains an id.
    id: DocumentId,
}

impl DocumentPrompts {
    pub fn engine(&self) -> &Engine {
        self.chat.engine()
    }

    /// Names what decides the tokens beside the document.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn layout(&self) -> Result<Layout, ApiError> {
        let word = || "document".to_owned();
        let documents = self.documents(DocumentText { name: word(), text: word() });
        let parts = self.resolved.prompt_parts(&self.resolved.request.messages, &documents);
        let text = self.chat.shared.options.renderer.text(&parts)?;
        let engine = self.engine();
        let template = engine.model().facts().chat_template.as_deref();
        Ok(Layout::of(engine.fingerprint(), template, &text))
    }

    /// The tokens with which every prompt about the document begins.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn tokens(&self, document: DocumentText) -> Result<Vec<Token>, ApiError> {
        let documents = self.documents(document);
        let parts = self.resolved.prompt_parts(&self.resolved.request.messages, &documents);
        let renderer = &self.chat.shared.options.renderer;
        Ok(renderer.prompt(&parts, &Extent::Before(String::new()), &[])?.tokens)
    }

    fn documents(&self, document: DocumentText) -> DocumentTexts {
        DocumentTexts::from([(self.id.clone(), document)])
    }
}

/// The field that names a document first.
fn path_of(messages: &[Message], id: &DocumentId) -> Option<String> {
    let at_of = |message: &Message| message.documents().iter().position(|it| it.id == *id);
    let mut places = messages.iter().enumerate();
    places.find_map(|(n, message)| Some(field_of(n, at_of(message)?)))
}

fn field_of(message: usize, document: usize) -> String {
    format!("messages[{message}].hob.documents[{document}]")
}

/// The error for a document that is not stored.
pub fn unknown_document(id: &DocumentId) -> ApiError {
    ApiError::not_found(format!("there is no document `{id}`: send it with POST /v1/documents"))
        .code("document_not_found")
}

/// A request that computes a document and generates nothing.
fn document_prompt(id: &DocumentId, profile: Option<&str>) -> Value {
    let message = json!({"role": "user", "content": "", "hob": {"documents": [id.as_str()]}});
    let hob = profile.map_or_else(|| json!({}), |profile| json!({"profile": profile}));
    json!({"messages": [message], "max_tokens": 0, "hob": hob})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::document::DocumentRef;
    use crate::wire::message::Role;

    #[test]
    fn the_field_of_a_document_is_the_first_that_names_it() {
        let [castle, mill, field] = ["castle", "mill", "field"].map(DocumentId::of_text);
        let about = |ids: &[&DocumentId]| {
            let mut message = Message::plain(Role::User, "Why?");
            let named = |id: &&DocumentId| DocumentRef { id: (*id).clone(), name: String::new() };
            message.set_documents(&ids.iter().map(named).collect::<Vec<_>>());
            message
        };
        let messages = [about(&[]), about(&[&castle, &mill]), about(&[&mill])];
        assert_eq!(path_of(&messages, &mill).as_deref(), Some("messages[1].hob.documents[1]"));
        assert_eq!(path_of(&messages, &field), None);
    }
}
