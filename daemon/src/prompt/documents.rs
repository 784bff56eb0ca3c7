//! Where the texts of documents stand in a prompt.
//!
//! - A document stands right in front of the words of the message that it came with. So one that came
//!   with the first message stands behind the instructions, where a prompt of another conversation
//!   about it has it too: the two share its KV. One that came later recomputes nothing before it.
//! - A document is a message of its own: it ends with an end-of-turn token, and so does its last block.
//!   Its blocks have the same names in every prompt that begins with the same instructions and it. A
//!   template that refuses two messages of the user in a row gets the documents in front of the words
//!   of one message; then the last block differs.
//! - A document that was removed leaves one line, so that its conversations can go on.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Map;

use super::template::Template;
use crate::error::ApiError;
use crate::wire::document::{DocumentId, DocumentRef};
use crate::wire::message::{Message, Role};

/// The longest prompt that a template may write.
const MAX_BYTES: usize = 16 << 20;

/// The documents of a prompt: name and text by id. One that is missing was removed.
pub type DocumentTexts = BTreeMap<DocumentId, DocumentText>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentText {
    pub name: String,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentPlace {
    /// In a message of its own.
    Separate,
    /// In front of the words, in the same message.
    Joined,
}

impl DocumentPlace {
    /// The place that the template supports.
    pub fn of(template: &Template) -> Self {
        const WORDS: [&str; 2] = ["first words", "other words"];
        let messages = WORDS.map(|text| Message::plain(Role::User, text));
        let written = template.render(&messages, &[], &Map::new());
        match written {
            Ok(text) if WORDS.iter().all(|words| text.contains(words)) => Self::Separate,
            _ => Self::Joined,
        }
    }
}

/// The messages with the texts of their documents.
///
/// # Errors
/// When these have more than [`MAX_BYTES`]. A text counts once for each message that names it.
pub fn with_documents<'m>(
    messages: &'m [Message],
    texts: &DocumentTexts,
    place: DocumentPlace,
) -> Result<Cow<'m, [Message]>, ApiError> {
    if messages.iter().all(|message| message.documents().is_empty()) {
        return Ok(Cow::Borrowed(messages));
    }
    let named = messages.iter().flat_map(Message::documents);
    let written_bytes: usize =
        named.filter_map(|document| Some(texts.get(&document.id)?.text.len())).sum();
    if written_bytes > MAX_BYTES {
        let message = format!(
            "the documents of the messages have more than {} MiB together: name fewer, and each in one message",
            MAX_BYTES >> 20
        );
        return Err(ApiError::field("messages", message));
    }
    let mut all = Vec::new();
    for message in messages {
        let documents = message.documents();
        let written = documents.iter().map(|document| written(document, texts));
        let words = message.text();
        if documents.is_empty() {
            all.push(message.clone());
        } else if place == DocumentPlace::Separate {
            let keys = documents.iter().map(|document| key(&document.id));
            let label = message.label().without_key();
            let document =
                |(key, text): (String, String)| Message::of_document(&key, &text).labelled(&label);
            all.extend(keys.zip(written).map(document));
            if !words.is_empty() {
                all.push(message.without_documents(words));
            }
        } else {
            let words = (!words.is_empty()).then(|| words.to_owned());
            let parts: Vec<String> = written.chain(words).collect();
            all.push(message.without_documents(&parts.join("\n\n")));
        }
    }
    Ok(Cow::Owned(all))
}

/// Names the document among the segments of a prompt.
fn key(id: &DocumentId) -> String {
    format!("document {}", &id.as_str()[..16])
}

fn written(document: &DocumentRef, texts: &DocumentTexts) -> String {
    match texts.get(&document.id) {
        Some(DocumentText { name, text }) => format!("Document: {name}\n\n{text}"),
        None => format!("Document: {} (removed)", document.name),
    }
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::Model;
    use hob_runtime::backend::fake::FakeModel;
    use serde_json::json;

    use super::*;
    use crate::prompt::RendersIn;
    use crate::wire::label::Label;

    fn texts() -> DocumentTexts {
        let text = DocumentText { name: "a.txt".into(), text: "The code is 7.".into() };
        BTreeMap::from([(DocumentId::of_text("a"), text)])
    }

    fn user(words: &str, ids: &[&str]) -> Message {
        let ids: Vec<String> = ids.iter().map(|id| DocumentId::of_text(id).to_string()).collect();
        let json = json!({"role": "user", "content": words, "hob": {"documents": ids}});
        Message::parse(&json, "messages[0]").unwrap()
    }

    #[test]
    fn a_document_weighs_as_much_as_the_message_that_it_came_with() {
        let label = Label { key: Some("k".into()), weight: Some(90), pin: Some(true) };
        let talk = [user("Which code?", &["a"]).labelled(&label)];
        for place in [DocumentPlace::Separate, DocumentPlace::Joined] {
            let labels = with_documents(&talk, &texts(), place).unwrap();
            let labels: Vec<Label> = labels.iter().map(Message::label).collect();
            assert_eq!(labels.last(), Some(&label));
            assert!(labels.iter().all(|label| (label.weight, label.pin) == (Some(90), Some(true))));
        }
    }

    fn said(messages: &[Message], place: DocumentPlace) -> Vec<String> {
        let messages = with_documents(messages, &texts(), place).unwrap();
        messages.iter().map(|message| message.text().to_owned()).collect()
    }

    #[test]
    fn a_document_stands_in_front_of_the_words_that_it_came_with() {
        let talk = [user("Hello", &[]), user("Which code?", &["a"])];
        let document = "Document: a.txt\n\nThe code is 7.";
        assert_eq!(said(&talk, DocumentPlace::Separate), ["Hello", document, "Which code?"]);
        let joined = format!("{document}\n\nWhich code?");
        assert_eq!(said(&talk, DocumentPlace::Joined), ["Hello", &joined]);
        assert_eq!(said(&[user("", &["a"])], DocumentPlace::Separate), [document]);
    }

    #[test]
    fn a_text_that_many_messages_name_is_not_copied_without_a_bound() {
        let text = DocumentText { name: "a.txt".into(), text: "a".repeat(MAX_BYTES / 2) };
        let texts = BTreeMap::from([(DocumentId::of_text("a"), text)]);
        let named = |times: usize| vec![user("Which code?", &["a"]); times];
        assert!(with_documents(&named(2), &texts, DocumentPlace::Joined).is_ok());
        let error = with_documents(&named(3), &texts, DocumentPlace::Joined).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages"));
    }

    #[test]
    fn a_document_that_was_removed_leaves_a_line() {
        let said = said(&[user("Which code?", &["b"])], DocumentPlace::Separate);
        assert_eq!(said, ["Document:  (removed)", "Which code?"]);
    }

    #[test]
    fn a_template_that_refuses_two_messages_in_a_row_gets_one() {
        let model = FakeModel::new();
        assert_eq!(
            DocumentPlace::of(&Template::of(&model, RendersIn::ThisProcess)),
            DocumentPlace::Separate
        );
        let strict = "{%- for message in messages %}\
            {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}\
            {{- raise_exception('roles must alternate') }}{%- endif %}\
            {{- message.content }}{%- endfor %}";
        let strict = Template::new(strict, model.vocabulary(), RendersIn::ThisProcess);
        assert_eq!(DocumentPlace::of(&strict), DocumentPlace::Joined);
    }
}
