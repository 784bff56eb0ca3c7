//! Conversations of other apps, read as [`ConversationExport`]s: exports of ChatGPT, LM Studio, Open
//! WebUI and Jan, alone, in an array, or in a ZIP archive. Arrays of Hob's own exports, too.
//!
//! - Pure: bytes in, conversations out. Each is checked like Hob's own.
//! - Branches stay where the app has them. The instructions become the first system message, the
//!   model's name stays with each answer, and what a model thought is its `reasoning_content`.
//! - What Hob cannot show (pictures, calls of the app's own tools) is left out.
//! - A file that no app has written is refused; of several conversations, one without a text is
//!   skipped and reported.
//! - One conversation at a time is in memory as JSON: an export may have hundreds of megabytes. Bytes, values and
//!   messages have bounds, because a small archive may have a file of any size.
//!
//! Reading order: [`conversation`] (what the apps have in common), one file an app, [`fields`], [`zipped`], [`elements`],
//! [`counted`].

mod chatgpt;
mod conversation;
mod counted;
mod elements;
mod fields;
mod jan;
mod lm_studio;
mod open_webui;
mod zipped;

use std::io::{BufRead, BufReader, Read, Seek, Take};

use serde_json::Value;

use super::transcript::ConversationExport;
use crate::error::{ApiError, ErrorKind};
use conversation::ForeignConversation;
pub use counted::{Counted, MAX_VALUES};

/// Bytes of JSON that an import reads, unpacked.
pub const MAX_BYTES: u64 = 1 << 30;

/// Messages, and conversations that are skipped: in memory, one has a kilobyte beside its text.
const MAX_ENTRIES: usize = 2 << 20;

/// The mark of UTF-8, which editors of Windows write in front of a text.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// How a file holds conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// An object, or an array of them.
    Json,
    /// An object a line.
    Lines,
    Zip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Hob,
    ChatGpt,
    LmStudio,
    OpenWebUi,
    Jan,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hob => "Hob",
            Self::ChatGpt => "ChatGPT",
            Self::LmStudio => "LM Studio",
            Self::OpenWebUi => "Open WebUI",
            Self::Jan => "Jan",
        }
    }
}

/// The conversations of a file.
#[derive(Debug, Default)]
pub struct Export {
    pub conversations: Vec<(Source, ConversationExport)>,
    pub skipped: Vec<Skipped>,
    /// See [`MAX_ENTRIES`]. Further ones are counted and dropped.
    entries: usize,
}

/// A conversation that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub title: Option<String>,
    pub reason: String,
}

/// # Errors
/// `invalid_document` for a file that is none of these, or has no conversation with a text; `body_too_large` for one
/// that has too much.
pub fn read(packing: Packing, file: impl Read + Seek) -> Result<Export, ApiError> {
    read_within(ReadLimits::default(), packing, file)
}

fn read_within(
    mut limits: ReadLimits,
    packing: Packing,
    file: impl Read + Seek,
) -> Result<Export, ApiError> {
    let mut export = Export::default();
    match packing {
        Packing::Json => limits.read(file, |file| export.add_json(file))?,
        Packing::Lines => {
            let messages = limits.read_whole(file, |file| lines(file))?;
            export.add(
                jan::thread(&Value::Null, &messages)
                    .ok_or_else(|| unknown("its lines are no messages"))?,
            );
        }
        Packing::Zip => zipped::read(&mut export, file, &mut limits)?,
    }
    export.checked()
}

impl Export {
    fn add_json(&mut self, file: impl Read) -> Result<(), ApiError> {
        let mut unreadable = None;
        elements::each(behind_mark(file), |value| match recognised(&value) {
            Some(found) => self.add(found),
            None => unreadable = unreadable.take().or_else(|| Some(fields_of(&value))),
        })
        .map_err(|error| refused(format!("the file is not JSON: {error}")))?;
        match unreadable {
            Some(fields) if self.is_empty() => Err(unknown(&fields)),
            Some(fields) => {
                self.skip(None, format!("an entry of another kind: {fields}"));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn add(&mut self, conversation: ForeignConversation) {
        let (source, title) = (conversation.source, conversation.title.clone());
        match conversation.into_export() {
            Ok(export) if self.has_room_for(export.messages.len()) => {
                self.conversations.push((source, export));
            }
            Ok(_) => {}
            Err(error) => self.skip(title, error.message),
        }
    }

    fn skip(&mut self, title: Option<String>, reason: String) {
        if self.has_room_for(1) {
            self.skipped.push(Skipped { title, reason });
        }
    }

    fn has_room_for(&mut self, entries: usize) -> bool {
        self.entries += entries;
        self.entries <= MAX_ENTRIES
    }

    fn append(&mut self, mut other: Self) {
        if self.has_room_for(other.entries) {
            self.conversations.append(&mut other.conversations);
            self.skipped.append(&mut other.skipped);
        }
    }

    fn is_empty(&self) -> bool {
        self.entries == 0
    }

    fn checked(self) -> Result<Self, ApiError> {
        if self.entries > MAX_ENTRIES {
            return Err(too_large(&format!("{MAX_ENTRIES} messages")));
        }
        match (self.conversations.first(), self.skipped.first()) {
            (Some(_), _) => Ok(self),
            (None, Some(skipped)) => Err(refused(format!(
                "none of its conversations can be imported: {}",
                skipped.reason
            ))),
            (None, None) => Err(refused("there is no conversation in the file".to_owned())),
        }
    }
}

/// By the fields that only the one app writes.
fn recognised(value: &Value) -> Option<ForeignConversation> {
    if value.get("format").is_some() {
        return Some(ForeignConversation::finished(value));
    }
    chatgpt::conversation(value)
        .or_else(|| open_webui::conversation(value))
        .or_else(|| lm_studio::conversation(value))
}

/// One JSON value a line; empty lines between.
fn lines(file: &mut dyn Read) -> Result<Vec<Value>, ApiError> {
    let mut values = Vec::new();
    for (number, line) in behind_mark(file).lines().enumerate() {
        let line = line.map_err(|error| refused(format!("the file is not text: {error}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let value = serde_json::from_str(&line)
            .map_err(|error| refused(format!("line {} is not JSON: {error}", number + 1)))?;
        values.push(value);
    }
    Ok(values)
}

/// The text without the mark in front of it.
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK).unwrap_or(text)
}

fn behind_mark(file: impl Read) -> impl BufRead {
    let mut text = BufReader::new(file);
    // An error: the next read has it, too.
    if text.fill_buf().is_ok_and(|begin| begin.starts_with(MARK)) {
        text.consume(MARK.len());
    }
    text
}

/// JSON on its way to the parser.
type Json<R> = Counted<Take<R>>;

/// What may yet be read.
struct ReadLimits {
    bytes: u64,
    /// Values of [`ReadLimits::read_whole`], which are in memory already.
    values: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { bytes: MAX_BYTES, values: 0 }
    }
}

impl ReadLimits {
    /// Reads a value, or the elements of an array one by one.
    fn read<T, R: Read>(
        &mut self,
        file: R,
        read: impl FnOnce(&mut Json<R>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (read, _) = self.counted(file, true, read)?;
        Ok(read)
    }

    /// Reads values that stay in memory together, and with those of later calls.
    fn read_whole<T, R: Read>(
        &mut self,
        file: R,
        read: impl FnOnce(&mut Json<R>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (read, values) = self.counted(file, false, read)?;
        self.values = values;
        Ok(read)
    }

    fn counted<T, R: Read>(
        &mut self,
        file: R,
        one_by_one: bool,
        read: impl FnOnce(&mut Json<R>) -> Result<T, ApiError>,
    ) -> Result<(T, usize), ApiError> {
        let mut file = Counted::new(file.take(self.bytes), self.values, one_by_one);
        let outcome = read(&mut file);
        let (rest, values) = file.into_parts();
        self.bytes = rest.limit();
        if self.bytes == 0 {
            return Err(too_large(&format!("{MAX_BYTES} bytes of text")));
        }
        if values > MAX_VALUES {
            return Err(too_large(&format!("{MAX_VALUES} values of JSON in a conversation")));
        }
        Ok((outcome?, values))
    }
}

/// The refusal of a file that has more than `what`.
pub fn too_large(what: &str) -> ApiError {
    let message = format!("the file has more than {what}: import it in parts");
    ApiError::new(ErrorKind::TooLarge, message).code("body_too_large")
}

/// What a file of an unknown kind holds, so that its reader recognises it.
fn fields_of(value: &Value) -> String {
    const LISTED: usize = 5;
    let Some(object) = value.as_object() else {
        return "it has no objects".to_owned();
    };
    let names = object.keys().take(LISTED).map(|name| format!("`{}`", name.escape_debug()));
    match names.collect::<Vec<_>>() {
        names if names.is_empty() => "its object is empty".to_owned(),
        names => format!("its fields are {}", names.join(", ")),
    }
}

fn unknown(found: &str) -> ApiError {
    refused(format!("the file is no export of chats: {found}"))
}

fn refused(what: String) -> ApiError {
    let message = format!(
        "{what}. Hob imports its own .json, .md and .tar files; of ChatGPT conversations.json, or the \
         ZIP archive that has it; of LM Studio .conversation.json; of Open WebUI the exported .json; \
         of Jan messages.jsonl, or a ZIP archive of its threads"
    );
    ApiError::new(ErrorKind::Invalid, message).code("invalid_document")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use serde_json::json;

    use super::*;

    fn chat(texts: usize) -> Value {
        let node = |n: usize| {
            let message = json!({"author": {"role": "user"},
                "content": {"content_type": "text", "parts": ["Hi"]}});
            (format!("{n}"), json!({"message": message, "children": []}))
        };
        json!({"mapping": (0..texts).map(node).collect::<serde_json::Map<_, _>>()})
    }

    fn imported(packing: Packing, left: usize, file: &str) -> Result<Export, ApiError> {
        let limits = ReadLimits { values: MAX_VALUES - left, ..ReadLimits::default() };
        read_within(limits, packing, Cursor::new(file.as_bytes()))
    }

    #[test]
    fn a_conversation_of_too_many_values_is_refused_and_many_small_ones_are_not() {
        let (small, large) = (chat(1), chat(10));
        let many = json!(vec![small.clone(); 10]).to_string();
        assert_eq!(imported(Packing::Json, 30, &many).unwrap().conversations.len(), 10);
        for file in [large.to_string(), json!([small, large]).to_string()] {
            let error = imported(Packing::Json, 30, &file).unwrap_err();
            assert_eq!((error.kind, error.code), (ErrorKind::TooLarge, Some("body_too_large")));
        }
    }

    #[test]
    fn the_lines_of_a_thread_count_together() {
        let line = json!([{"object": "thread.message"}, 1, 2]).to_string();
        let lines = vec![line; 10].join("\n");
        let error = imported(Packing::Lines, 30, &lines).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge);
        let error = imported(Packing::Lines, 40, &lines).unwrap_err();
        assert_eq!(error.code, Some("invalid_document"));
    }

    #[test]
    fn a_file_of_too_many_messages_is_refused() {
        let full = |entries| Export { entries, ..Export::default() };
        for (entries, fits) in [(MAX_ENTRIES - 3, true), (MAX_ENTRIES - 2, false)] {
            let mut export = full(entries);
            export.add(chatgpt::conversation(&chat(3)).unwrap());
            assert_eq!(export.conversations.len(), usize::from(fits));
            assert_eq!(export.checked().is_ok(), fits);
        }
        let mut export = full(MAX_ENTRIES);
        export.append(full(1));
        assert_eq!(export.checked().unwrap_err().kind, ErrorKind::TooLarge);
    }
}
