//! `/file PATH`: documents that go with the next message.
//!
//! - A file becomes a document of the library; one of a private chat stays in memory.
//! - The first document of a new conversation is computed at once: the prompt will begin with it. Others
//!   are computed with their message, because their place is behind what was said before.

use std::path::PathBuf;

use hob_api::Document;
use hob_config::UserDirs;
use serde_json::{Value, json};

use super::{Chat, note};
use crate::client::Client;
use crate::commands::documents::{self, Keep};
use crate::commands::stream::{self, StreamEnd};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{count, line, seconds, size};
use crate::progress::Reading;

/// The documents that go with the next message.
#[derive(Default)]
pub struct Files(Vec<Document>);

impl Files {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// They were sent.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// A message of the user with them.
    pub fn message(&self, text: &str) -> Value {
        let mut message = json!({"role": "user", "content": text});
        if !self.0.is_empty() {
            let ids: Vec<&str> = self.0.iter().map(|document| document.id.as_str()).collect();
            message["hob"] = json!({"documents": ids});
        }
        message
    }

    pub fn lines(&self) -> String {
        if self.0.is_empty() {
            return "no file is attached; name one: /file report.pdf".to_owned();
        }
        let lines = self.0.iter().map(|document| format!("attached: {}", in_words(document)));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Chat<'_> {
    /// Attaches a file to the next message, and computes it ahead where that helps.
    pub(super) fn attach(&mut self, words: &str, context: &mut Context) -> Result<(), Failure> {
        let client = Client::find(context)?;
        let keep = if self.is_private { Keep::Private } else { Keep::Library };
        let path = path_of(words, &context.resolved.user_dirs);
        let profile = self.args.shape.profile_query('&');
        let document = documents::upload(&client, &path, keep, &profile)?;
        let name = line(&document.name, 60);
        if self.files.0.iter().any(|attached| attached.id == document.id) {
            return note(context, &format!("{name} is attached already"));
        }
        if document.tokens >= document.context_tokens {
            return Err(Failure::Usage(too_long(&document)));
        }
        note(context, &in_words(&document))?;
        let is_first = self.is_new && self.system.is_none() && self.files.is_empty();
        let reads_ahead = is_first
            && !self.is_private
            && context.terminal.input
            && document.ready_tokens < document.tokens;
        let (id, tokens) = (document.id.clone(), document.tokens);
        self.files.0.push(document);
        if !reads_ahead {
            return Ok(());
        }
        if self.read_ahead(&client, &id, context)? {
            note(context, &format!("read: {} tokens are ready", count(tokens as u64)))
        } else {
            note(context, "stopped; the rest is read with your message")
        }
    }

    /// Computes a document; `false` if Ctrl-C ended it.
    fn read_ahead(&self, client: &Client, id: &str, context: &Context) -> Result<bool, Failure> {
        let mut reading = Reading::of(context);
        let profile = self.args.shape.profile_query('?');
        let path = format!("{}/{id}/read{profile}", documents::PATH);
        let interrupt = self.interrupt.as_ref();
        let ended = stream::follow(client, &path, None, interrupt, |event: Value| {
            reading.show(&event["hob"]["progress"]);
            Ok(())
        });
        reading.clear();
        Ok(ended? == StreamEnd::Whole)
    }
}

/// `castle.txt, 1,204 tokens, about 9 s`; `castle.txt, 4.7 KiB` where an engine at another address counts.
fn in_words(document: &Document) -> String {
    let Document { name, bytes, tokens, ready_tokens, seconds_left, .. } = document;
    if *tokens == 0 {
        return format!("{}, {}", line(name, 60), size(*bytes));
    }
    let cost = match seconds_left {
        _ if ready_tokens >= tokens => ", ready".to_owned(),
        Some(left) => format!(", about {}", seconds(left.max(0.1) * 1e3)),
        None => String::new(),
    };
    format!("{}, {} tokens{cost}", line(name, 60), count(*tokens as u64))
}

/// Why a document that a prompt has no room for is not attached, and where it is.
fn too_long(document: &Document) -> String {
    let Document { name, tokens, context_tokens, in_library, .. } = document;
    let (name, tokens, room) =
        (line(name, 60), count(*tokens as u64), count(*context_tokens as u64));
    let place = if *in_library {
        "it is in the library, and not attached"
    } else {
        "it is not attached, and hobd deletes it in an hour"
    };
    format!("{name} has {tokens} tokens, and a conversation holds {room}: {place}")
}

/// The path that the words mean: as it stands if that exists, otherwise without the quotes and backslashes
/// that terminals and Tab put around spaces. A leading `~` is the home directory.
fn path_of(words: &str, dirs: &UserDirs) -> PathBuf {
    let as_it_stands = dirs.expand(words);
    if as_it_stands.exists() {
        return as_it_stands;
    }
    new_path_of(words, dirs)
}

/// The path that the words mean for a file that does not exist yet: without quotes and backslashes.
pub fn new_path_of(words: &str, dirs: &UserDirs) -> PathBuf {
    let quoted = |quote: char| words.strip_prefix(quote)?.strip_suffix(quote);
    match quoted('\'').or_else(|| quoted('"')) {
        Some(inner) => dirs.expand(inner),
        None => dirs.expand(&unescaped(words)),
    }
}

fn unescaped(words: &str) -> String {
    let mut text = String::new();
    let mut letters = words.chars();
    while let Some(letter) = letters.next() {
        text.push(if letter == '\\' { letters.next().unwrap_or(letter) } else { letter });
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_document_is_its_name_its_tokens_and_its_time() {
        let mut document = Document { name: "a.txt".into(), tokens: 1204, ..Document::default() };
        assert_eq!(in_words(&document), "a.txt, 1,204 tokens");
        document.seconds_left = Some(9.2);
        assert_eq!(in_words(&document), "a.txt, 1,204 tokens, about 9.2 s");
        document.ready_tokens = 1204;
        assert_eq!(in_words(&document), "a.txt, 1,204 tokens, ready");
        let uncounted = Document { name: "a.txt".into(), bytes: 4800, ..Document::default() };
        assert_eq!(in_words(&uncounted), "a.txt, 4.7 KiB");
    }

    #[test]
    fn a_file_of_a_private_chat_that_is_too_long_is_not_said_to_be_in_the_library() {
        let mut document = Document { name: "a.txt".into(), tokens: 9000, ..Document::default() };
        (document.context_tokens, document.in_library) = (8192, true);
        let begin = "a.txt has 9,000 tokens, and a conversation holds 8,192: it is ";
        assert_eq!(too_long(&document), format!("{begin}in the library, and not attached"));
        document.in_library = false;
        let private = too_long(&document);
        assert!(private.starts_with(begin) && !private.contains("library"), "{private}");
    }

    #[test]
    fn a_path_is_read_as_terminals_write_it() {
        let backslash = unescaped(r"my\ notes\\a.md");
        assert_eq!(backslash, r"my notes\a.md");
        let dirs = UserDirs::under(Path::new("/h"));
        for words in [r"~/my\ notes.md", "'~/my notes.md'", "\"~/my notes.md\""] {
            assert_eq!(new_path_of(words, &dirs), Path::new("/h/my notes.md"), "{words}");
        }
    }
}
