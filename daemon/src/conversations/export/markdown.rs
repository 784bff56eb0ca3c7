//! Writes one branch of a conversation as Markdown, and reads it back, edited or not.
//!
//! - Comments, which renderers hide, mark where messages and their parts begin; the text up to the
//!   next comment belongs to them, byte for byte. Headings and folds are ignored by the reader.
//! - A line of text that looks like such a comment is escaped by a backslash.
//! - Text may be edited, comments may not.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::conversations::transcript::{
    ConversationExport, Node, Status, StoredDocument, VERSION, check_version, one_line, status,
};
use crate::error::{ApiError, ErrorKind};
use crate::wire::document::{DocumentId, document_name};
use crate::wire::fields::Fields;
use crate::wire::message::{Message, Role};
use crate::wire::sampling::SamplingFields;

const MARK: &str = "<!-- hob:";
const MARK_END: &str = " -->";
const FOLD_END: &str = "\n\n</details>";
const JSON_BEGIN: &str = "```json\n";
const JSON_END: &str = "\n```";

/// `export`: one branch.
pub fn write(export: &ConversationExport) -> String {
    let mut head = json!({"version": VERSION, "id": export.id, "title": export.title});
    if let Some(instructions) = &export.instructions {
        head["instructions"] = instructions.as_str().into();
    }
    if let Some(sampling) = &export.sampling {
        head["sampling"] = sampling.clone();
    }
    let mut out = mark("conversation", Some(&head));
    let title = export.title.as_deref().unwrap_or("Conversation");
    out.push_str(&format!("# {title}\n\n"));
    for node in &export.messages {
        write_message(&mut out, node);
    }
    for document in &export.documents {
        write_document(&mut out, document);
    }
    out
}

fn write_document(out: &mut String, document: &StoredDocument) {
    let id = document.id();
    let about = json!({"id": id.as_str(), "name": document.name, "kind": document.kind});
    out.push_str(&mark("document", Some(&about)));
    let title = fold(&format!("Document: {}", plain(&document.name)));
    out.push_str(&format!("{title}{}{FOLD_END}\n\n", escaped(&document.text)));
}

fn write_message(out: &mut String, node: &Node) {
    let json = node.message.to_json();
    let mut about = json!({"message": without_text(&json)});
    if node.status != Status::Complete {
        about["status"] = node.status.as_str().into();
    }
    out.push_str(&mark("message", Some(&about)));
    out.push_str(&format!("## {}\n\n", heading(node.message.role)));
    if let Some(reasoning) = json["reasoning_content"].as_str() {
        out.push_str(&mark("reasoning", None));
        out.push_str(&format!("{}{}{FOLD_END}\n\n", fold("Reasoning"), escaped(reasoning)));
    }
    if let Some(text) = json["content"].as_str() {
        out.push_str(&mark("text", None));
        out.push_str(&format!("{}\n\n", escaped(text)));
    }
    for call in json["tool_calls"].as_array().into_iter().flatten() {
        let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        let fold = fold(&format!("Tool call: {}", plain(name)));
        out.push_str(&mark("call", None));
        out.push_str(&format!("{fold}{JSON_BEGIN}{call}{JSON_END}{FOLD_END}\n\n"));
    }
}

/// # Errors
/// When a comment is missing or damaged.
pub fn read(text: &str) -> Result<ConversationExport, ApiError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text); // Of an editor of Windows.
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    let unix = first.ends_with("\r\n").then(|| text.replace("\r\n", "\n"));
    let text = unix.as_deref().unwrap_or(text);
    let mut export = ConversationExport::default();
    let mut partial: Option<PartialMessage> = None;
    let mut begun = false;
    let mut edited = BTreeMap::new();
    for Section { kind, about, body } in sections(text)? {
        match (kind, &mut partial) {
            ("conversation", None) if !begun => {
                check_version(about["version"].as_i64().unwrap_or(VERSION))?;
                export.id = about["id"].as_str().map(str::to_owned);
                export.title = about["title"].as_str().and_then(one_line);
                export.instructions = about["instructions"].as_str().map(str::to_owned);
                if about.is_object() {
                    export.sampling = SamplingFields::object(&Fields::of_body(&about)?)?;
                }
                begun = true;
            }
            ("message", _) if begun => {
                if let Some(message) = partial.replace(PartialMessage::of(&about)?) {
                    push(&mut export, message)?;
                }
            }
            ("reasoning", Some(message)) => {
                let text = folded(body).ok_or_else(|| refused("a fold of reasoning is damaged"))?;
                message.json.insert("reasoning_content".to_owned(), unescaped(text).into());
            }
            ("text", Some(message)) => {
                let text = body.strip_suffix("\n\n").or_else(|| body.strip_suffix('\n'));
                let text = unescaped(text.unwrap_or(body));
                message.json.insert("content".to_owned(), text.into());
            }
            ("call", Some(message)) => {
                let json = folded(body)
                    .and_then(|json| json.strip_prefix(JSON_BEGIN)?.strip_suffix(JSON_END));
                let call = json.and_then(|json| serde_json::from_str(json).ok());
                message.calls.push(call.ok_or_else(|| refused("a tool call is not JSON"))?);
            }
            ("document", Some(_)) => {
                let (before, stored) = document_of(&about, body)?;
                edited.insert(before, stored.id());
                export.documents.push(stored);
            }
            _ => return Err(refused("its first comment is not that of an export of Hob")),
        }
    }
    let last = partial.ok_or_else(|| refused("it has no message of an export of Hob"))?;
    push(&mut export, last)?;
    for node in &mut export.messages {
        let mut documents = node.message.documents();
        for named in &mut documents {
            named.id = edited.get(&named.id).unwrap_or(&named.id).clone();
        }
        node.message.set_documents(&documents);
    }
    Ok(export)
}

/// A document, and the id that the messages have of it: its text may have been edited.
fn document_of(about: &Value, body: &str) -> Result<(DocumentId, StoredDocument), ApiError> {
    let field = |name: &str| about[name].as_str().unwrap_or_default();
    let id = field("id").parse().map_err(|_| refused("a document has no id"))?;
    let text = folded(body).ok_or_else(|| refused("the fold of a document is damaged"))?;
    let name = document_name(field("name")).unwrap_or_default();
    Ok((id, StoredDocument { name, kind: field("kind").to_owned(), text: unescaped(text) }))
}

/// A message that is being read.
struct PartialMessage {
    json: Map<String, Value>,
    calls: Vec<Value>,
    status: Status,
}

impl PartialMessage {
    fn of(about: &Value) -> Result<Self, ApiError> {
        let json = about["message"].as_object().cloned();
        let json = json.ok_or_else(|| refused("a message has no role"))?;
        let status = match about["status"].as_str() {
            Some(word) => status(word, "status")?,
            None => Status::Complete,
        };
        Ok(Self { json, calls: Vec::new(), status })
    }
}

fn push(export: &mut ConversationExport, partial: PartialMessage) -> Result<(), ApiError> {
    let PartialMessage { mut json, calls, status } = partial;
    if !calls.is_empty() {
        json.insert("tool_calls".to_owned(), calls.into());
    }
    let number = export.messages.len();
    let message = Message::parse(&Value::Object(json), &format!("messages[{number}]"))?;
    let id = number as i64 + 1;
    let parent = export.messages.last().map(|last| last.id);
    export.messages.push(Node {
        id,
        parent,
        message,
        status,
        created_at: None,
        finish: None,
        starts_prompt: false,
        summary: None,
        brings: Vec::new(),
    });
    export.head = Some(id);
    Ok(())
}

struct Section<'t> {
    kind: &'t str,
    about: Value,
    body: &'t str,
}

/// Splits the text at our comments.
fn sections(text: &str) -> Result<Vec<Section<'_>>, ApiError> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut body_begins = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let begins = at;
        at += line.len();
        let line = line.trim_end_matches('\n');
        let Some(mark) = line.strip_prefix(MARK) else { continue };
        let mark = mark.strip_suffix(MARK_END).ok_or_else(|| refused("a comment is damaged"))?;
        let (kind, about) = mark.split_once(' ').unwrap_or((mark, "null"));
        let about = serde_json::from_str(about).map_err(|_| refused("a comment is not JSON"))?;
        if let Some(last) = sections.last_mut() {
            last.body = &text[body_begins..begins];
        }
        body_begins = at;
        sections.push(Section { kind, about, body: "" });
    }
    if let Some(last) = sections.last_mut() {
        last.body = &text[body_begins..];
    }
    Ok(sections)
}

fn mark(kind: &str, about: Option<&Value>) -> String {
    // No string of the JSON may end the comment.
    let about = about.map(|about| {
        let json = about.to_string().replace("--", "-\\u002d");
        format!(" {}", json.replace('>', "\\u003e").replace('<', "\\u003c"))
    });
    format!("{MARK}{kind}{}{MARK_END}\n", about.unwrap_or_default())
}

fn fold(summary: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n")
}

fn folded(body: &str) -> Option<&str> {
    let (_, inside) = body.split_once("</summary>\n\n")?;
    inside.trim_end_matches('\n').strip_suffix(FOLD_END)
}

/// Adds a backslash to lines that look like our comments.
fn escaped(text: &str) -> String {
    map_marked_lines(text, |line| format!("\\{line}"))
}

fn unescaped(text: &str) -> String {
    map_marked_lines(text, |line| line.strip_prefix('\\').unwrap_or(line).to_owned())
}

/// Changes the lines that are a comment of ours behind any number of backslashes.
fn map_marked_lines(text: &str, change: impl Fn(&str) -> String) -> String {
    let is_marked = |line: &str| line.trim_start_matches('\\').starts_with(MARK);
    let line = |line: &str| if is_marked(line) { change(line) } else { line.to_owned() };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The fields of a message other than its text, reasoning and calls.
fn without_text(message: &Value) -> Map<String, Value> {
    let mut fields = message.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !["content", "reasoning_content", "tool_calls"].contains(&&**name));
    fields
}

fn heading(role: Role) -> &'static str {
    match role {
        Role::System | Role::Developer => "System",
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::Tool => "Tool",
    }
}

/// The characters of a name that are not markup.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric() || "_-.:".contains(*c)).collect()
}

fn refused(what: &str) -> ApiError {
    ApiError::new(ErrorKind::Invalid, format!("this Markdown cannot be read back: {what}"))
        .code("invalid_document")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(id: i64, message: Value) -> Node {
        Node {
            id,
            parent: (id > 1).then_some(id - 1),
            message: Message::parse(&message, "message").unwrap(),
            status: Status::Complete,
            created_at: None,
            finish: None,
            starts_prompt: false,
            summary: None,
            brings: Vec::new(),
        }
    }

    fn export(messages: Vec<Node>) -> ConversationExport {
        ConversationExport {
            id: Some("a --> b".to_owned()),
            title: Some("A <b>title</b> -- or --> two".to_owned()),
            instructions: Some("Be brief.\n<!-- hob:text -->\nAlways -->".to_owned()),
            sampling: Some(json!({"temperature": 0.5, "top_k": 20})),
            head: Some(messages.len() as i64),
            messages,
            ..ConversationExport::default()
        }
    }

    fn talk() -> ConversationExport {
        let call = json!({"id": "c1", "type": "function",
            "function": {"name": "set_light", "arguments": "{\"room\": \"```\\n</details>\"}"}});
        export(vec![
            node(1, json!({"role": "system", "content": "Be brief."})),
            node(
                2,
                json!({"role": "user", "content": "# Light\n\non, please -->\n", "name": "Ann"}),
            ),
            node(
                3,
                json!({"role": "assistant", "content": null, "reasoning_content": "hm\n\n</details>",
                "tool_calls": [call]}),
            ),
            node(4, json!({"role": "tool", "content": "", "tool_call_id": "c1"})),
            Node {
                status: Status::Interrupted,
                ..node(
                    5,
                    json!({"role": "assistant", "content": "<!-- hob:text -->\n\\<!-- hob:x\n\n"}),
                )
            },
        ])
    }

    #[test]
    fn a_written_export_is_read_back_byte_for_byte() {
        let text = write(&talk());
        assert_eq!(read(&text).unwrap(), talk(), "{text}");
        let of_windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(read(&of_windows).unwrap().messages[0], talk().messages[0]);
        assert_eq!(read(&format!("\u{feff}{text}")).unwrap(), talk());
    }

    #[test]
    fn roles_are_visible_and_text_can_be_edited() {
        let text = write(&talk());
        assert!(text.contains("\n## User\n\n<!-- hob:text -->\n# Light\n\non, please"), "{text}");
        assert!(text.contains("<details><summary>Tool call: set_light</summary>\n\n```json\n"));
        let edited = read(&text.replace("on, please", "off, please")).unwrap();
        assert_eq!(edited.messages[1].message.text(), "# Light\n\noff, please -->\n");
    }

    #[test]
    fn other_markdown_is_refused() {
        let text = write(&talk());
        for other in [
            String::new(),
            "# A title\n\nand text".to_owned(),
            text.replacen("<!-- hob:conversation", "<!-- nothing", 1),
            text.replace("\"role\":\"user\"", "\"role\":\"robot\""),
            text.replace(" -->\n## User", "\n## User"),
            text.replace("```json\n{", "```json\n["),
            text.replace("\"version\":1", "\"version\":2"),
            text[..text.find("<!-- hob:message").unwrap()].to_owned(),
        ] {
            assert!(read(&other).is_err(), "{other}");
        }
    }

    fn pieces() -> impl Strategy<Value = String> {
        let all = vec![
            "a",
            "\n",
            "\n\n",
            "\\",
            "<!-- hob:",
            "text",
            " -->",
            "-->",
            "```",
            "</details>",
            "</summary>\n\n",
            "\r\n",
            "## User",
            "é",
        ];
        prop::collection::vec(prop::sample::select(all), 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_text_is_read_back(said in pieces(), thought in pieces(), last in pieces()) {
            let answer = json!({"role": "assistant", "content": said, "reasoning_content": thought});
            let export = export(vec![
                node(1, json!({"role": "user", "content": said})),
                node(2, answer),
                node(3, json!({"role": "user", "content": last})),
            ]);
            prop_assert_eq!(read(&write(&export)).unwrap(), export);
        }

        #[test]
        fn no_input_panics_the_reader(text in pieces(), cut in any::<usize>()) {
            let _ = read(&text);
            let whole = write(&talk());
            let mut at = cut % whole.len();
            while !whole.is_char_boundary(at) {
                at -= 1;
            }
            let _ = read(&whole[..at]);
        }
    }
}
