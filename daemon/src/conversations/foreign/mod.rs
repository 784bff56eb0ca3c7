//! Conversations of other apps, read as [`ConversationExport`]s: exports of ChatGPT, LM Studio, Open
//! WebUI and Jan, alone, in an array, or in a ZIP archive. Arrays of Hob's own exports, too.
//!
//! - Pure: bytes in, conversations out. Each is checked like Hob's own.
//! - Branches stay where the app has them. The instructions become the first system message, the
//!   model's name stays with each answer, and what a model thought is its `reasoning_content`.
//! - What Hob cannot show (pictures, calls of the app's own tools) is left out.
//! - A file that no app has written is refused; of several conversations, one without a text is
//!   skipped and reported.
//! - One conversation at a time is in memory as JSON: an export may have hundreds of megabytes.
//!
//! Reading order: [`draft`] (what the apps have in common), one file an app, [`zipped`].

mod chatgpt;
mod draft;
mod elements;
mod jan;
mod lm_studio;
mod open_webui;
mod zipped;

use std::io::{BufRead, BufReader, Read, Seek};

use serde_json::Value;

use super::transcript::ConversationExport;
use crate::error::{ApiError, ErrorKind};
use draft::Draft;

/// Bytes of JSON that an import reads, unpacked.
const MAX_BYTES: u64 = 1 << 30;

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
}

/// A conversation that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub title: Option<String>,
    pub reason: String,
}

/// # Errors
/// `invalid_document` for a file that is none of these, or has no conversation with a text.
pub fn read(packing: Packing, file: impl Read + Seek) -> Result<Export, ApiError> {
    let mut export = Export::default();
    let mut budget = Budget(MAX_BYTES);
    match packing {
        Packing::Json => budget.read(file, |file| export.add_json(file))?,
        Packing::Lines => {
            let messages = budget.read(file, |file| lines(file))?;
            export.add(
                jan::thread(&Value::Null, &messages)
                    .ok_or_else(|| unknown("its lines are no messages"))?,
            );
        }
        Packing::Zip => zipped::read(&mut export, file, &mut budget)?,
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

    fn add(&mut self, draft: Draft) {
        let (source, title) = (draft.source, draft.title.clone());
        match draft.into_export() {
            Ok(export) => self.conversations.push((source, export)),
            Err(error) => self.skip(title, error.message),
        }
    }

    fn skip(&mut self, title: Option<String>, reason: String) {
        self.skipped.push(Skipped { title, reason });
    }

    fn is_empty(&self) -> bool {
        self.conversations.is_empty() && self.skipped.is_empty()
    }

    fn checked(self) -> Result<Self, ApiError> {
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
fn recognised(value: &Value) -> Option<Draft> {
    if value.get("format").is_some() {
        return Some(Draft::finished(value));
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

/// The bytes that may yet be read.
struct Budget(u64);

impl Budget {
    fn read<T, R: Read>(
        &mut self,
        file: R,
        read: impl FnOnce(&mut std::io::Take<R>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let mut file = file.take(self.0);
        let outcome = read(&mut file);
        self.0 = file.limit();
        if self.0 == 0 {
            let message =
                format!("the file has more than {MAX_BYTES} bytes of text: import it in parts");
            return Err(ApiError::new(ErrorKind::TooLarge, message).code("body_too_large"));
        }
        outcome
    }
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
