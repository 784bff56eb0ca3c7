//! A chat message in OpenAI's shape, checked and normalised.
//!
//! - Content is a string or null: text parts are joined by line breaks, other parts are refused by
//!   their path. A picture that a tool returned becomes [`PICTURE`]; `pictures`: those of the user.
//! - Arguments of a call are a text of JSON. An object becomes one; an empty list of calls counts as absent.
//! - Fields that Hob does not read are preserved.
//! - Two messages are the *same* if a model reads the same text: clients send an assistant's message
//!   back without its reasoning, without the ids of its calls, and with fields of their own.

mod calls;
mod content;
pub mod pictures;
mod role;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::document::{self, DocumentRef};
use super::fields::{Fields, unsupported};
use super::label::{self, Label};
use crate::error::ApiError;
pub use calls::{CallMade, calls_made, id_of_place, is_made_id, tool_call};
pub use content::{PICTURE, reminder, unsupported_part};
pub use role::Role;

/// Marks a message that is a document. A client's field of this name is dropped.
const DOCUMENT: &str = "hob document";

/// The fields of a message's `hob`.
const HOB: [&str; 4] = ["documents", "key", "pin", "weight"];

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub role: Role,
    json: Map<String, Value>,
}

impl Message {
    /// Checks the message at `path` of a request.
    pub fn parse(value: &Value, path: &str) -> Result<Self, ApiError> {
        let fields = Fields::of(value, path)?;
        let role = Role::parse(fields.required_string("role")?, &fields.path("role"))?;
        let mut tool_calls = calls::tool_calls(&fields, role)?;
        let content = content::content(&fields, role)?;
        if content.is_none() && tool_calls.is_none() && role != Role::Assistant {
            fields.required("content")?;
        }
        if role == Role::Tool {
            fields.required_string("tool_call_id")?;
        }
        fields.string("name")?;
        fields.string("reasoning_content")?;
        let hob_path = fields.path("hob");
        let hob = fields.get("hob").map(|hob| hob_fields(hob, &hob_path)).transpose()?;
        let documents = hob.as_ref().map(|hob| document::parse(hob, role == Role::User));
        let documents = documents.transpose()?.unwrap_or_default();
        let label = Label::parse(&fields, hob.as_ref())?;

        let mut json = Map::new();
        json.insert("role".into(), role.as_str().into());
        json.insert("content".into(), content.map_or(Value::Null, Value::String));
        for (name, value) in fields.object() {
            let is_read = [DOCUMENT, "hob"].contains(&&**name) || label::EVOKE.contains(&&**name);
            if value.is_null() || json.contains_key(name) || is_read {
                continue;
            }
            let value = match name.as_str() {
                "tool_calls" => tool_calls.take().map(Value::Array),
                _ => Some(value.clone()),
            };
            json.extend(value.map(|value| (name.clone(), value)));
        }
        let mut message = Self { role, json };
        message.set_documents(&documents);
        message.set_label(&label);
        Ok(message)
    }

    pub fn plain(role: Role, text: &str) -> Self {
        let mut json = Map::new();
        json.insert("role".into(), role.as_str().into());
        json.insert("content".into(), text.into());
        Self { role, json }
    }

    pub fn answer(content: &str, reasoning: &str, tool_calls: &[Value]) -> Self {
        let mut json = Map::new();
        json.insert("role".into(), "assistant".into());
        let only_calls = content.is_empty() && !tool_calls.is_empty();
        json.insert("content".into(), if only_calls { Value::Null } else { content.into() });
        if !reasoning.is_empty() {
            json.insert("reasoning_content".into(), reasoning.into());
        }
        if !tool_calls.is_empty() {
            json.insert("tool_calls".into(), tool_calls.into());
        }
        Self { role: Role::Assistant, json }
    }

    /// The same message with another text.
    #[must_use]
    pub fn with_text(mut self, text: &str) -> Self {
        self.json.insert("content".into(), text.into());
        self
    }

    /// The same answer with other reasoning; with none, where the text is empty.
    #[must_use]
    pub fn with_reasoning(mut self, text: &str) -> Self {
        if text.is_empty() {
            self.json.shift_remove("reasoning_content");
        } else {
            self.json.insert("reasoning_content".into(), text.into());
        }
        self
    }

    /// Reads a message of the transcript.
    pub fn from_stored(text: &str) -> Option<Self> {
        let Ok(Value::Object(json)) = serde_json::from_str(text) else { return None };
        Self::from_stored_map(json)
    }

    pub fn from_stored_map(json: Map<String, Value>) -> Option<Self> {
        let role = Role::parse(json.get("role")?.as_str()?, "role").ok()?;
        Some(Self { role, json })
    }

    /// Empty if the content is null.
    pub fn text(&self) -> &str {
        self.json.get("content").and_then(Value::as_str).unwrap_or_default()
    }

    /// The reasoning of an answer; empty where it has none.
    pub fn reasoning(&self) -> &str {
        self.field("reasoning_content").unwrap_or_default()
    }

    pub fn has_calls(&self) -> bool {
        self.json.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty())
    }

    pub fn calls_made(&self) -> impl Iterator<Item = CallMade<'_>> {
        calls_made(self.json.get("tool_calls"))
    }

    /// The id of the call that a result answers.
    pub fn answered_call(&self) -> Option<&str> {
        self.field("tool_call_id")
    }

    /// The tool of a result, where its client names it.
    pub fn tool(&self) -> Option<&str> {
        self.field("name")
    }

    /// The same answer as messages with one call each. Text and reasoning stand in the first.
    pub fn with_one_call_each(&self) -> Vec<Self> {
        let calls = self.json.get("tool_calls").and_then(Value::as_array);
        let each = calls.into_iter().flatten().enumerate();
        let message = |(n, call): (usize, &Value)| {
            let calls = std::slice::from_ref(call);
            let mut message = if n == 0 { self.clone() } else { Self::answer("", "", calls) };
            message.json.insert("tool_calls".into(), calls.into());
            message
        };
        each.map(message).collect()
    }

    pub fn to_json(&self) -> Value {
        Value::Object(self.json.clone())
    }

    /// The same message with other ids of its calls, or of the call that it answers. `new`: the id in place of one; of
    /// an empty text, where a call has none.
    #[must_use]
    pub fn with_call_ids(mut self, mut new: impl FnMut(&str) -> String) -> Self {
        let calls = self.json.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            let id = new(call.get("id").and_then(Value::as_str).unwrap_or_default());
            call.insert("id".into(), id.into());
        }
        if let Some(id) = self.field("tool_call_id").map(new) {
            self.json.insert("tool_call_id".into(), id.into());
        }
        self
    }

    /// What a chat template sees of it.
    pub fn for_template(&self) -> Value {
        let mut json = self.json.clone();
        json.retain(|name, _| name != "hob" && name != DOCUMENT);
        Value::Object(json)
    }

    pub fn label(&self) -> Label {
        Label::stored(&self.json)
    }

    pub fn set_label(&mut self, label: &Label) {
        for (name, value) in label.to_fields() {
            self.set_hob(name, value);
        }
    }

    /// The same message with a label.
    #[must_use]
    pub fn labelled(mut self, label: &Label) -> Self {
        self.set_label(label);
        self
    }

    fn set_hob(&mut self, name: &str, value: Option<Value>) {
        let known = self.json.get("hob").and_then(Value::as_object);
        let mut hob = known.cloned().unwrap_or_default();
        match value {
            Some(value) => hob.insert(name.to_owned(), value),
            None => hob.shift_remove(name),
        };
        if hob.is_empty() {
            self.json.shift_remove("hob");
        } else {
            self.json.insert("hob".into(), hob.into());
        }
    }

    /// The documents that come with a user's message.
    pub fn documents(&self) -> Vec<DocumentRef> {
        document::stored(&self.json)
    }

    /// Whether the message has documents and no words.
    pub fn is_documents_alone(&self) -> bool {
        self.text().is_empty() && !self.documents().is_empty()
    }

    /// Puts the documents of earlier messages, which a prompt leaves out, in front of its own, each once.
    pub fn take_documents_of<'m>(&mut self, left_out: impl IntoIterator<Item = &'m Self>) {
        let all = left_out.into_iter().flat_map(Self::documents).chain(self.documents());
        let mut taken = BTreeSet::new();
        let documents: Vec<_> = all.filter(|document| taken.insert(document.id.clone())).collect();
        self.set_documents(&documents);
    }

    pub fn set_documents(&mut self, documents: &[DocumentRef]) {
        self.set_hob("documents", document::to_field(documents));
    }

    /// A document as a message of its own, in a prompt. `key`: names it among the prompt's segments.
    pub fn of_document(key: &str, text: &str) -> Self {
        let mut message = Self::plain(Role::User, text);
        message.json.insert(DOCUMENT.into(), key.into());
        message
    }

    /// The key of a message that [`Self::of_document`] made.
    pub fn written_document(&self) -> Option<String> {
        self.field(DOCUMENT).map(str::to_owned)
    }

    /// The same message with another text and without documents.
    pub fn without_documents(&self, text: &str) -> Self {
        let mut message = self.clone();
        message.set_documents(&[]);
        message.json.insert("content".into(), text.into());
        message
    }

    /// Whether a model reads the same text.
    pub fn is_same(&self, other: &Self) -> bool {
        self.role == other.role
            && self.text() == other.text()
            && self.field("name") == other.field("name")
            && calls::is_same_id(self.answered_call(), other.answered_call())
            && calls::are_same(self.json.get("tool_calls"), other.json.get("tool_calls"))
            && self.has_same_documents(other)
            && self.agrees_on_reasoning(other)
    }

    fn has_same_documents(&self, other: &Self) -> bool {
        let ids = |message: &Self| {
            message.documents().into_iter().map(|document| document.id).collect::<Vec<_>>()
        };
        ids(self) == ids(other)
    }

    fn agrees_on_reasoning(&self, other: &Self) -> bool {
        match (self.field("reasoning_content"), other.field("reasoning_content")) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.json.get(name).and_then(Value::as_str)
    }
}

fn hob_fields<'f>(hob: &'f Value, path: &'f str) -> Result<Fields<'f>, ApiError> {
    let hob = Fields::of(hob, path)?;
    match hob.object().keys().find(|name| !HOB.contains(&name.as_str())) {
        Some(unknown) => {
            let path = hob.path(&unknown.escape_debug().to_string());
            let message = format!("`hob` of a message knows only `{}`", HOB.join("`, `"));
            Err(unsupported(path, message))
        }
        None => Ok(hob),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::DocumentId;
    use super::*;

    fn parse(value: Value) -> Result<Message, ApiError> {
        Message::parse(&value, "messages[0]")
    }

    #[test]
    fn text_parts_become_one_text() {
        let message = parse(json!({"role": "user", "content": [
            {"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}));
        assert_eq!(message.unwrap().text(), "one\ntwo");
    }

    #[test]
    fn a_part_that_is_not_text_is_named() {
        let error = parse(json!({"role": "user", "content": [
            {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}]}));
        let error = error.unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[0].content[1].type"));
        let result = parse(json!({"role": "tool", "tool_call_id": "c", "content": [
            {"type": "text", "text": "Seen:"}, {"type": "image_url", "image_url": {}}]}));
        assert_eq!(result.unwrap().text(), format!("Seen:\n{PICTURE}"));
        let audio = parse(json!({"role": "user", "content": [{"type": "input_audio"}]}));
        let expected = "content parts of type `input_audio` are not supported, only `text`";
        assert_eq!(audio.unwrap_err().message, expected);
    }

    #[test]
    fn an_answer_without_its_reasoning_is_the_same() {
        let stored = Message::answer("Hello", "think", &[]);
        let sent = parse(json!({"role": "assistant", "content": "Hello", "refusal": null}));
        assert!(stored.is_same(&sent.unwrap()));
        let edited = parse(json!({"role": "assistant", "content": "Hallo"})).unwrap();
        assert!(!stored.is_same(&edited));
    }

    #[test]
    fn tool_calls_compare_by_meaning() {
        let stored = Message::answer("", "", &[tool_call("c1", "f", r#"{"a":1}"#)]);
        let sent = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{ \"a\": 1 }"}}]});
        assert!(stored.is_same(&parse(sent).unwrap()));
    }

    #[test]
    fn a_call_is_the_same_without_the_id_that_its_client_dropped() {
        let called = |id: &str| Message::answer("", "", &[tool_call(id, "f", "{}")]);
        let answered =
            |id: &str| parse(json!({"role": "tool", "tool_call_id": id, "content": "x"})).unwrap();
        for (id, is_same) in [("call00012", true), ("", true), ("call_12", false)] {
            assert_eq!(called("c1").is_same(&called(id)), is_same, "{id}");
            assert_eq!(answered("c1").is_same(&answered(id)), is_same, "{id}");
        }
        assert!(!called("c1").is_same(&Message::answer("", "", &[])));
    }

    #[test]
    fn arguments_that_are_an_object_become_a_text_and_no_calls_are_none() {
        let with = |arguments: Value| {
            let call = json!({"id": "c1", "function": {"name": "f", "arguments": arguments}});
            parse(json!({"role": "assistant", "tool_calls": [call]}))
        };
        assert_eq!(with(json!({"b": 1, "a": [2]})), with(json!(r#"{"b":1,"a":[2]}"#)));
        assert_eq!(
            with(json!([1])).unwrap_err().param.as_deref(),
            Some("messages[0].tool_calls[0].function.arguments")
        );
        for role in ["system", "user", "assistant"] {
            let plain = json!({"role": role, "content": "x"});
            for none in [json!([]), Value::Null] {
                let said = json!({"role": role, "content": "x", "tool_calls": none});
                assert_eq!(parse(said), parse(plain.clone()), "{role}");
            }
        }
    }

    #[test]
    fn a_call_without_a_type_is_that_of_a_function() {
        for none in [json!({}), json!({"type": null})] {
            let mut call = json!({"id": "c1", "function": {"name": "f", "arguments": "{}"}});
            call.as_object_mut().unwrap().extend(none.as_object().unwrap().clone());
            let message = parse(json!({"role": "assistant", "tool_calls": [call]})).unwrap();
            assert_eq!(message.to_json()["tool_calls"][0]["type"], "function");
        }
    }

    #[test]
    fn a_message_with_other_documents_is_another_message() {
        let id = DocumentId::of_text("text");
        let with = |documents: Value| {
            parse(json!({"role": "user", "content": "x", "hob": {"documents": documents}})).unwrap()
        };
        let named = with(json!([{"id": id.as_str(), "name": "a\nb"}, id.as_str()]));
        assert_eq!(named.documents(), [DocumentRef { id: id.clone(), name: "a b".into() }]);
        assert!(named.is_same(&with(json!([id.as_str()]))));
        assert!(!named.is_same(&with(json!([]))));
        assert_eq!(with(json!([])), parse(json!({"role": "user", "content": "x"})).unwrap());
    }

    #[test]
    fn a_missing_field_is_named() {
        for (value, param) in [
            (json!({"content": "x"}), "messages[0].role"),
            (json!({"role": "user"}), "messages[0].content"),
            (json!({"role": "tool", "content": "x"}), "messages[0].tool_call_id"),
            (json!({"role": "robot", "content": "x"}), "messages[0].role"),
            (json!({"role": "user", "content": 5}), "messages[0].content"),
            (
                json!({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}),
                "messages[0].tool_calls[0].function.arguments",
            ),
            (
                json!({"role": "user", "content": "x", "hob": {"documents": ["x"]}}),
                "messages[0].hob.documents[0]",
            ),
            (
                json!({"role": "user", "content": "x", "hob": {"document": []}}),
                "messages[0].hob.document",
            ),
            (
                json!({"role": "assistant", "content": "x", "hob": {"documents": [{}]}}),
                "messages[0].hob.documents",
            ),
        ] {
            assert_eq!(parse(value).unwrap_err().param.as_deref(), Some(param));
        }
    }
}
