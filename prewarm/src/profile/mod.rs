//! A profile: what the prompts of one kind of conversation begin with, as its author wrote it.
//!
//! Reading order: [`Outline`] (the TOML file, checked), `canonical` (tool schemas in one form), and
//! [`Profile`], an outline whose files were read; [`Draft`], one that is edited.
//!
//! - Pure: whoever loads a profile brings the function that reads a file.
//! - Segments stay in the order of the file. Everything from the first unstable one on is the
//!   *tail*: what stands behind the prefix, and may be another text in the next request.
//! - Tools stand where the model's template puts them, in the order in which they were declared.
//! - Equal files make equal profiles, whatever the order of keys in their schemas.

mod canonical;
mod draft;
mod error;
mod outline;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use hob_slots::{Layer, TtlClass};
use serde_json::Value;

pub use canonical::canonical;
pub use draft::{Draft, DraftSegment, DraftSource};
pub use error::ProfileError;
pub use outline::{Outline, OutlineSegment, Source};

/// The most that one file of a profile holds. Who reads one needs to read a byte more at most.
pub const FILE_BYTES: usize = 1 << 20;

/// Stands between two texts of a profile.
pub const BETWEEN: &str = "\n\n";

/// A profile, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// How long its prefix is kept on disk.
    pub ttl: TtlClass,
    /// Its parts, in order.
    pub segments: Vec<ProfileSegment>,
}

/// A part of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileSegment {
    /// What it is for.
    pub layer: Layer,
    /// What it is called: as its author says, or its file's name, or its place.
    pub key: String,
    /// Whether its author promises that it stays as it is from request to request.
    pub stable: bool,
    /// What it holds.
    pub content: Content,
}

/// What a segment holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text, without white space at its end.
    Text(String),
    /// Tools in OpenAI's form, canonical.
    Tools(Vec<Value>),
}

impl Profile {
    /// Reads the files that the outline names. Relative paths begin in `directory`.
    ///
    /// # Errors
    /// When a file cannot be read, is too large or empty, or holds no tools where it should.
    pub fn load(
        outline: &Outline,
        directory: &Path,
        mut read: impl FnMut(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, ProfileError> {
        let load = |segment: &OutlineSegment| {
            let content = match &segment.source {
                Source::Text(text) => Content::Text(trimmed(text)),
                Source::File(path) => {
                    let path = directory.join(path);
                    let text = text_of(&path, &mut read)?;
                    if segment.stable && text.trim().is_empty() {
                        return Err(ProfileError::EmptyFile { path });
                    }
                    Content::Text(trimmed(&text))
                }
                Source::Tools(path) => {
                    let path = directory.join(path);
                    Content::Tools(tools_of(&path, &text_of(&path, &mut read)?)?)
                }
            };
            let (layer, key, stable) = (segment.layer, segment.key.clone(), segment.stable);
            Ok(ProfileSegment { layer, key, stable, content })
        };
        let segments = outline.segments.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { ttl: outline.ttl, segments })
    }

    /// The segments of text that stand before the first unstable one.
    pub fn stable(&self) -> impl Iterator<Item = (&ProfileSegment, &str)> {
        self.segments[..self.tail_begins()].iter().filter_map(text)
    }

    /// The text of the prefix.
    pub fn stable_text(&self) -> String {
        joined(self.stable().map(|(_, text)| text))
    }

    /// The text behind it.
    pub fn tail_text(&self) -> String {
        let tail = self.segments[self.tail_begins()..].iter().filter_map(text);
        joined(tail.map(|(_, text)| text))
    }

    /// All tools. They are part of the prefix wherever they were declared.
    pub fn tools(&self) -> Vec<Value> {
        let tools = self.segments.iter().filter_map(|segment| match &segment.content {
            Content::Tools(tools) => Some(tools),
            Content::Text(_) => None,
        });
        tools.flatten().cloned().collect()
    }

    /// The first segment of which the prefix of `self` differs from that of `before`; `None` when
    /// both have the same prefix.
    pub fn first_change<'a>(&'a self, before: &'a Self) -> Option<&'a ProfileSegment> {
        let ((new, _), (old, _)) = (self.parts(), before.parts());
        let same = new.iter().zip(&old).take_while(|(new, old)| new == old).count();
        new.get(same).or(old.get(same)).copied()
    }

    /// The segments of the prefix, and those of the tail.
    pub fn parts(&self) -> (Vec<&ProfileSegment>, Vec<&ProfileSegment>) {
        let begins = self.tail_begins();
        let numbered = self.segments.iter().enumerate();
        let (prefix, tail): (Vec<_>, Vec<_>) = numbered.partition(|(at, segment)| {
            matches!(segment.content, Content::Tools(_)) || *at < begins
        });
        let plain = |list: Vec<(usize, _)>| list.into_iter().map(|(_, segment)| segment).collect();
        (plain(prefix), plain(tail))
    }

    fn tail_begins(&self) -> usize {
        let unstable = self.segments.iter().position(|segment| !segment.stable);
        unstable.unwrap_or(self.segments.len())
    }
}

/// Texts as one, with a blank line between two of them.
pub fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts = texts.into_iter().filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(BETWEEN)
}

fn text(segment: &ProfileSegment) -> Option<(&ProfileSegment, &str)> {
    match &segment.content {
        Content::Text(text) => Some((segment, text)),
        Content::Tools(_) => None,
    }
}

/// Editors end a file with a line break, which is no part of what it says.
fn trimmed(text: &str) -> String {
    text.trim_start_matches(['\u{feff}', '\r', '\n']).trim_end().to_owned()
}

fn text_of(
    path: &Path,
    read: &mut impl FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Result<String, ProfileError> {
    let path = || PathBuf::from(path);
    let bytes = read(&path()).map_err(|source| ProfileError::Io { path: path(), source })?;
    if bytes.len() > FILE_BYTES {
        return Err(ProfileError::TooLarge { path: path() });
    }
    String::from_utf8(bytes).map_err(|_| ProfileError::NotText { path: path() })
}

fn tools_of(path: &Path, text: &str) -> Result<Vec<Value>, ProfileError> {
    let path = || PathBuf::from(path);
    let value: Value = serde_json::from_str(text)
        .map_err(|error| ProfileError::NotJson { path: path(), problem: error.to_string() })?;
    match value {
        Value::Array(tools) if !tools.is_empty() && tools.iter().all(Value::is_object) => {
            Ok(tools.into_iter().map(canonical).collect())
        }
        _ => Err(ProfileError::NoTools { path: path() }),
    }
}
